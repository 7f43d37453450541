"""Configuration of containerd, the pod network, NVIDIA's container runtime and the kubelet."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu_cluster.rehearsal.control_plane.pki import SERVICE_ADDRESS
from gpu_cluster.rehearsal.gpu_node.bridge import Bridge
from gpu_cluster.rehearsal.gpu_node.pod_names import DOMAIN
from gpu_cluster.rehearsal.simulators.cloud import NodeTaint

PAUSE = "localhost/pause:rehearsal"
"""The image that holds a pod's namespaces."""


def containerd(*, folder: Path, socket: Path, programs: Path, runtime: Path) -> str:
    """containerd's config.toml, version 3. `runtime` runs every container: runc, or a program that
    calls it. `programs` is the folder of the pod network's plugins."""
    quoted = {
        name: json.dumps(str(value))
        for name, value in {
            "root": folder / "containerd",
            "state": "/run/containerd/state",
            "socket": socket,
            "opt": folder / "opt",
            "cni": programs,
            "cni_config": folder / "cni",
            "runtime": runtime,
            "pause": PAUSE,
        }.items()
    }
    return """\
version = 3
root = {root}
state = {state}
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
address = {socket}
[plugins."io.containerd.internal.v1.opt"]
path = {opt}
[plugins."io.containerd.cri.v1.images"]
# Copies, and works on any file system; the images are small.
snapshotter = "native"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = {pause}
[plugins."io.containerd.cri.v1.runtime"]
# If the machine lacks CAP_SYS_RESOURCE, no process may lower it.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [{cni}]
conf_dir = {cni_config}
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "default"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.default]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.default.options]
BinaryName = {runtime}
SystemdCgroup = false
""".format(**quoted)


def network(*, bridge: Bridge, data: Path) -> str:
    """The pods' network: the bridge, addresses from its subnet, and the way to the API server."""
    return json.dumps(
        {
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": bridge.name,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": f"{bridge.subnet}.0/24",
                                     "rangeStart": f"{bridge.subnet}.10"}]],
                        "routes": [{"dst": f"{SERVICE_ADDRESS}/32", "gw": bridge.address}],
                        "dataDir": str(data),
                    },
                }
            ],
        },
        indent=1,
    )  # fmt: skip


def nvidia_runtime(*, variables: bool, runc: Path, hook: Path, log: Path) -> str:
    """config.toml of NVIDIA's container runtime, which adds the GPUs that a container asks for,
    then calls runc.

    Like AL2023's, it leaves everything at the toolkit's defaults but `variables`: whether it takes
    the GPUs that variables of an unprivileged container name. Images before v20260423 have it on,
    later ones off (amazon-eks-ami issue 2706).
    """
    return "\n".join(
        [
            f"accept-nvidia-visible-devices-envvar-when-unprivileged = {json.dumps(variables)}",
            "[nvidia-container-runtime]",
            f"debug = {json.dumps(str(log))}",
            'mode = "auto"',
            f"runtimes = [{json.dumps(str(runc))}]",
            "[nvidia-ctk]",
            f"path = {json.dumps(str(hook))}",
            "",
        ]
    )


def kubelet(
    *,
    folder: Path,
    pod_logs: Path,
    socket: Path,
    bridge: Bridge,
    port: int,
    cgroup: str,
    client_ca: Path,
    taints: Sequence[NodeTaint],
) -> Mapping[str, Any]:
    """The KubeletConfiguration. The kubelet answers only the API server, on the bridge."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": bridge.address,
        "port": port,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(client_ca)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        # A machine's memory may grow while it is used, so its size at the start is not a limit.
        "enforceNodeAllocatable": ["none"],
        "failCgroupV1": False,
        "failSwapOn": False,
        # Only the names of pods are resolved: nothing outside is reached.
        "resolvConf": "",
        "clusterDNS": [bridge.address],
        "clusterDomain": DOMAIN,
        # Nothing is added to the machine's own iptables.
        "makeIPTablesUtilChains": False,
        # A full disk is not this rehearsal's concern; without images it could not continue.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%"},
        "registerWithTaints": list(map(asdict, taints)),
        # GPUs are seen soon after they appear; the default takes 10 s.
        "nodeStatusUpdateFrequency": "1s",
        "podLogsDir": str(pod_logs),
        "volumePluginDir": str(folder / "volume-plugins"),
    }
