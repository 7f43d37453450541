"""Moves pods back to an earlier choice of an order of fallback, as GKE's active migration does.

GKE first starts the better node, and then drains the other; here the node is drained first, and
Karpenter starts the better one for the pods. Pods that must not be evicted stay
(https://docs.cloud.google.com/kubernetes-engine/docs/concepts/about-custom-compute-classes, "Active
migration", read 2026-11-24). Disruption budgets are ignored.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_cluster.rehearsal.control_plane.pods import pods_on, workload
from gpu_cluster.rehearsal.nodes.node_registration import belongs, karpenters
from gpu_cluster.rehearsal.nodes.scale_down import Rules, keeps
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup

STEADY_SECONDS = 3.0
"""How long the earlier choice must have been available; minutes in a real cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """A node that is drained, and its pods' old and new groups."""

    node: Mapping[str, Any]
    group: str
    to: str


def movable(
    groups: Sequence[NodeGroup],
    nodes: Iterable[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]],
    rules: Rules,
    starts: Callable[[str], bool],
) -> dict[str, Moving]:
    """The nodes whose pods may move because an earlier choice is available."""
    found: dict[str, Moving] = {}
    if not any(group.choice and group.choice.rank for group in groups):
        return found
    for node in nodes:
        own = next((group for group in groups if belongs(node, group)), None)
        if own is None or own.choice is None or not own.choice.migrates:
            continue
        if not karpenters(node) or not _moves(node, pods, rules):
            continue
        better = [
            group.name
            for group in groups
            if group.choice
            and group.choice.of == own.choice.of
            and group.choice.rank < own.choice.rank
            and starts(group.name)
        ]
        if better:
            name = node["metadata"]["name"]
            found[name] = Moving(node=node, group=own.name, to=better[0])
    return found


def _moves(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]], rules: Rules) -> bool:
    """Whether pods run on the node and all of them may be evicted."""
    elsewhere = [pod for pod in pods_on(node, pods) if not workload(pod).startswith("DaemonSet ")]
    return bool(elsewhere) and not any(keeps(pod, rules) for pod in elsewhere)
