"""What every GKE node of this stack has in common: identity, Shielded VM, metadata."""

import hashlib

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp.container import NodePoolNodeConfigArgsDict

NODE_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
"""The scope opens every API; what the account may do there, IAM decides."""

NODE_ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")
"""Logs, metrics and image pulls; nothing else of the project."""

STREAMING_ROLE = "roles/serviceusage.serviceUsageConsumer"
"""What image streaming asks of nodes that do not run as the project's default account
(https://cloud.google.com/kubernetes-engine/docs/how-to/image-streaming)."""


class GkeNodeIdentity(pulumi.ComponentResource):
    """The service account that nodes run as, with `NODE_ROLES` and what image streaming needs."""

    email: pulumi.Output[str]
    grants: list[pulumi.Resource]
    """Must stand before a node starts, and outlive it."""

    def __init__(
        self,
        name: str,
        *,
        project: str,
        image_streaming: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gke:NodeIdentity", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        account = gcp.serviceaccount.Account(
            name,
            # 30 characters at most, and unique in the project: the cluster's name is too long.
            account_id=account_id(name),
            display_name=f"Nodes of the GKE cluster {name}",
            # A long name had another ID in version 0.1.0, and a new account makes every pool anew.
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["accountId"]),
        )
        self.email = account.email
        self.grants = [
            gcp.projects.IAMMember(
                f"{name}-{role.removeprefix('roles/')}",
                project=project,
                role=role,
                member=account.member,
                opts=child,
            )
            for role in (*NODE_ROLES, *([STREAMING_ROLE] if image_streaming else []))
        ]
        self.register_outputs({})


def account_id(cluster: str) -> str:
    """The service account's ID for a cluster: 6 to 30 characters, ends in a letter or digit.

    Where the name is too long, a hash tells clusters apart whose names begin alike.
    """
    if len(cluster) <= 24:
        return f"{cluster}-nodes"
    digest = hashlib.sha256(cluster.encode()).hexdigest()[:6]
    return f"{cluster[:17].rstrip('-')}-{digest}-nodes"


def node_config(
    service_account: pulumi.Input[str], *, secure_boot: bool
) -> NodePoolNodeConfigArgsDict:
    """The part of `nodeConfig` that no pool may weaken; plain values but for the account."""
    return {
        "service_account": service_account,
        "oauth_scopes": NODE_SCOPES,
        "shielded_instance_config": {
            "enable_integrity_monitoring": True,
            "enable_secure_boot": secure_boot,
        },
        "workload_metadata_config": {"mode": "GKE_METADATA"},
        # GKE sets it by itself; left out, it shows as a difference that replaces the pool.
        "metadata": {"disable-legacy-endpoints": "true"},
    }
