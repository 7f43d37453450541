"""What a user says of a GKE cluster: control plane, system pool."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from components.addresses import authorized, example_warnings
from components.catalog import gke as catalog
from components.effect import Sent, Tries
from components.gke.maintenance_args import GkeMaintenanceArgs
from components.gke.network_args import GkeNetworkArgs
from components.limits import UNIQUE, check_limits
from components.on_change import OnChange, kept

_NAME = re.compile(r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")
KMS_KEY = re.compile(
    r"projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+"
)
LABEL = re.compile(r"^[a-z0-9_-]{0,63}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeControlPlaneArgs:
    """A GKE cluster's control plane."""

    name: Annotated[str, OnChange("cluster"), Sent("Cluster name"), Tries("other")]
    """The physical name. It is fixed, so that a lost state can be recovered by import."""
    location: Annotated[str, OnChange("cluster"), Sent("Cluster location"), Tries("us-central1-b")]
    """A zone (cheaper, one control plane) or a region (three)."""
    network: GkeNetworkArgs = field(default_factory=GkeNetworkArgs)
    """The addresses of the VPC that the stack makes, or the subnetwork of one that is there."""
    authorized_networks: Annotated[
        Mapping[str, str],
        Sent("Cluster masterAuthorizedNetworksConfig.cidrBlocks[]"),
        Tries({"office": "203.0.113.0/24", "home": "198.51.100.7/32"}),
    ] = field(default_factory=dict)
    """Who may reach the control plane's address: display name -> IPv4 CIDR; public networks up to
    a /16. With `privateEndpoint`, private networks that are routed into the VPC."""
    private_endpoint: Annotated[
        bool, Sent("Cluster privateClusterConfig.enablePrivateEndpoint")
    ] = False
    """Whether the control plane has no public address: only the cluster's own subnetwork and the
    authorized networks reach it. Pulumi must run in one of them, or `dnsEndpoint` be on."""
    dns_endpoint: Annotated[
        bool,
        Sent(
            "Cluster controlPlaneEndpointsConfig.dnsEndpointConfig.allowExternalTraffic",
            "Provider kubeconfig",
        ),
    ] = False
    """Whether the control plane has a DNS name beside its address, which the kubeconfig then uses.
    From anywhere, IAM decides who gets in (`container.clusters.connect`), and no network does."""
    release_channel: Annotated[
        Literal["rapid", "regular", "stable", "extended"],
        Sent("Cluster releaseChannel.channel"),
        Tries("stable"),
    ] = "regular"
    """The release channel, which decides when GKE upgrades. With `extended`, a minor whose standard
    support has ended costs six times the fee of the control plane."""
    version: Annotated[str | None, Sent("Cluster minMasterVersion"), Tries("1.36")] = None
    """The minimum version of the control plane; left out, the channel's default."""
    maintenance: Annotated[
        GkeMaintenanceArgs | None,
        Tries(
            {"start": "03:00"},
            {
                "start": "2026-01-03T02:00:00Z",
                "end": "2026-01-03T10:00:00Z",
                "recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
            },
            {
                "start": "03:00",
                "exclusions": {
                    "freeze": {
                        "start": "2026-12-20T00:00:00Z",
                        "end": "2027-01-05T00:00:00Z",
                        "scope": "no-upgrades",
                    }
                },
            },
        ),
    ] = None
    """When GKE may upgrade the cluster and its nodes; left out, at any time."""
    deletion_protection: Annotated[
        bool, Sent("Cluster deletionProtection", "Cluster (protect)")
    ] = True
    """Whether Pulumi and its provider refuse to delete or replace the cluster. GKE itself has no
    such protection: gcloud and the console still delete it, unless a lien or an IAM deny policy
    stops them."""
    secrets_encryption_key: Annotated[
        str | None,
        Sent("Cluster databaseEncryption.keyName"),
        Tries(
            "projects/my-project/locations/us-central1/keyRings/ring/cryptoKeys/key",
            "projects/my-project/locations/asia-northeast1/keyRings/ring/cryptoKeys/key",
        ),
    ] = None
    """The Cloud KMS key (`projects/.../cryptoKeys/...`) that encrypts Kubernetes secrets in etcd,
    on top of Google's own encryption at rest. It is in the cluster's region, and GKE's service
    agent has `roles/cloudkms.cryptoKeyEncrypterDecrypter` on it."""
    labels: Annotated[Mapping[str, str], Sent("Cluster resourceLabels"), Tries({"team": "ml"})] = (
        field(default_factory=dict)
    )
    """The labels of the cluster resource, for billing."""

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            dashed = self.name.lower().replace("_", "-")
            hint = f"did you mean {dashed!r}? " if _NAME.match(dashed) else ""
            raise ValueError(
                f"name: {self.name!r} is not a GKE cluster name; {hint}allowed: at most 40 "
                "lowercase letters, digits and '-', a letter first, no '-' at the end"
            )
        if not (catalog.is_zone(self.location) or catalog.is_region(self.location)):
            raise ValueError(
                f"location: {self.location!r} is neither a zone nor a region of Google Cloud; "
                "give one such as us-central1-a or us-central1"
            )
        if meant := catalog.meant_location(self.location):
            what = "zone" if catalog.is_zone(self.location) else "region"
            raise ValueError(
                f"location: there is no such {what} as {self.location}; did you mean {meant!r}?"
            )
        if not (self.authorized_networks or self.private_endpoint or self.dns_endpoint):
            raise ValueError(
                "authorizedNetworks: is empty, so nobody could reach the control plane; name the "
                "networks that may, or set privateEndpoint: true or dnsEndpoint: true"
            )
        for name, block in authorized(self.authorized_networks).items():
            # The API: "... is not a reserved network, which is required for private endpoints".
            if self.private_endpoint and block.is_global:
                raise ValueError(
                    f"authorizedNetworks.{name}: '{block}' is public, and with privateEndpoint "
                    "only private addresses reach the control plane; drop it or privateEndpoint"
                )
        if (key := self.secrets_encryption_key) is not None:
            found = KMS_KEY.fullmatch(key)
            if found is None:
                raise ValueError(
                    f"secretsEncryptionKey: {key!r} is not a Cloud KMS key; give it as "
                    "projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY"
                )
            if found["location"] != self.region:
                raise ValueError(
                    f"secretsEncryptionKey: {key!r} is in {found['location']}, and GKE takes a key "
                    f"of the cluster's region; give one in {self.region}"
                )
        for key, value in self.labels.items():
            if not (LABEL.match(key) and key and LABEL.match(value)):
                raise ValueError(
                    f"labels.{key}: {value!r} is not a Google Cloud label; allowed: at most 63 "
                    "lowercase letters, digits, '-' and '_'"
                )

    @property
    def region(self) -> str:
        """The region that the location is, or is in."""
        return catalog.region_of(self.location)

    def warnings(self) -> list[str]:
        """What GKE takes and is of no use, each with its key in front."""
        then = "GKE takes it, and the update ends at the first Kubernetes object, out of reach"
        found = example_warnings(self.authorized_networks, then)
        if self.private_endpoint and not self.authorized_networks and not self.dns_endpoint:
            found.append(
                "privateEndpoint: without authorizedNetworks only the cluster's own subnetwork "
                "reaches the control plane, and the update ends at the first Kubernetes object "
                "where Pulumi runs elsewhere; name the network from which you come, or set "
                "dnsEndpoint: true"
            )
        elif self.private_endpoint and not self.dns_endpoint:
            found.append(
                "privateEndpoint: the private endpoint answers only clients that come from "
                f"{self.region}, also over a VPN or an Interconnect; if yours ends in another "
                "region, set dnsEndpoint: true"
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeSystemPoolArgs:
    """The CPU nodes where system pods run; GPU nodes refuse pods that do not ask for a GPU."""

    machine_type: Annotated[
        str, Sent("NodePool nodeConfig.machineType"), Tries("e2-standard-4")
    ] = "e2-standard-2"
    """The machine type of the system nodes."""
    min_nodes: Annotated[int, Sent("NodePool autoscaling.totalMinNodeCount")] = 1
    """The least number of nodes in the whole pool, 1 or more: without one, none of the cluster's
    own pods run."""
    max_nodes: Annotated[int, Sent("NodePool autoscaling.totalMaxNodeCount")] = 3
    """The largest number of nodes in the whole pool."""
    disk_size_gb: Annotated[int, Sent("NodePool nodeConfig.diskSizeGb")] = 50
    """The size of a node's boot disk."""
    spot: Annotated[bool, OnChange("system pool"), Sent("NodePool nodeConfig.spot")] = False
    """Whether the system nodes are Spot machines."""

    @property
    def boot_disk(self) -> str:
        """The type of a node's boot disk: the newest machine families take only Hyperdisk."""
        machine = catalog.machine_type(self.machine_type)
        assert machine is not None
        return machine.boot_disk or catalog.DEFAULT_DISK_TYPE

    def __post_init__(self) -> None:
        machine = catalog.machine_type(self.machine_type)
        if machine is None:
            near = difflib.get_close_matches(self.machine_type, catalog.CPU_MACHINE_TYPES, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(
                f"machineType: {self.machine_type!r} is not known; {hint}allowed: the sizes "
                f"of {', '.join(catalog.FAMILIES)}, such as e2-standard-2"
            )
        if machine.accelerator is not None:
            raise ValueError(
                f"machineType: {self.machine_type!r} carries GPUs; give a CPU machine type here "
                "such as e2-standard-2, and the GPUs a pool under gpuPools"
            )
        if self.min_nodes < 1:
            raise ValueError(f"minNodes: {self.min_nodes} is too small; allowed: 1 or more")
        if self.max_nodes < self.min_nodes:
            raise ValueError(
                f"maxNodes: {self.max_nodes} is below minNodes {self.min_nodes}; raise it"
            )
        if self.max_nodes > catalog.MAX_POOL_NODES_PER_ZONE:
            raise ValueError(
                f"maxNodes: {self.max_nodes} is too large; allowed: at most "
                f"{catalog.MAX_POOL_NODES_PER_ZONE}"
            )
        if self.disk_size_gb < 10:
            raise ValueError(f"diskSizeGb: {self.disk_size_gb} is too small; allowed: 10 or more")
        if self.disk_size_gb > catalog.MAX_DISK_GB:
            raise ValueError(
                f"diskSizeGb: {self.disk_size_gb} is too large; allowed: at most "
                f"{catalog.MAX_DISK_GB}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeClusterArgs(GkeControlPlaneArgs):
    """A GKE Standard cluster."""

    # The provider keeps what is no longer given: the field is optional and computed.
    zones: Annotated[
        Sequence[str],
        UNIQUE,
        OnChange(kept("name the zones that its nodes shall be in")),
        Sent("Cluster nodeLocations[]"),
        Tries(["us-central1-a", "us-central1-b"], given={"location": "us-central1"}),
    ] = ()
    """The zones of a regional cluster's nodes; left out, GKE takes three."""
    system_pool: GkeSystemPoolArgs = field(default_factory=GkeSystemPoolArgs)
    """The nodes without GPUs, on which the cluster's own pods run."""
    managed_prometheus: Annotated[
        bool, Sent("Cluster monitoringConfig.managedPrometheus.enabled")
    ] = True
    """Whether Google's managed Prometheus collects the cluster's metrics."""

    def __post_init__(self) -> None:
        check_limits(self)
        # A dataclass with slots is another class, which zero-argument super() does not find.
        GkeControlPlaneArgs.__post_init__(self)
        for zone in self.zones:
            if not catalog.is_zone(zone) or catalog.region_of(zone) != self.region:
                raise ValueError(
                    f"zones: {zone!r} is not a zone of {self.region}; "
                    f"{catalog.zones_of(self.region)}"
                )
        if self.zones and catalog.is_zone(self.location):
            raise ValueError(
                f"zones: only a regional cluster has zones; drop them, or make location "
                f"{self.region}"
            )

    def warnings(self) -> list[str]:
        """Those of the control plane, and what is not known of the system pool's machine type."""
        found = GkeControlPlaneArgs.warnings(self)
        machine = catalog.machine_type(self.system_pool.machine_type)
        if machine is not None and machine.uncertain:
            found.append(
                f"systemPool.machineType: {machine.name} is of no size that is listed here, so "
                "neither its price nor whether Google Cloud offers it is known; gcloud compute "
                f"machine-types describe {machine.name} --zone ZONE says whether it does"
            )
        if machine is not None and machine.arch == "arm64":
            found.append(
                f"systemPool.machineType: {machine.name} is Arm, and GKE taints Arm nodes with "
                "kubernetes.io/arch=arm64:NoSchedule, so that the controllers of batch never run "
                "there; take an x86 machine type such as e2-standard-2"
            )
        return found

    @property
    def node_zones(self) -> int:
        """How many zones the system pool's nodes are in."""
        if catalog.is_zone(self.location):
            return 1
        return len(self.zones) or catalog.ZONES_OF_A_REGION
