"""The StorageClass that a PersistentVolumeClaim gets on EKS where it names none.

EKS's own class, `gp2`, is no default since Kubernetes 1.30, and the EBS CSI addon brings none.
https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-extended.html
"""

import pulumi
import pulumi_kubernetes as kubernetes

from components.cluster import Cluster

NAME = "gp3-encrypted"
PROVISIONER = "ebs.csi.aws.com"


class EksStorage(pulumi.ComponentResource):
    """The default StorageClass: encrypted gp3 volumes, deleted with their claims."""

    storage_class: kubernetes.storage.v1.StorageClass

    def __init__(
        self, name: str, *, cluster: Cluster, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-cluster:eks:Storage", name, None, opts)
        self.storage_class = kubernetes.storage.v1.StorageClass(
            name,
            metadata={
                "name": NAME,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            provisioner=PROVISIONER,
            parameters={"type": "gp3", "encrypted": "true"},
            # A volume is in one zone: that of the pod, which is not known before it is placed.
            volume_binding_mode="WaitForFirstConsumer",
            allow_volume_expansion=True,
            reclaim_policy="Delete",
            opts=cluster.options(self, delete_before_replace=True),
        )
        self.register_outputs({})
