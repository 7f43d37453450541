"""The page of the stack's outputs."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.components.platforms import WRITTEN
from gpu_cluster.tools.sections import REFERENCE, TEMPLATES, page, table
from quality.docs.support_matrix import drivers, pool_of
from quality.keys import meanings

PAGE = REFERENCE / "outputs.md"

_NAMES = [f"`{name}`" for name in WRITTEN]
OUTPUTS: Mapping[str, str] = {
    "platform": "{} or {}.".format(", ".join(_NAMES[:-1]), _NAMES[-1]),
    "clusterName": "The cluster's name in its cloud; on an existing cluster, the name that the "
    "stack gives it.",
    "kubeconfig": "A secret. It names a plugin that signs in, and contains no token, except on an "
    "existing cluster, where it is the context from the stack's settings.",
    "gpuPools": "A map from the name of a pool to what a pod on it needs; the fields are below.",
    "services": "Only with `services`: a map, by the name of the service, of its `namespace`, "
    "`hostname`, `port` and `url` inside the cluster.",
}
"""Output -> its description."""
_OWN: Mapping[str, str] = {
    "nodeSelector": "Schedules a pod on this pool and on no other.",
    "tolerations": "Let a pod run in spite of the pool's taints.",
    "resource": "The resource that a pod requests in its limits; null if it claims its GPUs.",
    "allocatablePerNode": "Units of that resource on one node once driver and plugin run; for "
    "shared GPUs, the shares.",
    "gpusPerPod": "Numbers of that resource that one pod may request.",
    "driverLibraries": "Directory on the nodes that GPU pods must mount at `/usr/local/nvidia`; "
    "None if pods get the driver's libraries together with the GPU.",
    "hostIPC": "Whether a pod must use the host's IPC namespace, to reach GKE's MPS.",
}
"""Fields of `gpuPools` that no attribute of a pool has under the same name."""

_OPTIONAL: Mapping[str, Mapping[str, Any]] = {
    "runtime_class": {"runtimeClass": "nvidia"},
    "extended_resources": {"extendedResources": {"rdma/hca": 8}},
    "efa": {"instanceTypes": ["g5.8xlarge"], "zones": ["us-east-1a"], "efa": True},
}
"""Field of a pool's settings -> settings with which its output has more."""


def markdown() -> str:
    """The page's text."""
    return page(
        TEMPLATES / PAGE.name,
        outputs=table(("output", "value"), ((f"`{name}`", text) for name, text in OUTPUTS.items())),
        fields=table(("field", "value", "null, so left out, on"), _fields()),
    )


def _fields() -> Iterator[tuple[str, str, str]]:
    of_platforms = contracts()
    for field in next(iter(of_platforms.values()))[0]:
        yield f"`{field}`", meaning(field), ", ".join(_left_out(field, of_platforms)) or "-"


def meaning(field: str) -> str:
    """The description of a field of `gpuPools`."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in field)
    return (_OWN.get(field) or meanings(GpuPool)[snake]).replace("; None ", "; null ")


def contracts() -> Mapping[str, list[Mapping[str, Any]]]:
    """Platform -> the output of one pool of each kind."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for platform, _, _, kind, given in drivers():
        found.setdefault(platform, []).append(pool_of(kind, given).contract())
        for field, more in _OPTIONAL.items():
            if hasattr(kind, field):
                found[platform].append(pool_of(kind, {**given, **more}).contract())
    return found


def _left_out(field: str, found: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[str]:
    for platform, pools in found.items():
        absent = [pool[field] is None for pool in pools]
        if any(absent):
            yield f"`{platform}`" + ("" if all(absent) else " (some pools)")
