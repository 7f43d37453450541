"""Compares the stack's output `gpuPools`, which other projects use, with the nodes it describes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.rehearsal.control_plane.cluster_cache import ClusterCache
from gpu_cluster.rehearsal.control_plane.pods import GPU
from gpu_cluster.rehearsal.nodes.matching import offered, untolerated
from gpu_cluster.rehearsal.nodes.node_registration import group_name
from gpu_cluster.rehearsal.simulators.cloud import GpuSharing, NodeGroup, NodeTemplate
from gpu_cluster.rehearsal.verify import assertions
from gpu_cluster.rehearsal.verify.diagnosis import ClusterSnapshot

STACK = "pulumi:pulumi:Stack"
_CHOSEN = {names.GKE_GPU_PARTITION_SIZE, names.GKE_GPU_SHARING_STRATEGY, names.GKE_SPOT}
"""Labels of Autopilot's nodes that depend on what a pod selected."""


def exported(state: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The output in a stack's state, as listed by `pulumi stack export`."""
    for resource in state:
        if resource["type"] == STACK:
            pools: Mapping[str, Any] = (resource.get("outputs") or {}).get("gpuPools") or {}
            return pools
    return {}


def broken(
    pools: Mapping[str, Any],
    snapshot: ClusterSnapshot,
    cluster_cache: ClusterCache,
    came: Sequence[Mapping[str, Any]],
) -> list[str]:
    """The errors in the output, compared with the GPU nodes in `came`, or else a future node."""
    found = []
    for name, output in pools.items():
        for group in snapshot.groups:
            for where, shape, sharing in _nodes(group, snapshot, cluster_cache, came):
                if not group.gpus or not meant(output["nodeSelector"], group, shape):
                    continue
                lines = list(_wrong(output, group, shape, where, sharing.most))
                found += [f"output gpuPools.{name}, pool {group.name}: {line}" for line in lines]
                if lines:
                    break  # the others are alike
    return found


def _nodes(
    group: NodeGroup,
    snapshot: ClusterSnapshot,
    cluster_cache: ClusterCache,
    came: Sequence[Mapping[str, Any]],
) -> list[tuple[str, NodeTemplate, GpuSharing]]:
    """The group's nodes in `came`, or a future one, each with its sharing."""
    found = [
        (f"node {name}", offered(node), snapshot.sharing.get(name, group.sharing))
        for node in came
        if group_name(node, [group]) and (name := node["metadata"]["name"])
    ]
    if found or group.auto_provisioned:  # many of those were never requested
        return found
    return [("a node", assertions.would_join(group, cluster_cache), group.sharing)]


def meant(selector: Mapping[str, str], group: NodeGroup, shape: NodeTemplate) -> bool:
    """Whether a pool with this selector describes such nodes."""
    if group.auto_provisioned and (_CHOSEN & shape.labels.keys()) - selector.keys():
        return False  # belongs to another pool with the same GPU
    return selector.items() <= shape.labels.items()


def _wrong(
    output: Mapping[str, Any], group: NodeGroup, shape: NodeTemplate, where: str, most: int | None
) -> Iterator[str]:
    allocatable = int(shape.capacity.get(GPU, 0))
    per_node, physical = int(output["allocatablePerNode"]), int(output["gpusPerNode"])
    if group.auto_provisioned:
        # Nodes have several sizes; the way a GPU is shared is the same on all.
        if per_node * group.gpus != allocatable * physical:
            yield (
                f"allocatablePerNode says {per_node} {GPU} on {physical} GPUs, but {where} has "
                f"{allocatable} allocatable on {group.gpus}"
            )
    elif per_node != allocatable:
        yield f"allocatablePerNode says {per_node} {GPU}, but {where} has {allocatable} allocatable"
    classes = [*(shape.devices or ())]
    if classes and output.get("deviceClass") not in classes:
        yield f"deviceClass says {output.get('deviceClass')}, but {where} offers {classes[0]}"
    counts = [int(count) for count in output["gpusPerPod"]]
    if most is not None and max(counts, default=0) > most:
        yield (
            f"gpusPerPod says that a pod may request {max(counts)} {GPU}, but the device plugin "
            f"of {where} gives a container at most {most}"
        )
    for taint in shape.taints:
        if untolerated(taint, output["tolerations"]):
            yield (
                f"tolerations do not tolerate {taint.key}={taint.value}:{taint.effect}, which "
                f"{where} has"
            )
