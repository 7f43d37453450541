"""How a device plugin's pod shares a node's GPUs, read from the pod and its mounted files.

It follows how NVIDIA/k8s-device-plugin reads its config (api/config/v1), in the version of
`images.DEVICE_PLUGIN`: if that program would not start, or would offer another resource,
`GpuSharing.fault` has the reason.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import yaml

from gpu_cluster.components.kube.gpu_daemons import PLUGIN_SOCKETS
from gpu_cluster.rehearsal.control_plane.pods import (
    GPU,
    is_device_plugin,
    is_ready,
    phase,
    workload,
)
from gpu_cluster.rehearsal.simulators.cloud import MOST_MPS_CLIENTS, RENAMED, GpuSharing, NodeGroup

Object = Mapping[str, Any]
FindConfigMap = Callable[[str, str], Object | None]
"""(namespace, name) -> the ConfigMap, or None."""

MPS_DAEMON = "mps-control-daemon"
_BLOCKS = {"timeSlicing": "time-slicing", "mps": "mps"}


class Reader:
    """The config that each device plugin's pod read when it started, whatever changed later."""

    def __init__(self, find: FindConfigMap) -> None:
        self._find = find
        self._read: dict[str, GpuSharing] = {}

    def of(self, plugin: Object, on_node: Sequence[Object]) -> GpuSharing:
        """How the plugin in this pod shares GPUs; `on_node`: all pods of its node."""
        identity = plugin["metadata"]["uid"]
        sharing = self._read.get(identity)
        if sharing is None:
            sharing = sharing_of(plugin, self._find)
            if not sharing.fault:
                self._read[identity] = sharing
        if sharing.strategy == "mps" and not any(map(_is_mps_daemon, on_node)):
            return GpuSharing(
                strategy="mps",
                fault=f"{workload(plugin)} waits for an MPS control daemon, but none is ready on "
                "the node",
            )
        return sharing


def sharing_of(plugin: Object, find: FindConfigMap, *, namespace: str | None = None) -> GpuSharing:
    """How the plugin in this pod shares a node's GPUs; for a pod template, pass the namespace."""
    namespace = namespace or plugin["metadata"]["namespace"]
    who = workload(plugin) if plugin["metadata"].get("name") else "the device plugin"
    config_maps = {
        volume["name"]: (volume["configMap"]["name"], bool(volume["configMap"].get("optional")))
        for volume in plugin["spec"].get("volumes") or []
        if volume.get("configMap")
    }
    for name, optional in config_maps.values():
        if not optional and find(namespace, name) is None:
            # The kubelet does not start a pod before all its volumes exist.
            return GpuSharing(
                fault=f"{who} mounts ConfigMap {namespace}/{name}, which does not exist"
            )
    container = _plugin_container(plugin)
    path = _config_file(container)
    if path is None:
        return GpuSharing()
    place = _place(container, path)
    if place is None or place[0] not in config_maps:
        return GpuSharing(fault=f"{who} reads {path}, where no ConfigMap is mounted")
    name = config_maps[place[0]][0]
    data = (find(namespace, name) or {}).get("data") or {}
    if place[1] not in data:
        has = ", ".join(sorted(data)) or "nothing"
        return GpuSharing(
            fault=f"{who} reads {place[1]} of ConfigMap {namespace}/{name}, which has {has}"
        )
    try:
        sharing = parse_config(data[place[1]])
    except ValueError as error:
        return GpuSharing(fault=f"{who} does not start with ConfigMap {namespace}/{name}: {error}")
    return replace(sharing, fault=f"{who} {sharing.fault}") if sharing.fault else sharing


def parse_config(text: str) -> GpuSharing:
    """Parses the plugin's config file. Raises ValueError with the plugin's reason to refuse it."""
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError("it is not YAML") from None
    if not isinstance(config, dict) or config.get("version") != "v1":
        raise ValueError("its version is not v1")
    found = GpuSharing()
    # If both are set, MPS wins.
    for block, strategy in _BLOCKS.items():
        if (given := (config.get("sharing") or {}).get(block)) is not None:
            found = _shared(block, strategy, given)
    return found


