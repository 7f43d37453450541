"""The settings of an existing GKE cluster, and whether the cluster is suitable."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal

from ..catalog import gke as catalog
from ..catalog import gke_volumes
from ..cluster import POOL_LABEL, ResolvedPool, Runs
from ..schema.effect import Sent, Silent
from ..schema.limits import BASE64, POOL_NAME, UNIQUE, Limit, matching
from ..schema.on_change import OnChange, Verdict
from ..schema.outputs import NULLABLE, MaybeOutput
from ..schema.refusal import Refusal, collected, raised, refuse
from ..schema.rules import Checked, never, only, rule
from .cluster_args import (
    LABEL_KEY,
    LABEL_VALUE,
    NAME,
    PLACE,
    GkeClusterArgs,
    check_zones,
    unknown_location,
)
from .cpu_pool_args import GkeCpuPoolArgs, replaced
from .data_cache_args import GkeDataCacheArgs
from .network_args import VPC, check_host, network_path
from .sign_in import PROJECT

_ENDPOINT = matching(
    "the address or DNS name of a control plane such as 203.0.113.10",
    re.compile(r"[a-z0-9][a-z0-9.-]*(?::[0-9]+)?"),
)
_OF_GOOGLE = re.compile(r".*[.]gke[.]goog(?::443)?")
"""The suffix of a DNS-based endpoint, whose certificate every machine trusts.
https://cloud.google.com/kubernetes-engine/docs/concepts/network-isolation, 2026-11-24."""
_VERSION = matching(
    "a GKE version such as 1.35 or 1.35.1-gke.1200",
    re.compile(r"1[.][0-9]+([.][0-9]+(-gke[.][0-9]+)?)?"),
)
_NETWORK = matching(
    "the name of a Network object such as gpu-nic-0",
    re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"),
)
_DAEMON = matching(
    "a version of Google's tcpgpudmarxd-dev such as v1.0.22 (tcpxo) or v2.0.15 (tcpx)",
    re.compile(r"v[12](?:[.][0-9]+)+"),
)

DAEMON_LINES: Final[Mapping[str | None, str]] = {"tcpx": "v2.", "tcpxo": "v1."}
"""A pool's `gpuDirect` -> how the versions of its daemon begin."""


