"""Disks on EKS: those of the stack's own claims, and the default StorageClass for all other claims.

EKS's own class, `gp2`, has not been the default since Kubernetes 1.30, and the EBS CSI addon
installs none. https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-extended.html
"""

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from ..cluster import ClaimVolume, Cluster, Disk
from ..lifecycle import ownership
from ..lifecycle.kept_disks import refusing_lost_disks
from ..scalers import SCALERS
from ..schema.outputs import MaybeOutput
from .disk_args import STORAGE_CLASS
from .existing_args import AnyEksClusterArgs


class EksStorage(pulumi.ComponentResource):
    """The default StorageClass: encrypted gp3 volumes, deleted with their claims."""

    storage_class: kubernetes.storage.v1.StorageClass

    def __init__(
        self,
        name: str,
        *,
        cluster: Cluster,
        key: MaybeOutput | None,
        default: bool = True,
        driver: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`key`: the ARN of the KMS key that encrypts them; None for the account's default.
        `default`: whether claims without a class get this one. `driver`: the CSI driver."""
        super().__init__("gpu-cluster:eks:Storage", name, None, opts)
        self.storage_class = kubernetes.storage.v1.StorageClass(
            name,
            metadata={
                "name": STORAGE_CLASS,
                "annotations": {
                    "storageclass.kubernetes.io/is-default-class": str(default).lower()
                },
            },
            provisioner=driver,
            parameters={"type": "gp3", "encrypted": "true", **({"kmsKeyId": key} if key else {})},
            # A volume is created in the zone of its pod, which is not known before the pod is
            # scheduled.
            volume_binding_mode="WaitForFirstConsumer",
            allow_volume_expansion=True,
            reclaim_policy="Delete",
            opts=cluster.options(self, delete_before_replace=True),
        )
        self.register_outputs({})


class EksDisks(pulumi.ComponentResource):
    """The EBS volumes of the stack's claims.

    The stack creates them, not the driver: the driver runs in pods of the cluster with a role of
    the stack, and `pulumi destroy` would delete both before the driver has deleted its volumes.
    """

    volumes: Mapping[str, ClaimVolume]

    def __init__(
        self,
        name: str,
        claims: Mapping[str, Disk],
        *,
        args: AnyEksClusterArgs,
        driver: str,
        zones: Mapping[str, pulumi.Input[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`driver`: the CSI driver that attaches them. `zones`: the zones of the stack's own
        network, as in the settings -> their names."""
        zone_of = {claim: disk.zone or args.network.places[0] for claim, disk in claims.items()}
        tags = SCALERS[args.scaler].disk_tags
        remembered, guard = refusing_lost_disks(
            "zones-of-disks", {claim: {"zone": zone} for claim, zone in zone_of.items()}
        )
        super().__init__(
            "gpu-cluster:eks:Disks", name, remembered, pulumi.ResourceOptions.merge(guard, opts)
        )
        volumes: dict[str, ClaimVolume] = {}
        for claim, disk in claims.items():
            zone = zone_of[claim]
            volume = aws.ebs.Volume(
                f"claim-{claim}",
                # By its name, because the setting may be a zone ID.
                availability_zone=zones.get(zone, zone),
                type="gp3",
                size=disk.gib,
                encrypted=True,
                kms_key_id=args.disks_encryption_key,
                tags={
                    "Name": f"{args.name}-{claim}",
                    **args.tags,
                    **{key: value.format(cluster=args.name) for key, value in tags.items()},
                    **ownership.aws_tags(),
                },
                # Another key would replace the disk, and its data would be lost.
                opts=pulumi.ResourceOptions(parent=self, ignore_changes=["kmsKeyId"]),
            )
            volumes[claim] = ClaimVolume(
                driver=driver,
                handle=volume.id,
                gib=disk.gib,
                storage_class=STORAGE_CLASS,
                zone=volume.availability_zone,
            )
        self.volumes = volumes
        self.register_outputs({})
