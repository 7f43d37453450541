"""A cluster's Cluster Autoscalers: groups that none of them scales, node templates they cache."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from gpu_cluster.components.schema.limits import seconds
from gpu_cluster.rehearsal.control_plane.pods import holds, phase
from gpu_cluster.rehearsal.nodes.expander import ordered
from gpu_cluster.rehearsal.nodes.node_registration import belongs
from gpu_cluster.rehearsal.nodes.scale_down import Rules
from gpu_cluster.rehearsal.simulators.cloud import (
    Cloud,
    Launching,
    NodeGroup,
    NodePools,
    NodeTemplate,
    Provisioner,
    Scaled,
    Scaler,
)

_NAME = "cluster-autoscaler"
KARPENTER = "karpenter/controller"
"""The end of the image name of Karpenter for AWS."""
_FASTER = 120.0
"""How much faster than in a real cluster an unneeded node is removed and a template expires."""
_HARMLESS = 600.0
"""Real seconds; a template that expires this soon only delays a pod."""
_EVER = 87600 * 3600.0
"""Seconds; the default of --node-info-cache-expire-time (its config/flags/flags.go)."""
_STABLE_SECONDS = 60 / _FASTER
"""How long a node must be ready until its group's template is copied; in reality, a minute."""

_STARTUP = "--startup-taint="
_DISCOVERY = "--node-group-auto-discovery=asg:tag="


def is_karpenter(pod: Mapping[str, Any]) -> bool:
    """Whether the pod is Karpenter's controller for AWS."""
    image = str(pod["spec"]["containers"][0]["image"]).partition("@")[0]
    return image.rpartition(":")[0].endswith(KARPENTER) or image.endswith(KARPENTER)


