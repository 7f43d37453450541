"""The report of a rehearsal, read from its event log: tables for users, JSON for programs."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gpu_cluster.rehearsal.event_log import Event
from gpu_cluster.rehearsal.report.real_node import blocks as real_node_blocks
from gpu_cluster.stacks.engine.state import ROOT_TYPE
from gpu_cluster.stacks.engine.urn import Urn

MOST_NAMES = 12
"""The most names of resources or nodes in a line."""
NARROWEST = 12
"""The minimum width of a table cell, in columns, on a narrow terminal."""


@dataclass(slots=True, kw_only=True)
class NodeLife:
    """A node from its start to its end. Times are seconds since the rehearsal began."""

    name: str
    joined: float
    group: str = ""
    gpus: int = 0
    """Its allocatable GPUs once they are complete."""
    gpus_at: float | None = None
    """When they were first allocatable."""
    left: float | None = None
    reason: str = ""
    """Why it was removed: `recycled`, `scaled in`, `of no group`, `cluster gone`; else empty."""
    added: bool = False
    """Whether the autoscaler added it."""
    granted: float | None = None
    """When the cloud granted it, if the autoscaler added it."""
    block: str = ""
    """Where in the cloud's network it is; empty if the cloud does not say."""
    parts: dict[str, float] = field(default_factory=dict)
    """`driver`, `plugin` -> when the pod that provides it was first ready on the node."""
    used: bool = False
    """Whether a pod other than a DaemonSet's ever ran on it."""


@dataclass(slots=True, kw_only=True)
class PodLife:
    """A pod from its creation to its end. Times are seconds since the rehearsal began."""

    name: str
    workload: str
    gpus: int
    created: float
    bound: float | None = None
    ready: float | None = None
    done: float | None = None
    left: float | None = None
    node: str | None = None
    state: str = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content of the report."""

    stack: str
    ok: bool
    seconds: float
    failures: Sequence[str]
    warnings: Sequence[str]
    versions: Mapping[str, str]
    steps: Sequence[Mapping[str, Any]]
    resources: Mapping[str, int]
    """Type -> the number of created resources."""
    nodes: Sequence[NodeLife]
    pods: Sequence[PodLife]
    gpu_nodes: Sequence[tuple[float, int]]
    """(time, GPU nodes from then on), beginning with (0, 0)."""
    refusals: Sequence[str] = field(default_factory=tuple)
    template_checks: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    """Each pool's node template: `pool`, `node` (None if none joined), `tags` and `real` (tag ->
    value) and `differences`."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Program -> its version and path on this machine; empty for programs built here."""
    simulated: Sequence[str] = field(default_factory=tuple)
    """Differences from the real environment, one line each."""
    change: Mapping[str, Any] | None = None
    """For the rehearsal of a change: `from`, the revision; `replaced`, `updated`, `created` and
    `deleted`, resources; `recycled`, nodes; `drifted`, nodes that Karpenter would replace and may
    not; `forced`, recycled nodes whose pods a PodDisruptionBudget kept until the cloud removed
    them."""
    real_node: Mapping[str, Any] | None = None
    """For a rehearsal with a real node: its GPUs over time, what ran, and what remained."""

    def document(self) -> dict[str, Any]:
        """The content of `report.json`."""
        return asdict(self)


def node_lives(events: Iterable[Event]) -> list[NodeLife]:
    """All nodes, without those that the cloud refused."""
    lives: dict[str, NodeLife] = {}
    for event in events:
        if event.kind == "pod" and (life := lives.get(event.detail["node"] or "")) is not None:
            part = event.detail.get("part")
            if part and event.what == "ready":
                life.parts.setdefault(part, event.at)
            life.used |= not event.detail["workload"].startswith("DaemonSet ")
        if event.kind == "cloud" and event.what == "size":
            for life in lives.values():
                if life.added and life.group == event.subject and life.granted is None:
                    life.granted = event.at
        if event.kind != "node":
            continue
        if event.what == "joined":
            lives[event.subject] = NodeLife(name=event.subject, joined=event.at)
        elif (life := lives.get(event.subject)) is None:
            continue
        elif event.what == "member":
            life.group, life.gpus = event.detail["group"], event.detail["gpus"]
            life.added = event.detail.get("added", False)
        elif event.what == "placed":
            life.block = event.detail["block"]
        elif event.what == "gpus" and event.detail["gpus"] and life.gpus_at is None:
            life.gpus_at = event.at
        elif event.what == "left":
            life.left = event.at
        elif event.what in ("recycled", "scaled in", "of no group", "cluster gone"):
            life.reason = event.what
        elif event.what == "taken back":
            del lives[event.subject]
    return list(lives.values())


