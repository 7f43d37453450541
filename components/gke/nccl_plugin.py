"""Google's plugins of NCCL on the nodes of pools with `gpuDirect`.

The DaemonSets follow GoogleCloudPlatform/container-engine-accelerators, gpudirect-rdma/
nccl-rdma-installer.yaml, gpudirect-tcpxo/nccl-tcpxo-installer.yaml and gpudirect-tcpx/
nccl-tcpx-installer.yaml (read 2026-11-30), but for two things. Google's also copy the libraries to
the driver's directory, which every GPU pod has: NCCL then fails in pods that do not run the
plugin's script (llm-d.ai, "Disable GKE NCCL tuner"). And they overwrite files that running jobs
have loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pulumi

from ..catalog import images
from ..catalog import kubernetes as names
from ..catalog.gke import GpuDirect
from ..cluster import Cluster
from ..daemon_set import daemon_set

_HOST = "/host"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Installer:
    """What Google's image of a plugin needs to be installed."""

    name: str
    labels: Mapping[str, str]
    """Labels of the nodes: by no pool's name, since each new pool would restart it on all."""
    command: str
    """Its command, which installs the plugin to `source` in the container."""
    source: str
    directory: str
    """Where pods of the node find it."""
    prepare: str = ""
    """What the node itself runs after each start."""


_APERTURES = f"""
/sbin/iptables -w -C INPUT -p tcp -j ACCEPT || /sbin/iptables -w -I INPUT -p tcp -j ACCEPT
modprobe import-helper
for device in $(lspci -nnD | grep 1ae0:0084 | cut -d " " -f 1); do
  target={names.APERTURE_DEVICES}/$device
  mkdir -p $target
  grep -q " $target " /proc/mounts && continue
  mount --bind $(readlink -f /sys/bus/pci/devices/$device) $target
done
chmod -R a+r {names.APERTURE_DEVICES} || true
chmod a+rw {names.APERTURE_DEVICES}/*/resource*
"""
"""The module and the devices through which the daemon reaches the memory of interfaces."""

_INSTALLERS: Final[Mapping[GpuDirect, _Installer]] = {
    "rdma": _Installer(
        name="gib-installer",
        labels={names.GKE_NETWORK_DRIVER: "true"},
        command="/scripts/container_entry.sh install",
        source="/var/lib/gib",
        directory=names.GIB_DIRECTORY,
    ),
    "tcpx": _Installer(
        name="tcpx-installer",
        labels={names.GPU_DIRECT: "tcpx"},
        command="/scripts/container_entry.sh install --install-nccl",
        source="/var/lib/tcpx",
        directory=names.TCPX_DIRECTORY,
    ),
    "tcpxo": _Installer(
        name="tcpxo-installer",
        labels={names.GPU_DIRECT: "tcpxo"},
        command="/bin/bash /scripts/container_entry.sh install --install-nccl",
        source="/var/lib/tcpxo",
        directory=names.TCPXO_DIRECTORY,
        prepare=f"nsenter -at 1 -- sh -ec '{_APERTURES}'",
    ),
}


def _script(plugin: _Installer, tag: str | None) -> str:
    """Pods wait for the last file. What a running job has loaded is removed, and not changed."""
    return f"""set -ex
{plugin.prepare}
cd {_HOST}
grep -qsx {tag} {names.PLUGIN_INSTALLED} && exit 0
{plugin.command}
rm -rf {names.PLUGIN_INSTALLED} next
cp -r {plugin.source} next
for part in $(ls next); do
  rm -rf "$part"
  mv "next/$part" .
done
echo {tag} > {names.PLUGIN_INSTALLED}
"""


class NcclPlugin(pulumi.ComponentResource):
    """The DaemonSet that copies the plugin to each node."""

    def __init__(
        self,
        name: str,
        gpu_direct: GpuDirect,
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gke:NcclPlugin", name, None, opts)
        plugin, image = _INSTALLERS[gpu_direct], images.NCCL_PLUGINS[gpu_direct]
        daemon_set(
            plugin.name,
            {
                "node_selector": dict(plugin.labels),
                "host_network": True,
                "host_pid": True,
                "init_containers": [
                    {
                        "name": plugin.name,
                        "image": image.reference,
                        "command": ["/bin/sh", "-c"],
                        "args": [_script(plugin, image.tag)],
                        "resources": {"requests": {"cpu": "150m"}},
                        "security_context": {"privileged": True},
                        "volume_mounts": [{"name": "plugin", "mount_path": _HOST}],
                    }
                ],
                "containers": [{"name": "pause", "image": images.PAUSE.reference}],
                "volumes": [
                    {
                        "name": "plugin",
                        "host_path": {"path": plugin.directory, "type": "DirectoryOrCreate"},
                    }
                ],
            },
            cluster.options(self, delete_before_replace=True),
        )
        self.register_outputs({})
