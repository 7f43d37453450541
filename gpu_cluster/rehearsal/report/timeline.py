"""The report as a picture: the engine's steps, the nodes, and each pod's phases."""

from collections.abc import Iterable
from html import escape
from typing import Any

from gpu_cluster.rehearsal.report.report import NodeLife, PodLife, Report

WIDTH, LEFT, RIGHT, ROW, TOP = 1120, 300, 24, 26, 84
FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"
INK, FAINT, GRID = "#1f2933", "#6b7785", "#e4e8ec"
STEP, FAILED = "#5b7fa6", "#c2413b"
NODE, GPU_NODE, GPU_WAIT = "#c9d1d9", "#4d9a57", "#cfe6d2"
PENDING, STARTING, RUNNING, DONE = "#f0c36d", "#b9a5d6", "#7b5fae", "#d8d2e6"

LEGEND = (
    ("engine", STEP), ("node", NODE), ("GPU node, no GPUs yet", GPU_WAIT),
    ("allocatable GPUs", GPU_NODE), ("pod pending", PENDING),
    ("starting", STARTING), ("running", RUNNING), ("done", DONE),
)  # fmt: skip


def svg(report: Report) -> str:
    """A complete SVG document with one lane for each step, node and pod."""
    pods = [pod for pod in report.pods if pod.left is None or pod.left - pod.created >= 0.05]
    end = max(report.seconds, 1.0)
    lanes = sum(len(rows) + 1 for rows in (report.steps, report.nodes, pods) if rows)
    bottom = TOP + lanes * ROW + 3 * 14
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {bottom + 48}' "
        f"width='{WIDTH}' height='{bottom + 48}' {FONT} font-size='12' fill='{INK}'>",
        f"<rect width='{WIDTH}' height='{bottom + 48}' fill='#ffffff'/>",
        f"<text x='20' y='32' font-size='18' font-weight='600'>{escape(_title(report))}</text>",
        *_legend(LEGEND if report.ok else (*LEGEND, ("failed", FAILED))),
        *_grid(end, bottom),
    ]
    y = TOP
    for title, rows in (
        ("Engine", [_step_lane(step) for step in report.steps]),
        (f"Nodes  (GPU nodes: {_counts(report)})", [_node_lane(n, end) for n in report.nodes]),
        ("Pods", [_pod_lane(pod, end) for pod in pods]),
    ):
        if not rows:  # a rehearsal that failed early
            continue
        parts.append(f"<text x='20' y='{y + 16}' font-weight='600'>{escape(title)}</text>")
        y += ROW
        for label, bars in rows:
            parts.append(_label(label, y))
            parts += [_bar(bar, y, end) for bar in bars]
            y += ROW
        y += 14
    for reason in report.failures[:1]:
        shown = reason if len(reason) <= 170 else f"{reason[:169]}…"
        parts.append(f"<text x='20' y='{bottom + 42}' fill='{FAILED}'>{escape(shown)}</text>")
    return "\n".join([*parts, "</svg>\n"])


Bar = tuple[float, float, str, str]
"""Start, end, colour and tooltip."""


def _title(report: Report) -> str:
    verdict = "passed" if report.ok else "failed"
    return f"Rehearsal of {report.stack}: {verdict} in {report.seconds:.0f} s"


def _counts(report: Report) -> str:
    return " → ".join(str(count) for _, count in report.gpu_nodes)


def _step_lane(step: Any) -> tuple[str, list[Bar]]:
    colour = STEP if step["ok"] else FAILED
    began, seconds = step["began"], step["seconds"]
    # A step without a duration also gets a bar.
    ended = began + max(seconds, 0.01)
    return step["name"], [(began, ended, colour, f"{step['detail']} ({seconds:.1f} s)")]


def _node_lane(node: NodeLife, end: float) -> tuple[str, list[Bar]]:
    left = node.left if node.left is not None else end
    label = f"{node.group}: {node.name}" if not node.name.startswith(node.group) else node.name
    if not node.gpus:
        return label, [(node.joined, left, NODE, "node")]
    allocatable = min(node.gpus_at if node.gpus_at is not None else left, left)
    return label, [
        (node.joined, allocatable, GPU_WAIT, "no GPUs yet: driver or device plugin is missing"),
        (allocatable, left, GPU_NODE, f"{node.gpus} allocatable nvidia.com/gpu"),
    ]


def _pod_lane(pod: PodLife, end: float) -> tuple[str, list[Bar]]:
    left = pod.left if pod.left is not None else end
    edges = [pod.created]
    for at in (pod.bound, pod.ready, pod.done):
        edges.append(min(at, left) if at is not None else left)
    edges.append(left)
    named = ((PENDING, "pending"), (STARTING, "starting"), (RUNNING, "running"), (DONE, "done"))
    bars = [
        (edges[i], max(edges[i], edges[i + 1]), colour, f"{pod.name}: {what} on {pod.node}")
        for i, (colour, what) in enumerate(named)
    ]
    kind, _, name = pod.workload.partition(" ")
    return f"{kind} {name.split('/')[-1]}", bars


def _x(at: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / end


def _bar(bar: Bar, y: int, end: float) -> str:
    begin, until, colour, tooltip = bar
    if until <= begin:
        return ""
    width = max(_x(until, end) - _x(begin, end), 1.5)
    return (
        f"<rect x='{_x(begin, end):.1f}' y='{y + 4}' width='{width:.1f}' height='{ROW - 8}' "
        f"rx='2' fill='{colour}'><title>{escape(tooltip)}</title></rect>"
    )


def _label(text: str, y: int) -> str:
    # The end of a name distinguishes it from others; the tooltip shows all of it.
    shown = text if len(text) <= 40 else f"…{text[-39:]}"
    return (
        f"<text x='{LEFT - 12}' y='{y + 17}' text-anchor='end'>{escape(shown)}"
        f"<title>{escape(text)}</title></text>"
    )


def _legend(meanings: Iterable[tuple[str, str]]) -> list[str]:
    parts, x = [], 20.0
    for name, colour in meanings:
        parts.append(f"<rect x='{x:.0f}' y='48' width='12' height='12' rx='2' fill='{colour}'/>")
        parts.append(f"<text x='{x + 17:.0f}' y='58' fill='{FAINT}'>{name}</text>")
        x += 40 + 6.3 * len(name)
    return parts


def _grid(end: float, bottom: int) -> list[str]:
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**6) if end / s <= 12)
    parts = []
    for at in range(0, int(end) + 1, step):
        x = _x(at, end)
        parts.append(f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{TOP}' y2='{bottom}' stroke='{GRID}'/>")
        parts.append(
            f"<text x='{x:.1f}' y='{bottom + 18}' text-anchor='middle' fill='{FAINT}'>{at} s</text>"
        )
    return parts