def _wrong_daemon(version: str) -> str | None:
    """TCPXO's, v1, needs --uid= and --alsologtostderr before v1.0.18: container-engine-accelerators
    992db812, gpudirect-tcpxo/README.md, "Aug 21, 2025". Of TCPX, v2, the same 98c85a6e, gpudirect-
    tcpx/README.md, has variables for v2.0.12 and later ones."""
    if reason := _DAEMON.refusal(version):
        return str(reason)
    numbers = tuple(map(int, version.removeprefix("v").split(".")))
    first, why = (
        ((1, 0, 18), "needs other arguments than this stack gives it")
        if numbers[0] == 1
        else ((2, 0, 12), "is older than the releases in Google's notes, whose variables pods get")
    )
    if numbers >= first:
        return None
    return (
        f"{version} {why}; use v{'.'.join(map(str, first))} or newer, with the plugin of the same "
        "release, which the cluster's owner installs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeExistingNetworkArgs(Checked):
    """The VPC network of the cluster."""

    vpc: Annotated[Annotated[MaybeOutput, VPC] | None, Sent("StorageClass parameters.network")] = (
        None
    )
    """The VPC network of the cluster, by its name; needed only for claims of Filestore."""
    host_project: Annotated[
        str | None,
        PROJECT,
        only(vpc=True)(
            "is the project of vpc, which is missing; name the VPC network, or drop both"
        ),
        Sent("StorageClass parameters.network"),
    ] = None
    """The ID of the Shared VPC host project with `vpc`; by default, the cluster's project."""

    existing: ClassVar[bool] = False
    """Always false: the stack names no subnetwork; GKE uses the cluster's."""

    def network_in(self, project: str) -> MaybeOutput:
        """The full name of the network, for a cluster in `project`; empty if it is not known."""
        return network_path(self.host_project or project, self.vpc)

    @collected
    def check_in(self, project: str) -> Iterator[Refusal]:
        """Raises `Refusal` if the network cannot belong to a cluster in `project`."""
        yield from check_host(project, self.host_project, vpc=self.vpc)


def _networks_changed(old: str, new: str) -> Verdict:
    """They are networks of the nodes' machines; without any, no pool used them."""
    return None if old == "[]" else "node pools"


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeExistingClusterArgs(Checked):
    """An existing GKE Standard cluster: the stack creates, changes and deletes nothing of the
    cluster itself or of its other node pools."""

    existing: Annotated[str, NAME, OnChange("node pools"), Sent("NodePool cluster")]
    """The name of the cluster in GKE."""
    location: Annotated[
        str, Limit(unknown_location, PLACE), OnChange("node pools"), Sent("NodePool cluster")
    ]
    """The zone or region of the cluster."""
    endpoint: Annotated[Annotated[MaybeOutput, _ENDPOINT] | None, Sent("Provider kubeconfig")] = (
        None
    )
    """The address of the control plane, or its DNS name (`....gke.goog`); by default, every preview
    looks up the cluster by name, and refuses one that is not suitable."""
    certificate_authority: Annotated[
        Annotated[MaybeOutput, BASE64, NULLABLE] | None, Sent("Provider kubeconfig")
    ] = None
    """The certificate authority of the control plane in base64, as `gcloud container clusters
    describe` shows it in `masterAuth.clusterCaCertificate`; needed if `endpoint` is an address."""
    dns_endpoint: Annotated[
        bool,
        never(endpoint=True)(
            "chooses an endpoint of a cluster that is read by name, and endpoint is given; drop "
            "one of the two"
        ),
        Silent("decides which of the endpoints that GKE shows the kubeconfig has"),
    ] = False
    """Whether the kubeconfig uses the DNS name of the control plane, if the cluster is looked up by
    name; it always does if the cluster's owner has turned off access by IP address."""
    version: Annotated[
        str | None, _VERSION, Silent("decides which machine types and capacity types are accepted")
    ] = None
    """A version that the control plane has reached. With it, machine types and capacity types that
    need a newer one are refused before the cluster is looked up."""
    network: GkeExistingNetworkArgs = field(default_factory=GkeExistingNetworkArgs)
    """The VPC network of the cluster."""
    cpu_pools: Annotated[Mapping[Annotated[str, POOL_NAME], GkeCpuPoolArgs], OnChange(replaced)] = (
        field(default_factory=dict)
    )
    """Pools without GPUs, by name: for data loading, Ray heads or gateways. Your own pods select
    one by the label `gpu-cluster/pool`; those of the stack run in GPU pools. In a regional cluster,
    each must name its zones."""
    data_cache: GkeDataCacheArgs | None = None
    """The cache of disks of claims with `storageClass: gpu-cluster-data-cache`, or
    `gpu-cluster-hyperdisk-data-cache` on machines that attach only Hyperdisk: local SSDs of nodes
    whose pool has `dataCacheCount`."""
    gpu_networks: Annotated[
        Sequence[Annotated[str, _NETWORK]],
        UNIQUE,
        OnChange(_networks_changed),
        Sent("NodePool networkConfig.additionalNodeNetworkConfigs", "JobSet"),
    ] = ()
    """The `Network` objects of the cluster's owner through which pods of pools with `gpuDirect:
    tcpxo` (eight) or `tcpx` (the first four) reach the GPUs of other nodes, as interfaces from eth1
    on in this order. A preview reads them and their `GKENetworkParamSet` objects."""
    nccl_plugin: Annotated[
        Literal["stack", "owner"],
        Sent("DaemonSet", "PodSpec volumes[].hostPath.path"),
    ] = "stack"
    """What installs NCCL's plugin on nodes of pools with `gpuDirect`, and with `tcpx` and `tcpxo`
    the device injector: DaemonSets of this stack (`stack`), or Google's own, which the cluster's
    owner runs on all nodes with these GPUs (`owner`)."""
    gpu_direct_daemon: Annotated[
        str | None,
        Limit(_wrong_daemon, _DAEMON.fragment),
        only(nccl_plugin="owner")(
            "belongs to a release of the plugin that the cluster's owner installs; drop the key, "
            "or set ncclPlugin: owner"
        ),
        Sent("PodSpec initContainers[].image"),
    ] = None
    """The version of the daemon in pods with `tcpxo` (v1, at least v1.0.18) or `tcpx` (v2, at
    least v2.0.12), of the same release as the owner's plugin (README.md of gpudirect-tcpxo and of
    gpudirect-tcpx in container-engine-accelerators)."""
    labels: Annotated[
        Mapping[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]],
        Sent("NodePool nodeConfig.resourceLabels"),
    ] = field(default_factory=dict)
    """Labels of the pools' machines, for billing, in addition to the cluster's."""

    secrets_encryption_key: ClassVar[None] = None
    """Always None: the cluster's owner decides how its secrets are encrypted."""

    @rule
    def _check_endpoint(self) -> Iterator[Refusal]:
        if self.endpoint is None and self.certificate_authority is not None:
            yield refuse("endpoint")(
                "is missing although certificateAuthority is set",
                remedy="give both, or drop both to have them read from the cluster",
            )
        if not isinstance(self.endpoint, str):
            return  # None, or unknown: its name has no certificate, an address needs one.
        by_name = _OF_GOOGLE.fullmatch(self.endpoint) is not None
        if by_name == (self.certificate_authority is not None):
            yield refuse("certificateAuthority")(
                "names under gke.goog have a certificate from a public authority; drop the key"
                if by_name
                else "is missing, and is needed to verify the control plane at "
                f"{self.endpoint}; give both keys, or drop both to have them read from the cluster"
            )

    @property
    def first_version(self) -> str:
        """The version that the cluster has reached, as far as is known; else empty."""
        return self.version or ""

    @rule
    def _check_gpu_networks(self) -> Iterator[Refusal]:
        numbers = catalog.GPU_INTERFACES
        if len(self.gpu_networks) not in (0, *numbers.values()):
            yield refuse("gpuNetworks")(
                f"names {len(self.gpu_networks)} networks, and a node has {numbers['tcpxo']} "
                f"interfaces for its GPUs, with tcpx {numbers['tcpx']}; name as many"
            )
        if "default" in self.gpu_networks:
            yield refuse(("gpuNetworks", self.gpu_networks.index("default")))(
                "default is the pods' own network, on eth0; name one of the owner's for GPUs"
            )

    @rule
    def _check_cpu_pools(self) -> Iterator[Refusal]:
        yield from raised(check_zones, self.cpu_pools, self.region)
        for name, pool in self.cpu_pools.items():
            if not pool.zones and self.region == self.location:
                yield refuse(("cpuPools", name, "zones"))(
                    f"is missing; name the zones of {self.region} in which its nodes start"
                )

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self.existing

    @property
    def region(self) -> str:
        """The region of the location; a region is returned unchanged."""
        return catalog.region_of(self.location)

    @property
    def scaler(self) -> Literal["node-pools"]:
        """Always GKE's autoscaler, in node pools of this stack."""
        return "node-pools"

    def path_in(self, project: str) -> str:
        """The cluster's full name, `projects/...`."""
        return f"projects/{project}/locations/{self.location}/clusters/{self.existing}"


