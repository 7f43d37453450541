"""Networks of pods besides the cluster's on GKE: the status of their objects, what nodes offer, and
whether pods that name them can start, as GKE's controllers, webhook and network plugin decide.

Sources are those of simulators/google/container/pod_networks.py; of the devices and the daemon of
GPUDirect over TCP, container-engine-accelerators 992db812 (nri_device_injector, gpudirect-tcpxo,
gpudirect-tcpx).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
_DRIVER = "/home/kubernetes/bin/nvidia"
"""The directory to which Google's installers copy NCCL's plugin."""
_DAEMON_MOUNTS = {
    "/usr/local/nvidia": _DRIVER, "/hostsysfs": "/sys", "/hostprocsysfs": "/proc/sys",
}  # fmt: skip
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A GPUDirect over TCP: nccl-test-latest.yaml and README.md of its folder there."""

    name: str
    gpus: str
    """Its machines' GPUs, by which Google's DaemonSets select them."""
    plugin: str
    """The directory to which a stack's installer copies NCCL's plugin."""
    lines: tuple[str, ...]
    """How its versions begin: the images of both kinds have the same names."""
    releases: Mapping[str, str]
    """NCCL's plugin -> the daemon of its release."""
    capabilities: Sequence[str]
    devices: Sequence[str] = ()
    prepares: Sequence[str] = ()
    """What its installer runs on the node."""


_KINDS = (
    _Kind(
        name="TCPXO", gpus="nvidia-h100-mega-80gb", plugin="/home/kubernetes/bin/tcpxo",
        lines=("v1.",),
        releases={"v1.0.15": "v1.0.21", "v1.0.14": "v1.0.20"},
        capabilities=("NET_ADMIN", "NET_BIND_SERVICE"), devices=("/dev/dmabuf_import_helper",),
        prepares=("import-helper", "/dev/aperture_devices"),
    ),
    # README.md: 98c85a6e.
    _Kind(
        name="TCPX", gpus="nvidia-h100-80gb", plugin="/home/kubernetes/bin/tcpx",
        lines=("v2.", "v3."), releases={"v3.1.12": "v2.0.15", "v3.1.9": "v2.0.12"},
        capabilities=("NET_ADMIN",),
    ),
)  # fmt: skip


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
            for line in (*_wrong_devices(pod, annotations, pods), *_wrong_daemon(node, pod, pods)):
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


def _wrong_daemon(node: Object, pod: Object, others: Sequence[Object]) -> Iterator[str]:
    """NCCL's plugin for GPUDirect over TCP needs the daemon of its release in the pod, with all
    devices, and what workers share with it."""
    paths = gpu_daemons.host_paths(pod["spec"])
    found = [(c, _tag(c)) for c in _containers(pod) if "/tcpgpudmarxd-dev:" in str(c.get("image"))]
    if pod["spec"].get("hostNetwork"):
        return
    for kind in _KINDS:
        daemons = [(daemon, tag) for daemon, tag in found if tag.startswith(kind.lines)]
        if daemons or kind.plugin in paths:
            yield from _wrong_kind(kind, node, pod, daemons, others)


def _wrong_kind(
    kind: _Kind, node: Object, pod: Object, daemons: Sequence[tuple[Any, str]],
    others: Sequence[Object],
) -> Iterator[str]:  # fmt: skip
    annotations = pod["metadata"].get("annotations") or {}
    sidecars = [daemon for daemon, _ in daemons]
    workers = [container for container in _containers(pod) if container not in sidecars]
    mounted = {path.removesuffix("/lib64") for worker in workers
               for path in _mounted(pod, worker).values()}  # fmt: skip
    tags = {
        tag
        for other in others
        for where, tag in installed_plugins(other, kind)
        if where in mounted and tag.startswith(kind.lines)
    }
    gpus = node["metadata"]["labels"].get("cloud.google.com/gke-accelerator")
    if gpus != kind.gpus:
        yield f"needs {kind.name}, which machines with {kind.gpus} have, and its node has {gpus}"
    if not tags:
        yield (
            f"mounts NCCL's plugin for {kind.name}, and nothing has copied it to its node: it "
            "never starts"
        )
    if not daemons:
        yield (
            f"mounts NCCL's plugin for {kind.name}, and has no daemon (tcpgpudmarxd-dev) beside it"
        )
    for daemon, tag in daemons:
        name = daemon["name"]
        if tags and tag not in {kind.releases.get(plugin, tag) for plugin in tags}:
            yield f"has the daemon {tag}, which is not of the plugin's release {', '.join(tags)}"
        if daemon in pod["spec"]["containers"]:
            yield f"never ends: {name} is among containers, not initContainers"
        elif daemon.get("restartPolicy") != "Always":
            yield f"never starts: init container {name} does not end"
        devices = _paths(annotations.get(f"{DEVICES}{name}", ""))
        wanted = {f"/dev/nvidia{number}" for number in range(8)}
        wanted |= {"/dev/nvidiactl", "/dev/nvidia-uvm", *kind.devices}
        if missing := sorted(wanted - devices):
            yield f"gives {name} no {', '.join(missing)}: it never becomes healthy"
        added = (daemon.get("securityContext") or {}).get("capabilities", {}).get("add") or ()
        if not set(kind.capabilities) <= set(added):
            yield f"gives {name} not the capabilities {' and '.join(kind.capabilities)}"
        own = _mounted(pod, daemon)
        if "/usr/local/nvidia/lib64" in own:
            own["/usr/local/nvidia"] = own["/usr/local/nvidia/lib64"].removesuffix("/lib64")
        for inside, host in _DAEMON_MOUNTS.items():
            if own.get(inside) != host:
                yield f"gives {name} no {host} at {inside}: it never becomes healthy"
        if "/usr/local/nvidia/lib64" not in _variable(daemon, "LD_LIBRARY_PATH"):
            yield f"gives {name} no /usr/local/nvidia/lib64 in LD_LIBRARY_PATH: it does not start"
        yield from _wrong_workers(kind, pod, daemon)


