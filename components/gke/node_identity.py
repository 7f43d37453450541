"""The settings that all GKE nodes of this stack share: identity, Shielded VM, metadata."""

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp.container import NodePoolNodeConfigArgsDict

from ..lifecycle import ownership, recycling
from ..lifecycle.prefix import hook
from ..scalers import SCALERS
from .node_account import account_id

NODE_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
"""The scope covers every API; IAM decides what the account may do there."""

NODE_ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")
"""Logs, metrics and image pulls; no other permissions in the project."""

STREAMING_ROLE = "roles/serviceusage.serviceUsageConsumer"
"""The role that image streaming needs on nodes that do not run as the project's default account
(https://cloud.google.com/kubernetes-engine/docs/how-to/image-streaming)."""


def recycling_check(name: str, path: str, nodes: tuple[int, int]) -> pulumi.ResourceHookBinding:
    """Warns, even in a preview, of an update for which GKE recreates a pool's nodes.

    `path` is the pool's key in the config, `nodes` its minimum and maximum number of nodes.
    """
    scaler = SCALERS["node-pools"]
    return recycling.warning_hook(name, path, scaler, scaler.pools[0], nodes)


def zones_check(name: str) -> pulumi.ResourceHookBinding:
    """Warns, even in a preview, of an update that takes zones from a cluster's nodes."""

    def check(change: pulumi.ResourceHookArgs) -> None:
        recycling.warn_of_zones("cluster.systemPool", change)

    return pulumi.ResourceHookBinding(before_update=[hook(f"{name}-zones", check)])


def patience(nodes: int, soak: int = 0) -> pulumi.CustomTimeouts:
    """Timeout of an update of a pool with this many nodes: at least the provider's default of 2
    hours, which is too short if many nodes are recreated in turn; and the seconds of `soak`, in
    which a blue-green upgrade only waits."""
    return pulumi.CustomTimeouts(update=f"{max(120, 60 + 15 * nodes) + -(-soak // 60)}m")


class GkeNodeIdentity(pulumi.ComponentResource):
    """The service account of nodes, with `NODE_ROLES` and what image streaming needs."""

    email: pulumi.Output[str]
    grants: list[pulumi.Resource]
    """Resources that must exist before a node starts, and must outlive it."""

    def __init__(
        self,
        name: str,
        *,
        project: str,
        image_streaming: bool = False,
        stack: str = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`stack`: `<project>/<stack>`, if several stacks may have nodes in the cluster."""
        super().__init__("gpu-cluster:gke:NodeIdentity", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        account = gcp.serviceaccount.Account(
            name,
            # At most 30 characters, and unique in the project: the cluster's name can be too long.
            account_id=account_id(name, stack),
            display_name=f"Nodes of the GKE cluster {name}",
            description=ownership.description(),
            opts=child,
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
    """The part of `nodeConfig` that no pool may weaken; plain values except the account."""
    return {
        "service_account": service_account,
        "oauth_scopes": NODE_SCOPES,
        "shielded_instance_config": {
            "enable_integrity_monitoring": True,
            "enable_secure_boot": secure_boot,
        },
        "workload_metadata_config": {"mode": "GKE_METADATA"},
        # GKE sets it automatically; if it is omitted, it shows as a difference that replaces the
        # pool.
        "metadata": {"disable-legacy-endpoints": "true"},
    }
