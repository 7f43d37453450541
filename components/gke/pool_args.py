"""The settings of a GPU node pool on GKE Standard, and the pool that follows from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Interval, MinLen

from ..catalog import gke as catalog
from ..catalog import gke_volumes, room
from ..catalog import kubernetes as names
from ..catalog.dates import holds
from ..catalog.gke_families import COMPACT_MOST, COMPACT_NODES
from ..catalog.images import PARTITION_SIZES
from ..cluster import (
    GPU_RESOURCE,
    GPU_TAINT,
    POOL_LABEL,
    AllAtOnce,
    Fabric,
    GpuPart,
    GpuPool,
    ResolvedPool,
    Sharing,
    Taint,
    Toleration,
    all_places,
    check_fixed,
    smallest,
)
from ..discovery import discovery_labels
from ..scalers import SCALERS, NotWith, check_scaler
from ..schema.decode import at
from ..schema.effect import Sent
from ..schema.fallback import DISTINCT, check_keys, of_each, price_rank, way
from ..schema.limits import IMAGE, UNIQUE, Hint, one_of
from ..schema.on_change import OnChange, kept
from ..schema.outputs import MaybeOutput
from ..schema.refusal import Range, Refusal, Refusals, collected, raised, refuse
from ..schema.rules import Fits, Order, Rule, never, only, rule
from . import reservation as reservations
from .classes import WHOLE_GPUS, in_class, not_in_classes
from .cluster_args import GPU_NETWORKS, ZONE, DiskSize
from .cpu_pool_args import NodeLabels
from .disk_image import DISK_IMAGE
from .existing_args import DAEMON_LINES, AnyGkeClusterArgs, GkeExistingClusterArgs
from .fallback_args import Capacity, GkeFallbackArgs
from .machine_args import GkeGpuMachineArgs
from .node_args import (
    KUBELET,
    LINUX,
    LOCATION_POLICY,
    NETWORK_TAGS,
    SERVICE_ACCOUNT,
    GkeUpgradeArgs,
    check_machine,
)  # fmt: skip
from .sharing_args import GkeSharingArgs

SPOT_TAINT = Taint(key="cloud.google.com/gke-spot", value="true")

ARM_TOLERATION = Toleration(key=names.ARCH, operator="Equal", value="arm64", effect="NoSchedule")
"""https://cloud.google.com/kubernetes-engine/docs/how-to/prepare-arm-workloads-for-deployment"""

QUEUED_TOLERATION = Toleration(
    key="cloud.google.com/gke-queued", operator="Equal", value="true", effect="NoSchedule"
)
"""GKE's own taint on the nodes of a queued pool: GoogleCloudPlatform/cluster-autoscaler 7d250507,
pkg/provisioningrequests/pods/pods.go."""

LEAST_TWO = Hint("name at least two ways of buying nodes, or set capacityType")
MIGRATE_BACK = Annotated[bool, Sent("ComputeClass spec.activeMigration")]
_NOT_QUEUED = never(queued=True)
"""The conditions in GKE's "Run a large-scale workload with flex-start with queued provisioning",
and in GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool (2026-11-24)."""
_FLEX_SECONDS = Range(catalog.MIN_FLEX_RUN_SECONDS, catalog.MAX_FLEX_RUN_SECONDS)
_NODE_SYSTEM = not_in_classes("this stack does not write a class's nodeSystemConfig")


def attachable_classes(machine: catalog.MachineType, *, cache: bool = False) -> dict[str, Any]:
    """The fields of a `GpuPool` with this machine that concern the disks of claims. `cache`:
    whether it has local SSDs for Data Cache."""
    classes = gke_volumes.unattachable(machine.features.attachable, cache=cache)
    return {
        "unattachable": classes,
        "attachable": gke_volumes.HYPERDISK_CLASS if "" in classes else None,
        "cacheable": [name for name in gke_volumes.CACHED if name not in classes],
    }


