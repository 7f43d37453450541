"""The form in which a node joins, and the group to which a node belongs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from gpu_cluster.rehearsal.control_plane.pods import EFA, GPU, STARTING
from gpu_cluster.rehearsal.nodes.autoscaler import pool_name
from gpu_cluster.rehearsal.nodes.kwok import MANAGED
from gpu_cluster.rehearsal.nodes.matching import PASSING_TAINTS
from gpu_cluster.rehearsal.simulators.cloud import Machine, NodeGroup

GROUP = "rehearsal.gpu-cluster/group"
"""Annotation of the nodes that the cloud creates itself."""


def machines_node(machine: Machine, group: NodeGroup) -> dict[str, Any]:
    """The node of a machine launched by a controller in the cluster, still without its GPUs."""
    node = new_node(machine.name, replace(group, node=machine.node))
    node["spec"]["providerID"] = machine.provider_id
    return node


def new_node(name: str, group: NodeGroup) -> dict[str, Any]:
    """A node that the cloud creates itself, still without what device plugins register."""
    size = {key: value for key, value in group.node.capacity.items() if key not in (GPU, EFA)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {**MANAGED, GROUP: group.name},
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                **group.node.labels,
                "kubernetes.io/hostname": name,
            },
        },
        "spec": {
            **({"providerID": f"{group.provider_id}{name}"} if group.provider_id else {}),
            "taints": list(map(asdict, group.node.taints)),
        },
        "status": {"capacity": size, "allocatable": size},
    }


def wanted_taints(
    current: list[dict[str, Any]], group: NodeGroup, *, starting: bool
) -> list[dict[str, Any]] | None:
    """The taints that a node must have, or None if it already has them."""
    wanted = list(map(asdict, group.node.taints))
    wanted += [
        taint
        for taint in current
        if taint["key"].startswith(PASSING_TAINTS) and taint["key"] != STARTING["key"]
    ]
    if starting:
        wanted.append(STARTING)

    def plain(taints: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
        return {(taint["key"], taint.get("value") or "", taint["effect"]) for taint in taints}

    return None if plain(wanted) == plain(current) else wanted


def group_name(node: Mapping[str, Any], groups: Sequence[NodeGroup]) -> str | None:
    """The group that a node belongs to; None if its group no longer exists."""
    return next((group.name for group in groups if belongs(node, group)), None)


def belongs(node: Mapping[str, Any], group: NodeGroup) -> bool:
    """Whether a node belongs to this group."""
    if group.real:
        return bool(node["metadata"]["name"] == group.name)
    if karpenters(node):
        pool: str = node["metadata"]["labels"]["karpenter.sh/nodepool"]
        return pool == pool_name(group.name)
    return (node["metadata"].get("annotations") or {}).get(GROUP) == group.name


def by_instance(
    nodes: Sequence[dict[str, Any]], group: NodeGroup
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, str]]:
    """Sorts the nodes that the cloud creates itself: those that stay, those whose instance has
    ended, and, by node, the provider IDs for those that have none yet."""
    if group.instances is None:
        return list(nodes), [], {}
    known = group.instances
    provider_ids = {node["metadata"]["name"]: node["spec"].get("providerID", "") for node in nodes}
    ended = [name for name, identity in provider_ids.items() if identity and identity not in known]
    free = [identity for identity in known if identity not in provider_ids.values()]
    ids = dict(zip([name for name in provider_ids if not provider_ids[name]], free, strict=False))
    stay = [node for node in nodes if node["metadata"]["name"] not in ended]
    return stay, [node for node in nodes if node["metadata"]["name"] in ended], ids


def karpenters(node: Mapping[str, Any]) -> bool:
    """Whether the rehearsal's own Karpenter added the node. The nodes of a stack's Karpenter are
    machines that the cloud reports as launched."""
    metadata = node["metadata"]
    return "karpenter.sh/nodepool" in (metadata.get("labels") or {}) and GROUP not in (
        metadata.get("annotations") or {}
    )
