"""What every GKE node of this stack has in common: identity, Shielded VM, metadata."""

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp.container import NodePoolNodeConfigArgsDict

from .. import ownership, recycling
from .node_account import account_id

NODE_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
"""The scope opens every API; what the account may do there, IAM decides."""

NODE_ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")
"""Logs, metrics and image pulls; nothing else of the project."""

STREAMING_ROLE = "roles/serviceusage.serviceUsageConsumer"
"""What image streaming asks of nodes that do not run as the project's default account
(https://cloud.google.com/kubernetes-engine/docs/how-to/image-streaming)."""


IN_PLACE = tuple(
    f"nodeConfig.{field}"
    for field in ("labels", "resourceLabels", "resourceManagerTags", "tags", "taints")
)
"""What GKE changes on nodes that run; for anything else of `nodeConfig` it recreates them, or is
assumed to. https://cloud.google.com/kubernetes-engine/docs/concepts/managing-clusters, 2026-11-24.
"""


def recycling_check(name: str, path: str, nodes: tuple[int, int]) -> pulumi.ResourceHookBinding:
    """Warns, in the preview already, of an update for which GKE recreates a pool's nodes.

    `path` is the pool's key in the config, `nodes` the least and the most that it can have.
    """

    def check(change: pulumi.ResourceHookArgs) -> None:
        recycling.warn(path, change, ("version", "nodeConfig"), nodes, IN_PLACE)

    hook = pulumi.ResourceHook(
        f"{name}-recycling", check, opts=pulumi.ResourceHookOptions(on_dry_run=True)
    )
    return pulumi.ResourceHookBinding(before_update=[hook])


def patience(nodes: int) -> pulumi.CustomTimeouts:
    """How long an update of a pool of so many nodes may take: the provider's own 2 hours at least,
    which are not enough where many nodes are recreated one after the other."""
    return pulumi.CustomTimeouts(update=f"{max(120, 60 + 15 * nodes)}m")


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
        stack: str = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`stack`: `<project>/<stack>`, if several may have nodes in the cluster."""
        super().__init__("gpu-cluster:gke:NodeIdentity", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        account = gcp.serviceaccount.Account(
            name,
            # 30 characters at most, and unique in the project: the cluster's name is too long.
            account_id=account_id(name, stack),
            display_name=f"Nodes of the GKE cluster {name}",
            description=ownership.description(),
            # A long name had another ID in version 0.1.0, and a new account replaces every pool.
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
