"""The differences between a rehearsal and the stack: simulated containers, other program versions.

The stack's version of a program may differ from the one that a rehearsal can build; the report
shows such differences.
"""

from collections.abc import Iterable, Mapping, Sequence

from gpu_cluster.rehearsal.event_log import Event
from gpu_cluster.tools.programs import program

CONTROLLERS: Mapping[str, str] = {
    "jobset": "JobSet",
    "kueue": "Kueue",
    "karpenter-aws": "Karpenter for AWS",
}
"""Program -> its name in a report."""
_AUTO_MODE = "auto-mode"


def lines(
    events: Iterable[Event],
    job_seconds: float,
    *,
    cloud: bool = False,
    real_node: bool = False,
    kubernetes: tuple[str, str] | None = None,
    assumptions: Sequence[str] = (),
) -> list[str]:
    """One line each, for the report. `cloud`: whether a cloud is simulated; `kubernetes`: the
    stack's version, and the one that ran; `assumptions`: those of the simulated cloud."""
    where = "except on the real node, " if real_node else ""
    found = [
        f"containers: {where}no program runs, and no image is pulled; a Job's pods succeed after "
        f"{job_seconds:g} s, every other pod is ready at once"
    ]
    if cloud:
        found.append(
            "quotas: sufficient for every pool at its maximum; gpu-cluster capacity reads the "
            "quotas of your own account"
        )
    found += assumptions
    if kubernetes:
        found += _minor_differs(*kubernetes)
    ran = controllers(events)
    if ran.pop(_AUTO_MODE, None):
        version = program("karpenter-aws").version()
        found.append(
            f"EKS Auto Mode: AWS's own Karpenter; upstream's, {version}, ran here in its place"
        )
    for name, tag in sorted(ran.items()):
        if (difference := differs(CONTROLLERS[name], tag, program(name).version())) is not None:
            found.append(difference)
    return found


def versions(events: Iterable[Event]) -> dict[str, str]:
    """The name of each program that ran in place of one of the stack's or AWS's -> its version."""
    ran = {"karpenter-aws" if name == _AUTO_MODE else name for name in controllers(events)}
    return {CONTROLLERS[name]: program(name).version() for name in sorted(ran)}


def _minor_differs(stack: str, ran: str) -> list[str]:
    """A note if another minor version of Kubernetes ran, such as `v1.36.5` or `v1.36.5 as 1.35`; a
    stack may leave it to the cloud."""
    behaved = ran.split()[-1]
    wanted, minor = (".".join(version.lstrip("v").split(".")[:2]) for version in (stack, behaved))
    if not stack or wanted == minor:
        return []
    return [f"Kubernetes: cluster.version of the stack is {stack}, but the rehearsal ran {ran}"]


def controllers(events: Iterable[Event]) -> dict[str, str]:
    """Controller -> the version of the stack's image of it, for those that ran."""
    return {
        event.detail["program"]: tag_of(event.detail["image"])
        for event in events
        if event.subject == "controllers" and event.what == "runs"
    }


def tag_of(image: str) -> str:
    """An image's tag, or the digest it is pinned by."""
    name, _, digest = image.partition("@")
    return name.rpartition("/")[2].partition(":")[2] or digest


def differs(what: str, stack: str, ran: str) -> str | None:
    """A note if another version ran than the stack's; None if they are equal."""
    if stack.lstrip("v") == ran.lstrip("v"):
        return None
    return f"{what}: the stack has {stack}, but this machine ran {ran}, which can be built here"