def pod_lives(events: Iterable[Event]) -> list[PodLife]:
    """All pods, with the times of their events."""
    lives: dict[str, PodLife] = {}
    for event in events:
        if event.kind != "pod":
            continue
        life = lives.setdefault(
            event.subject,
            PodLife(
                name=event.subject,
                workload=event.detail["workload"],
                gpus=event.detail["gpus"],
                created=event.at,
            ),
        )
        life.node = event.detail["node"] or life.node
        match event.what:
            case "bound":
                life.bound = event.at
            case "ready":
                # A watch may show a pod for the first time when it is already ready.
                life.bound = life.bound if life.bound is not None else event.at
                life.ready = life.ready if life.ready is not None else event.at
            case "succeeded" | "failed":
                life.done = event.at
            case "deleted":
                life.left = event.at
        if event.what not in ("deleting", "deleted"):
            life.state = event.what
    return list(lives.values())


def gpu_nodes_over_time(nodes: Iterable[NodeLife]) -> list[tuple[float, int]]:
    """(time, number of GPU nodes from then on); a node counts from joining to leaving."""
    gpu_nodes = [node for node in nodes if node.gpus]
    joined = [(node.joined, 1) for node in gpu_nodes]
    left = [(node.left, -1) for node in gpu_nodes if node.left is not None]
    steps, count = [(0.0, 0)], 0
    for at, difference in sorted(joined + left):
        count += difference
        steps.append((at, count))
    return steps


def created(urns: Iterable[str]) -> dict[str, int]:
    """The number of resources of each type among these URNs, without the stack itself, which the
    engine does not count either."""
    counts: dict[str, int] = {}
    for urn in urns:
        if (kind := Urn.parse(urn).type) == ROOT_TYPE:
            continue
        counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items()))


def report_text(report: Report, width: int | None = None) -> str:
    """The report as text. On a terminal of `width` columns, lines are wrapped and table cells cut;
    without a width, for a file or a pipe, lines are complete."""
    blocks = [_steps(report, width), _change(report), _resources(report), _nodes(report, width),
              _pods(report, width)]  # fmt: skip
    blocks += [_template_check(check, width) for check in report.template_checks]
    blocks += real_node_blocks(report.real_node) if report.real_node else []
    verdict = "passed" if report.ok else "FAILED"
    for title, lines in (
        ("why it failed", report.failures),
        ("rejected by the cloud", report.refusals),
        ("warnings", report.warnings),
        ("what this rehearsal simulates", report.simulated),
    ):
        if lines:
            blocks.append("\n".join([title, *(f"  - {line}" for line in lines)]))
    blocks.append("  ".join(f"{name} {version}" for name, version in report.versions.items()))
    blocks.append(_programs(report.programs))
    blocks.append(f"rehearsal of {report.stack}: {verdict} in {report.seconds:.1f} s")
    shown = "\n\n".join(block for block in blocks if block)
    return shown if width is None else "\n".join(_wrapped(shown, width))


def _programs(programs: Mapping[str, str]) -> str:
    built = ", ".join(sorted(name for name, found in programs.items() if not found))
    found = ", ".join(f"{name} {at}" for name, at in sorted(programs.items()) if at)
    lines = {"built here": built, "found on this machine": found}
    return "\n".join(f"{title}: {names}" for title, names in lines.items() if names)


