"""The settings of a GKE cluster: control plane, system pool."""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Annotated, ClassVar, Final, Literal

from annotated_types import Ge, Interval

from ..access.addresses import SET_PRIVATE, AuthorizedNetworks, cidr, example_warnings
from ..catalog import gke as catalog
from ..catalog.bad_releases import harm
from ..catalog.dates import holds
from ..scalers import SCALERS
from ..schema.decode import camel
from ..schema.effect import Sent
from ..schema.limits import POOL_NAME, UNIQUE, Limit, matching, pattern
from ..schema.on_change import NEVER, Kept, OnChange, Verdict, kept
from ..schema.outputs import MaybeOutput
from ..schema.refusal import Refusal, collected, refuse, shown
from ..schema.rules import Checked, Order, never, rule
from .cpu_pool_args import CPU_MACHINE, GkeCpuPoolArgs, replaced
from .data_cache_args import GkeDataCacheArgs
from .maintenance_args import GkeMaintenanceArgs
from .network_args import GkeNetworkArgs


def _dashed(name: str) -> str | None:
    dashed = name.lower().replace("_", "-")
    return f"did you mean {dashed!r}?" if catalog.CLUSTER_NAME.fullmatch(dashed) else None


def unknown_location(location: str) -> str | None:
    """Why this is not a valid location, neither a zone nor a region; None if it can be one."""
    if not (catalog.is_zone(location) or catalog.is_region(location)):
        return (
            f"{shown(location)} is neither a zone nor a region of Google Cloud; give one such as "
            "us-central1-a or us-central1"
        )
    if meant := catalog.meant_location(location):
        what = "zone" if catalog.is_zone(location) else "region"
        return f"{location!r} is not a {what} of Google Cloud; did you mean {meant!r}?"
    return None


NAME = matching(
    "a GKE cluster name; allowed: at most 40 lowercase letters, digits and '-', a letter first, "
    "no '-' at the end",
    catalog.CLUSTER_NAME,
    hint=_dashed,
)
ZONE = matching("a zone such as us-central1-a", catalog.ZONE)
KMS_KEY = re.compile(
    r"projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+"
)
_KEY = matching(
    "a Cloud KMS key; give it as projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY",
    KMS_KEY,
)
_LABEL = "[^\\x00-,./:-^`{-\\x7f]"
"""No other ASCII character than lowercase letters, digits, `-` and `_`."""


def _label(part: str, size: str, first: str, ascii_only: str) -> Limit:
    """Letters of any alphabet, as long as they are not uppercase:
    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/creating-managing-labels, 2026-11-28
    """

    def refusal(text: str) -> str | None:
        letters = text == text.lower() and all(char.isalnum() or char in "-_" for char in text)
        if letters and re.fullmatch(ascii_only, text) and (not first or text[0].isalpha()):
            return None
        return (
            f"{shown(text)} is not the {part} of a Google Cloud label; allowed: {size} lowercase "
            f"letters, digits, '-' and '_'{first}"
        )

    return Limit(refusal, pattern(re.compile(ascii_only)))


LABEL_KEY = _label("key", "1 to 63", ", a letter first", f"[^\\x00-`{{-\\x7f]{_LABEL}{{0,62}}")
LABEL_VALUE = _label("value", "0 to 63", "", f"{_LABEL}{{0,63}}")
PLACE = pattern(catalog.REGION, catalog.ZONE)
DiskSize = Annotated[int, Interval(ge=catalog.MIN_DISK_GB, le=catalog.MAX_DISK_GB)]


_VERSION = matching(
    "a GKE version such as 1.36 or 1.36.4-gke.1391000",
    re.compile(r"1\.[0-9]+(?:\.[0-9]+(?:-gke\.[0-9]+)?)?"),
    hint=lambda version: (
        f"write {version[1:]}"
        if re.match("v[0-9]", version)
        else "the provider cannot compare it when the key changes; drop the key for the channel's"
        if version == "latest"
        else None
    ),
)


def lower(old: str, new: str) -> Verdict:
    """GKE has no way back to an older minor: the control plane stays as it is."""
    before, after = (re.match(r'"1\.([0-9]+)', text) for text in (old, new))
    if before and after and int(after[1]) < int(before[1]):
        return Kept("GKE never downgrades a control plane: put the old value back")
    return None


