"""The benchmark's results as a table, as a section of the benchmark page and as a picture."""

from collections.abc import Iterator, Sequence
from html import escape
from statistics import median

from quality.bench.measure import Comparison, Section
from rehearsal.timeline import FAILED, FAINT, FONT, GPU_NODE, GRID, INK

WIDTH, LEFT, RIGHT, ROW, TOP = 1120, 430, 150, 22, 60
MOST = 1.6
"""The axis ends here; a longer bar is cut, its figure is not."""


def markdown(sections: Sequence[Section], machine: str) -> str:
    """A table for each section, with what its columns hold and how to read it."""
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
    """The same for a terminal, without the notes."""
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
    if unit == "$":
        return f"${value:,.0f}"
    return f"{value:.{digits}f}{f' {unit}' if unit else ''}"


def picture(sections: Sequence[Section]) -> str:
    """An SVG with one bar per ratio and a mark at its limit."""
    lanes = sum(len(section.rows) + 1 for section in sections)
    bottom = TOP + lanes * ROW + len(sections) * 8
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {bottom + 40}' "
        f"width='{WIDTH}' height='{bottom + 40}' {FONT} font-size='12' fill='{INK}'>",
        f"<rect width='{WIDTH}' height='{bottom + 40}' fill='#ffffff'/>",
        "<text x='20' y='32' font-size='18' font-weight='600'>Ratio to what it could be: "
        "shorter is better, the mark is the limit</text>",
        *_grid(bottom),
    ]
    y = TOP
    for section in sections:
        title = escape(f"{section.letter}. {section.title}")
        parts.append(f"<text x='20' y='{y + 15}' font-weight='600'>{title}</text>")
        y += ROW
        for row in section.rows:
            parts += _bar(row, y)
            y += ROW
        y += 8
    return "\n".join([*parts, "</svg>\n"])


def _bar(row: Comparison, y: int) -> Iterator[str]:
    end = _x(min(row.ratio, MOST))
    colour = GPU_NODE if row.ok else FAILED
    yield f"<text x='{LEFT - 12}' y='{y + 15}' text-anchor='end'>{escape(row.what)}</text>"
    yield (
        f"<rect x='{LEFT}' y='{y + 4}' width='{max(end - LEFT, 1.5):.1f}' height='{ROW - 8}' "
        f"rx='2' fill='{colour}'/>"
    )
    if row.limit is not None:
        x = _x(row.limit)
        yield (
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{y + 1}' y2='{y + ROW - 1}' stroke='{INK}' "
            "stroke-width='2'/>"
        )
    yield f"<text x='{_x(MOST) + 10:.1f}' y='{y + 15}' fill='{FAINT}'>{row.ratio:.2f}</text>"


def _x(ratio: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * ratio / MOST


def _grid(bottom: int) -> Iterator[str]:
    for tenth in range(0, int(MOST * 10) + 1, 2):
        x = _x(tenth / 10)
        yield f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{TOP}' y2='{bottom}' stroke='{GRID}'/>"
        yield (
            f"<text x='{x:.1f}' y='{bottom + 18}' text-anchor='middle' fill='{FAINT}'>"
            f"{tenth / 10:g}</text>"
        )
