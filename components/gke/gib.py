"""Google's plugin of NCCL for RDMA, gIB, on the nodes of pools with `gpuDirect: rdma`.

The DaemonSet follows GoogleCloudPlatform/container-engine-accelerators, gpudirect-rdma/
nccl-rdma-installer.yaml (read 2026-11-29), but for two things. Google's also copies the libraries
to the driver's directory, which every GPU pod has: NCCL then fails in pods that do not run gIB's
script (llm-d.ai, "Disable GKE NCCL tuner"). And it overwrites files that running jobs have loaded.
"""

import pulumi
import pulumi_kubernetes as kubernetes

from ..catalog import images
from ..catalog import kubernetes as names
from ..cluster import Cluster

_NAME = "gib-installer"
_HOST = "/host"
_SCRIPT = f"""set -ex
cd {_HOST}
grep -qsx {images.GIB_INSTALLER.tag} {names.GIB_INSTALLED} && exit 0
/scripts/container_entry.sh install
rm -rf {names.GIB_INSTALLED} next
cp -r /var/lib/gib next
for part in $(ls next); do
  rm -rf "$part"
  mv "next/$part" .
done
echo {images.GIB_INSTALLER.tag} > {names.GIB_INSTALLED}
"""
"""Pods wait for the last file. What a running job has loaded is removed, and not changed."""


class GibInstaller(pulumi.ComponentResource):
    """The DaemonSet that copies the plugin to each node."""

    def __init__(
        self,
        name: str,
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gke:GibInstaller", name, None, opts)
        kubernetes.apps.v1.DaemonSet(
            _NAME,
            metadata={
                "name": _NAME,
                "namespace": "kube-system",
                "labels": {"k8s-app": _NAME},
                # As of the driver's installer: new nodes pull an image of a gigabyte.
                "annotations": {"pulumi.com/timeoutSeconds": "1800"},
            },
            spec={
                "selector": {"match_labels": {"k8s-app": _NAME}},
                "update_strategy": {"type": "RollingUpdate"},
                "template": {
                    "metadata": {"labels": {"name": _NAME, "k8s-app": _NAME}},
                    "spec": {
                        "priority_class_name": "system-node-critical",
                        # By no pool's name: another pool would start it anew on all nodes.
                        "node_selector": {names.GKE_NETWORK_DRIVER: "true"},
                        "tolerations": [{"operator": "Exists"}],
                        "automount_service_account_token": False,
                        "host_network": True,
                        "host_pid": True,
                        "init_containers": [
                            {
                                "name": _NAME,
                                "image": images.GIB_INSTALLER.reference,
                                "command": ["/bin/sh", "-c"],
                                "args": [_SCRIPT],
                                "resources": {"requests": {"cpu": "150m"}},
                                "security_context": {"privileged": True},
                                "volume_mounts": [{"name": "gib", "mount_path": _HOST}],
                            }
                        ],
                        "containers": [{"name": "pause", "image": images.PAUSE.reference}],
                        "volumes": [
                            {
                                "name": "gib",
                                "host_path": {
                                    "path": names.GIB_DIRECTORY,
                                    "type": "DirectoryOrCreate",
                                },
                            }
                        ],
                    },
                },
            },
            opts=cluster.options(self, delete_before_replace=True),
        )
        self.register_outputs({})
