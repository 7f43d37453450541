"""Rules on what pods may do to their node: the Pod Security Standards."""

from collections.abc import Iterator, Mapping, Sequence

from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.policy.host_paths import exempt_by
from gpu_cluster.policy.pods import Pods, pods_of
from gpu_cluster.policy.reading import UNKNOWN, Resource, get, is_one_of
from gpu_cluster.policy.standard import CONTROLS, Level
from gpu_cluster.policy.system_pods import exemption

_ENFORCE = "pod-security.kubernetes.io/enforce"
_LEVELS = ("baseline", "restricted")


def baseline(resource: Resource, *, exempt: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Every pod meets the Pod Security Standard `baseline`, except listed system pods.

    `exempt`: patterns of `namespace/kind/name` -> controls that such pods may violate.
    """
    yield from _violations(resource, "baseline", exempt)


def restricted(
    resource: Resource, *, stacks: Sequence[str], exempt: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """In the listed stacks, pods meet the Pod Security Standard `restricted`."""
    if is_one_of(resource.stack, stacks):
        yield from _violations(resource, "restricted", exempt)


def namespaces(resource: Resource, *, privileged: Sequence[str]) -> Iterator[str]:
    """Every namespace sets the Pod Security Standard that the cluster enforces in it.

    `privileged`: namespaces that may enforce none.
    """
    if resource.type.removesuffix("Patch") != "kubernetes:core/v1:Namespace":
        return
    name = get(resource.props, "metadata", "name") or resource.name
    level = get(resource.props, "metadata", "labels", _ENFORCE)
    if (
        UNKNOWN in (name, level)
        or level in _LEVELS
        or (level == "privileged" and name in privileged)
    ):
        return
    enforced = f"sets {level}" if level else "sets none"
    yield (
        f"Namespace {name} has no level of the Pod Security Standards that the cluster enforces: "
        f"the label {_ENFORCE} {enforced}; set baseline or restricted, or name it in "
        "policy/config.json (namespace-enforces: privileged)"
    )


def _violations(
    resource: Resource, level: Level, exempt: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    for pods in pods_of(resource):
        if UNKNOWN in (pods.namespace, pods.name):
            continue  # It may be an exempt one.
        exempt_row = exemption(pods)
        spared = {*(exempt_row.controls if exempt_row else ()), *exempt_by(pods, exempt)}
        for control in CONTROLS:
            if control.level != level or control.id in spared:
                continue
            for line in control.judge(pods):
                if not _shares_a_gpu(pods, line):
                    yield (
                        f"{pods.title} in namespace {pods.namespace}: {line}; allowed by the Pod "
                        f"Security Standard {level} ({control.title}): {control.allowed}"
                    )


def _shares_a_gpu(pods: Pods, line: str) -> bool:
    """GKE's MPS daemon can only be reached in the host's IPC namespace."""
    strategy = get(pods.spec, "nodeSelector", names.GKE_GPU_SHARING_STRATEGY)
    return line.startswith("hostIPC ") and strategy in ("mps", UNKNOWN)
