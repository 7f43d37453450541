"""What Standard and Autopilot clusters have in common: control plane, access, monitoring."""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_gcp as gcp

from ..cluster import Runs
from ..lifecycle import ownership
from .cluster_args import GkeControlPlaneArgs
from .existing_args import GkeExistingClusterArgs
from .kubeconfig import kubeconfig
from .network import GkeNetwork


def control_plane(
    args: GkeControlPlaneArgs, *, project: str, network: GkeNetwork
) -> dict[str, Any]:
    """Inputs of `gcp.container.Cluster` that both kinds of clusters share."""
    return {
        "name": args.name,
        "location": args.location,
        "network": network.network,
        "subnetwork": network.subnetwork,
        "ip_allocation_policy": {
            "cluster_secondary_range_name": network.pods_range,
            "services_secondary_range_name": network.services_range,
        },
        "private_cluster_config": {
            "enable_private_nodes": True,
            "enable_private_endpoint": args.private_endpoint,
        },
        "master_authorized_networks_config": {
            "cidr_blocks": [
                {"display_name": name, "cidr_block": cidr}
                for name, cidr in args.authorized_networks.items()
            ],
            "gcp_public_cidrs_access_enabled": False,
            # Otherwise, every host that is routed into the VPC reaches the private endpoint.
            "private_endpoint_enforcement_enabled": args.private_endpoint,
        },
        # Explicit, because if it is omitted, the provider keeps the cluster's value, which may be
        # on.
        "control_plane_endpoints_config": {
            "dns_endpoint_config": {"allow_external_traffic": args.dns_endpoint}
        },
        "release_channel": {"channel": args.release_channel.upper()},
        "min_master_version": args.version,
        "maintenance_policy": args.maintenance.policy() if args.maintenance else None,
        # Explicit, because if it is omitted, the provider keeps the cluster's key.
        "database_encryption": {"state": "ENCRYPTED", "key_name": args.secrets_encryption_key}
        if args.secrets_encryption_key
        else {"state": "DECRYPTED"},
        "authenticator_groups_config": {"security_group": args.security_group}
        if args.security_group
        else None,
        "master_auth": {"client_certificate_config": {"issue_client_certificate": False}},
        "workload_identity_config": {"workload_pool": f"{project}.svc.id.goog"},
        "security_posture_config": {
            "mode": "BASIC",
            "vulnerability_mode": "VULNERABILITY_DISABLED",
        },
        "deletion_protection": args.deletion_protection,
        "resource_labels": {**args.labels, **ownership.google_labels()},
    }


def control_plane_options(
    args: GkeControlPlaneArgs,
    parent: pulumi.Resource,
    *,
    ignore_changes: Sequence[str] = (),
    depends_on: Sequence[pulumi.Resource] = (),
    hooks: pulumi.ResourceHookBinding | None = None,
) -> pulumi.ResourceOptions:
    """The options of the cluster resource."""
    return pulumi.ResourceOptions(
        parent=parent,
        # GKE's own protection would refuse only after the node pools have been deleted.
        protect=args.deletion_protection,
        additional_secret_outputs=["masterAuth"],
        ignore_changes=list(ignore_changes),
        depends_on=list(depends_on),
        hooks=hooks,
        # The name is taken until then, even if only the state requires a replacement (`pulumi state
        # taint`).
        delete_before_replace=True,
    )


def identifier_of(
    args: GkeControlPlaneArgs, project: str, cluster: gcp.container.Cluster
) -> pulumi.Output[str]:
    """The cluster's full name, by which the Kubernetes provider identifies it: it is known before
    the cluster exists, and does not change while the cluster exists.

    It depends on the cluster, so that replacing the cluster under its old name replaces the
    provider and every object: the new cluster has none of them.
    """
    return cluster.name.apply(
        lambda name: (
            f"//container.googleapis.com/projects/{project}/locations/{args.location}"
            f"/clusters/{name}"
        )
    )


def declare_monitoring(args: GkeControlPlaneArgs | GkeExistingClusterArgs, runs: Runs) -> None:
    """Declares what shows the metrics of GPUs and raises alerts, if any are collected."""
    if runs.metrics is None:
        return
    # Imported late: nothing else needs this large module of the SDK.
    from .gpu_monitoring import GkeGpuMonitoring

    GkeGpuMonitoring(
        "gpu-views",
        runs.metrics,
        runs.notification_channels,
        cluster=args.name,
        location=args.location,
        opts=runs.component_options,
    )


def kubeconfig_of(args: GkeControlPlaneArgs, cluster: gcp.container.Cluster) -> pulumi.Output[str]:
    """The cluster's kubeconfig, without credentials."""
    if args.dns_endpoint:
        # Its certificate is issued by a public authority, which every machine trusts.
        return cluster.control_plane_endpoints_config.apply(
            lambda config: kubeconfig(
                name=args.name,
                endpoint=(config.dns_endpoint_config and config.dns_endpoint_config.endpoint) or "",
            )
        )
    certificate = cluster.master_auth.apply(lambda auth: auth.cluster_ca_certificate or "")
    return pulumi.Output.all(cluster.endpoint, pulumi.Output.unsecret(certificate)).apply(
        lambda known: kubeconfig(name=args.name, endpoint=known[0], ca_certificate=known[1])
    )
