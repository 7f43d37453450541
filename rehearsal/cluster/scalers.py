"""The Cluster Autoscalers that run in a cluster, and the groups that none of them scales."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rehearsal.cloud import Cloud, NodeGroup, Provisioner, Scaler
from rehearsal.cluster.pods import phase

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


def running(pods: Iterable[Mapping[str, Any]]) -> list[Scaler]:
    """One for each pod that is ready and runs Cluster Autoscaler, in the order of their names."""
    found = {
        Scaler(
            namespace=pod["metadata"]["namespace"],
            service_account=pod["spec"].get("serviceAccountName", "default"),
            discovers=tuple(_discovers(words)),
        )
        for pod in pods
        if phase(pod) == "ready" and (words := _autoscaler(pod)) is not None
    }
    return sorted(found, key=str)


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