AnyGkeClusterArgs = GkeClusterArgs | GkeExistingClusterArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCluster:
    """The properties of a cluster in GKE on which pools and pods depend."""

    version: str
    """The full version of the control plane."""
    autopilot: bool = False
    confidential: bool = False
    """Whether all of its nodes must be Confidential VMs."""
    workload_pool: str = ""
    """The workload identity pool; empty without Workload Identity Federation."""
    drivers: frozenset[str] = frozenset()
    """The enabled addons of CSI drivers, as keys of `_DRIVERS`."""
    dcgm: bool = False
    """Whether GKE collects GPU metrics."""
    multi_networking: bool = False
    """Whether nodes and pods can have several networks."""
    managed_prometheus: bool = True
    network: str = ""
    """The full name of the VPC network, `projects/...`."""
    pools: Sequence[tuple[str, str | None, str | None]] = ()
    """For each node pool: its name, the pool in its nodes' label, and the label of its stack."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Resource -> its maximum for node auto-provisioning and the autoscaler in the whole cluster:
    cores of `cpu`, GiB of `memory`, GPUs by type."""


_DRIVERS: Mapping[str, tuple[str, str]] = {
    "gcsFuseCsiDriverConfig": ("Cloud Storage FUSE", "GcsFuseCsiDriver"),
    "gcpFilestoreCsiDriverConfig": ("Filestore", "GcpFilestoreCsiDriver"),
    "gcePersistentDiskCsiDriverConfig": ("persistent disks", "GcePersistentDiskCsiDriver"),
}
"""Field of `AddonsConfig` -> the driver's name for users, and the addon's name for gcloud's
--update-addons (cloud.google.com/sdk/gcloud/reference/container/clusters/update, 2026-11-24)."""
DRIVER_ADDONS = tuple(_DRIVERS)