def _wrapped(shown: str, width: int) -> Iterator[str]:
    """The lines, wrapped between words but never in a path; continuation lines are indented."""
    for line in shown.splitlines():
        fits = len(line) <= width or not line.strip()
        yield from (
            [line]
            if fits
            else textwrap.wrap(
                line,
                width,
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )


def _steps(report: Report, width: int | None) -> str:
    rows = [
        (
            "ok" if step["ok"] else "FAILED",
            step["name"],
            f"{step['seconds']:.1f} s",
            # Failures are shown once, in full, below.
            "see why it failed" if step["detail"] in report.failures else step["detail"],
        )
        for step in report.steps
    ]
    return table(("", "step", "duration", "result"), rows, width if report.ok else None)


def _change(report: Report) -> str:
    if report.change is None:
        return ""
    found = {key: names for key, names in report.change.items() if key != "from"}
    counts = ", ".join(f"{len(names)} {what}" for what, names in found.items())
    lines = [f"  {what}: {_some(names)}" for what, names in found.items() if names]
    if found["drifted"]:
        lines.append(
            "  drifted nodes stay until their pods, or the disruption budget of their pool, allow "
            "that Karpenter replaces them"
        )
    if found["forced"]:
        lines.append(
            "  a PodDisruptionBudget keeps the pods of forced nodes: GKE waits an hour per node, "
            "EKS 15 minutes, within the timeout of the update"
        )
    return "\n".join([f"changes since {report.change['from']}: {counts}", *lines])


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _resources(report: Report) -> str:
    """Resources by package, with the last part of each type: `report.json` has the full types."""
    packages: dict[str, Counter[str]] = {}
    for kind, count in report.resources.items():
        package, _, rest = kind.partition(":")
        packages.setdefault(package, Counter())[rest.rpartition(":")[2]] += count
    lines = [
        f"  {package}: {', '.join(f'{kind} {n}' if n > 1 else kind for kind, n in kinds.items())}"
        for package, kinds in packages.items()
    ]
    total = sum(report.resources.values())
    return "\n".join([f"{total} resources created", *lines]) if total else ""


def _nodes(report: Report, width: int | None) -> str:
    counts = " -> ".join(f"{count} at {at:.1f} s" for at, count in report.gpu_nodes)
    rows = [
        (
            node.name,
            node.group,
            _time(node.joined),
            _parts(node) if node.gpus else "",
            _time(node.gpus_at) if node.gpus else "no GPU",
            _time(node.left),
        )
        for node in report.nodes
    ]
    head = ("node", "pool", "joined", "driver, plugin", "allocatable GPUs", "left")
    listed = table(head, rows, width) if rows else ""
    return f"GPU nodes: {counts}\n\n{listed}".strip()


def _parts(node: NodeLife) -> str:
    """When the pods of driver installer and device plugin ran; without such pods, the cloud (or the
    node's image) provides them."""
    return ", ".join(
        _time(node.parts[part]) if part in node.parts else "built in"
        for part in ("driver", "plugin")
    )


def _template_check(check: Mapping[str, Any], width: int | None) -> str:
    wrong, tags, real = check["differences"], check["tags"], check["real"]
    node = f"node {check['node']}" if check["node"] else "a node of it (none started)"
    result = f"{len(wrong)} differ" if wrong else "verified"
    rows = [
        (key, value, "-" if real[key] is None else real[key]) for key, value in sorted(tags.items())
    ]
    return (
        f"pool {check['pool']}: node template of {len(tags)} tags, read back, against {node}: "
        f"{result}\n{table(('tag', 'template', 'node'), rows, width)}"
    )


def _pods(report: Report, width: int | None) -> str:
    if not report.pods:
        return ""
    pods = Counter(pod.workload for pod in report.pods)
    blocks = {node.name: f" in {node.block}" for node in report.nodes if node.block}
    rows = [
        (
            pod.workload if pods[pod.workload] == 1 else f"{pod.workload} ({_own_part(pod)})",
            str(pod.gpus or "-"),
            pod.state,
            _time(pod.created),
            _time(pod.bound),
            _time(pod.done if pod.done is not None else pod.ready),
            f"{pod.node}{blocks.get(pod.node, '')}" if pod.node else "none",
        )
        for pod in report.pods
    ]
    head = ("workload", "GPUs", "state", "created", "bound", "run/done", "node")
    return table(head, rows, width)


def _own_part(pod: PodLife) -> str:
    """The part of a pod's name after its workload's: an index, a suffix."""
    return pod.name.removeprefix(pod.workload.partition(" ")[2]).strip("-")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Columns as wide as their widest entry, two spaces apart; `width` cuts the widest ones."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    while width and sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return "\n".join(
        "  ".join(
            _cut(entry, width).ljust(width) for entry, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _cut(entry: str, width: int) -> str:
    """Keeps the end, which distinguishes the name from others: `...-a1b2c`."""
    return entry if len(entry) <= width else f"...{entry[len(entry) - width + 3 :]}"


def _time(at: float | None) -> str:
    return "-" if at is None else f"{at:.1f} s"
