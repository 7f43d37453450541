"""Checks once the workloads run: nodes, the order in which GPUs appear, node templates."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from gpu_cluster.components.kube import quantity
from gpu_cluster.components.kube.requests import requests
from gpu_cluster.rehearsal.control_plane.cluster_cache import ClusterCache
from gpu_cluster.rehearsal.control_plane.pods import (
    GPU,
    allocatable_gpus,
    full_name,
    gpus_asked,
    part,
    phase,
    workload,
)
from gpu_cluster.rehearsal.nodes.gpu_sharing import template_sharing
from gpu_cluster.rehearsal.nodes.matching import mismatches, offered, shape_of
from gpu_cluster.rehearsal.nodes.node_registration import group_name
from gpu_cluster.rehearsal.report.report import NodeLife, PodLife
from gpu_cluster.rehearsal.simulators.cloud import (
    SAFE_TO_EVICT,
    Cloud,
    Enforcing,
    NodeGroup,
    NodeTemplate,
    Scaled,
)
from gpu_cluster.rehearsal.verify.diagnosis import ClusterSnapshot

SETTLE_SECONDS = 2.0
"""How long a state must last before it counts as final, on a machine that is fast enough."""
_SPOT = "/gke-spot"
"""The end of the taint key of Spot nodes, which only pods intended for them tolerate by name."""


def settle_seconds() -> float:
    """How long a state must last on this machine: a scheduler, autoscaler or controller that shares
    a core with two or more others reacts correspondingly later."""
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
    return SETTLE_SECONDS * min(max(waiting / 2, 1.0), 5.0)


def misplaced(groups: Sequence[NodeGroup], cluster_cache: ClusterCache) -> list[str]:
    """GPU pods on nodes without those GPUs, and installers and plugins on nodes without GPUs."""
    by_name = {group.name: group for group in groups}
    present, ever = (
        {node["metadata"]["name"]: node for node in nodes}
        for nodes in (cluster_cache.nodes, cluster_cache.gpu_nodes)
    )
    wrong: list[str] = []
    for pod in cluster_cache.pods:
        name, state = pod["spec"].get("nodeName") or "", phase(pod)
        # The node of a finished pod may have left by now; any other pod leaves with its node.
        node = present.get(name) or (ever.get(name) if state == "succeeded" else None)
        if node is None or state not in ("ready", "succeeded"):
            continue
        group = by_name.get(group_name(node, groups) or "")
        where = f"node {node['metadata']['name']}" + (f" of pool {group.name}" if group else "")
        asked, kind = gpus_asked(pod["spec"]), workload(pod).partition(" ")[0]
        if kind != "DaemonSet" and group is not None:
            wrong += _mistaken(pod, asked, where, group)
        if asked and state == "ready" and allocatable_gpus(node) < asked:
            wrong.append(
                f"{full_name(pod)} requests {asked} {GPU} on {where}, which has "
                f"{allocatable_gpus(node)}"
            )
        if part(pod) and (group is None or GPU not in group.node.capacity):
            wrong.append(f"{full_name(pod)} runs on {where}, which has no GPU")
    return wrong


def _mistaken(pod: Mapping[str, Any], asked: int, where: str, group: NodeGroup) -> Iterator[str]:
    """A pod on a node that its spec does not request."""
    if group.autopilot and GPU in group.node.capacity and not asked:
        yield (
            f"{full_name(pod)} runs on {where}, but requests no {GPU}: GKE Autopilot refuses a "
            "pod that selects an accelerator without a limit"
        )
    for resource, most in group.admitted.get(asked, {}).items():
        if requests(pod["spec"]).get(resource, 0) > quantity.parse(most):
            yield (
                f"{full_name(pod)} runs on {where}, but GKE Autopilot refuses it: total {resource} "
                f"requested by containers is higher than the Autopilot maximum of {most}"
            )
    stays = (pod["metadata"].get("annotations") or {}).get(SAFE_TO_EVICT) == "false"
    if stays and group.protection is None:
        yield (
            f"{full_name(pod)} requests to keep its node on {where} ({SAFE_TO_EVICT}): GKE "
            "Autopilot does not grant that to Spot pods"
        )
    for toleration in pod["spec"].get("tolerations") or []:
        if str(toleration.get("key")).endswith(_SPOT) and asked and not group.spot:
            yield (
                f"{full_name(pod)} tolerates {toleration['key']} and runs on {where}, which is not "
                f"a Spot node: it does not select {toleration['key']}"
            )


def unenforced(
    cloud: object, policies: Iterable[Mapping[str, Any]], cluster_cache: ClusterCache
) -> list[str]:
    """One line if the cluster has NetworkPolicies that nothing enforces."""
    names = sorted(full_name(policy) for policy in policies)
    if not names or not isinstance(cloud, Enforcing):
        return []
    why = cloud.why_unenforced(cluster_cache.config_maps, cluster_cache.all("NodeClass"))
    return [f"{why}; {', '.join(names)} have no effect"] if why else []


def without_gpus(snapshot: ClusterSnapshot) -> list[str]:
    """GPU nodes without allocatable GPUs, although a plugin or an installer should provide them."""
    found = []
    for group in snapshot.groups:
        for node in snapshot.of(group):
            if GPU not in group.node.capacity or allocatable_gpus(node):
                continue
            name = node["metadata"]["name"]
            start = f"pool {group.name}: node {name} has none of its GPUs allocatable: "
            if fault := snapshot.sharing.get(name, group.sharing).fault:
                found.append(start + fault)
            missed = [
                f"{start}DaemonSet {full_name(daemon_set)} selects it, but {'; '.join(lines)}"
                for daemon_set in snapshot.daemon_sets
                if part(template := daemon_set["spec"]["template"])
                and (lines := mismatches(template["spec"], shape_of(node)))
                and not mismatches(
                    {**template["spec"], "tolerations": [{"operator": "Exists"}]}, shape_of(node)
                )
            ]
            found += missed
    return found


def too_early(
    groups: Sequence[NodeGroup], nodes: Iterable[NodeLife], pods: Iterable[PodLife]
) -> list[str]:
    """GPUs that a node offered before driver and device plugin were present, and pods that got one
    before the node offered any."""
    by_name, found = {group.name: group for group in groups}, []
    given = [(pod, pod.bound) for pod in pods if pod.gpus and pod.bound is not None]
    for node in nodes:
        group = by_name.get(node.group)
        if group is None or not node.gpus:
            continue
        start = f"pool {node.group}: node {node.name}"
        for what, doer, words in (
            ("driver", group.driver, "driver installer's"),
            ("plugin", group.plugin, "device plugin's"),
        ):
            ready = node.parts.get(what)
            early = node.gpus_at is not None and (ready is None or node.gpus_at < ready)
            if doer == "pod" and early:
                when = "never ran" if ready is None else f"ran only from {ready:.1f} s"
                found.append(
                    f"{start} had allocatable GPUs at {node.gpus_at:.1f} s, but the {words} pod "
                    f"{when} "
                    "there"
                )
        if group.real:  # its kubelet refuses such a pod itself, and its GPUs are seen only later
            continue
        found += [
            f"{start} was given {pod.workload} at {at:.1f} s, before a GPU of it was allocatable"
            for pod, at in given
            if pod.node == node.name and (node.gpus_at is None or at < node.gpus_at)
        ]
    return found


def unnecessary_scale_ups(
    nodes: Iterable[NodeLife], now: float, settle: float = SETTLE_SECONDS
) -> list[str]:
    """Pools that the autoscaler scaled up although no pod ever ran on the new nodes."""
    idle: dict[str, int] = {}
    for node in nodes:
        if not node.added or node.used or node.granted is None:
            continue
        # A node that has just joined may still get its pod.
        if node.left is not None or now - node.joined > settle:
            idle[node.group] = idle.get(node.group, 0) + 1
    return [
        f"pool {group}: unnecessary scale-up: {count} {'node' if count == 1 else 'nodes'} started "
        "on which no pod ever ran"
        for group, count in idle.items()
    ]


def came_again(nodes: Iterable[NodeLife]) -> list[str]:
    """Pools whose nodes left and joined again for no reason: of the nodes that the cloud itself
    keeps, only those that are recycled, or whose pool or cluster is deleted, should be replaced."""
    by_group: dict[str, list[NodeLife]] = {}
    for node in nodes:
        if node.group and not node.added:
            by_group.setdefault(node.group, []).append(node)
    found = []
    for group, own in by_group.items():
        count = _successors(own)
        if count:
            found.append(
                f"pool {group}: {count} {'node' if count == 1 else 'nodes'} left and rejoined "
                "although the cloud kept them and none had been recycled, removed or replaced"
            )
    return found


def _successors(own: Iterable[NodeLife]) -> int:
    """The number of a pool's nodes that left for no reason and were replaced: another node joined
    when they left, or after; or a moment before. A node replaces only one other, and first one that
    had a reason to leave; a node that is scaled in is not replaced."""
    joined, count = sorted(own, key=lambda node: node.joined), 0
    gone = [node for node in joined if node.left is not None and node.reason != "scaled in"]
    for node in sorted(gone, key=lambda node: (not node.reason, node.left)):
        assert node.left is not None
        since = node.left - SETTLE_SECONDS
        successor = next((row for row in joined if row is not node and row.joined > since), None)
        if successor is not None:
            joined.remove(successor)
            count += not node.reason
    return count


def template_checks(
    cloud: Cloud, cluster_cache: ClusterCache, came: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Compares each pool's node template with a GPU node in `came`, or else a future node."""
    if not isinstance(cloud, Scaled):
        return []
    groups, found = cloud.node_groups(), []
    by_group = {group_name(node, groups): node for node in came}
    for group in groups:
        node = by_group.get(group.name)
        shape = _of_cloud(offered(node), group) if node else would_join(group, cluster_cache)
        comparison = cloud.compare_template(group.name, shape)
        if comparison is not None:
            name = node["metadata"]["name"] if node else None
            found.append({"pool": group.name, "node": name, **asdict(comparison)})
    return found


def broken(checks: Iterable[Mapping[str, Any]]) -> list[str]:
    """The differences between templates and nodes, each with its pool."""
    return [f"pool {check['pool']}: {line}" for check in checks for line in check["differences"]]


def _of_cloud(shape: NodeTemplate, group: NodeGroup) -> NodeTemplate:
    """A node without the labels of the rehearsal's own kubelet and autoscaler."""
    known = {*group.node.labels, *group.template.labels}
    labels = {key: value for key, value in shape.labels.items() if key in known}
    return replace(shape, labels=labels)


def would_join(group: NodeGroup, cluster_cache: ClusterCache) -> NodeTemplate:
    """A future node of the group, with its GPUs shared by its device plugin."""
    gpus, shape = int(group.node.capacity.get(GPU, 0)), group.node
    config_maps = cluster_cache.config_maps
    for daemon_set in cluster_cache.all("DaemonSet"):
        sharing = template_sharing(
            group, daemon_set, lambda namespace, name: config_maps.get(f"{namespace}/{name}")
        )
        if gpus and sharing and not mismatches(daemon_set["spec"]["template"]["spec"], shape):
            return replace(shape, capacity={**shape.capacity, GPU: str(gpus * sharing.replicas)})
    return shape
