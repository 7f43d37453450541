"""Networks of pods besides the cluster's on GKE: the status of their objects, what nodes offer, and
whether pods that name them can start, as GKE's controllers, webhook and network plugin decide.

Sources are those of simulators/google/container/pod_networks.py; of the devices and the daemon of
GPUDirect-TCPXO, container-engine-accelerators 992db812 (nri_device_injector, gpudirect-tcpxo).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from gpu_cluster.components.kube import gpu_daemons
from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.pods import full_name
from gpu_cluster.rehearsal.simulators.cloud import Networking, PodNetwork

_PATH = "/apis/networking.gke.io/v1"
NETWORKS = "networking.gke.io.networks/"
_FINALIZER = "networking.gke.io/gnp-controller"
INTERFACES, DEFAULT = "networking.gke.io/interfaces", "networking.gke.io/default-interface"
DEVICES = "devices.gke.io/container."
_PLUGIN, _DRIVER = "/home/kubernetes/bin/tcpxo", "/home/kubernetes/bin/nvidia"
"""Directories with NCCL's plugin: of a stack, and of Google's installer."""
_RELEASES = {"v1.0.15": "v1.0.21", "v1.0.14": "v1.0.20"}
"""NCCL's plugin -> the daemon of its release (gpudirect-tcpxo/README.md there)."""
Object = Mapping[str, Any]


class PodNetworks:
    """The networks of one cluster."""

    def __init__(self, api: Callable[[], Api], cloud: object) -> None:
        self._api, self._cloud = api, cloud
        self._networks: Mapping[str, PodNetwork] = {}
        """Network -> what GKE makes of its parameters."""
        self._names: frozenset[str] = frozenset()

    def turn(self, networks: Sequence[Object], params: Sequence[Object]) -> None:
        """Sets the status of the networks' objects, as GKE does."""
        if not isinstance(self._cloud, Networking) or not (networks or params or self._names):
            return
        judged = self._cloud.networks(networks, params)
        self._names = frozenset(network["metadata"]["name"] for network in networks)
        self._networks = {item.network: item for item in judged.values() if item.network}
        for param in params:
            self._set_parameters(param, judged[param["metadata"]["name"]])
        for network in networks:
            item = self._networks.get(network["metadata"]["name"])
            ready = item is not None and not item.mismatch and not item.refusal
            conditions = [_condition("ParamsReady", "" if ready else "GNPParamsNotReady"),
                          _condition("Ready", "" if ready else "ParamsNotReady")]  # fmt: skip
            self._patch("networks", network, {"conditions": conditions})

    def _set_parameters(self, param: Object, judged: PodNetwork) -> None:
        metadata, path = param["metadata"], f"{_PATH}/gkenetworkparamsets"
        guarded = _FINALIZER in (metadata.get("finalizers") or ())
        if metadata.get("deletionTimestamp"):
            if guarded and judged.network not in self._names:
                self._api().patch(f"{path}/{metadata['name']}", {"metadata": {"finalizers": None}})
            return
        if not guarded:
            change = {"metadata": {"finalizers": [_FINALIZER]}}
            self._api().patch(f"{path}/{metadata['name']}", change)
        status = {"conditions": [_condition("Ready", judged.refusal)],
                  "networkName": judged.network if judged.ready else ""}  # fmt: skip
        self._patch("gkenetworkparamsets", param, status)

    def _patch(self, kind: str, item: Object, status: Object) -> None:
        if item.get("status") != status:
            path = f"{_PATH}/{kind}/{item['metadata']['name']}/status"
            self._api().patch(path, {"status": dict(status)})

    def wrong(self, node: Object, pods: Sequence[Object]) -> Iterator[str]:
        """Why pods on the node, `pods`, never start, or never reach each other."""
        offered = node["status"].get("allocatable") or {}
        taken: dict[str, str] = {}
        ended = ("Succeeded", "Failed")  # such a pod has given its interfaces back
        pods = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ended]
        for pod in pods:
            annotations = pod["metadata"].get("annotations") or {}
            if INTERFACES in annotations:
                for line in self._wrong_interfaces(annotations, offered, taken, full_name(pod)):
                    yield f"{full_name(pod)} {line}"
            for line in (*_wrong_devices(pod, annotations, pods), *_wrong_daemon(pod, pods)):
                yield f"{full_name(pod)} {line}"

    def _wrong_interfaces(
        self, annotations: Mapping[str, str], offered: Object, taken: dict[str, str], pod: str
    ) -> Iterator[str]:
        try:
            rows = {row["interfaceName"]: row["network"]
                    for row in json.loads(annotations[INTERFACES])}  # fmt: skip
        except (ValueError, TypeError, KeyError):
            yield f"has an annotation {INTERFACES} that GKE cannot read"
            return
        if annotations.get(DEFAULT) not in rows:
            yield f"names no interface of its own in {DEFAULT}"
        for interface, network in rows.items():
            if network == "default":
                continue
            known = self._networks.get(network)
            if network not in self._names:
                yield f"names network {network}, of which the cluster has no Network: never starts"
            elif known is None or not known.ready:
                why = (known and (known.refusal or known.mismatch)) or "it has no parameters"
                yield f"names network {network}, which is not ready: {why}"
            elif f"{NETWORKS}{network}" not in offered:
                yield f"names network {network}, in which its node has no interface: never starts"
            elif taken.setdefault(network, pod) != pod:
                yield f"names network {network}, whose interface {taken[network]} has: never starts"
            elif known.fault:
                yield f"never reaches others through {interface}: {known.fault}"