def scaled_groups(
    cloud: Cloud,
    pods: Iterable[Mapping[str, Any]],
    pools: Iterable[Mapping[str, Any]] = (),
    classes: Iterable[Mapping[str, Any]] = (),
    config_maps: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> list[NodeGroup]:
    """The cloud's groups; those that none of the cluster's autoscalers scales have the reason.
    `pools` and `classes`: the cluster's NodePools and node classes; `config_maps`: by
    `namespace/name`."""
    pods = list(pods)
    if isinstance(cloud, Launching):
        at_work = any(is_karpenter(pod) and phase(pod) == "ready" for pod in pods)
        cloud.declared(NodePools(pools=list(pools), classes=list(classes), controller=at_work))
    if isinstance(cloud, Provisioner):
        cloud.asked([pod["spec"].get("nodeSelector") or {} for pod in pods])
    scalers = running(pods)
    reasons = cloud.not_scaled(scalers) if isinstance(cloud, Scaled) else {}
    ignored = frozenset[str]().union(*(scaler.startup_taints for scaler in scalers))
    groups = [
        replace(
            group,
            unscaled=reasons.get(group.name, group.unscaled),
            template=group.template.without(ignored),
        )
        for group in cloud.node_groups()
    ]
    return ordered(groups, scalers, config_maps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    template: NodeTemplate
    at: float


@dataclass(slots=True, kw_only=True)
class KeptTemplates:
    """The node templates that a Cluster Autoscaler caches for groups that have had a ready node,
    until they expire, even after the groups return to zero (its mixed_nodeinfos_processor.go).

    A cached template has the group's tags as of the time the node existed: at zero, labels, taints
    and resources that an update has changed since are ignored.
    """

    now: Callable[[], float] = time.monotonic
    _kept: dict[str, _Kept] = field(default_factory=dict)
    _ready: dict[str, float] = field(default_factory=dict)
    """Node -> since when it has been ready."""
    _scaler: str = ""
    """The UID of the pod that caches the templates, which are lost with it."""

    def applied(
        self,
        groups: Sequence[NodeGroup],
        nodes: Iterable[Mapping[str, Any]],
        pods: Iterable[Mapping[str, Any]],
    ) -> list[NodeGroup]:
        """The groups with the templates that the autoscaler uses. If a long-lived template is
        outdated, `outdated` describes what it lacks."""
        now, found = self.now(), [*_at_work(pods)]
        scaler, command = max(found, key=lambda entry: _made(entry[0])) if found else (None, [])
        if (uid := scaler["metadata"]["uid"] if scaler else "") != self._scaler:
            self._scaler, self._kept = uid, {}
        if scaler is None:
            return list(groups)
        flag = _flags(command).get("node-info-cache-expire-time", "")
        lasts = (seconds(flag) if flag else _EVER) / _FASTER
        self._kept = {name: seen for name, seen in self._kept.items() if seen.at + lasts > now}
        ready = [node for node in nodes if holds(node, "Ready")]
        names = [node["metadata"]["name"] for node in ready]
        self._ready = {name: self._ready.get(name, now) for name in names}
        result = []
        for group in groups:
            own = [node["metadata"]["name"] for node in ready if belongs(node, group)]
            if any(now - self._ready[name] >= _STABLE_SECONDS for name in own):
                self._kept[group.name] = _Kept(template=group.template, at=now)
            kept = self._kept.get(group.name)
            if own or kept is None or not (missed := _missed(kept.template, group.template)):
                result.append(group)
                continue
            words = (
                f"Cluster Autoscaler keeps the template of its last node for {flag or '87600h'} "
                f"(--node-info-cache-expire-time) and ignores the current tags: {missed}"
            )
            outdated = words if lasts * _FASTER > _HARMLESS else ""
            result.append(replace(group, template=kept.template, outdated=outdated))
        return result


def _missed(kept: NodeTemplate, template: NodeTemplate) -> str:
    """The differences between the first template and the second, which is newer."""
    before, after = (
        {
            **{f"label {key}": value for key, value in shape.labels.items()},
            **{f"taint {taint.key}": f"{taint.value}:{taint.effect}" for taint in shape.taints},
            **{f"resource {key}": value for key, value in shape.capacity.items()},
        }
        for shape in (kept, template)
    )
    return ", ".join(
        f"{what} is {after.get(what, 'gone')}, was {before.get(what, 'not there')}"
        for what in sorted(before.keys() | after.keys())
        if before.get(what) != after.get(what)
    )


def rules(pods: Iterable[Mapping[str, Any]]) -> Rules:
    """How nodes are scaled down: by the flags of a Cluster Autoscaler, otherwise as on GKE."""
    found = Rules()
    for _, words in _at_work(pods):
        given = _flags(words)
        found = Rules(
            threshold=float(given.get("scale-down-gpu-utilization-threshold", "0.5")),
            local_storage_stays=given.get("skip-nodes-with-local-storage", "true") == "true",
        )
    return found


def running(pods: Iterable[Mapping[str, Any]]) -> list[Scaler]:
    """One Scaler for each Cluster Autoscaler with a ready pod, that of the youngest pod if there
    are several; ordered by name."""
    found: dict[Scaler, float] = {}
    for pod, words in _at_work(pods):
        scaler = Scaler(
            namespace=pod["metadata"]["namespace"],
            service_account=pod["spec"].get("serviceAccountName", "default"),
            discovers=tuple(_discovers(words)),
            expanders=tuple(filter(None, _flags(words).get("expander", "").split(","))),
            startup_taints=frozenset(
                word.removeprefix(_STARTUP) for word in words if word.startswith(_STARTUP)
            ),
        )
        found[scaler] = max(_made(pod), found.get(scaler, 0.0))
    return sorted((replace(scaler, made=made) for scaler, made in found.items()), key=str)


def _made(pod: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()


def _at_work(pods: Iterable[Mapping[str, Any]]) -> Iterable[tuple[Mapping[str, Any], list[str]]]:
    """The ready pods of Cluster Autoscalers, each with its command line."""
    for pod in pods:
        if phase(pod) == "ready" and (words := _autoscaler(pod)) is not None:
            yield pod, words


def _flags(words: Iterable[str]) -> dict[str, str]:
    return dict(word.lstrip("-").partition("=")[::2] for word in words)


def _autoscaler(pod: Mapping[str, Any]) -> list[str] | None:
    """The command line of the pod's Cluster Autoscaler; None for any other pod."""
    for container in pod["spec"]["containers"]:
        words = [*(container.get("command") or []), *(container.get("args") or [])]
        image = container["image"].partition("@")[0].rpartition("/")[2].partition(":")[0]
        if image == _NAME or (words and words[0].rpartition("/")[2] == _NAME):
            return words
    return None


def _discovers(words: Iterable[str]) -> Iterable[tuple[str, ...]]:
    for word in words:
        if word.startswith(_DISCOVERY):
            yield tuple(word.removeprefix(_DISCOVERY).split(","))
