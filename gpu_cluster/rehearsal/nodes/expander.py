"""Which of several node groups Cluster Autoscaler's priority expander picks, and how long it skips
one that failed.

From cluster-autoscaler/expander/priority, expander/factory/chain.go and
utils/backoff/exponential_backoff.go of kubernetes/autoscaler (read 2026-11-24).
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from gpu_cluster.rehearsal.simulators.cloud import Choice, NodeGroup, Scaler

_CONFIG_MAP, _KEY = "cluster-autoscaler-priority-expander", "priorities"
_OF_CLOUD = ("kubernetes.io", "k8s.io", "eks.amazonaws.com")
"""Domains of labels that may differ between groups that fit the same pods."""
_FIRST_SECONDS, _MOST_SECONDS = 300.0, 1800.0
"""Real values: --initial-node-group-backoff-duration and --max-node-group-backoff-duration."""
_FASTER = 10.0
"""How much faster than in a real cluster it is retried; Karpenter takes up to 10 s."""


def ordered(
    groups: Sequence[NodeGroup],
    scalers: Sequence[Scaler],
    config_maps: Mapping[str, Mapping[str, Any]],
) -> list[NodeGroup]:
    """The groups with their place in the order of the autoscaler's priority expander, if it has
    one; without a valid order, every group stays eligible (priority.go, from 1.30 to 1.35)."""
    for scaler in scalers:
        if "priority" not in scaler.expanders:
            continue
        ranks = _ranks(config_maps.get(f"{scaler.namespace}/{_CONFIG_MAP}"))
        if ranks is not None:
            return _placed(groups, ranks)
    return list(groups)


def disordered(
    groups: Sequence[NodeGroup],
    scalers: Sequence[Scaler],
    read: Callable[[str, str], Mapping[str, Any] | None],
) -> list[str]:
    """A line for each autoscaler whose priority expander has no valid order although it would
    choose among groups for the same pods. `read`: the ConfigMap of a namespace and a name."""
    pods = Counter(_for_pods(group) for group in groups if group.known_as)
    rivals = sorted(group.name for group in groups if group.known_as and pods[_for_pods(group)] > 1)
    return [
        f"{scaler}: its expander is priority, and ConfigMap {scaler.namespace}/{_CONFIG_MAP} has "
        f"no valid {_KEY}, so it tries {', '.join(rivals)} in no particular order"
        for scaler in scalers
        if rivals
        and "priority" in scaler.expanders
        and _ranks(read(scaler.namespace, _CONFIG_MAP)) is None
    ]


def _ranks(config_map: Mapping[str, Any] | None) -> list[list[re.Pattern[str]]] | None:
    """The regular expressions, highest priority first; None if there is no valid order."""
    try:
        rows = yaml.safe_load(((config_map or {}).get("data") or {})[_KEY])
        keys = sorted(map(int, rows), reverse=True)
        return [[re.compile(pattern) for pattern in rows[key]] for key in keys]
    except (KeyError, ValueError, AttributeError, TypeError, re.error, yaml.YAMLError):
        return None


def _placed(
    groups: Sequence[NodeGroup], ranks: Sequence[Sequence[re.Pattern[str]]]
) -> list[NodeGroup]:
    """The groups with their place; those that match nothing come last. Groups for the same pods are
    alternatives if their places differ."""
    places = {group.name: _place(group, ranks) for group in groups if group.known_as}
    pods = {group.name: _for_pods(group) for group in groups}
    found = []
    for group in groups:
        if group.name in places:
            place, of = places[group.name], pods[group.name]
            rivals = {places[name] for name, pod in pods.items() if pod == of and name in places}
            choice = Choice(of=of, rank=place, migrates=False) if len(rivals) > 1 else group.choice
            found.append(replace(group, place=place, choice=choice))
        else:
            found.append(group)
    return found


def _place(group: NodeGroup, ranks: Sequence[Sequence[re.Pattern[str]]]) -> int:
    for place, expressions in enumerate(ranks):
        if any(expression.search(group.known_as) for expression in expressions):
            return place
    return len(ranks)


def _for_pods(group: NodeGroup) -> str:
    """The labels by which pods distinguish the group's nodes from others."""
    return ",".join(
        sorted(
            f"{key}={value}"
            for key, value in group.template.labels.items()
            if not key.partition("/")[0].endswith(_OF_CLOUD)
        )
    )


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Groups that failed to grow, and how long each is skipped."""

    now: Callable[[], float] = time.monotonic
    _backoffs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Group -> the real backoff in seconds, and the monotonic time at which it ends here."""
    _last: set[str] = field(default_factory=set)

    def failed(self, group: str) -> None:
        """Starts a backoff for the group, twice as long as the last one, unless that still runs."""
        seconds, until = self._backoffs.get(group, (_FIRST_SECONDS / 2, 0.0))
        if self.now() >= until:
            seconds = min(2 * seconds, _MOST_SECONDS)
            self._backoffs[group] = seconds, self.now() + seconds / _FASTER

    def over(self) -> bool:
        """Whether a group's backoff has ended since the last call."""
        groups = {group for group in self._backoffs if self.holds(group)}
        before, self._last = self._last, groups
        return bool(before - groups)

    def holds(self, group: str) -> bool:
        """Whether the group is skipped now."""
        return self.now() < self._backoffs.get(group, (0.0, 0.0))[1]