def own_account(args: GkeExistingClusterArgs, pools: Mapping[str, ResolvedPool[Any]]) -> bool:
    """Whether some nodes use a service account of the stack, not one that their pool names."""
    return bool(args.cpu_pools) or any(pool.args.service_account is None for pool in pools.values())


def no_dns(args: GkeExistingClusterArgs, project: str) -> str:
    """The error about a cluster whose DNS endpoint is disabled, starting with the key."""
    key, instead = ("dnsEndpoint", ", or drop the key") if args.dns_endpoint else ("existing", "")
    only = "" if args.dns_endpoint else ", its only endpoint,"
    return (
        f"{key}: the DNS endpoint of {args.existing}{only} is disabled; ask its owner to run "
        f"{gcloud('update', args, project)} --enable-dns-access{instead}"
    )


def gcloud(verb: str, args: GkeExistingClusterArgs, project: str) -> str:
    """The command about the cluster."""
    return (
        f"gcloud container clusters {verb} {args.existing} --location {args.location} --project "
        f"{project}"
    )


def unfit(
    args: GkeExistingClusterArgs,
    pools: Mapping[str, ResolvedPool[Any]],
    runs: Runs,
    found: FoundCluster,
    *,
    project: str,
    stack: str,
) -> Iterator[Refusal]:
    """Why the pools, or what `runs`, do not fit the cluster. `stack`: the label that identifies the
    stack's own pools."""
    name = args.existing
    update = gcloud("update", args, project)
    if found.autopilot:
        yield refuse("cluster.existing")(
            f"{name} is an Autopilot cluster, which has no node pools: GKE starts a node for each "
            "pod that requests GPUs; use platform existing for queues and jobs in it"
        )
        return
    if found.confidential:
        yield refuse("cluster.existing")(
            f"{name} has Confidential GKE Nodes for the whole cluster, and the pools of "
            "this stack are not Confidential VMs; name another cluster"
        )
    if not found.workload_pool:
        yield refuse("cluster.existing")(
            f"{name} has no Workload Identity Federation, which the nodes of this stack "
            f"need to hide their own credentials from pods; ask its owner to run {update} "
            f"--workload-pool={project}.svc.id.goog, which changes no existing node pool"
        )
    if args.version and catalog.meets(found.version, (_exact(args.version),)) is False:
        yield refuse("cluster.version")(
            f"{name} runs {found.version}, which is older than {args.version}; lower it"
        )
    for pool, resolved in pools.items():
        if newer := resolved.args.needs_newer(found.version):
            remedy = f"ask the owner of {name}, {found.version}, to upgrade"
            yield Refusal((newer[0],), newer[1], remedy=remedy).under("gpuPools", pool)
        direct = resolved.args.gpu_direct
        if direct in DAEMON_LINES and not found.multi_networking:
            yield refuse(f"gpuPools.{pool}.gpuDirect", direct)(
                f"needs a cluster whose nodes can have several networks, and {name} was created "
                "without --enable-multi-networking",
                remedy="name another cluster, or drop the key",
            )
    for physical, label, owner in found.pools:
        kind = "gpuPools" if label in pools else "cluster.cpuPools"
        if (label in pools or label in args.cpu_pools) and owner != stack:
            yield refuse(f"{kind}.{label}")(
                f"the node pool {physical} of {owner or 'another owner'} has the "
                f"label {POOL_LABEL}={label} in {name}, and pods of one pool would run on the "
                "other's nodes; choose another name"
            )
    yield from _drivers(runs, found, f"{name} does not have; ask its owner to run {update}")
    yield from _metrics(runs, found, name, update)
    network = args.network.network_in(project)
    if isinstance(network, str) and found.network and network not in ("", found.network):
        yield refuse("cluster.network.vpc")(
            f"{name} is in {found.network}; name that network, and its project"
        )


