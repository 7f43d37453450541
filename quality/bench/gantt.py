"""An `up` as a picture: what was made when, and which of it everything else waited for."""

from collections.abc import Sequence
from html import escape

from quality.bench.timing import Span
from rehearsal.timeline import FAILED, FAINT, FONT, GRID, INK, NODE, STEP

WIDTH, LEFT, RIGHT, ROW, TOP = 1120, 330, 24, 18, 84


def gantt(
    title: str, spans: Sequence[Span], chain: Sequence[Span], scale: float, theirs: float
) -> str:
    """One bar per resource, the longest chain in another colour; a line where the common order
    gets as far. `theirs` and the axis are in the cloud's seconds."""
    end = max(max(span.ended for span in spans) * scale, theirs) * 1.02
    bottom = TOP + len(spans) * ROW
    critical = {span.urn for span in chain}
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {bottom + 48}' "
        f"width='{WIDTH}' height='{bottom + 48}' {FONT} font-size='11' fill='{INK}'>",
        f"<rect width='{WIDTH}' height='{bottom + 48}' fill='#ffffff'/>",
        f"<text x='20' y='32' font-size='18' font-weight='600'>{escape(title)}</text>",
        *_legend(),
        *_grid(end, bottom),
    ]
    for place, span in enumerate(spans):
        y = TOP + place * ROW
        begin, until = _x(span.began * scale, end), _x(span.ended * scale, end)
        kind = span.token.rpartition(":")[2]
        colour = STEP if span.urn in critical else NODE
        label = f"{kind} {span.name}: {span.seconds * scale:.0f} s"
        parts += [
            f"<text x='{LEFT - 10}' y='{y + 13}' text-anchor='end'>"
            f"{escape(_short(f'{kind} {span.name}'))}</text>",
            f"<rect x='{begin:.1f}' y='{y + 3}' width='{max(until - begin, 1.5):.1f}' "
            f"height='{ROW - 6}' rx='2' fill='{colour}'><title>{escape(label)}</title></rect>",
        ]
    x = _x(theirs, end)
    parts.append(
        f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{TOP}' y2='{bottom}' stroke='{FAILED}' "
        "stroke-width='1.5' stroke-dasharray='5 4'/>"
    )
    return "\n".join([*parts, "</svg>\n"])


def _short(text: str) -> str:
    return text if len(text) <= 50 else f"{text[:49]}…"


def _x(at: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / end


def _legend() -> list[str]:
    parts, x = [], 20.0
    for name, colour in (
        ("longest chain", STEP),
        ("everything else", NODE),
        ("the common order has the workload at its GPU pool", FAILED),
    ):
        parts.append(f"<rect x='{x:.0f}' y='48' width='12' height='12' rx='2' fill='{colour}'/>")
        parts.append(f"<text x='{x + 17:.0f}' y='58' fill='{FAINT}'>{name}</text>")
        x += 40 + 6.3 * len(name)
    return parts


def _grid(end: float, bottom: int) -> list[str]:
    minutes = end / 60
    step = next(each for each in (1, 2, 5, 10, 20, 60, 10**6) if minutes / each <= 12)
    parts = []
    for at in range(0, int(minutes) + 1, step):
        x = _x(at * 60, end)
        parts += [
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{TOP}' y2='{bottom}' stroke='{GRID}'/>",
            f"<text x='{x:.1f}' y='{bottom + 18}' text-anchor='middle' fill='{FAINT}'>"
            f"{at} min</text>",
        ]
    return parts
