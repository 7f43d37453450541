"""Probe pods, which start a node in each GPU pool in which no pod of the stack has started one."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_cluster.components.cluster import POOL_LABEL
from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.nodes.matching import shape_of
from gpu_cluster.rehearsal.nodes.node_registration import group_name
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup
from gpu_cluster.rehearsal.verify.diagnosis import ClusterSnapshot
from gpu_cluster.rehearsal.verify.stack_output_checks import meant

Object = Mapping[str, Any]
PODS = "/api/v1/namespaces/default/pods"
EARLIER = {"rehearsal/joined-before-the-update": "true"}
"""The label of nodes that a probe must not run on. It cannot avoid them by name: Karpenter ignores
pods with an affinity for `kubernetes.io/hostname` (`RestrictedLabels` in
kubernetes-sigs/karpenter, pkg/apis/v1/labels.go)."""


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


def leave_out(api: Api, nodes: Sequence[Object]) -> None:
    """Labels the nodes `EARLIER`; one may have left meanwhile."""
    for node in nodes:
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        try:
            api.patch(path, {"metadata": {"labels": EARLIER}})
        except ApiError as error:
            if error.status != 404:
                raise


def probe(pool: str, output: Mapping[str, Any]) -> dict[str, Any]:
    """A pod that requests the least number of the pool's GPUs, on a node that is not `EARLIER`:
    those do not show what nodes that join after an update are like."""
    terms = [{"key": key, "operator": "DoesNotExist"} for key in EARLIER]
    affinity = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    gpus = {output["resource"]: str(min(map(int, output["gpusPerPod"])))}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "nodeSelector": dict(output["nodeSelector"]),
        "tolerations": list(output["tolerations"]),
        "containers": [{"name": "probe", "image": "probe", "resources": {"limits": gpus}}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}},
    }
    if output.get("runtimeClass"):
        spec["runtimeClassName"] = output["runtimeClass"]
    if output.get("hostIPC"):
        spec["hostIPC"] = True
    name = f"probe-{pool}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