_SECURITY_GROUP = matching(
    "a group such as gke-security-groups@example.com, which must have this name in your domain",
    re.compile(r"gke-security-groups@[a-z0-9][-a-z0-9]*(?:\.[-a-z0-9]+)+"),
)
"""cloud.google.com/kubernetes-engine/docs/how-to/google-groups-rbac, "Configure your groups"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeControlPlaneArgs(Checked):
    """A GKE cluster's control plane."""

    name: Annotated[str, NAME, OnChange("cluster"), Sent("Cluster name")]
    """The physical name. It is fixed, so that a lost state can be recovered by import."""
    location: Annotated[
        str, Limit(unknown_location, PLACE), OnChange("cluster"), Sent("Cluster location")
    ]
    """The location: a zone (one control plane, cheaper) or a region (three)."""
    network: GkeNetworkArgs = field(default_factory=GkeNetworkArgs)
    """The IP ranges of the VPC that the stack creates, or the subnetwork of an existing one."""
    authorized_networks: Annotated[
        AuthorizedNetworks, Sent("Cluster masterAuthorizedNetworksConfig.cidrBlocks[]")
    ] = field(default_factory=dict)
    """The networks that may reach the control plane's address: display name -> IPv4 CIDR; public
    networks up to a /16. With `privateEndpoint`, private networks that are routed into the VPC."""
    private_endpoint: Annotated[
        bool, Sent("Cluster privateClusterConfig.enablePrivateEndpoint")
    ] = False
    """Whether the control plane has no public address: only the cluster's own subnetwork and the
    authorized networks reach it. Pulumi must run in one of them, unless `dnsEndpoint` is on."""
    dns_endpoint: Annotated[
        bool, Sent("Cluster controlPlaneEndpointsConfig.dnsEndpointConfig", "Provider kubeconfig")
    ] = False
    """Whether the control plane has a DNS name in addition to its address; the kubeconfig then uses
    the name. It can be reached from anywhere: only IAM decides who gets access
    (`container.clusters.connect`)."""
    release_channel: Annotated[
        Literal["rapid", "regular", "stable", "extended"], Sent("Cluster releaseChannel.channel")
    ] = "regular"
    """The release channel, which decides when GKE upgrades. With `extended`, a minor version whose
    standard support has ended costs six times the control plane fee."""
    version: Annotated[str | None, _VERSION, OnChange(lower), Sent("Cluster minMasterVersion")] = (
        None
    )
    """The minimum version of the control plane, such as `1.36` or `1.36.4-gke.1391000`; by default,
    the channel's default."""
    maintenance: GkeMaintenanceArgs | None = None
    """When GKE may upgrade the cluster and its nodes; by default, at any time."""
    deletion_protection: Annotated[
        bool, Sent("Cluster deletionProtection", "Cluster (protect)")
    ] = True
    """Whether Pulumi and its provider refuse to delete or replace the cluster. GKE itself does not:
    gcloud and the console still delete it, unless a lien or an IAM deny policy stops them."""
    secrets_encryption_key: Annotated[
        Annotated[MaybeOutput, _KEY] | None, Sent("Cluster databaseEncryption.keyName")
    ] = None
    """The Cloud KMS key (`projects/.../cryptoKeys/...`) that encrypts Kubernetes secrets in etcd,
    in addition to Google's own encryption at rest. It must be in the cluster's region, and GKE's
    service agent needs `roles/cloudkms.cryptoKeyEncrypterDecrypter` on it."""
    security_group: Annotated[
        str | None,
        _SECURITY_GROUP,
        OnChange(
            kept(
                "turn it off with gcloud container clusters update NAME --location LOCATION "
                "--project PROJECT --security-group=''"
            )
        ),
        Sent("Cluster authenticatorGroupsConfig.securityGroup"),
    ] = None
    """The Google Group whose nested groups may have rights in the cluster, so that members of teams
    can be groups: `gke-security-groups@DOMAIN`, the only name that Google accepts."""
    labels: Annotated[
        Mapping[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]],
        Sent("Cluster resourceLabels"),
    ] = field(default_factory=dict)
    """Labels of the cluster resource, for billing."""

    @property
    def first_version(self) -> str:
        """The version that the cluster starts with, as far as is known."""
        return self.version or catalog.CHANNEL_DEFAULTS[self.release_channel.upper()]

    @rule
    def _check_access(self) -> None:
        if not (self.authorized_networks or self.private_endpoint or self.dns_endpoint):
            raise refuse("authorizedNetworks")(
                "is empty, so nobody could reach the control plane; name the networks that may, or "
                f"{SET_PRIVATE} or dnsEndpoint: true"
            )

    @rule
    def _check_oldest(self) -> None:
        oldest = catalog.CHANNEL_MINORS["extended"][0]
        minor = re.match(r"1\.([0-9]+)", self.version or "")
        if minor is not None and int(minor[1]) < oldest:
            remedy = f"allowed: 1.{oldest} or newer, or no version for the channel's default"
            raise refuse("version")(f"GKE no longer runs {self.version}", remedy=remedy)

    @rule
    def _check_networks(self) -> Iterator[Refusal]:
        for name, text in self.authorized_networks.items():
            # The API's error: "... is not a reserved network, which is required for private
            # endpoints".
            if self.private_endpoint and ipaddress.IPv4Network(text).is_global:
                yield refuse(("authorizedNetworks", name), text)(
                    "is public, and with privateEndpoint only private addresses reach the control "
                    "plane; drop it, or drop privateEndpoint"
                )

    @rule
    def _check_key(self) -> None:
        key = self.secrets_encryption_key
        match = KMS_KEY.fullmatch(key) if isinstance(key, str) else None
        if match and match["location"] != self.region:
            raise refuse("secretsEncryptionKey", key)(
                f"is in {match['location']}, and GKE needs a key in the cluster's region",
                remedy=f"give one in {self.region}",
            )

    @property
    def region(self) -> str:
        """The region of the location; a region is returned unchanged."""
        return catalog.region_of(self.location)

    def _version_warnings(self) -> Iterator[str]:
        least, most = catalog.CHANNEL_MINORS[self.release_channel]
        minor = re.match(r"1\.([0-9]+)", self.version or "")
        if minor is None or least <= int(minor[1]) <= most:
            return
        older = int(minor[1]) < least
        if older or holds("gke.CHANNEL_MINORS"):
            yield (
                f"version: GKE creates clusters of channel {self.release_channel} in 1.{least} to "
                f"1.{most}, as far as is known, and {self.version} is "
                f"{'older' if older else 'newer'}: a new cluster would be refused; choose another "
                "version, or another releaseChannel"
            )

    def warnings(self) -> list[str]:
        """Warnings about settings that have no effect on GKE, each starting with its key."""
        then = "GKE would accept it, but Pulumi could then not reach the control plane"
        lines = example_warnings(self.authorized_networks, then)
        lines += self._version_warnings()
        if self.version and (bad := harm("gke", self.version)):
            lines.append(f"version: {bad.line(self.version)}")
        lines += self.maintenance.warnings() if self.maintenance else []
        if self.private_endpoint and not self.authorized_networks and not self.dns_endpoint:
            lines.append(
                "privateEndpoint: without authorizedNetworks only the cluster's own subnetwork "
                "reaches the control plane, and the update fails at the first Kubernetes object "
                "if Pulumi runs elsewhere; name the network from which you connect, or set "
                "dnsEndpoint: true"
            )
        elif self.private_endpoint and not self.dns_endpoint:
            lines.append(
                f"privateEndpoint: the private endpoint answers only clients in {self.region}, "
                "also over a VPN or an Interconnect; if yours ends in another region, set "
                "dnsEndpoint: true"
            )
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeSystemPoolArgs(Checked):
    """The CPU nodes where system pods run; GPU nodes refuse pods that do not ask for a GPU."""

    machine_type: Annotated[str, CPU_MACHINE, Sent("NodePool nodeConfig.machineType")] = (
        "e2-standard-2"
    )
    """The machine type of the system nodes."""
    min_nodes: Annotated[int, Ge(1), Sent("NodePool autoscaling.totalMinNodeCount")] = 1
    """The minimum number of nodes in the whole pool, at least 1: without a node, none of the
    cluster's own pods run."""
    max_nodes: Annotated[
        int,
        Interval(ge=1, le=catalog.MAX_POOL_NODES_PER_ZONE),
        Sent("NodePool autoscaling.totalMaxNodeCount"),
    ] = 3
    """The largest number of nodes in the whole pool."""
    disk_size_gb: Annotated[DiskSize, Sent("NodePool nodeConfig.diskSizeGb")] = 50
    """The size of a node's boot disk."""
    spot: Annotated[bool, OnChange("system pool"), Sent("NodePool nodeConfig.spot")] = False
    """Whether the system nodes are Spot machines."""

    @property
    def boot_disk(self) -> str:
        """The type of a node's boot disk: the newest machine families support only Hyperdisk."""
        machine = catalog.machine_type(self.machine_type)
        assert machine is not None
        return machine.features.boot_disk

    ORDERS: ClassVar = (Order("min_nodes", "max_nodes", of_most=True),)


