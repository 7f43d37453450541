"""The benchmark's results as a table, as a section of the benchmark page and as a picture."""

from collections.abc import Iterator, Sequence
from html import escape
from statistics import median

from quality.bench.measure import Comparison, Section
from rehearsal.timeline import FAILED, FAINT, FONT, GPU_NODE, GRID, INK, NODE, PENDING

WIDTH, LEFT, RIGHT, ROW, TOP = 1120, 430, 150, 22, 72
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
    """An SVG with one bar per ratio, a mark at its limit, and its verdict in words and colour."""
    lanes = sum(len(section.rows) + 1 for section in sections)
    bottom = TOP + lanes * ROW + len(sections) * 8
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {bottom + 60}' "
        f"width='{WIDTH}' height='{bottom + 60}' {FONT} font-size='12' fill='{INK}'>",
        f"<rect width='{WIDTH}' height='{bottom + 60}' fill='#ffffff'/>",
        "<text x='20' y='30' font-size='18' font-weight='600'>The program compared with what each "
        "section names</text>",
        *_legend(50),
        *_grid(bottom),
    ]
    y = TOP
    for section in sections:
        versus = "" if section.theirs == "see row" else f": {section.ours} / {section.theirs}"
        title = escape(f"{section.letter}. {section.title}{versus}".replace("`", ""))
        parts.append(f"<text x='20' y='{y + 15}' font-weight='600'>{title}</text>")
        y += ROW
        for row in section.rows:
            parts += _bar(row, y)
            y += ROW
        y += 8
    return "\n".join([*parts, "</svg>\n"])


COLOURS = {
    "within its limit": GPU_NODE,
    "over its limit, at the cloud's own bound": PENDING,
    "over its limit": FAILED,
    "no limit": NODE,
}


def _standing(row: Comparison) -> str:
    if row.limit is None:
        return "no limit"
    if row.ratio <= row.limit:
        return "within its limit"
    return "over its limit, at the cloud's own bound" if row.ok else "over its limit"


def _legend(y: int) -> Iterator[str]:
    x = 20
    for meaning, colour in COLOURS.items():
        yield f"<rect x='{x}' y='{y - 10}' width='12' height='12' rx='2' fill='{colour}'/>"
        yield f"<text x='{x + 18}' y='{y}'>{escape(meaning)}</text>"
        x += 50 + 7 * len(meaning)
    yield f"<line x1='{x}' x2='{x}' y1='{y - 12}' y2='{y + 3}' stroke='{INK}' stroke-width='2'/>"
    yield f"<text x='{x + 8}' y='{y}'>the limit</text>"


def _bar(row: Comparison, y: int) -> Iterator[str]:
    end, standing = _x(min(row.ratio, MOST)), _standing(row)
    what = escape(row.what.replace("`", ""))
    yield f"<text x='{LEFT - 12}' y='{y + 15}' text-anchor='end'>{what}</text>"
    yield (
        f"<rect x='{LEFT}' y='{y + 4}' width='{max(end - LEFT, 1.5):.1f}' height='{ROW - 8}' "
        f"rx='2' fill='{COLOURS[standing]}'/>"
    )
    if row.limit is not None:
        x = _x(row.limit)
        yield (
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{y + 1}' y2='{y + ROW - 1}' stroke='{INK}' "
            "stroke-width='2'/>"
        )
    words = " over its limit" if standing.startswith("over") else ""
    words = " more than there" if row.limit is None and row.ratio > 1 else words
    yield f"<text x='{_x(MOST) + 10:.1f}' y='{y + 15}'>{row.ratio:.2f}{words}</text>"


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
    yield (
        f"<text x='{_x(MOST / 2):.1f}' y='{bottom + 40}' text-anchor='middle' fill='{FAINT}'>"
        "the program's time, memory or cost / that of what it is compared with; 1 is the same, "
        "shorter is better</text>"
    )
