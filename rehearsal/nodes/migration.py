"""Moves pods back to an earlier choice of an order of fallback, as GKE's active migration does.

GKE first starts the better node, and then drains the other; here the node is drained first, and
Karpenter starts the better one for the pods. Pods that must not be evicted stay
(https://docs.cloud.google.com/kubernetes-engine/docs/concepts/about-custom-compute-classes, "Active
migration", read 2026-11-24). Disruption budgets are ignored.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rehearsal.nodes.node_registration import belongs, karpenters
from rehearsal.nodes.pods import phase, workload
from rehearsal.nodes.scale_down import Rules, keeps
from rehearsal.simulators.cloud import NodeGroup

STEADY_SECONDS = 3.0
"""How long the earlier choice must have been available; minutes in a real cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """A node that is drained, and its pods' old and new groups."""

    node: Mapping[str, Any]
    group: str
    to: str


class Migration:
    """Remembers since when each node could have been replaced by a better one."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def next(
        self,
        groups: Sequence[NodeGroup],
        nodes: Iterable[Mapping[str, Any]],
        pods: Sequence[Mapping[str, Any]],
        rules: Rules,
        starts: Callable[[str], bool],
    ) -> Moving | None:
        """The node to drain now, if any. `starts`: whether a node of a group would start."""
        found = movable(groups, nodes, pods, rules, starts)
        now = time.monotonic()
        self._since = {name: self._since.get(name, now) for name in found}
        due = [name for name, since in self._since.items() if now - since >= STEADY_SECONDS]
        return found[due[0]] if due else None


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
        own = next((one for one in groups if belongs(node, one)), None)
        if own is None or own.choice is None or not own.choice.migrates:
            continue
        if not karpenters(node) or not _moves(node, pods, rules):
            continue
        better = [
            one.name
            for one in groups
            if one.choice
            and one.choice.of == own.choice.of
            and one.choice.rank < own.choice.rank
            and starts(one.name)
        ]
        if better:
            name = node["metadata"]["name"]
            found[name] = Moving(node=node, group=own.name, to=better[0])
    return found


def _moves(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]], rules: Rules) -> bool:
    """Whether pods run on the node and all of them may be evicted."""
    there = [
        pod
        for pod in pods
        if pod["spec"].get("nodeName") == node["metadata"]["name"]
        and phase(pod) not in ("succeeded", "failed")
        and not workload(pod).startswith("DaemonSet ")
    ]
    return bool(there) and not any(keeps(pod, rules) for pod in there)
