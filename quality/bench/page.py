"""The benchmark's results as a table and as a section of the benchmark page."""

from collections.abc import Sequence
from statistics import median

from quality.bench.measure import Comparison, Section


def markdown(sections: Sequence[Section], machine: str) -> str:
    """A table for each section, with an explanation of its columns."""
    parts = [
        f"`make bench` on {machine}; ratio of medians, in brackets the least and the most.",
        "",
    ]
    for section in sections:
        parts += [f"**{section.letter}. {section.title}**", ""]
        parts += [
            f"| | {section.ours} | {section.theirs} | ratio | limit | |",
            "|---|---|---|---|---|---|",
            *(_row(row) for row in section.rows),
            "",
        ]
        parts += [*(f"- {note.rstrip('.')}." for note in section.notes), ""]
    return "\n".join(parts)


def text(sections: Sequence[Section]) -> str:
    """The same tables for a terminal, without the notes."""
    rows = [
        (f"{s.letter}  {row.what}", _values(row.ours, row.unit), _values(row.theirs, row.unit),
         f"{row.ratio:.2f}", "" if row.limit is None else f"<= {row.limit:.2f}", row.verdict)
        for s in sections
        for row in s.rows
    ]  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _row(row: Comparison) -> str:
    limit = "" if row.limit is None else f"{row.limit:g}"
    verdict = row.verdict if row.ok else "**miss**"
    return (
        f"| {row.what} | {_values(row.ours, row.unit)} | {_values(row.theirs, row.unit)} "
        f"| {row.ratio:.2f} | {limit} | {verdict} |"
    )


def _values(values: Sequence[float], unit: str) -> str:
    middle = _figure(median(values), unit)
    if len(values) == 1:
        return middle
    return f"{middle} ({_figure(min(values), '')} to {_figure(max(values), '')})"


def _figure(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}{f' {unit}' if unit else ''}"