def _wrong_workers(kind: _Kind, pod: Object, daemon: Any) -> Iterator[str]:
    """What containers with GPUs lack to use the daemon."""
    annotations = pod["metadata"].get("annotations") or {}
    words = " ".join((*(daemon.get("command") or ()), *(daemon.get("args") or ())))
    sockets = words.partition("--uds_path ")[2].partition(" ")[0]
    shared = _mounted(pod, daemon).get(sockets)
    probe = ((daemon.get("startupProbe") or {}).get("exec") or {}).get("command") or ()
    # The last ones (google/tcpgpudmarxd a6e09b3f, src/rx_rule_manager.cc).
    waited = any(f"{sockets}/{last}" in word for word in probe
                 for last in ("rx_rule_uninstall", "queue_ids_by_gpu"))  # fmt: skip
    for worker in pod["spec"]["containers"]:
        mounted = _mounted(pod, worker)
        if worker is daemon or "nvidia.com/gpu" not in _limits(worker):
            continue
        if kind.name == "TCPXO":
            if mounted.get("/dev/aperture_devices") != "/dev/aperture_devices":
                yield f"gives {worker['name']} no /dev/aperture_devices: NCCL uses TCP"
            continue
        if not waited:
            yield (
                f"starts {worker['name']} before {daemon['name']} has all its sockets, and NCCL "
                f"does not wait: its startupProbe does not look for {sockets}/rx_rule_uninstall"
            )
        # The plugin's own default is /tmp, where Google's pods mount the daemon's directory.
        prefix = _variable(worker, "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX") or "/tmp"
        if not shared or mounted.get(prefix) != shared:
            yield (
                f"gives {worker['name']} no sockets of {daemon['name']} ({sockets}) at {prefix}: "
                "NCCL does not reach it"
            )
        used = _variable(worker, "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME").split(",")
        joined = annotations.get(INTERFACES, "")
        lacking = [name for name in used if f'"{name}"' not in joined]
        if lacking or len(used) != 4:
            yield f"uses interfaces {', '.join(used)} in {worker['name']}, not its four for GPUs"


def _tag(container: Object) -> str:
    return str(container.get("image")).rpartition(":")[2]


def _limits(container: Object) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get("limits") or {}


def _mounted(pod: Object, container: Object) -> dict[str, str]:
    """Directory in the container -> that of the host, or the name of a volume of the pod's own."""
    volumes = {
        volume["name"]: (volume.get("hostPath") or {}).get("path", volume["name"])
        for volume in pod["spec"].get("volumes") or ()
    }
    mounts = container.get("volumeMounts") or ()
    return {mount["mountPath"]: volumes.get(mount["name"], "") for mount in mounts}


def _variable(container: Object, name: str) -> str:
    """Of the container, or of its program as an argument of `env`."""
    given = {item["name"]: str(item.get("value", "")) for item in container.get("env") or ()}
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    found = [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
    return found[-1] if found and found[-1] != f"$({name})" else given.get(name, "")


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


def installed_plugins(pod: Object, kind: _Kind) -> Iterator[tuple[str, str]]:
    """Directory -> the version of NCCL's plugin that the pod copies there on its node, if it also
    prepares the node, as Google's installer does."""
    paths = gpu_daemons.host_paths(pod["spec"])
    containers = pod["spec"].get("initContainers") or ()
    words = " ".join(
        word for c in containers for word in (*(c.get("command") or ()), *(c.get("args") or ()))
    )
    if not pod["spec"].get("hostPID") or not all(word in words for word in kind.prepares):
        return
    for container in containers:
        if "/nccl-plugin-gpudirecttcpx-dev:" in str(container.get("image")):
            if kind.plugin in paths:
                yield kind.plugin, _tag(container)
            if "/home/kubernetes/bin" in paths and "/usr/local/nvidia/lib64" in words:
                yield _DRIVER, _tag(container)