def _shared(block: str, strategy: str, given: Mapping[str, Any]) -> GpuSharing:
    resources = given.get("resources")
    if not resources:
        raise ValueError(f"sharing.{block} names no resources")
    for resource in resources:
        replicas = int(resource.get("replicas", 0))
        if replicas < 2:
            raise ValueError(f"sharing.{block} has {replicas} replicas, but needs at least 2")
        if strategy == "mps" and replicas > MOST_MPS_CLIENTS:
            raise ValueError(f"sharing.mps has {replicas} replicas, at most {MOST_MPS_CLIENTS}")
        if resource["name"] != GPU:
            continue
        mps = strategy == "mps"
        return GpuSharing(
            strategy="mps" if mps else "time-slicing",
            replicas=replicas,
            # Off by default with time-slicing, on with MPS.
            most=1 if given.get("failRequestsGreaterThanOne", mps) else None,
            fault=RENAMED if given.get("renameByDefault") else "",
        )
    return GpuSharing()


def refused(node: str, group: NodeGroup, sharing: GpuSharing, pods: Iterable[Object]) -> list[str]:
    """The pods on the node that its device plugin, or the shared GPU itself, would not serve."""
    found = []
    for pod in pods:
        containers = pod["spec"]["containers"]
        asked = max(
            int(((container.get("resources") or {}).get("limits") or {}).get(GPU, 0))
            for container in containers
        )
        if not asked or phase(pod) == "deleting" or sharing.replicas < 2:
            continue
        start = f"pool {group.name}: {workload(pod)}"
        if sharing.most is not None and asked > sharing.most:
            found.append(
                f"{start} requests {asked} {GPU} in one container, but the device plugin of node "
                f"{node}, where {sharing.replicas} pods share a GPU, allows at most "
                f"{sharing.most}: the kubelet fails the pod with UnexpectedAdmissionError"
            )
        if sharing.host_ipc and not pod["spec"].get("hostIPC"):
            found.append(
                f"{start} has no hostIPC: true, without which it cannot reach the MPS daemon of "
                f"node {node}"
            )
    return found


def template_sharing(
    group: NodeGroup, daemon_set: Object, find: FindConfigMap
) -> GpuSharing | None:
    """How the DaemonSet's pods would share the GPUs of the group's nodes; None if it is not a
    device plugin, or the cloud runs its own."""
    template = daemon_set["spec"]["template"]
    if group.plugin != "pod" or not is_device_plugin(template):
        return None
    return sharing_of(template, find, namespace=daemon_set["metadata"]["namespace"])


def _plugin_container(pod: Object) -> Object:
    """The container that mounts the kubelet's device plugin directory; otherwise the first."""
    volumes = {
        volume["name"]
        for volume in pod["spec"].get("volumes") or []
        if (volume.get("hostPath") or {}).get("path", "").rstrip("/") == PLUGIN_SOCKETS
    }
    containers: list[Object] = pod["spec"]["containers"]
    for container in containers:
        if volumes & {mount["name"] for mount in container.get("volumeMounts") or []}:
            return container
    return containers[0]


def _config_file(container: Object) -> str | None:
    for variable in container.get("env") or []:
        if variable["name"] == "CONFIG_FILE" and variable.get("value"):
            return str(variable["value"])
    for word in [*(container.get("command") or []), *(container.get("args") or [])]:
        if word.startswith("--config-file="):
            return str(word.partition("=")[2])
    return None


def _place(container: Object, path: str) -> tuple[str, str] | None:
    """The volume of a path in the container, and the file's name on it."""
    best: tuple[int, str, str] | None = None
    for mount in container.get("volumeMounts") or []:
        at = PurePosixPath(mount["mountPath"])
        if not PurePosixPath(path).is_relative_to(at):
            continue
        name = mount.get("subPath") or str(PurePosixPath(path).relative_to(at))
        if best is None or len(at.parts) > best[0]:
            best = (len(at.parts), mount["name"], name)
    return best and best[1:]


def _is_mps_daemon(pod: Object) -> bool:
    return is_ready(pod) and any(
        MPS_DAEMON in (container.get("command") or []) for container in pod["spec"]["containers"]
    )