def _exact(version: str) -> str:
    """The first version of a minor or of a patch release, if only that is given."""
    parts = version.partition("-")[0].split(".")
    return version if "-" in version else ".".join([*parts, "0"][:3])


def _drivers(runs: Runs, found: FoundCluster, lacks: str) -> Iterator[Refusal]:
    rows = [gke_volumes.volume_class(name) for name in sorted(runs.storage_classes)]
    files = any(volume is not None and volume.driver == gke_volumes.FILESTORE for volume in rows)
    disks = any(volume is not None and volume.driver == gke_volumes.DISKS for volume in rows)
    needs = [
        *(
            (f"serviceAccounts.{account}.buckets", "gcsFuseCsiDriverConfig")
            for account, args in runs.accounts.items()
            if args.buckets
        ),
        *([("volumeClaims", "gcpFilestoreCsiDriverConfig")] if files else []),
        *([("volumeClaims", "gcePersistentDiskCsiDriverConfig")] if disks else []),
    ]
    for about, addon in needs:
        if addon not in found.drivers:
            what, option = _DRIVERS[addon]
            yield refuse(about)(
                f"need the driver of {what}, which {lacks} --update-addons={option}=ENABLED"
            )


def _metrics(runs: Runs, found: FoundCluster, name: str, update: str) -> Iterator[Refusal]:
    if runs.metrics is None:
        return
    if not found.managed_prometheus:
        yield refuse("monitoring")(
            "Google's managed Prometheus, which collects the metrics, is off in "
            f"{name}; ask its owner to run {update} --enable-managed-prometheus, or drop the block"
        )
    if runs.metrics == "exporter" and found.dcgm:
        yield refuse("monitoring.source")(
            f"{name} collects the metrics of GPUs by GKE's own DCGM, and the "
            "stack's exporter would be a second one on each node; set it to managed"
        )
    if runs.metrics == "managed" and not found.dcgm:
        yield refuse("monitoring.source")(
            f"{name} does not collect the metrics of GPUs; set it to exporter, or ask its owner to "
            f"run {update} --monitoring=EXISTING,DCGM, because the list replaces the cluster's"
        )


def doubts(
    args: GkeExistingClusterArgs, pools: Mapping[str, ResolvedPool[Any]], found: FoundCluster
) -> Iterator[str]:
    """What to know of pools in a cluster of this version, unless the config's own was warned of."""
    for name, pool in pools.items() if args.version is None else ():
        yield from pool.args.claim_warnings(name, found.version)


def bounded(
    args: GkeExistingClusterArgs, pools: Mapping[str, ResolvedPool[Any]], found: FoundCluster
) -> Iterator[str]:
    """A line for each limit of node auto-provisioning that keeps the pools below `maxNodes`: it
    counts all nodes of the cluster, also those that GKE does not provision.

    https://cloud.google.com/kubernetes-engine/docs/concepts/node-auto-provisioning, "Resource
    limits", 2026-11-24.
    """
    machines = [(pool.args.machine, pool.pool.bounds[1]) for pool in pools.values()]
    machines += [(cpu.machine, cpu.max_nodes) for cpu in args.cpu_pools.values()]
    amounts = [("cpu", machine.vcpu * nodes) for machine, nodes in machines]
    amounts += [("memory", machine.memory_gib * nodes) for machine, nodes in machines]
    amounts += [
        (pool.pool.accelerator, pool.pool.gpus_per_node * pool.pool.bounds[1])
        for pool in pools.values()
    ]
    needed: dict[str, float] = {}
    for resource, amount in amounts:
        needed[resource] = needed.get(resource, 0) + amount
    for resource, amount in needed.items():
        limit = found.limits.get(resource)
        if limit is not None and amount > limit:
            yield (
                f"gpuPools: at maxNodes the pools have {amount:g} of {resource}, and node "
                f"auto-provisioning limits the whole of {args.existing} to {limit}; lower "
                "maxNodes, or ask its owner to raise the limit"
            )
