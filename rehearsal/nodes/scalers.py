"""The Cluster Autoscalers that run in a cluster, and the groups that none of them scales."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from rehearsal.nodes.pods import phase
from rehearsal.nodes.scale_down import Rules
from simulators.cloud import Cloud, NodeGroup, Provisioner, Scaler

_NAME = "cluster-autoscaler"
_DISCOVERY = "--node-group-auto-discovery=asg:tag="


def scaled_groups(cloud: Cloud, pods: Iterable[Mapping[str, Any]]) -> list[NodeGroup]:
    """The cloud's groups; those that no autoscaler among the cluster's pods scales say why."""
    pods = list(pods)
    if isinstance(cloud, Provisioner):
        cloud.asked([pod["spec"].get("nodeSelector") or {} for pod in pods])
    reasons = cloud.not_scaled(running(pods))
    return [
        replace(group, unscaled=reasons[group.name]) if group.name in reasons else group
        for group in cloud.node_groups()
    ]


def rules(pods: Iterable[Mapping[str, Any]]) -> Rules:
    """How nodes are scaled down: as the flags of a Cluster Autoscaler that runs here say, else as
    GKE does it."""
    found = Rules()
    for pod in pods:
        if phase(pod) == "ready" and (words := _autoscaler(pod)) is not None:
            given = dict(word.lstrip("-").partition("=")[::2] for word in words)
            found = Rules(
                threshold=float(given.get("scale-down-gpu-utilization-threshold", "0.5")),
                local_storage_stays=given.get("skip-nodes-with-local-storage", "true") == "true",
            )
    return found


def running(pods: Iterable[Mapping[str, Any]]) -> list[Scaler]:
    """One for each Cluster Autoscaler of which a pod is ready, the youngest where several are; in
    the order of their names."""
    found: dict[Scaler, float] = {}
    for pod in pods:
        if phase(pod) == "ready" and (words := _autoscaler(pod)) is not None:
            scaler = Scaler(
                namespace=pod["metadata"]["namespace"],
                service_account=pod["spec"].get("serviceAccountName", "default"),
                discovers=tuple(_discovers(words)),
            )
            found[scaler] = max(_made(pod), found.get(scaler, 0.0))
    return sorted((replace(each, made=made) for each, made in found.items()), key=str)


def _made(pod: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()


def _autoscaler(pod: Mapping[str, Any]) -> list[str] | None:
    """The command line of the pod's Cluster Autoscaler, None for any other pod."""
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
