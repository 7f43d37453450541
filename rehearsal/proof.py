"""What must be so once the workloads run: nodes, GPUs in their turn, and what was promised."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rehearsal.cloud import Cloud, NodeGroup, NodeShape
from rehearsal.gpus import GPU, is_device_plugin, part, replicas
from rehearsal.joining import group_name
from rehearsal.matching import mismatches, shape_of
from rehearsal.observed import Observed
from rehearsal.pods import full_name, gpus_asked, gpus_offered, phase
from rehearsal.report import NodeLife, PodLife


def misplaced(groups: Sequence[NodeGroup], observed: Observed) -> list[str]:
    """GPU pods on nodes without those GPUs; installers and plugins on nodes without any."""
    by_name = {group.name: group for group in groups}
    nodes = {node["metadata"]["name"]: node for node in observed.nodes}
    wrong = []
    for pod in observed.pods:
        node = nodes.get(pod["spec"].get("nodeName") or "")
        if node is None or phase(pod) not in ("ready", "succeeded"):
            continue
        group = by_name.get(group_name(node, groups) or "")
        where = f"node {node['metadata']['name']}" + (f" of pool {group.name}" if group else "")
        asked = gpus_asked(pod["spec"])
        if asked and phase(pod) == "ready" and gpus_offered(node) < asked:
            wrong.append(
                f"{full_name(pod)} asks for {asked} {GPU} on {where}, which has "
                f"{gpus_offered(node)}"
            )
        if part(pod) and (group is None or GPU not in group.node.capacity):
            wrong.append(f"{full_name(pod)} runs on {where}, which has no GPU")
    return wrong


def too_early(
    groups: Sequence[NodeGroup], nodes: Iterable[NodeLife], pods: Iterable[PodLife]
) -> list[str]:
    """GPUs that a node offered before driver and device plugin were there, and pods that got one
    before it offered any."""
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
                    f"{start} offered GPUs at {node.gpus_at:.1f} s, but the {words} pod {when} "
                    "there"
                )
        found += [
            f"{start} was given {pod.workload} at {at:.1f} s, before it offered a GPU"
            for pod, at in given
            if pod.node == node.name and (node.gpus_at is None or at < node.gpus_at)
        ]
    return found


def for_nothing(nodes: Iterable[NodeLife]) -> list[str]:
    """Pools that the autoscaler made grow although no pod ever ran on the new nodes."""
    idle: dict[str, int] = {}
    for node in nodes:
        # One that has only just come may still get its pod.
        if node.added and not node.used and (node.gpus_at is not None or node.left is not None):
            idle[node.group] = idle.get(node.group, 0) + 1
    return [
        f"pool {group}: grew for nothing: {count} {'node' if count == 1 else 'nodes'} came up on "
        "which no pod ever ran"
        for group, count in idle.items()
    ]


def promises(cloud: Cloud, observed: Observed) -> list[dict[str, Any]]:
    """Each pool's promise against a node of it that came up, or else against what would, as the
    report has it."""
    groups, found = cloud.node_groups(), []
    came = {group_name(node, groups): node for node in observed.gpu_nodes}
    for group in groups:
        node = came.get(group.name)
        shape = _of_cloud(shape_of(node), group) if node else _shared(group, observed)
        promise = cloud.promise(group.name, shape)
        if promise is not None:
            name = node["metadata"]["name"] if node else None
            found.append({"pool": group.name, "node": name, **asdict(promise)})
    return found


def broken(promised: Iterable[Mapping[str, Any]]) -> list[str]:
    """The differences between promises and nodes, each with its pool."""
    return [f"pool {each['pool']}: {line}" for each in promised for line in each["differences"]]


def _of_cloud(shape: NodeShape, group: NodeGroup) -> NodeShape:
    """A node without the labels that the rehearsal's own kubelet and autoscaler give it."""
    known = {*group.node.labels, *group.template.labels}
    labels = {key: value for key, value in shape.labels.items() if key in known}
    return replace(shape, labels=labels)


def _shared(group: NodeGroup, observed: Observed) -> NodeShape:
    """A node of the group as its device plugin would share out its GPUs."""
    gpus, shape = int(group.node.capacity.get(GPU, 0)), group.node
    for daemon_set in observed.all("DaemonSet"):
        template = daemon_set["spec"]["template"]
        fits = is_device_plugin(template) and not mismatches(template["spec"], shape)
        if gpus and group.plugin == "pod" and fits:
            shares = gpus * replicas(template, observed.config_maps)
            return replace(shape, capacity={**shape.capacity, GPU: str(shares)})
    return shape
