"""Probe pods, which start a node in each GPU pool in which no pod of the stack has started one."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.cluster import POOL_LABEL
from rehearsal.nodes.matching import shape_of
from rehearsal.nodes.node_registration import group_name
from rehearsal.simulators.cloud import NodeGroup
from rehearsal.verify.diagnosis import ClusterSnapshot
from rehearsal.verify.stack_output_checks import meant

Object = Mapping[str, Any]
PODS = "/api/v1/namespaces/default/pods"


def untried(
    pools: Mapping[str, Any], snapshot: ClusterSnapshot, new_nodes: Sequence[Object]
) -> dict[str, str]:
    """Pool in the output `gpuPools` -> why it cannot grow, empty if it can, for each pool without a
    node in `new_nodes`. Pools of machines without an autoscaler are omitted."""
    found = {}
    for name, output in pools.items():
        selector = output["nodeSelector"]
        tried = any(
            meant(selector, group, shape_of(node))
            for node in new_nodes
            for group in snapshot.groups
            if group_name(node, [group])
        )
        groups = groups_of(output, snapshot)
        if not tried and all(group.autoscaled for group in groups):
            found[name] = _why_not(groups, snapshot)
    return found


def groups_of(output: Mapping[str, Any], snapshot: ClusterSnapshot) -> list[NodeGroup]:
    """The node groups that a pool in the output `gpuPools` describes."""
    selector = output["nodeSelector"]
    return [group for group in snapshot.groups if group.gpus and meant(selector, group, group.node)]


def without_gpus(snapshot: ClusterSnapshot) -> list[str]:
    """The pools of `cluster.cpuPools` that have no node: only the user's own pods select them."""
    idle = [group for group in snapshot.groups if not (group.gpus or snapshot.of(group))]
    return sorted({g.node.labels[POOL_LABEL] for g in idle if POOL_LABEL in g.node.labels})


def _why_not(groups: Sequence[NodeGroup], snapshot: ClusterSnapshot) -> str:
    if groups and all(group.queued for group in groups):
        return "it is queued, and only jobs of a queue start its nodes"
    if any(len(snapshot.of(group)) < group.max_nodes for group in groups) or not groups:
        return ""
    most = max(group.max_nodes for group in groups)
    return f"all {most} nodes of its maximum joined before the update" if most else "maxNodes is 0"


def probe(pool: str, output: Mapping[str, Any], snapshot: ClusterSnapshot) -> dict[str, Any]:
    """A pod that requests the least number of the pool's GPUs, on a node that does not exist yet:
    nodes from before an update do not show what those that join after it are like."""
    known = [n["metadata"]["name"] for g in groups_of(output, snapshot) for n in snapshot.of(g)]
    other_node = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": known}
    affinity = {"nodeSelectorTerms": [{"matchExpressions": [other_node]}]}
    gpus = {output["resource"]: str(min(map(int, output["gpusPerPod"])))}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "nodeSelector": dict(output["nodeSelector"]),
        "tolerations": list(output["tolerations"]),
        "containers": [{"name": "probe", "image": "probe", "resources": {"limits": gpus}}],
    }
    if known:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": affinity}
        spec["affinity"] = {"nodeAffinity": required}
    if output.get("runtimeClass"):
        spec["runtimeClassName"] = output["runtimeClass"]
    if output.get("hostIPC"):
        spec["hostIPC"] = True
    name = f"probe-{pool}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
