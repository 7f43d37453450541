"""Declares what the pods of a stack may name: namespaces, service accounts, claims, files, and the
templates of the claims for their GPUs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
from pulumi_kubernetes.resource.v1 import (
    ResourceClaimSpecArgsDict,
    ResourceClaimTemplateSpecArgsDict,
)

from ..access.service_accounts import BucketDriver, ServiceAccountArgs, bucket_claim
from ..catalog import kubernetes as names
from ..cluster import ClaimVolume, Cluster
from ..lifecycle.kept_disks import refusing_lost_disks
from .gpu_claims import Claim
from .pod_args import Auxiliary, NamespaceArgs
from .pod_parts import Contents, config_map_name
from .volume_args import VolumeClaimArgs

ROOT = Path()
"""The folder in which the program runs, which is that of the stack's file."""
_ENFORCE = "pod-security.kubernetes.io/enforce"
_ANY_SIZE = "1Gi"
"""The size of a bucket's volume: Kubernetes requires one, and the driver ignores it."""


class Namespaces(pulumi.ComponentResource):
    """The namespaces of a stack."""

    made: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        namespaces: Mapping[str, NamespaceArgs],
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gpu:Namespaces", name, None, opts)
        resources: list[pulumi.Resource] = []
        for namespace, args in namespaces.items():
            created = kubernetes.core.v1.Namespace(
                namespace,
                metadata={"name": namespace, "labels": {_ENFORCE: args.pod_security}},
                opts=cluster.options(self),
            )
            # A bare pod is refused until a controller has created this account: applying it works
            # whichever of the two comes first.
            account = kubernetes.core.v1.ServiceAccountPatch(
                f"{namespace}-default",
                metadata={"name": "default", "namespace": namespace},
                automount_service_account_token=False,
                opts=cluster.options(self, depends_on=[created]),
            )
            resources += [created, account]
        self.made = resources
        self.register_outputs({})


class PodAccounts(pulumi.ComponentResource):
    """Service accounts with cloud permissions, and the buckets that their pods can mount."""

    made: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        accounts: Mapping[str, ServiceAccountArgs],
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gpu:PodAccounts", name, None, opts)
        made: list[pulumi.Resource] = []
        for account, args in accounts.items():
            made += [
                kubernetes.core.v1.ServiceAccount(
                    account,
                    metadata={"name": account, "namespace": args.namespace},
                    automount_service_account_token=False,
                    opts=cluster.options(self),
                ),
                *cluster.granted.get(account, ()),
            ]
            if cluster.buckets is not None and not cluster.buckets.inline:
                for bucket, right in args.buckets.items():
                    made += self._volume(account, args.namespace, bucket, right, cluster.buckets,
                                         cluster)  # fmt: skip
        self.made = made
        self.register_outputs({})

    def _volume(
        self,
        account: str,
        namespace: str,
        bucket: str,
        right: str,
        driver: BucketDriver,
        cluster: Cluster,
    ) -> list[pulumi.Resource]:
        claim = bucket_claim(account, bucket)
        # A volume's name is unique in the cluster, and names of namespaces contain no dot.
        name = f"{namespace}.{claim}"
        options = driver.mount_options if right == "read" else (
            *driver.mount_options, *driver.write_options
        )  # fmt: skip
        modes = ["ReadOnlyMany" if right == "read" else "ReadWriteMany"]
        volume = kubernetes.core.v1.PersistentVolume(
            name,
            metadata={"name": name},
            spec={
                "capacity": {"storage": _ANY_SIZE},
                "access_modes": modes,
                # The stack must not delete the bucket.
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": "",
                "claim_ref": {"namespace": namespace, "name": claim},
                "mount_options": [*options, *(["read-only"] if right == "read" else [])],
                "csi": {
                    "driver": driver.driver,
                    # Two volumes with the same handle would be mounted only once.
                    "volume_handle": name,
                    "volume_attributes": {"bucketName": bucket, **driver.attributes},
                },
            },
            # Source and access modes of an existing volume cannot change.
            opts=pulumi.ResourceOptions.merge(
                cluster.options(self, delete_before_replace=True), _WITH_ITS_CLAIM
            ),
        )
        return [
            volume,
            kubernetes.core.v1.PersistentVolumeClaim(
                f"{name}-claim",
                metadata={"name": claim, "namespace": namespace, "annotations": _AT_ONCE},
                spec={
                    "access_modes": modes,
                    "resources": {"requests": {"storage": _ANY_SIZE}},
                    "storage_class_name": "",
                    # Not the plain name, so that the claim is replaced whenever the volume is.
                    "volume_name": volume.metadata.name,
                },
                opts=cluster.options(self, delete_before_replace=True, depends_on=[volume]),
            ),
        ]


_WITH_ITS_CLAIM = pulumi.ResourceOptions(replace_on_changes=["spec.accessModes"])
"""For a volume: other access modes replace its claim, and a volume that was bound to another claim
would stay Released, so that the new claim would be Pending forever."""
_AT_ONCE = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
"""Do not wait for a claim to be bound, which some classes do only with its first pod."""


