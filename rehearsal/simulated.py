"""What a rehearsal simulates differently: containers, and other versions of programs.

Which version the stack has and which one a rehearsal can build are two facts; if they differ,
the report says so.
"""

from collections.abc import Iterable, Mapping, Sequence

from rehearsal.event_log import Event
from tools.programs import program

CONTROLLERS: Mapping[str, str] = {
    "jobset": "JobSet",
    "kueue": "Kueue",
    "karpenter-aws": "Karpenter for AWS",
}
"""Program -> what a report calls it."""
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
    """What a report calls each program that ran in the place of one of the stack's, or of AWS's
    -> the program's own version."""
    ran = {"karpenter-aws" if name == _AUTO_MODE else name for name in controllers(events)}
    return {CONTROLLERS[name]: program(name).version() for name in sorted(ran)}


def _minor_differs(stack: str, ran: str) -> list[str]:
    """Says that another minor version of Kubernetes ran; a stack that names none has the cloud's
    own choice."""
    wanted, minor = (".".join(each.lstrip("v").split(".")[:2]) for each in (stack, ran))
    if not stack or wanted == minor:
        return []
    return [f"Kubernetes: cluster.version of the stack is {stack}, but the rehearsal ran {ran}"]


def controllers(events: Iterable[Event]) -> dict[str, str]:
    """Controller -> the version that the stack's image of it has, for those that ran."""
    return {
        event.detail["program"]: tag_of(event.detail["image"])
        for event in events
        if event.subject == "controllers" and event.what == "runs"
    }


def tag_of(image: str) -> str:
    """An image's tag, or what else it is pinned by."""
    name, _, digest = image.partition("@")
    return name.rpartition("/")[2].partition(":")[2] or digest


def differs(what: str, stack: str, ran: str) -> str | None:
    """Says that another version ran than the stack has; None if they are one."""
    if stack.lstrip("v") == ran.lstrip("v"):
        return None
    return f"{what}: the stack has {stack}, but this machine ran {ran}, which can be built here"
