"""What a pod needs to use all network adapters of its node, with NCCL's plugin for them.

Adapters of GKE's DRANET are claimed: container-engine-accelerators 2433eeed, gpudirect-rdma/
nccl-test-managed-rdma.yaml. Networks of GPUDirect over TCP are named in annotations, and a daemon
in the pod receives for its GPUs: the same 992db812, nccl-test-latest.yaml of gpudirect-tcpxo and
gpudirect-tcpx. It loads no SDK of Pulumi, which users who submit jobs do not have.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..catalog import images
from ..catalog import kubernetes as names
from ..cluster import Fabric

_DEVICES = "devices.gke.io/container."
"""Before a container's name: the annotation with its devices (nri_device_injector there)."""
_GPUS = 8
"""Of a node with GPUDirect over TCP."""
_READY = "/run/nccl-plugin-installed"
_HEALTHY = "/run/health-check"
_SOCKETS = "/run/tcpx"


@dataclass(frozen=True, slots=True, kw_only=True)
class _OverTcp:
    """What one GPUDirect over TCP needs in a pod that the other does not."""

    command: Sequence[str]
    """The daemon's, as the first process, which receives the signal to end."""
    capabilities: Sequence[str]
    healthy: Sequence[str]
    """A command that succeeds once workers can reach the daemon."""
    shared: dict[str, Any]
    """A volume of the workers, and of the daemon unless the host has it."""
    mount: str
    """Where they mount it."""
    variables: Sequence[str]
    """Of NCCL, with their values, which no script of Google's sets."""
    devices: Sequence[str] = ()
    """Of the daemon, besides those of the GPUs."""


_TCPX_VARIABLES = f"""
NCCL_SOCKET_IFNAME=eth0
NCCL_ALGO=Ring,Tree
NCCL_PROTO=Simple
NCCL_CROSS_NIC=0
NCCL_NET_GDR_LEVEL=PIX
NCCL_P2P_PXN_LEVEL=0
NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4
NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0
NCCL_DYNAMIC_CHUNK_SIZE=524288
NCCL_P2P_NET_CHUNKSIZE=524288
NCCL_P2P_PCI_CHUNKSIZE=524288
NCCL_P2P_NVL_CHUNKSIZE=1048576
NCCL_BUFFSIZE=4194304
NCCL_NSOCKS_PERTHREAD=4
NCCL_SOCKET_NTHREADS=1
NCCL_GPUDIRECTTCPX_TX_BINDINGS=eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;eth4:60-73,164-177
NCCL_GPUDIRECTTCPX_RX_BINDINGS=eth1:22-35,126-139;eth2:22-35,126-139;eth3:74-87,178-191;eth4:74-87,178-191
NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=500000
NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX={_SOCKETS}
""".split()
"""container-engine-accelerators 98c85a6e, gpudirect-tcpx/README.md, release of 2026-06-22; the last
one: cluster-toolkit, examples/machine-learning/a3-highgpu-8g/README.md."""

_OVER_TCP: Mapping[str, _OverTcp] = {
    "tcpxo": _OverTcp(
        command=["/bin/bash", "/fts/entrypoint_rxdm_container.sh", "--num_hops=2"],
        capabilities=["NET_ADMIN", "NET_BIND_SERVICE"],
        # It takes half a minute (best-practice.md there).
        healthy=["cat", _HEALTHY],
        shared={
            "name": "aperture-devices",
            "hostPath": {"path": names.APERTURE_DEVICES, "type": "Directory"},
        },
        mount=names.APERTURE_DEVICES,
        variables=[f"NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY={names.APERTURE_DEVICES}"],
        devices=["/dev/dmabuf_import_helper"],
    ),
    # Google's pods share the node's /run/tcpx, or an emptyDir (nccl-test.yaml), and workers have it
    # as /tmp. NCCL fails if it cannot connect there, to get_gpu_fd_* and get_gpu_metadata_*,
    # rx_rule_manager and rx_rule_uninstall (google/nccl-plugin-gpudirecttcpx 4b8ea7f2, src/gpu/
    # rx_pool.cu, src/rx_buf_mgr_client). The daemon makes the last of these at the end of its
    # preparations, and another socket before them (google/tcpgpudmarxd a6e09b3f,
    # app/tcpgpudmarxd.cu). Those of a run that failed would stay in the volume.
    "tcpx": _OverTcp(
        command=[
            "/bin/bash",
            "-c",
            f"rm -f {_SOCKETS}/*; exec /tcpgpudmarxd/build/app/tcpgpudmarxd --gpu_nic_preset a3vm "
            f"--gpu_shmem_type fd --uds_path {_SOCKETS} --setup_param '--verbose 128 2 0'",
        ],
        capabilities=["NET_ADMIN"],
        healthy=["test", "-S", f"{_SOCKETS}/rx_rule_uninstall"],
        shared={"name": "tcpx-sockets", "emptyDir": {}},
        mount=_SOCKETS,
        variables=_TCPX_VARIABLES,
    ),
}


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
    if fabric.over_tcp is None:
        return NetworkParts(volumes=volumes, mounts=mounts, annotations=annotations)
    needs = _OVER_TCP[fabric.over_tcp]
    shared = {"name": needs.shared["name"], "mountPath": needs.mount}
    daemon = _daemon(fabric, needs, [] if "hostPath" in needs.shared else [shared])
    devices = [f"/dev/nvidia{number}" for number in range(_GPUS)]
    devices += ["/dev/nvidiactl", "/dev/nvidia-uvm", *needs.devices]
    return NetworkParts(
        spec={"initContainers": [daemon]},
        volumes=[
            *volumes,
            needs.shared,
            _host("host-driver", names.GKE_DRIVER_DIRECTORY, "Directory"),
            _host("host-sys", "/sys", "Directory"),
            _host("host-proc-sys", "/proc/sys", "Directory"),
        ],
        mounts=[*mounts, shared],
        annotations={
            **annotations,
            f"{_DEVICES}{daemon['name']}": json.dumps([{"path": path} for path in devices]),
        },
    )