class PodClaims(pulumi.ComponentResource):
    """The PersistentVolumeClaims of a stack. They outlive the workloads that mount them."""

    made: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        claims: Mapping[str, VolumeClaimArgs],
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        # A claim with its own disk can be replaced: the disk is kept with its data.
        disks: dict[str, dict[str, str]] = {
            claim: {}
            if claim in cluster.volumes
            else {
                "storageClass": args.storage_class or "",
                "accessMode": args.access_mode,
                "namespace": args.namespace,
            }
            for claim, args in claims.items()
        }
        remembered, guard = refusing_lost_disks("disks-of-claims", disks)
        super().__init__(
            "gpu-cluster:gpu:PodClaims", name, remembered, pulumi.ResourceOptions.merge(guard, opts)
        )
        resources: list[pulumi.Resource] = []
        for claim, args in claims.items():
            disk = cluster.volumes.get(claim)
            volume = self._volume(claim, args, disk, cluster) if disk else None
            resources.append(
                kubernetes.core.v1.PersistentVolumeClaim(
                    claim,
                    metadata={"name": claim, "namespace": args.namespace, "annotations": _AT_ONCE},
                    spec={
                        "access_modes": [args.access_mode],
                        "resources": {"requests": {"storage": args.size}},
                        "storage_class_name": disk.storage_class if disk else args.storage_class,
                        "volume_name": volume.metadata.name if volume else None,
                    },
                    # The cluster sets its default class and the name of the bound volume.
                    opts=cluster.options(self, holds_disk=True),
                )
            )
        self.made = resources
        self.register_outputs({})

    def _volume(
        self, claim: str, args: VolumeClaimArgs, disk: ClaimVolume, cluster: Cluster
    ) -> kubernetes.core.v1.PersistentVolume:
        """A volume that is deleted after the claim and before the disk: its finalizer stays until
        the disk is detached, so that nothing needed for detaching is deleted before."""
        # A volume's name is unique in the cluster, and names of namespaces contain no dot.
        name = f"{args.namespace}.{claim}"
        return kubernetes.core.v1.PersistentVolume(
            name,
            metadata={"name": name},
            spec={
                "capacity": {"storage": f"{disk.gib}Gi"},
                "access_modes": [args.access_mode],
                # The stack deletes its disk itself.
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": disk.storage_class,
                "claim_ref": {"namespace": args.namespace, "name": claim},
                "csi": {"driver": disk.driver, "fs_type": "ext4", "volume_handle": disk.handle},
                "node_affinity": {
                    "required": {
                        "node_selector_terms": [
                            {
                                "match_expressions": [
                                    {"key": names.ZONE, "operator": "In", "values": [disk.zone]}
                                ]
                            }
                        ]
                    }
                },
            },
            opts=pulumi.ResourceOptions.merge(
                pulumi.ResourceOptions.merge(
                    cluster.options(self, holds_disk=True, delete_before_replace=True),
                    _WITH_ITS_CLAIM,
                ),
                # The driver's resizer sets it after the file system has grown too.
                pulumi.ResourceOptions(ignore_changes=["spec.capacity"]),
            ),
        )


def declare_namespaces(namespaces: Mapping[str, NamespaceArgs], *, cluster: Cluster) -> Cluster:
    """Declares the namespaces that the stack creates; returns the cluster with these as a
    prerequisite of everything that is declared in it afterwards."""
    created = {name: args for name, args in namespaces.items() if not args.existing}
    if not created:
        return cluster
    made = Namespaces("namespaces", created, cluster=cluster, opts=cluster.component_options).made
    return replace(cluster, ready=[*cluster.ready, *made])


def declare_auxiliary(auxiliary: Auxiliary, *, cluster: Cluster) -> Sequence[pulumi.Resource]:
    """Declares accounts and claims; returns the resources on which pods that name them depend."""
    resources: list[pulumi.Resource] = []
    if auxiliary.accounts:
        resources += PodAccounts(
            "accounts", auxiliary.accounts, cluster=cluster, opts=cluster.component_options
        ).made
    if auxiliary.claims:
        resources += PodClaims(
            "claims", auxiliary.claims, cluster=cluster, opts=cluster.component_options
        ).made
    return resources


def declare_files(
    owner: str, namespace: str, contents: Contents, *, cluster: Cluster, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """The ConfigMap of each volume with files; never changed, because pods have mounted it."""
    return [
        kubernetes.core.v1.ConfigMap(
            name := config_map_name(owner, volume, content),
            metadata={"name": name, "namespace": namespace, "labels": {"app": owner}},
            immutable=True,
            data=dict(content),
            opts=cluster.options(parent),
        )
        for volume, content in contents.items()
    ]


def declare_claims(
    claims: Iterable[Claim],
    owner: str,
    namespace: str,
    *,
    cluster: Cluster,
    parent: pulumi.Resource,
    plugins: Sequence[pulumi.Resource],
) -> list[pulumi.Resource]:
    """Declares the objects by which the pods of the workload `owner` claim their devices. They
    depend on the driver, so that this outlives the pods: one with a claim ends only while the
    driver runs on its node."""
    declared: list[pulumi.Resource] = []
    for claim in claims:
        metadata: ObjectMetaArgsDict = {
            "name": claim.name, "namespace": namespace, "labels": {"app": owner}
        }  # fmt: skip
        options = cluster.options(parent, depends_on=plugins)
        # The API's field names, which the SDK's types do not have.
        declared.append(
            kubernetes.resource.v1.ResourceClaim(
                claim.name,
                metadata=metadata,
                spec=cast(ResourceClaimSpecArgsDict, claim.spec),
                opts=options,
            )
            if claim.shared
            else kubernetes.resource.v1.ResourceClaimTemplate(
                claim.name,
                metadata=metadata,
                spec=cast(ResourceClaimTemplateSpecArgsDict, claim.spec),
                opts=options,
            )
        )
    return declared