def _condition(kind: str, refusal: str) -> dict[str, str]:
    reason, _, message = refusal.partition(": ")
    return {
        "type": kind,
        "status": "False" if refusal else "True",
        "reason": reason or "GNPReady",
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def _wrong_devices(
    pod: Object, annotations: Mapping[str, str], others: Sequence[Object]
) -> Iterator[str]:
    """The injector gives containers what the annotation of their name lists."""
    for key in annotations:
        if not key.startswith(DEVICES):
            continue
        name = key.removeprefix(DEVICES)
        if name not in {container["name"] for container in _containers(pod)}:
            yield f"names devices for container {name}, which it does not have"
        elif not (injectors := [full_name(other) for other in others if _injects(other)]):
            yield f"names devices for container {name}, and nothing on its node gives it any"
        elif len(injectors) > 1:
            # containerd/nri, pkg/adaptation/result.go: "both tried to set"
            yield f"never starts: {' and '.join(injectors)} both give {name} its devices"


def _wrong_daemon(pod: Object, others: Sequence[Object]) -> Iterator[str]:
    """NCCL's plugin for TCPXO needs the daemon of its release in the pod, with all devices."""
    paths = gpu_daemons.host_paths(pod["spec"])
    daemons = [c for c in _containers(pod) if "/tcpgpudmarxd-dev:" in str(c.get("image"))]
    if pod["spec"].get("hostNetwork") or not (daemons or _PLUGIN in paths):
        return
    annotations = pod["metadata"].get("annotations") or {}
    tags = {tag for other in others for where, tag in installed_tcpxo(other) if where in paths}
    if not tags:
        yield (
            "mounts NCCL's plugin for TCPXO, and nothing has copied it to its node: it never starts"
        )
    if not daemons:
        yield "mounts NCCL's plugin for TCPXO, and has no daemon (tcpgpudmarxd-dev) beside it"
    for daemon in daemons:
        tag = str(daemon["image"]).rpartition(":")[2]
        if tags and tag not in {_RELEASES.get(plugin, tag) for plugin in tags}:
            yield f"has the daemon {tag}, which is not of the plugin's release {', '.join(tags)}"
        if daemon in pod["spec"]["containers"]:
            yield f"never ends: {daemon['name']} is among containers, not initContainers"
        elif daemon.get("restartPolicy") != "Always":
            yield f"never starts: init container {daemon['name']} does not end"
        devices = _paths(annotations.get(f"{DEVICES}{daemon['name']}", ""))
        wanted = {f"/dev/nvidia{number}" for number in range(8)}
        wanted |= {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dmabuf_import_helper"}
        if missing := sorted(wanted - devices):
            yield f"gives {daemon['name']} no {', '.join(missing)}: it never becomes healthy"
        added = (daemon.get("securityContext") or {}).get("capabilities", {}).get("add") or ()
        if not {"NET_ADMIN", "NET_BIND_SERVICE"} <= set(added):
            yield f"gives {daemon['name']} not the capabilities NET_ADMIN and NET_BIND_SERVICE"


def _paths(annotation: str) -> set[str]:
    try:
        return {row["path"] for row in yaml.safe_load(annotation) or ()}
    except (yaml.YAMLError, TypeError, KeyError):
        return set()


def _containers(pod: Object) -> list[Any]:
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def _injects(pod: Object) -> bool:
    """Whether the pod is Google's injector, which containerd calls through a socket of the host."""
    images = [str(container.get("image")) for container in _containers(pod)]
    paths = gpu_daemons.host_paths(pod["spec"])
    return {"/dev", "/var/run/nri"} <= paths and any("/nri-device-injector" in i for i in images)


def installed_tcpxo(pod: Object) -> Iterator[tuple[str, str]]:
    """Directory -> the version of NCCL's plugin for TCPXO that the pod copies there on its node, if
    it also prepares the devices for the interfaces' memory, as Google's installer does."""
    paths = gpu_daemons.host_paths(pod["spec"])
    containers = pod["spec"].get("initContainers") or ()
    words = " ".join(
        word for c in containers for word in (*(c.get("command") or ()), *(c.get("args") or ()))
    )
    if not pod["spec"].get("hostPID") or not (
        "import-helper" in words and "/dev/aperture_devices" in words
    ):
        return
    for container in containers:
        if "/nccl-plugin-gpudirecttcpx-dev:" in str(container.get("image")):
            tag = str(container["image"]).rpartition(":")[2]
            if _PLUGIN in paths:
                yield _PLUGIN, tag
            if "/home/kubernetes/bin" in paths and "/usr/local/nvidia/lib64" in words:
                yield _DRIVER, tag