def _loses_cache(way: str) -> Rule:
    """kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, pull requests 2331 and 2355: fixed in
    v1.26.1, and GKE does not document which of its versions have that (read 2026-11-29)."""
    return never(capacity_type=way)(
        "is not possible with capacityType {capacity_type}: Google ends such a node before its "
        "disks are unmounted, and GKE may not mount a disk again whose cache was lost; drop the "
        "key{or_on_demand}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeGpuNodePoolArgs(GkeGpuMachineArgs):
    """A GPU node pool on GKE Standard."""

    min_nodes: Annotated[
        int,
        Ge(0),
        not_in_classes("GKE creates the node pools of a compute class when pods need them"),
        Fits("{!r} is not possible with capacityType flex-start"),
        Sent("NodePool autoscaling.totalMinNodeCount"),
    ] = 0
    """The minimum number of nodes in the whole pool, see limitsPer. GKE starts a pool with the same
    number of nodes in each zone, so one with `minNodes: 1` in two zones starts with two; its
    autoscaler removes the unused one after 10 minutes."""
    max_nodes: Annotated[int, Ge(1), Sent("NodePool autoscaling.totalMaxNodeCount")] = 1
    """The maximum number of nodes in the whole pool, see limitsPer. With compute classes, GKE
    counts GPUs by model: pools of one model together have at most as many as all their nodes."""
    limits_per: Annotated[
        Literal["pool", "zone"],
        not_in_classes("GKE limits GPUs per cluster"),
        _NOT_QUEUED(
            "zone is not possible with queued, whose jobs have all of their nodes in one zone and "
            "would count on those of all; drop the key"
        ),
        Sent("NodePool autoscaling"),
    ] = "pool"
    """Whether minNodes and maxNodes apply to the whole pool, or to each of its zones."""
    location_policy: Annotated[
        LOCATION_POLICY,
        _NOT_QUEUED(
            "{} is not possible with queued, which takes all nodes of a job from one zone; drop "
            "the key"
        ),
    ] = "any"
    """The zones of new nodes: `any` zone that has the GPU, or all zones evenly (`balanced`)."""
    zones: Annotated[Sequence[Annotated[str, ZONE]], UNIQUE, Sent("NodePool nodeLocations[]")] = ()
    """The zones of the nodes, all in the cluster's region, even if the cluster itself is in one
    zone. By default, every zone of the cluster's location that is known to have the accelerator."""
    labels: Annotated[NodeLabels, Sent("NodePool nodeConfig.labels")] = field(default_factory=dict)
    """Additional labels of the nodes."""
    discovery_labels: Annotated[bool, Sent("NodePool nodeConfig.labels")] = False
    """Whether nodes have the labels of GPU feature discovery (`nvidia.com/gpu.product`, `.count`,
    `.memory`, and `.replicas` with `sharing`), which SkyPilot, dstack and dashboards use to find
    GPUs, even in a pool without nodes."""
    taints: Annotated[Sequence[Taint], Sent("NodePool nodeConfig.taints[]")] = ()
    """Additional taints; `GPU_TAINT` is always set."""
    capacity_type: Annotated[
        Capacity,
        OnChange("GPU pool"),
        Sent(
            "NodePool nodeConfig.spot",
            "NodePool nodeConfig.flexStart",
            "NodePool nodeConfig.reservationAffinity.consumeReservationType",
        ),
    ] = "on-demand"
    """How the nodes are bought."""
    queued: Annotated[
        bool,
        not_in_classes("the node pools of a class grow for any pod"),
        OnChange("GPU pool"),
        Sent("NodePool queuedProvisioning.enabled", "AdmissionCheck", "ProvisioningRequestConfig"),
    ] = False
    """Whether a job gets either all of its nodes at once or none, and waits in its queue until
    then: GKE's flex-start with queued provisioning. Only jobs of a queue run on such a pool.
    Requires capacityType `flex-start`."""
    topology_aware: Annotated[
        bool,
        not_in_classes("their nodes exist only once a job needs them"),
        Sent("Topology", "ResourceFlavor spec.topologyName"),
    ] = False
    """Whether Kueue places the pods of jobs by where nodes are in Google's network, so that a
    training job can have `requiredTopology` or `preferredTopology`. On a pool with equal `minNodes`
    and `maxNodes`, or with `queued`, of machine types that docs/reference/support-matrix.md
    lists."""
    reservation: Annotated[
        Annotated[MaybeOutput, reservations.RESERVATION] | None,
        OnChange("GPU pool"),
        Sent("NodePool nodeConfig.reservationAffinity.values[]"),
    ] = None
    """The reservation that the nodes use, with capacityType `reservation`: its name, or
    `projects/OWNER/reservations/NAME` if another project shares it; either with
    `/reservationBlocks/BLOCK` for a part. `gpu-cluster capacity` shows how much of it is free."""
    any_reservation: Annotated[
        bool,
        OnChange("GPU pool"),
        Sent("NodePool nodeConfig.reservationAffinity.consumeReservationType"),
    ] = False
    """Whether on-demand nodes use any reservation of the project that fits their machines and that
    need not be named, while it has room, before they are bought (`ANY_RESERVATION`)."""
    os_image: Annotated[Literal["cos", "ubuntu"], Sent("NodePool nodeConfig.imageType")] = "cos"
    """The operating system of the nodes: Container-Optimized OS or Ubuntu."""
    fallback: Annotated[
        Sequence[Capacity | GkeFallbackArgs],
        MinLen(2),
        LEAST_TWO,
        DISTINCT,
        Sent("ComputeClass spec.priorities[]"),
        NotWith("node-pools", "the nodes of a node pool are all bought in the same way"),
    ] = ()
    """The ways of buying nodes, in the order in which they are tried, with the values of
    `capacityType`, which must be omitted. An entry may be a map with `capacityType`, `zones` and
    `machineType` of its own."""
    migrate_back: Annotated[
        MIGRATE_BACK, NotWith("node-pools", "a node pool has no order of fallback")
    ] = True
    """Whether GKE moves pods back to an earlier choice of `fallback` once it is available. It
    evicts them, except those that prevent the removal of their node, as this stack's jobs do."""
    consolidation_delay_minutes: Annotated[
        int | None,
        Interval(ge=1, le=1440),
        NotWith("node-pools", "node pools have the delay of cluster.autoscalingProfile"),
        Sent("ComputeClass spec.autoscalingPolicy.consolidationDelayMinutes"),
    ] = None
    """How many minutes a node is idle before GKE removes it; by default, according to
    `cluster.autoscalingProfile`."""
    driver: Annotated[
        Literal["managed", "daemonset", "none"],
        not_in_classes("GKE installs the driver on nodes of a compute class"),
        OnChange("GPU pool"),
        only(of=("managed",), device_plugin="gke")(
            "managed is installed by the DaemonSet of GKE's device plugin, which devicePlugin "
            "{device_plugin} turns off; use daemonset, or none if somebody else installs the "
            "driver"
        ),
        Sent(
            "NodePool nodeConfig.guestAccelerators[].gpuDriverInstallationConfig.gpuDriverVersion",
            "DriverInstaller",
        ),
    ] = "managed"
    """What installs the driver: GKE (`managed`), a DaemonSet of this stack (`daemonset`), or
    software that you install (`none`), such as NVIDIA's GPU Operator."""
    driver_version: Annotated[
        Literal["default", "latest"],
        OnChange("GPU pool"),
        never(driver="daemonset")(
            "{!r} needs driver managed; a DaemonSet installs what its image carries, so drop the "
            "key or set installerImage"
        ),
        never(driver="none")(
            "{!r} needs driver managed; with driver none, the installer of the driver chooses it; "
            "drop the key"
        ),
        never(of=("latest",), os_image="ubuntu")(
            "latest exists only for cos; use default, or osImage cos"
        ),
        Sent(
            "NodePool nodeConfig.guestAccelerators[].gpuDriverInstallationConfig.gpuDriverVersion"
        ),
    ] = "default"
    """The driver that GKE installs; with driver `managed`."""
    installer_image: Annotated[
        str | None,
        IMAGE,
        only(driver="daemonset")("needs driver daemonset; drop the key, or set driver: daemonset"),
        Sent("PodSpec initContainers[].image"),
    ] = None
    """Your own installer image instead of the one that GKE preloads; with driver `daemonset`."""
    driver_branch: Annotated[
        Annotated[str, one_of(*catalog.UBUNTU_DRIVERS)] | None,
        only(driver="daemonset", os_image="ubuntu")(
            "{} needs driver daemonset and osImage ubuntu; drop the key, or set both"
        ),
        never(installer_image=True)(
            "cannot be combined with installerImage, which installs its own driver; drop one of "
            "the two"
        ),
        Sent("PodSpec initContainers[].env[].value"),
    ] = None
    """NVIDIA's driver branch with driver `daemonset` and osImage `ubuntu`; by default, GKE's choice
    for the node's version. Running nodes keep theirs: replace them after a change."""
    device_plugin: Annotated[
        Literal["gke", "nvidia", "dra", "none"],
        not_in_classes("nodes of a compute class have GKE's device plugin"),
        never(of=("dra",), queued=True)(
            "dra is not possible with queued: GKE starts the nodes of a request before there are "
            "claims; drop one of the two"
        ),
        never(of=("dra",), os_image="ubuntu")(
            "dra is supported only with osImage cos, in whose directory the DRA driver of this "
            "stack looks for NVIDIA's driver; use cos, or devicePlugin: gke"
        ),
        never(of=("dra",), gpu_direct=True)(
            "dra is not possible with gpuDirect, whose network this stack sets up for GPUs that "
            "pods request; drop one of the two"
        ),
        Sent("DevicePlugin", "NodePool nodeConfig.labels"),
    ] = "gke"
    """Which device plugin runs: GKE's (`gke`), NVIDIA's in a DaemonSet of this stack (`nvidia`), or
    one that you install (`none`), such as NVIDIA's GPU Operator's; or NVIDIA's DRA driver in a
    DaemonSet of this stack (`dra`), from which pods get GPUs by ResourceClaims. `dra` needs GKE
    1.34 or newer, osImage `cos`, and driver `daemonset` or `none`."""
    sharing: Annotated[
        GkeSharingArgs | None,
        WHOLE_GPUS,
        OnChange("GPU pool"),
        only(device_plugin="gke")("is done by GKE on this platform; set devicePlugin: gke"),
    ] = None
    """How pods share a GPU; by default, each GPU belongs to one pod."""
    disk_size_gb: Annotated[DiskSize, Sent("NodePool nodeConfig.diskSizeGb")] = 100
    """The size of the boot disk in GB; CUDA images need 5 to 20 GB each."""
    disk_type: Annotated[
        str | None,
        one_of(*catalog.DISK_TYPES),
        Fits("{} cannot be used with {machine_type}"),
        Sent("NodePool nodeConfig.diskType"),
    ] = None
    """The type of the boot disk; by default, `pd-balanced`, or `hyperdisk-balanced` on machine
    types that accept no other."""
    local_storage: Annotated[
        Literal["ephemeral", "block"] | None,
        not_in_classes("the pods of a class have local SSDs as their disk", but=("ephemeral",)),
        OnChange("GPU pool"),
        Sent(
            "NodePool nodeConfig.ephemeralStorageLocalSsdConfig.localSsdCount",
            "NodePool nodeConfig.localNvmeSsdBlockConfig.localSsdCount",
        ),
    ] = None
    """How the local SSDs of the nodes are used. `ephemeral` makes them together the disk for
    images, emptyDir volumes and logs, instead of the boot disk; it is the default of machine types
    that include local SSDs, and others have none by default. `block` leaves each to you, without a
    file system, at `/dev/disk/by-id/google-local-ssd-block0`, `1` and so on. What is on them goes
    with the node."""
    local_ssd_count: Annotated[
        int | None,
        Ge(1),
        Fits("{!r} is not possible with {machine_type}"),
        Sent(
            "NodePool nodeConfig.ephemeralStorageLocalSsdConfig.localSsdCount",
            "ComputeClass spec.priorities[].storage.localSSDCount",
        ),
    ] = None
    """How many local SSDs, mostly of 375 GiB, a node has; by default, the only number that the
    machine type can have. N1, and A2 with one, two or four A100 40GB, have several."""
    data_cache_count: Annotated[
        int | None,
        Ge(1),
        not_in_classes("compute classes have no field for Data Cache"),
        OnChange("GPU pool"),
        _loses_cache("spot"),
        _loses_cache("flex-start"),
        Fits("{!r} is not possible with {machine_type}"),
        Sent("NodePool nodeConfig.ephemeralStorageLocalSsdConfig.dataCacheCount"),
    ] = None
    """How many of the node's local SSDs are the cache of disks that pods mount (GKE Data Cache),
    with `cluster.dataCache`; the others are the disk of pods. It needs `localStorage:
    ephemeral`, which is the default of machine types that include local SSDs."""
    image_streaming: Annotated[
        bool | None,
        OnChange(kept("set it to false to turn it off")),
        never(of=(True,), os_image="ubuntu")("needs osImage cos; drop one of the two"),
        Sent("NodePool nodeConfig.gcfsConfig.enabled", "IAMMember role"),
    ] = None
    """Whether containers start while their images are loading. These must be in Artifact Registry,
    with the API containerfilesystem.googleapis.com enabled. `false` turns it off again."""
    secondary_boot_disk: Annotated[
        Annotated[str, DISK_IMAGE] | None,
        OnChange("GPU pool"),
        only(image_streaming=True)(
            "needs imageStreaming, with which containerd reads images from it; set it, or drop the "
            "key"
        ),
        # GKE: "Use secondary boot disks to preload data or container images", GCPResourceAllowlist
        # (read 2026-11-29)
        not_in_classes("this stack does not write the cluster's allowlist of disk images"),
        Sent("NodePool nodeConfig.secondaryBootDisks[].diskImage"),
    ] = None
    """A disk image with container images, from which each node gets a second disk, of the boot
    disk's type and billed as it is: `global/images/NAME`, or `projects/PROJECT/global/images/NAME`.
    Pods start without pulling those images. GKE's service agent needs `roles/compute.imageUser` in
    another project. A new disk image is a new pool."""
    secure_boot: Annotated[
        bool | None,
        not_in_classes("the nodes of all compute classes have it", but=(True,)),
        Sent("NodePool nodeConfig.shieldedInstanceConfig.enableSecureBoot"),
    ] = None
    """Whether the nodes boot only signed software. By default, they do, unless the driver's kernel
    module may be unsigned (driver `none`, or `daemonset` with Ubuntu or your own installer)."""
    compact_placement: Annotated[
        bool,
        not_in_classes("only Autopilot takes placement policies from a class"),
        OnChange("GPU pool"),
        _NOT_QUEUED("is not possible with queued; drop one of the two"),
        Sent("NodePool placementPolicy"),
    ] = False
    """Whether the nodes are placed close together; one zone only."""
    gpu_direct: Annotated[
        catalog.GpuDirect | None,
        not_in_classes(
            "this stack writes neither a class's acceleratorNetworkProfile nor networks"
        ),
        OnChange("GPU pool"),
        Fits("{} is not possible with {machine_type}"),
        _NOT_QUEUED(
            "is not possible with queued: interfaces are claimed by pods, and GKE starts the nodes "
            "of a request before there are any; drop one of the two"
        ),
        never(os_image="ubuntu")("needs osImage cos; drop one of the two"),
        never(sharing=True)("connects whole GPUs, and sharing divides them; drop one of the two"),
        Sent(
            "NodePool networkConfig.acceleratorNetworkProfile",
            "NodePool nodeConfig.labels",
            "DaemonSet",
        ),
    ] = None
    """The network between the GPUs of several nodes, which NCCL needs for its full bandwidth, and
    which training jobs on several nodes use: `rdma` (GPUDirect RDMA) on A3 Ultra and A4, whose VPC
    networks GKE creates, or `tcpxo` (GPUDirect-TCPXO) on A3 Mega and `tcpx` (GPUDirect-TCPX) on A3
    High with 8 GPUs, in a cluster with `gpuNetworksCidr`. One zone only."""
    kubelet: Annotated[KUBELET, _NODE_SYSTEM] = None
    """Settings of the kubelet; by default, GKE's. A change recycles the nodes."""
    linux: Annotated[LINUX, _NODE_SYSTEM] = None
    """Settings of the nodes' kernel; by default, GKE's. A change recycles the nodes."""
    network_tags: Annotated[
        NETWORK_TAGS, not_in_classes("compute classes have no network tags")
    ] = ()
    """Network tags of the nodes, which firewall rules and routes refer to."""
    service_account: SERVICE_ACCOUNT = None
    """The email of your own service account for the nodes; by default, the cluster's. It needs
    `roles/container.defaultNodeServiceAccount`, and a role to pull the images."""
    upgrade: Annotated[
        GkeUpgradeArgs | None,
        not_in_classes("all compute classes are upgraded as the cluster is configured"),
        never(capacity_type="flex-start")(
            "flex-start nodes are never upgraded, because GKE starts new ones instead; drop the key"
        ),
        Sent("NodePool upgradeSettings"),
    ] = None
    """How nodes are replaced; by default, each is deleted first, which needs no additional GPU."""
    max_run_duration_seconds: Annotated[
        int | None,
        Interval(ge=catalog.MIN_RUN_SECONDS, le=catalog.MAX_RUN_SECONDS),
        Fits("{!r} is out of range with flex-start"),
        Sent("NodePool nodeConfig.maxRunDuration"),
    ] = None
    """After how many seconds a node is deleted, at most 120 days; with `flex-start`, 10 minutes to
    7 days. With `queued`, each job sets it."""
    delete_before_replace: Annotated[
        bool,
        not_in_classes("GKE, not Pulumi, creates and replaces the node pools"),
        Sent("NodePool (delete_before_replace)"),
    ] = True
    """Whether a pool that is replaced is deleted first. `false` keeps the old nodes while a
    replacement starts, and needs twice the quota."""

    # GKE starts as many nodes in each zone, which may be more than minNodes.
    ORDERS: ClassVar = (Order("min_nodes", "max_nodes", offered=False),)

    check_given = staticmethod(check_keys)

    @rule
    def _check_parts(self) -> Iterator[Refusal]:
        yield from raised(
            lambda: reservations.check_order(self.order, self.reservation, self.any_reservation)
        )
        yield from raised(lambda: self._discovered)
        yield from raised(lambda: self.choices)

    def possible(self, key: str) -> Range | Sequence[Any] | None:
        block, _, inner = key.partition(".")
        if block in ("kubelet", "linux"):
            at(block, check_machine, inner, self.machine)
        if key == "capacityType":
            return self.machine.provisioning
        if key == "diskType":
            return self.machine.features.boot_disks
        if key == "localSsdCount":
            if self.local_storage is None and (included := self.machine.local_ssds):
                raise refuse(key)(f"{self.machine_type} has {included} in any case; drop the key")
            if self.local_storage is None:
                raise refuse(key)("needs localStorage; drop the key, or set localStorage")
            return self.machine.ssd_choices
        if key == "dataCacheCount":
            if self.local_storage == "block" or not (self.local_storage or self.ssds):
                raise refuse(key)(
                    "divides the local SSDs of localStorage: ephemeral; set that, or drop the key"
                )
            # With 0 for pods, GKE gives them all local SSDs that the machine includes
            # (google.container.v1 EphemeralStorageLocalSsdConfig).
            if self.machine.local_ssds == 1:
                raise refuse(key)(
                    f"is not possible with {self.machine_type}: its only local SSD is the disk of "
                    "pods; drop the key, or choose a machine type with several"
                )
            return Range(1, self.ssds - bool(self.machine.local_ssds))
        if key == "gpuDirect":
            if reason := self.machine.without_gpu_direct:
                raise refuse(key)(
                    f"{self.machine_type} {reason}",
                    remedy="drop the key; machine types that have it: "
                    f"{', '.join(catalog.GPU_DIRECT)}",
                )
            return [self.machine.gpu_direct]
        if key == "osImage" and self.machine.family == "a4x":
            return ["cos"]
        if key == "devicePlugin" and (self.queued or self.gpu_direct or self.os_image == "ubuntu"):
            return ["gke", "none", "nvidia"]
        if key == "driver" and self.device_plugin != "gke":
            return ["daemonset", "none"]
        if key == "driverVersion" and (self.driver != "managed" or self.os_image != "cos"):
            return ["default"]
        if key in ("minNodes", "maxRunDurationSeconds") and "flex-start" in self.order:
            return [0] if key == "minNodes" else _FLEX_SECONDS
        return GkeGpuMachineArgs.possible(self, key)

    @property
    def order(self) -> Sequence[Capacity]:
        """The ways of buying nodes, in the order in which they are tried."""
        return tuple(map(way, self.fallback)) or (self.capacity_type,)

    @property
    def choices(self) -> "Sequence[GkeGpuNodePoolArgs]":
        """The pool as each entry of `fallback` has it; without, only itself."""
        return of_each(self.fallback, self._as) or [self]

    def _as(self, entry: Capacity | GkeFallbackArgs) -> "GkeGpuNodePoolArgs":
        bought = way(entry)
        own = GkeFallbackArgs() if isinstance(entry, str) else entry
        machine = catalog.machine_type(own.machine_type or self.machine_type)
        assert machine is not None
        if (machine.accelerator, machine.gpus) != (self.machine.accelerator, self.machine.gpus):
            carried = f"{int(machine.gpus)} {machine.accelerator}"
            raise refuse("machineType", own.machine_type)(
                f"has {carried if machine.accelerator else 'no GPU built in'}, and "
                f"{self.machine_type} {self.gpus} {self.gpu_model.name}",
                remedy="all nodes of a pool have the same GPUs, by which pods and quotas name "
                "them: choose such a machine type, or add a pool",
            )
        return replace(
            self,
            fallback=(),
            capacity_type=bought,
            reservation=self.reservation if bought == "reservation" else None,
            any_reservation=self.any_reservation and bought == "on-demand",
            zones=own.zones or self.zones,
            machine_type=own.machine_type or self.machine_type,
        )

    @property
    def dearest(self) -> "GkeGpuNodePoolArgs":
        """The pool as the choice that costs the most has it."""
        return min(
            self.choices,
            key=lambda choice: (price_rank(choice.capacity_type), -choice.machine.vcpu),
        )

    @property
    def effective_secure_boot(self) -> bool:
        """Whether the nodes have Secure Boot: the driver's kernel module must then be signed."""
        if self.secure_boot is not None:
            return self.secure_boot
        own_module = self.os_image == "ubuntu" or self.installer_image is not None
        return self.driver == "managed" or not (self.driver == "none" or own_module)

    @property
    def _shared(self) -> Sharing | None:
        return self.sharing.of(self.gpu_model) if self.sharing else None

    @property
    def _discovered(self) -> Mapping[str, str]:
        if not self.discovery_labels:
            return {}
        return discovery_labels(self.gpu_model.model, self.gpus, self._shared)

    @property
    def _left_to_others(self) -> list[GpuPart]:
        owned: dict[GpuPart, str] = {"driver": self.driver, "device plugin": self.device_plugin}
        return [part for part, owner in owned.items() if owner == "none"]

    @property
    def _mps(self) -> bool:
        return self.sharing is not None and self.sharing.strategy == "mps"

    @property
    def pool_run_duration_seconds(self) -> int | None:
        """`max_run_duration_seconds` if it applies to the pool, and not to each job."""
        return None if self.queued else self.max_run_duration_seconds

    @property
    def boot_disk(self) -> str:
        """The type of the nodes' boot disk."""
        return self.disk_type or self.machine.features.boot_disk

    @property
    def disks(self) -> Mapping[str, int]:
        """The disks that a node gets besides those of its machine type, which are billed: type, as
        in the catalog of prices -> GiB."""
        added = {"local-ssd": self.ssd_gib} if self.ssd_gib and not self.machine.local_ssds else {}
        return {self.boot_disk: self.disk_size_gb} | added

    @property
    def ssds(self) -> int:
        """How many local SSDs a node has."""
        if self.local_storage is None:
            return self.machine.local_ssds
        return self.local_ssd_count or max(self.machine.ssd_choices, default=0)

    @property
    def pool_ssd_count(self) -> int | None:
        """How many local SSDs the node pool asks for; None if it leaves them to GKE."""
        return self.ssds if self.local_storage or self.data_cache_count else None

    @property
    def pod_ssds(self) -> int:
        """How many of a node's local SSDs are the disk of its pods."""
        return 0 if self.local_storage == "block" else self.ssds - (self.data_cache_count or 0)

    @property
    def ssd_gib(self) -> int:
        """The size of a node's local SSDs together."""
        return self.machine.local_ssd_gib or self.ssds * 375

    def resolve(self, name: str, cluster: AnyGkeClusterArgs) -> "ResolvedPool[GkeGpuNodePoolArgs]":
        """The pool in its cluster; raises `Refusal` if it does not match the cluster."""
        refusals = Refusals()
        with refusals:
            check_scaler(self, cluster.scaler, type(cluster))
        refusals.run(self._check_queued, self._check_topology)
        refusals.run(partial(self._check_networks, cluster), partial(self._check_cache, cluster))
        with refusals:
            choices = of_each(
                self.fallback, lambda entry: self._as(entry).place(name, cluster, alone=False)
            ) or [self.place(name, cluster, alone=True)]
        refusals.check()
        zones = all_places(choices)
        least, most = (nodes * self._places(zones) for nodes in (self.min_nodes, self.max_nodes))
        pool = smallest(self.gpu_pool(name), [choice.pool for choice in choices])
        pool = replace(
            pool,
            min_nodes=least,
            max_nodes=most,
            fabric=_fabric_in(cluster, pool.fabric),
            name_at_zero=self._name_at_zero(zones),
            cached_disks=dict.fromkeys(
                gke_volumes.CACHED, max(self._cache_gib - 1, 0) // cluster.data_cache.gib
            )
            if cluster.data_cache
            else {},
        )
        if SCALERS[cluster.scaler].in_cluster:
            pool = in_class(pool)
        return ResolvedPool(
            args=self,
            pool=pool,
            places=zones,
            warnings=[
                *dict.fromkeys(line for choice in choices for line in choice.warnings),
                *(f"gpuPools.{name}.{line}" for line in self._order_warnings()),
                *self.claim_warnings(name, cluster.first_version),
            ],
            fallback=choices if self.fallback else (),
        )

    def place(
        self, name: str, cluster: AnyGkeClusterArgs, *, alone: bool
    ) -> "ResolvedPool[GkeGpuNodePoolArgs]":
        """Where the nodes of the pool, or of an entry of its order, may be. `alone`: whether they
        are its only ones."""
        refusals = Refusals()
        with refusals:
            zones = self._zones_in(cluster.location, alone=alone)
        with refusals:
            if cluster.version is not None and (newer := self.needs_newer(cluster.version)):
                remedy = f"raise cluster.version {cluster.version}, or drop it"
                raise Refusal((newer[0],), newer[1], remedy=remedy)
        refusals.check()
        return ResolvedPool(
            args=self,
            pool=self.gpu_pool(name),
            places=zones,
            warnings=[f"gpuPools.{name}.{line}" for line in self._warnings(zones)],
        )

    def _warnings(self, zones: Sequence[str]) -> Iterator[str]:
        if self.machine.doubt:
            yield self.machine.doubt
        if unlisted := self._unlisted(zones):
            yield (
                f"machineType: it is not known whether {', '.join(unlisted)} has "
                f"{self.machine_type} with {self.gpu_model.name}; ask gcloud compute "
                f"accelerator-types list --filter name={self.gpu_model.name}"
            )
        if self.linux is not None and self.linux.cgroup_mode == "v1":
            # docs.cloud.google.com/kubernetes-engine/docs/how-to/migrate-cgroupv2; Kubernetes 1.35:
            # the kubelet's failCgroupV1 is true by default.
            yield (
                "linux.cgroupMode: v1 is deprecated: GKE migrates nodes to v2 from 1.33 on, and "
                "the kubelet of 1.35 does not start on v1 by default; drop the key"
            )
        most = COMPACT_NODES.get(self.machine.family, COMPACT_MOST)
        if self.compact_placement and self.max_nodes > most:
            yield (
                f"compactPlacement: GKE's autoscaler places at most {most} nodes of "
                f"{self.machine.family} close together, and maxNodes is {self.max_nodes}; lower it"
            )
        if self.driver == "none" and self.os_image == "cos":
            yield (
                "driver: NVIDIA's GPU Operator does not install drivers on cos, so driver: none is "
                "only right if Google's installer runs in the cluster; use osImage ubuntu for the "
                "Operator's driver, or driver daemonset for this stack's"
            )

    def claim_warnings(self, name: str, version: str) -> Iterator[str]:
        """What to know of claims in a cluster that is or will be of this version."""
        old = self.device_plugin == "dra" and version.startswith("1.34")
        if old and not self.needs_newer(version):
            # GKE's autoscaler has it from 1.34 on (field_dra.go, see FIRST_VERSIONS).
            yield (
                f"gpuPools.{name}.devicePlugin: Google's page on DRA has asked for GKE 1.35 since "
                f"2026, and the cluster's version is {version}; raise it"
            )

    def _name_at_zero(self, zones: Sequence[str]) -> str | None:
        """By which name GKE's autoscaler knows the GPUs of a zone without nodes, if it may have to
        start one for a claim. With nodes, it looks at theirs (its processors/nodeinfosprovider)."""
        in_each_zone = self.min_nodes and (len(zones) == 1 or self.limits_per == "zone")
        if self.device_plugin != "dra" or in_each_zone or self.min_nodes == self.max_nodes:
            return None
        if (known := catalog.DRA_NAMES.get(self.gpu_model.name)) is None:
            raise refuse("minNodes", self.min_nodes)(
                "is not possible with devicePlugin dra: GKE's autoscaler does not know what the "
                f"first node of a zone with {self.gpu_model.name} offers",
                remedy=f"set it to {self.max_nodes}, or to 1 or more with one zone, or set "
                "devicePlugin: gke",
            )
        return known

    def _order_warnings(self) -> Iterator[str]:
        for position, entry in enumerate(self.fallback):
            own = GkeFallbackArgs() if isinstance(entry, str) else entry
            if own.capacity_type == "reservation" and len(own.zones) > 1:
                # cluster-autoscaler 7d250507, pkg/autoprovisioning/injection.go,
                # validateSpecifiedZones
                yield (
                    f"fallback[{position}].zones: GKE never uses this choice unless there is a "
                    f"reservation of this name in each of {', '.join(own.zones)}; name only the "
                    "zone of the reservation"
                )

    def _places(self, zones: Sequence[str]) -> int:
        """The factor by which minNodes and maxNodes are multiplied."""
        return len(zones) if self.limits_per == "zone" else 1

    def _zones_in(self, location: str, *, alone: bool) -> tuple[str, ...]:
        gpu_model, machine = self.gpu_model, self.machine
        zonal = catalog.is_zone(location)
        region = catalog.region_of(location)
        # A zonal cluster's pools may be in any zone of its region, for instance one that has the
        # GPU.
        for zone in self.zones:
            if catalog.region_of(zone) != region:
                meant = catalog.meant_location(zone)
                hint = f"did you mean {meant!r}? " if meant else ""
                raise refuse("zones", zone)(
                    f"is not a zone of the cluster's region {region}",
                    remedy=f"{hint}{catalog.zones_of(region)}",
                )
        offered = [
            zone
            for zone in catalog.zones_with(gpu_model.name, region)
            if machine.zones is None or zone in machine.zones
        ]
        zones = tuple(self.zones) or ((location,) if zonal else tuple(offered))
        if not zones and not holds("gke.ACCELERATOR_ZONES"):
            raise refuse("zones")(
                f"it is not known which zones of {region} have {self.machine_type} with "
                f"{gpu_model.name}; name them"
            )
        if not zones:
            raise refuse("accelerator")(
                f"{self.machine_type} with {gpu_model.name} is not offered in any zone of {region}",
                remedy=f"regions that have it: {self._regions()}",
            )
        for zone in zones:
            if zone in self._unlisted(zones) and holds("gke.ACCELERATOR_ZONES"):
                have = (
                    f"zones of {region} that have it: {', '.join(offered)}"
                    if offered
                    else f"nor anywhere else in {region}; regions that have it: {self._regions()}"
                )
                raise refuse("machineType")(
                    f"{self.machine_type} with {gpu_model.name} is not offered in "
                    f"{zone}{'; ' if offered else ', '}{have}"
                )
        self._check_placed(zones, alone=alone)
        return zones

    @collected
    def _check_placed(self, zones: Sequence[str], *, alone: bool) -> Iterator[Refusal]:
        if self.compact_placement and len(zones) != 1:
            yield refuse("compactPlacement")(
                f"needs exactly one zone, the pool has {', '.join(zones)}",
                remedy="set zones to one of them",
            )
        if self.gpu_direct and len(zones) != 1:
            yield refuse("gpuDirect")(
                f"connects the nodes of one zone, and the pool has {', '.join(zones)}",
                remedy="set zones to one of them",
            )
        # The API looks for it in each zone, and fails with 404 if it is not there.
        if alone and self.reservation is not None and not self.zones and len(zones) > 1:
            yield refuse("reservation", self.reservation)(
                f"is in one zone, and the pool has zones {', '.join(zones)}",
                remedy=f"set zones to the reservation's, such as [{zones[0]}]",
            )
        most = catalog.MAX_POOL_NODES_PER_ZONE * len(zones) // self._places(zones)
        if self.max_nodes > most:
            yield refuse("maxNodes", self.max_nodes)(
                "is too large",
                remedy=f"a node pool has at most {catalog.MAX_POOL_NODES_PER_ZONE} nodes in a "
                f"zone, {most} here: lower it, or add a pool",
            )
        first = self.initial_nodes_per_zone(len(zones)) * len(zones)
        if first > self.max_nodes * self._places(zones):
            yield refuse("minNodes", self.min_nodes)(
                f"would start {first} nodes, as many in each of {', '.join(zones)}, which is "
                f"above maxNodes {self.max_nodes}; raise maxNodes, or set fewer zones"
            )

    def _unlisted(self, zones: Sequence[str]) -> Sequence[str]:
        """Zones of which it is not known that they have the pool's machine."""
        gpu_model, machine = self.gpu_model, self.machine
        if gpu_model.zones_partial or machine.uncertain:
            return ()
        known = gpu_model.zones if machine.zones is None else machine.zones
        return [zone for zone in zones if zone not in known or zone not in gpu_model.zones]

    def _regions(self) -> str:
        """Text listing every region that is known to have the pool's machine."""
        zones = self.gpu_model.zones if self.machine.zones is None else self.machine.zones
        return ", ".join(sorted({catalog.region_of(zone) for zone in zones}))

    def initial_nodes_per_zone(self, zones: int) -> int:
        """How many nodes GKE starts in each zone, so that the pool starts with its minimum."""
        return self.min_nodes if self.limits_per == "zone" else -(-self.min_nodes // zones)

    def needs_newer(self, version: str) -> tuple[str, str] | None:
        """The key and the reason why a cluster of this version cannot have the pool."""
        needs: dict[tuple[str, str], tuple[str, ...]] = {}
        if self.machine.min_gke:
            needs["machineType", self.machine_type] = self.machine.min_gke
        if "flex-start" in self.order:
            feature = "flex-start-queued" if self.queued else "flex-start"
            needs["capacityType", "flex-start"] = catalog.FIRST_VERSIONS[feature]
        if self.gpu_direct and self.gpu_direct != "tcpx":  # which its machine type needs anyway
            feature = "managed-dranet" if self.gpu_direct == "rdma" else "gpudirect-tcpxo"
            needs["gpuDirect", self.gpu_direct] = catalog.FIRST_VERSIONS[feature]
        if self.device_plugin == "dra":
            needs["devicePlugin", "dra"] = catalog.FIRST_VERSIONS["dra"]
            if self.min_nodes < self.max_nodes and self.gpu_model.name not in catalog.DRA_NAMES:
                model = self.gpu_model.name
                what = (
                    f"{self.min_nodes} is below maxNodes, which with devicePlugin dra and {model}"
                )
                needs["minNodes", what] = catalog.FIRST_VERSIONS["dra-growth-by-nodes"]
        if self.data_cache_count:
            needs["dataCacheCount", "Data Cache"] = catalog.FIRST_VERSIONS["data-cache"]
        for (key, what), first in needs.items():
            if catalog.meets(version, first) is False:
                return key, f"{what} needs GKE {catalog.in_words(first)}"
        return None

    def gpu_pool(self, name: str) -> GpuPool:
        """The pool as pods and the GPU layer see it."""
        labels = {POOL_LABEL: name, names.GPU_PRESENT: "true", **self._discovered, **self.labels}
        if self.device_plugin != "gke":
            labels[names.GKE_NO_DEFAULT_PLUGIN] = "true"
        claimed = self.device_plugin == "dra"
        if claimed:
            labels[names.GKE_DRA_DRIVER] = "true"
        if self.gpu_direct == "rdma":
            labels[names.GKE_NETWORK_DRIVER] = "true"
        elif self.gpu_direct:
            labels[names.GPU_DIRECT] = self.gpu_direct
        image = "cos-arm64" if self.machine.arch == "arm64" else self.os_image
        cpu_millis, memory_mib = room.gke(self.machine.vcpu, self.machine.memory_gib, image)
        memory_mib -= self.linux.hugepages_mib if self.linux else 0
        return GpuPool(
            name=name,
            accelerator=self.gpu_model.name,
            models=[self.gpu_model.model],
            cpu_millis=cpu_millis,
            memory_mib=memory_mib,
            max_pods=room.GKE_PODS,
            disk_mib=room.gke_ssds(self.pod_ssds, self.ssd_gib * self.pod_ssds // self.ssds)
            if self.pod_ssds
            else room.gke_disk(self.disk_size_gb, image),
            gpus_per_node=self.gpus,
            min_nodes=self.min_nodes,
            max_nodes=self.max_nodes,
            labels=labels,
            stay_annotations=SCALERS["node-pools"].stay,
            taints=[
                GPU_TAINT,
                *([SPOT_TAINT] if self.capacity_type == "spot" else []),
                *self.taints,
            ],
            # Pods that use the host's IPC for MPS select nodes with MPS.
            node_selector={
                POOL_LABEL: name,
                **({names.GKE_GPU_SHARING_STRATEGY: "mps"} if self._mps else {}),
            },
            spot="spot" in self.order,
            # GKE adds a taint to Arm nodes, and a toleration to pods that select the architecture.
            extra_tolerations=[
                *([ARM_TOLERATION] if self.machine.arch == "arm64" else []),
                *([QUEUED_TOLERATION] if self.queued else []),
            ],
            all_at_once=self._all_at_once if self.queued else None,
            topology=names.GKE_TOPOLOGY if self.topology_aware else None,
            sharing=self._shared,
            installer=self.os_image if self.driver == "daemonset" else None,
            installer_image=self.installer_image,
            installer_version=catalog.UBUNTU_DRIVERS.get(self.driver_branch or ""),
            driver_branch=int(self.driver_branch.removeprefix("R")) if self.driver_branch else None,
            device_plugin=self.device_plugin == "nvidia",
            device_class=names.GPU_CLASS if claimed else None,
            left_to_others=self._left_to_others or None,
            host_ipc=self._mps,
            fabric=self._fabric,
            # Both GKE's and NVIDIA's plugin give containers the driver's libraries too.
            driver_directory=names.GKE_DRIVER_DIRECTORY if self.device_plugin != "none" else None,
            **attachable_classes(self.machine, cache=bool(self.data_cache_count)),
        )

    @property
    def _fabric(self) -> Fabric | None:
        if self.gpu_direct is None:
            return None
        gbps = catalog.GPU_DIRECT_GBPS[self.gpu_direct]
        interfaces = catalog.GPU_INTERFACES[self.gpu_direct]
        if self.gpu_direct == "rdma":
            return Fabric(
                resource=names.RDMA,
                gbps=gbps,
                claimed=interfaces,
                plugin=names.GIB_DIRECTORY,
            )
        return Fabric(
            resource=names.GKE_NETWORKS,
            gbps=gbps,
            networks=GPU_NETWORKS[:interfaces],
            plugin=names.TCPX_DIRECTORY if self.gpu_direct == "tcpx" else names.TCPXO_DIRECTORY,
            over_tcp=self.gpu_direct,
        )

    @rule
    def _check_capacity(self) -> Iterator[Refusal]:
        offered = self.machine.provisioning
        never = self.queued and "flex-start" not in offered
        if not self.fallback and self.capacity_type not in offered:
            yield refuse("capacityType")(
                f"{self.machine_type} is not sold as {self.capacity_type}",
                remedy=f"allowed: {', '.join(offered)}{', without queued' if never else ''}",
            )

    @collected
    def _check_queued(self) -> Iterator[Refusal]:
        if self.queued and self.capacity_type != "flex-start":
            sold = "flex-start" in self.machine.provisioning
            yield refuse("queued")(
                f"is not possible with capacityType {self.capacity_type}",
                remedy=f"{'set capacityType to flex-start, or ' if sold else ''}drop the key",
            )

    @property
    def or_on_demand(self) -> Literal["", ", or set capacityType: on-demand"]:
        """What else a refusal offers if the machine type is sold so."""
        sold = "on-demand" in self.machine.provisioning
        return ", or set capacityType: on-demand" if sold else ""

    @property
    def _cache_gib(self) -> int:
        """The size of a node's local SSDs for Data Cache. The driver makes them a RAID with a
        volume group, which need some of it: gcp-compute-persistent-disk-csi-driver b560165c,
        pkg/gce-pd-csi-driver/cache.go, setupCaching."""
        count = self.data_cache_count or 0
        return count and count * self.ssd_gib // self.ssds

    def _check_cache(self, cluster: AnyGkeClusterArgs) -> None:
        size = self._cache_gib
        if size and cluster.data_cache and cluster.data_cache.gib >= size:
            raise refuse("dataCacheCount", self.data_cache_count)(
                f"gives a node a cache of less than {size}Gi, and each disk needs "
                f"cluster.dataCache.size {cluster.data_cache.size}",
                remedy="raise it, or lower that",
            )

    def _check_networks(self, cluster: AnyGkeClusterArgs) -> None:
        if self.gpu_direct in (None, "rdma"):
            return
        if isinstance(cluster, GkeExistingClusterArgs):
            self._check_owners_networks(cluster, self.gpu_direct)
            return
        if cluster.gpu_networks_cidr is None:
            raise refuse("gpuDirect", self.gpu_direct)(
                "needs cluster.gpuNetworksCidr",
                remedy="set it, for instance to 192.168.0.0/16, or drop the key",
            )

    def _check_owners_networks(
        self, cluster: GkeExistingClusterArgs, direct: catalog.GpuDirect
    ) -> None:
        interfaces = catalog.GPU_INTERFACES[direct]
        if len(cluster.gpu_networks) < interfaces:
            raise refuse("gpuDirect", direct)(
                f"needs cluster.gpuNetworks, the names of {interfaces} of the cluster's own "
                "Network objects",
                remedy="name all of them, or drop the key",
            )
        if cluster.nccl_plugin != "owner":
            return
        line, daemon = DAEMON_LINES[direct], cluster.gpu_direct_daemon
        if daemon is None:
            raise refuse("gpuDirect", direct)(
                f"needs cluster.gpuDirectDaemon, the version of the daemon, {line}*, in the "
                "release of the plugin that the cluster's owner installs",
                remedy="set it, or cluster.ncclPlugin: stack",
            )
        if not daemon.startswith(line):
            raise refuse("gpuDirect", direct)(
                f"needs a daemon {line}*, and cluster.gpuDirectDaemon is {daemon}",
                remedy=f"change that to the owner's {line}*, or set cluster.ncclPlugin: stack",
            )

    def _check_topology(self) -> None:
        if not self.topology_aware:
            return
        if not self.machine.located:
            rows = catalog.MACHINE_TYPES.values()
            known = [row.name for row in rows if row.located and not row.uncertain]
            raise refuse("topologyAware")(
                f"Google does not say where {self.machine_type} machines are",
                remedy=f"machine types of which it does: {', '.join(known)}; drop the key",
            )
        if not self.queued:
            flex_start = self.capacity_type == "flex-start"
            check_fixed(self.min_nodes, self.max_nodes, "set queued: true" if flex_start else "")

    @property
    def _all_at_once(self) -> AllAtOnce:
        duration = self.max_run_duration_seconds
        return AllAtOnce(
            provisioning_class="queued-provisioning.gke.io",
            # Each request has its own nodes, which GKE labels: kubernetes-sigs/kueue issue 9048
            # and AI-Hypercomputer/xpk, src/xpk/core/kueue_manager.py (2026-11-24).
            node_labels={"autoscaling.gke.io/provisioning-request": "ResizeRequestName"},
            parameters={"maxRunDurationSeconds": str(duration)} if duration is not None else {},
        )

    @rule
    def _check_image(self) -> None:
        if self.os_image == "ubuntu" and self.machine.family == "a4x":
            raise refuse("osImage")(f"ubuntu has no image for {self.machine_type}; use cos")

    @rule
    def _check_sharing(self) -> Iterator[Refusal]:
        if self.sharing is None:
            return
        yield from raised(self.sharing.check, self.gpu_model)
        key, partition = ("sharing", "partition"), self.sharing.partition
        if partition and self.driver == "none":
            yield refuse(key)(
                "GKE's driver installers create the MIG partitions, and none runs with driver: "
                "none; set driver: managed"
            )
        if partition and self.driver == "daemonset" and self.os_image == "ubuntu":
            yield refuse(key)(
                "the driver installer for Ubuntu does not create MIG partitions",
                remedy="set driver: managed, or osImage: cos",
            )
        if partition and self.driver == "daemonset" and partition not in PARTITION_SIZES:
            yield refuse(key, partition)(
                "is not a partition that the driver installer knows, and the installer would "
                "crash on the node; set driver: managed"
            )

    @rule
    def _check_local_storage(self) -> Iterator[Refusal]:
        choices = self.machine.ssd_choices
        if self.local_storage and not choices:
            yield refuse("localStorage", self.local_storage)(
                f"needs local SSDs, and {self.machine_type} has none",
                remedy="choose another machine type, or drop the key",
            )
        if self.local_storage and len(choices) > 1 and self.local_ssd_count is None:
            yield refuse("localSsdCount")(
                f"is missing, and {self.machine_type} has no fixed number", allowed=choices
            )

    @rule
    def _check_kubelet(self) -> None:
        if self.kubelet is not None:
            storage = self.disk_size_gb + self.ssd_gib
            at("kubelet", self.kubelet.check_node, self.machine, storage)

    @rule
    def _check_linux(self) -> None:
        if self.linux is not None:
            at("linux", self.linux.check_node, self.machine)

    @rule
    def _check_compact(self) -> Iterator[Refusal]:
        if not self.compact_placement:
            return
        key, machine = "compactPlacement", self.machine_type
        if not self.machine.features.compact:
            remedy = "drop it, or use a machine type of G2, G4, A2, A3 or A4"
            yield refuse(key)(f"{machine} does not support it", remedy=remedy)
        if "flex-start" in self.order:
            # cluster-toolkit, pull request 6348 and docs/slurm-dws-flex.md (read 2026-11-30)
            yield refuse(key)(
                "is not possible with capacityType flex-start, whose nodes take no group placement "
                "policy but a workload policy, which this stack does not create; drop it"
            )
        if self.max_nodes > COMPACT_MOST:
            yield refuse(key)(
                f"at most {COMPACT_MOST} nodes are placed close together, and maxNodes is "
                f"{self.max_nodes}; lower it"
            )

    @rule
    def _check_upgrade(self) -> Iterator[Refusal]:
        if self.upgrade is None:
            return
        # cluster-toolkit, modules/compute/gke-node-pool, preconditions (read 2026-11-21)
        if self.compact_placement and self.upgrade.strategy == "blue-green":
            yield refuse(("upgrade", "strategy"))(
                "blue-green is not possible with compactPlacement, whose nodes must stay close "
                "together; use surge, or drop compactPlacement"
            )

    @rule
    def _check_taints(self) -> Iterator[Refusal]:
        seen = {(GPU_RESOURCE, GPU_TAINT.effect)}
        for position, taint in enumerate(self.taints):
            if (taint.key, taint.effect) in seen:
                yield refuse(("taints", position))(
                    f"{taint.key}:{taint.effect} is a duplicate; remove it"
                )
            seen.add((taint.key, taint.effect))


def _fabric_in(cluster: AnyGkeClusterArgs, fabric: Fabric | None) -> Fabric | None:
    """The network between GPUs as the cluster's owner has prepared it, if the stack has not."""
    if fabric is None or not isinstance(cluster, GkeExistingClusterArgs):
        return fabric
    if fabric.networks:
        networks = cluster.gpu_networks[: len(fabric.networks)]
        fabric = replace(fabric, networks=networks, daemon=cluster.gpu_direct_daemon)
    return fabric.of_google() if cluster.nccl_plugin == "owner" else fabric
