"""Google Cloud permissions for pods, through Workload Identity Federation for GKE.

A role is granted to the Kubernetes service account itself, which Google prefers to a Google Cloud
service account that pods impersonate, and which leaves no second account to maintain
(https://cloud.google.com/kubernetes-engine/docs/how-to/workload-identity). The member has the form
that IAM's reference gives for a Kubernetes service account (Policy, Binding.members): unlike
`principal://...`, it needs no project number, which previews do not know.
"""

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_gcp as gcp

from ..access.service_accounts import ServiceAccountArgs, bucket_claim, policy_name
from ..catalog.gke_volumes import FILESTORE, volume_class
from ..cluster import Runs
from ..lifecycle.ownership import description
from ..schema.outputs import keyed

BUCKET_ROLES = {"read": "roles/storage.objectViewer", "write": "roles/storage.objectUser"}
"""The roles that Cloud Storage FUSE needs for a read-only mount, and for one that writes.
https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-setup"""


class GkePodAccess(pulumi.ComponentResource):
    """The IAM roles of the stack's service accounts."""

    granted: Mapping[str, Sequence[pulumi.Resource]]

    def __init__(
        self,
        name: str,
        accounts: Mapping[str, ServiceAccountArgs],
        *,
        project: str,
        cluster: gcp.container.Cluster | None,
        cluster_path: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`cluster`: the first cluster of a project creates the identity pool of the members; None
        if the stack does not create the cluster. `cluster_path`: its full name, `projects/...`."""
        super().__init__("gpu-cluster:gke:PodAccess", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, depends_on=[cluster] if cluster else None)
        granted: dict[str, Sequence[pulumi.Resource]] = {}
        for account, args in accounts.items():
            member = f"serviceAccount:{project}.svc.id.goog[{args.namespace}/{account}]"
            condition = _in_cluster(cluster_path) if args.this_cluster_only else None
            granted[account] = [
                *(
                    gcp.storage.BucketIAMMember(
                        bucket_claim(account, bucket),
                        bucket=bucket,
                        role=BUCKET_ROLES[right],
                        member=member,
                        condition=condition,
                        opts=child,
                    )
                    for bucket, right in args.buckets.items()
                ),
                *(
                    gcp.projects.IAMMember(
                        f"{account}-{policy_name(key, role)}",
                        project=project,
                        role=role,
                        member=member,
                        condition=condition,
                        opts=child,
                    )
                    for key, role in keyed(args.roles)
                ),
            ]
        self.granted = granted
        self.register_outputs({})


def declare_access(
    runs: Runs, *, project: str, cluster: gcp.container.Cluster | None, cluster_path: str
) -> Mapping[str, Sequence[pulumi.Resource]]:
    """Declares the permissions of the stack's service accounts; returns them by account."""
    if not runs.accounts:
        return {}
    return GkePodAccess(
        "pod-access",
        runs.accounts,
        project=project,
        cluster=cluster,
        cluster_path=cluster_path,
        opts=runs.component_options,
    ).granted


def _in_cluster(path: str) -> gcp.storage.BucketIAMMemberConditionArgsDict:
    """A condition that the token comes from the metadata server of this cluster. Its title
    distinguishes the grants of two stacks, so that `pulumi destroy` of one keeps the other's."""
    provider = f"https://container.googleapis.com/v1/{path}"
    return {
        "title": description(),
        "expression": f'request.auth.claims.google.providerId == "{provider}"',
    }


def addons(runs: Runs) -> gcp.container.ClusterAddonsConfigArgsDict | None:
    """The drivers that pods' volumes need and that a Standard cluster has only if they are enabled.
    A driver that is no longer needed stays on: the provider keeps the cluster's value."""
    config: gcp.container.ClusterAddonsConfigArgsDict = {}
    if any(account.buckets for account in runs.accounts.values()):
        config["gcs_fuse_csi_driver_config"] = {"enabled": True}
    rows = map(volume_class, runs.storage_classes)
    if any(volume is not None and volume.driver == FILESTORE for volume in rows):
        config["gcp_filestore_csi_driver_config"] = {"enabled": True}
    return config or None