def _mount(fabric: Fabric) -> str:
    return f"/usr/local/{fabric.over_tcp}" if fabric.over_tcp else names.GIB_MOUNT


def daemon_image(fabric: Fabric) -> str | None:
    """The image of the daemon that runs with a pod's own containers; None without GPUDirect over
    TCP."""
    if fabric.over_tcp is None:
        return None
    image = images.TCP_DAEMONS[fabric.over_tcp]
    return f"{image.repository}:{fabric.daemon or image.tag}"


def _host(name: str, path: str | None, kind: str) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def _interfaces(fabric: Fabric) -> dict[str, str]:
    interfaces = [{"interfaceName": "eth0", "network": "default"}]
    # With RDMA, eth1 is the node's second ordinary interface, which pods need not have: the same
    # 0920249d, gpudirect-rdma/nccl-test.yaml.
    interfaces += [
        {"interfaceName": f"eth{number}", "network": network}
        for number, network in enumerate(fabric.networks or (), 1 if fabric.over_tcp else 2)
    ]
    return {
        names.GKE_DEFAULT_INTERFACE: "eth0",
        names.GKE_INTERFACES: json.dumps(interfaces),
    }


def _daemon(fabric: Fabric, needs: _OverTcp, shared: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A sidecar container, which Kubernetes starts before the others and ends after them (best-
    practice.md there)."""
    return {
        "name": f"{fabric.over_tcp}-daemon",
        "image": daemon_image(fabric),
        "restartPolicy": "Always",
        "command": list(needs.command),
        "env": [
            {"name": "LD_LIBRARY_PATH", "value": names.DRIVER_SEARCH_PATH},
            {"name": "HEALTH_CHECK_LOG_FILE", "value": _HEALTHY},
        ],
        # Root of the container whatever user the pod has: it sets the kernel's parameters for the
        # interfaces, through the host's directories.
        "securityContext": {
            "runAsUser": 0,
            "capabilities": {"add": list(needs.capabilities)},
        },
        # It never becomes healthy on a broken node.
        "startupProbe": {
            "exec": {"command": list(needs.healthy)},
            "periodSeconds": 5,
            "failureThreshold": 24,
        },
        "volumeMounts": [
            {"name": "host-driver", "mountPath": names.DRIVER_MOUNT, "readOnly": True},
            {"name": "host-sys", "mountPath": "/hostsysfs"},
            {"name": "host-proc-sys", "mountPath": "/hostprocsysfs"},
            *shared,
        ],
    }


def with_variables(fabric: Fabric | None, command: Sequence[str], own: Iterable[str]) -> list[str]:
    """The command with the variables of Google's script, which depend on the plugin's version, and
    its libraries before the image's (docs.cloud.google.com/ai-hypercomputer/docs/nccl). TCPX has no
    script. Of those in `own`, the names of the pod's variables, NCCL's keep their values."""
    if fabric is None:
        return list(command)
    kept = [f"{name}=$({name})" for name in own if name.startswith("NCCL_")]
    folder = _mount(fabric)
    libraries = f"{folder}/lib64"
    path = f"{libraries}:${{LD_LIBRARY_PATH:-{names.DRIVER_SEARCH_PATH}}}"
    if fabric.over_tcp:
        kept = [*_OVER_TCP[fabric.over_tcp].variables, *kept]
    setup = {
        None: f"source {folder}/{names.GIB_SETUP}; ",
        "tcpx": "",
        "tcpxo": f"export NCCL_LIB_DIR={libraries}; source {folder}/{names.TCPXO_SETUP}; ",
    }[fabric.over_tcp]
    script = f'{setup}LD_LIBRARY_PATH={path} exec env "$@"'
    return ["/bin/bash", "-c", script, "bash", *kept, *command]