GPU_NETWORKS: Final = tuple(
    f"gpu-nic-{number}" for number in range(max(catalog.GPU_INTERFACES.values()))
)
"""The cluster's own names of the networks between GPUs, by which pods join them."""


def _networks_changed(old: str, new: str) -> Verdict:
    """The provider turns several networks on and off in place (google 2026-08-21,
    resource_container_cluster.go); the ranges of those that exist stay."""
    return None if "null" in (old, new) else NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeClusterArgs(GkeControlPlaneArgs):
    """A GKE Standard cluster."""

    # The provider keeps a value that is no longer set: the field is optional and computed.
    zones: Annotated[
        Sequence[Annotated[str, ZONE]],
        UNIQUE,
        OnChange(kept("name the zones of its nodes")),
        Sent("Cluster nodeLocations[]"),
    ] = ()
    """The zones of a regional cluster's nodes; by default, GKE chooses three."""
    system_pool: GkeSystemPoolArgs = field(default_factory=GkeSystemPoolArgs)
    """The nodes without GPUs on which the cluster's own pods run."""
    cpu_pools: Annotated[Mapping[Annotated[str, POOL_NAME], GkeCpuPoolArgs], OnChange(replaced)] = (
        field(default_factory=dict)
    )
    """Additional pools without GPUs, by name: for data loading, Ray heads or gateways. Your own
    pods select one by the label `gpu-cluster/pool`; those of the stack run in GPU pools."""
    scaler: Annotated[
        Literal["node-pools", "compute-classes"],
        OnChange("node pools"),
        Sent("Cluster clusterAutoscaling.enabled", "ComputeClass"),
    ] = "node-pools"
    """What adds GPU nodes: GKE's autoscaler in node pools of this stack (`node-pools`), or GKE in
    node pools that it creates itself, with a compute class for each pool (`compute-classes`) and
    optionally an order of `fallback`."""
    gpu_networks_cidr: Annotated[
        str | None,
        cidr(8, 24),
        OnChange(_networks_changed),
        Sent("Cluster enableMultiNetworking"),
    ] = None
    """The IP range, such as 192.168.0.0/16, of the networks between GPUs that the stack creates for
    pools with `gpuDirect: tcpxo` (eight) or `tcpx` (the first four of these), an eighth each. With
    it, nodes and pods of the cluster can have several networks."""
    autoscaling_profile: Annotated[
        Literal["balanced", "optimize-utilization"],
        Sent("Cluster clusterAutoscaling.autoscalingProfile"),
    ] = "balanced"
    """When GKE removes nodes: after 10 minutes with little load (`balanced`), or sooner, with pods
    placed on the fullest nodes (`optimize-utilization`)."""
    data_cache: Annotated[
        GkeDataCacheArgs | None,
        never(scaler="compute-classes")(
            "is not possible with scaler compute-classes: compute classes have no field for Data "
            "Cache; drop it, or set scaler: node-pools"
        ),
    ] = None
    """The cache of disks of claims with `storageClass: gpu-cluster-data-cache`, or
    `gpu-cluster-hyperdisk-data-cache` on machines that attach only Hyperdisk: local SSDs of nodes
    whose pool has `dataCacheCount`."""
    managed_prometheus: Annotated[
        bool, Sent("Cluster monitoringConfig.managedPrometheus.enabled")
    ] = True
    """Whether Google's managed Prometheus collects the cluster's metrics."""

    @rule
    def _check_gpu_networks(self) -> Iterator[Refusal]:
        if self.gpu_networks_cidr is None:
            return
        if self.network.host_project is not None:
            # GetSubnetwork of kubernetes/cloud-provider-gcp 4e245312 looks in the host project.
            yield refuse("gpuNetworksCidr")(
                "in a Shared VPC, GKE expects all networks of a cluster in the host project, where "
                "this stack creates nothing; drop the key"
            )
        if self.network.existing:
            return
        network = IPv4Network(self.gpu_networks_cidr)
        # "Pod networks within the same GKE cluster can't have overlapping CIDR ranges": docs.cloud.
        # google.com/kubernetes-engine/docs/how-to/setup-multinetwork-support-for-pods, 2026-11-29.
        for key in ("nodes_cidr", "pods_cidr", "services_cidr"):
            if network.overlaps(IPv4Network(other := getattr(self.network, key))):
                yield refuse("gpuNetworksCidr", self.gpu_networks_cidr)(
                    f"overlaps network.{camel(key)} {other}; choose another"
                )

    @rule
    def _check_scaler(self) -> None:
        first = catalog.FIRST_VERSIONS["compute-class-node-labels"]
        classes = SCALERS[self.scaler].in_cluster
        if classes and self.version is not None and catalog.meets(self.version, first) is False:
            raise refuse("scaler")(
                f"compute-classes needs GKE {' or '.join(first)}, the first version in which they "
                f"label and taint their nodes; raise version {self.version}, or drop it"
            )

    @rule
    def _check_cpu_pools(self) -> None:
        check_zones(self.cpu_pools, self.region)

    @rule
    def _check_zones(self) -> Iterator[Refusal]:
        for zone in self.zones:
            if catalog.region_of(zone) != self.region:
                reason = f"is not a zone of {self.region}; {catalog.zones_of(self.region)}"
                yield refuse("zones", zone)(reason)
        if self.zones and catalog.is_zone(self.location):
            yield refuse("zones")(
                "multi-zonal clusters are not supported, only regional ones have zones; drop them, "
                f"or make location {self.region}"
            )

    def warnings(self) -> list[str]:
        """The warnings of the control plane, and those about the system pool's machine type."""
        lines = GkeControlPlaneArgs.warnings(self)
        machine = catalog.machine_type(self.system_pool.machine_type)
        if machine is not None and machine.doubt:
            lines.append(f"systemPool.{machine.doubt}")
        # Of a GiB GKE reserves a third, and what it runs itself in kube-system requests the rest.
        # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
        if machine is not None and machine.memory_gib < 2:
            lines.append(
                f"systemPool.machineType: {machine.name} has {machine.memory_gib:g} GiB of memory, "
                "too little for GKE's own pods; use e2-medium or a larger machine"
            )
        if machine is not None and machine.arch == "arm64":
            lines.append(
                f"systemPool.machineType: {machine.name} is Arm, and GKE taints Arm nodes with "
                "kubernetes.io/arch=arm64:NoSchedule, so that the controllers of batch never run "
                "there; use an x86 machine type such as e2-standard-2"
            )
        return lines

    @property
    def node_zones(self) -> int:
        """The number of zones of the system pool's nodes."""
        if catalog.is_zone(self.location):
            return 1
        return len(self.zones) or catalog.ZONES_OF_A_REGION


@collected
def check_zones(cpu_pools: Mapping[str, GkeCpuPoolArgs], region: str) -> Iterator[Refusal]:
    """Raises `Refusal` if a pool without GPUs would be outside the cluster's region."""
    for name, pool in cpu_pools.items():
        for zone in pool.zones:
            if catalog.region_of(zone) != region:
                yield refuse(("cpuPools", name, "zones"), zone)(
                    f"is not a zone of {region}; {catalog.zones_of(region)}"
                )
