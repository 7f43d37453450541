"""What a pod needs to use all network adapters of its node, with NCCL's plugin for them.

Adapters of GKE's DRANET are claimed: container-engine-accelerators 2433eeed, gpudirect-rdma/
nccl-test-managed-rdma.yaml. Networks of GPUDirect-TCPXO are named in annotations, and a daemon in
the pod receives for its GPUs: the same 992db812, gpudirect-tcpxo/nccl-test-latest.yaml. It loads no
SDK of Pulumi, which users who submit jobs do not have.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..catalog import images
from ..catalog import kubernetes as names
from ..cluster import Fabric

DAEMON = "tcpxo-daemon"
_DEVICES = f"devices.gke.io/container.{DAEMON}"
"""The annotation that names its devices (nri_device_injector there)."""
_READY = "/run/nccl-plugin-installed"
_HEALTHY = "/run/health-check"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkParts:
    """The parts of a pod that uses all adapters of its node, as the API spells them."""

    spec: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the pod's spec, without volumes."""
    volumes: Sequence[dict[str, Any]] = ()
    mounts: Sequence[dict[str, Any]] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


def network_parts(fabric: Fabric | None) -> NetworkParts:
    """The parts of a pod besides its claims; none without a fabric. A node's first pod may start
    before the installer has finished, and waits for the file that it writes last."""
    if fabric is None:
        return NetworkParts()
    paths = {
        "nccl-plugin": (fabric.plugin, _mount(fabric), "Directory"),
        "nccl-plugin-installed": (
            f"{fabric.plugin}/{fabric.installed or names.PLUGIN_INSTALLED}",
            _READY,
            "File",
        ),
    }
    volumes = [_host(name, path, kind) for name, (path, _, kind) in paths.items()]
    mounts = [
        {"name": name, "mountPath": inside, "readOnly": True}
        for name, (_, inside, _) in paths.items()
    ]
    if fabric.claimed:
        return NetworkParts(volumes=volumes, mounts=mounts)
    annotations = _interfaces(fabric)
    if not daemon_image(fabric):
        return NetworkParts(volumes=volumes, mounts=mounts, annotations=annotations)
    return NetworkParts(
        spec={"initContainers": [_daemon(fabric)]},
        volumes=[
            *volumes,
            _host("aperture-devices", names.APERTURE_DEVICES, "Directory"),
            _host("host-driver", names.GKE_DRIVER_DIRECTORY, "Directory"),
            _host("host-sys", "/sys", "Directory"),
            _host("host-proc-sys", "/proc/sys", "Directory"),
        ],
        mounts=[*mounts, {"name": "aperture-devices", "mountPath": names.APERTURE_DEVICES}],
        annotations={**annotations, **_devices(len(fabric.networks or ()))},
    )


def _mount(fabric: Fabric) -> str:
    # Google's own installer copies TCPXO's to the driver's directory.
    return names.GIB_MOUNT if fabric.plugin == names.GIB_DIRECTORY else names.TCPXO_MOUNT


def daemon_image(fabric: Fabric) -> str | None:
    """The image of the daemon beside a pod's own containers; None without GPUDirect-TCPXO."""
    if not fabric.networks or _mount(fabric) == names.GIB_MOUNT:
        return None
    return f"{images.TCPXO_DAEMON.repository}:{fabric.daemon or images.TCPXO_DAEMON.tag}"


def _host(name: str, path: str | None, kind: str) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def _interfaces(fabric: Fabric) -> dict[str, str]:
    interfaces = [{"interfaceName": "eth0", "network": "default"}]
    # With RDMA, eth1 is the node's second ordinary interface, which pods need not have: the same
    # 0920249d, gpudirect-rdma/nccl-test.yaml.
    interfaces += [
        {"interfaceName": f"eth{number}", "network": network}
        for number, network in enumerate(fabric.networks or (), 1 if daemon_image(fabric) else 2)
    ]
    return {
        names.GKE_DEFAULT_INTERFACE: "eth0",
        names.GKE_INTERFACES: json.dumps(interfaces),
    }


def _devices(gpus: int) -> dict[str, str]:
    paths = [f"/dev/nvidia{number}" for number in range(gpus)]
    paths += ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dmabuf_import_helper"]
    return {_DEVICES: json.dumps([{"path": path} for path in paths])}


def _daemon(fabric: Fabric) -> dict[str, Any]:
    """A sidecar container, which Kubernetes starts before the others and ends after them (best-
    practice.md there). Its entrypoint as the first process receives the signal to end."""
    return {
        "name": DAEMON,
        "image": daemon_image(fabric),
        "restartPolicy": "Always",
        "command": ["/bin/bash", "/fts/entrypoint_rxdm_container.sh", "--num_hops=2"],
        "env": [
            {"name": "LD_LIBRARY_PATH", "value": names.DRIVER_SEARCH_PATH},
            {"name": "HEALTH_CHECK_LOG_FILE", "value": _HEALTHY},
        ],
        # Root of the container whatever user the pod has: it sets the kernel's parameters for the
        # interfaces, through the host's directories.
        "securityContext": {
            "runAsUser": 0,
            "capabilities": {"add": ["NET_ADMIN", "NET_BIND_SERVICE"]},
        },
        # It takes half a minute, and never becomes healthy on a broken node.
        "startupProbe": {
            "exec": {"command": ["cat", _HEALTHY]},
            "periodSeconds": 5,
            "failureThreshold": 24,
        },
        "volumeMounts": [
            {"name": "host-driver", "mountPath": names.DRIVER_MOUNT, "readOnly": True},
            {"name": "host-sys", "mountPath": "/hostsysfs"},
            {"name": "host-proc-sys", "mountPath": "/hostprocsysfs"},
        ],
    }


def with_variables(fabric: Fabric | None, command: Sequence[str], own: Iterable[str]) -> list[str]:
    """The command with the variables of Google's script, which depend on the plugin's version, and
    its libraries before the image's (docs.cloud.google.com/ai-hypercomputer/docs/nccl). Of those in
    `own`, the names of the pod's variables, NCCL's keep their values."""
    if fabric is None:
        return list(command)
    kept = [f"{name}=$({name})" for name in own if name.startswith("NCCL_")]
    folder = _mount(fabric)
    libraries = f"{folder}/lib64"
    path = f"{libraries}:${{LD_LIBRARY_PATH:-{names.DRIVER_SEARCH_PATH}}}"
    if daemon := daemon_image(fabric):
        # Google's pods have it (nccl-test-latest.yaml), and its script does not set it.
        kept.insert(0, f"NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY={names.APERTURE_DEVICES}")
    before = f"export NCCL_LIB_DIR={libraries}; " if daemon else ""
    setup = names.TCPXO_SETUP if daemon else names.GIB_SETUP
    script = f'{before}source {folder}/{setup}; LD_LIBRARY_PATH={path} exec env "$@"'
    return ["/bin/bash", "-c", script, "bash", *kept, *command]
