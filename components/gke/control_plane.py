"""What a Standard and an Autopilot cluster have in common: the control plane and who reaches it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi
import pulumi_gcp as gcp

from components import kubeconfig
from components.catalog import gke as catalog
from components.gke.network import (
    PODS_RANGE,
    SERVICES_RANGE,
    GkeNetwork,
    GkeNetworkArgs,
    parse_cidr,
)

_NAME = re.compile(r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")
_LABEL = re.compile(r"^[a-z0-9_-]{0,63}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeControlPlaneArgs:
    """A GKE cluster's control plane."""

    name: str
    """Physical name: fixed, so that a lost state can be recovered by import."""
    location: str
    """A zone (cheaper, one control plane) or a region (three)."""
    network: GkeNetworkArgs = field(default_factory=GkeNetworkArgs)
    authorized_networks: Mapping[str, str] = field(default_factory=dict)
    """Who may reach the public endpoint: display name -> IPv4 CIDR."""
    private_endpoint: bool = False
    """No public endpoint at all: only what runs in the VPC reaches the control plane."""
    release_channel: Literal["rapid", "regular", "stable", "extended"] = "regular"
    version: str | None = None
    """Minimum version of the control plane; left out, the channel's default."""
    deletion_protection: bool = True
    """Refuses to delete or replace the cluster, in GKE and in Pulumi."""
    secrets_key: str | None = None
    """Cloud KMS key (`projects/.../cryptoKeys/...`) that encrypts Kubernetes secrets in etcd, on
    top of Google's own encryption at rest."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels on the cluster resource, for billing."""

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(
                f"name: {self.name!r} is not a GKE cluster name; allowed: at most 40 lowercase "
                "letters, digits and '-', a letter first, no '-' at the end"
            )
        if not (catalog.is_zone(self.location) or catalog.is_region(self.location)):
            raise ValueError(
                f"location: {self.location!r} is neither a zone nor a region of Google Cloud; "
                "give one such as us-central1-a or us-central1"
            )
        if not self.authorized_networks and not self.private_endpoint:
            raise ValueError(
                "authorizedNetworks: is empty, so nobody could reach the control plane; name the "
                "networks that may, or set privateEndpoint: true"
            )
        for name, text in self.authorized_networks.items():
            block = parse_cidr(f"authorizedNetworks.{name}", text)
            if block.prefixlen < 8:
                raise ValueError(
                    f"authorizedNetworks.{name}: {text!r} opens the control plane to the world; "
                    "allowed: /8 or smaller networks that you know"
                )
        if self.secrets_key is not None and "/cryptoKeys/" not in self.secrets_key:
            raise ValueError(
                f"secretsKey: {self.secrets_key!r} is not a Cloud KMS key; give it as "
                "projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY"
            )
        for key, value in self.labels.items():
            if not (_LABEL.match(key) and key and _LABEL.match(value)):
                raise ValueError(
                    f"labels.{key}: {value!r} is not a Google Cloud label; allowed: at most 63 "
                    "lowercase letters, digits, '-' and '_'"
                )

    @property
    def region(self) -> str:
        """The region that the location is, or is in."""
        return catalog.region_of(self.location)


def cluster_id(args: GkeControlPlaneArgs, project: str) -> str:
    """The cluster's full name, known before it exists: it identifies the Kubernetes provider."""
    return (
        f"//container.googleapis.com/projects/{project}/locations/{args.location}"
        f"/clusters/{args.name}"
    )


def control_plane(
    args: GkeControlPlaneArgs, *, project: str, network: GkeNetwork
) -> dict[str, Any]:
    """Inputs of `gcp.container.Cluster` that both kinds of cluster share."""
    return {
        "name": args.name,
        "location": args.location,
        "network": network.network_id,
        "subnetwork": network.subnetwork_id,
        "ip_allocation_policy": {
            "cluster_secondary_range_name": PODS_RANGE,
            "services_secondary_range_name": SERVICES_RANGE,
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
        },
        "release_channel": {"channel": args.release_channel.upper()},
        "min_master_version": args.version,
        "database_encryption": {"state": "ENCRYPTED", "key_name": args.secrets_key}
        if args.secrets_key
        else None,
        "master_auth": {"client_certificate_config": {"issue_client_certificate": False}},
        "workload_identity_config": {"workload_pool": f"{project}.svc.id.goog"},
        "security_posture_config": {
            "mode": "BASIC",
            "vulnerability_mode": "VULNERABILITY_DISABLED",
        },
        "deletion_protection": args.deletion_protection,
        "resource_labels": dict(args.labels),
    }


def control_plane_options(
    args: GkeControlPlaneArgs, parent: pulumi.Resource, *, ignore_changes: list[str]
) -> pulumi.ResourceOptions:
    """The options of the cluster resource."""
    return pulumi.ResourceOptions(
        parent=parent,
        # GKE's own protection would refuse only after the node pools are gone.
        protect=args.deletion_protection,
        additional_secret_outputs=["masterAuth"],
        ignore_changes=ignore_changes,
    )


def kubeconfig_of(args: GkeControlPlaneArgs, cluster: gcp.container.Cluster) -> pulumi.Output[str]:
    """The cluster's kubeconfig, without any credential in it."""
    certificate = cluster.master_auth.apply(lambda auth: auth.cluster_ca_certificate or "")
    return pulumi.Output.all(cluster.endpoint, pulumi.Output.unsecret(certificate)).apply(
        lambda known: kubeconfig.gke(name=args.name, endpoint=known[0], ca_certificate=known[1])
    )
