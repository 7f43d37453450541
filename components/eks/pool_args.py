"""The settings of a GPU node group on EKS, and the pool that follows from them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Literal, get_args

from annotated_types import Ge, Interval, Len

from ..catalog import eks as catalog
from ..catalog import kubernetes as names
from ..catalog import room
from ..catalog.accelerators import GPUS
from ..catalog.bad_releases import harm
from ..cluster import (
    GPU_TAINT,
    NOT_SHARED,
    POOL_LABEL,
    Fabric,
    GpuPool,
    ResolvedPool,
    Sharing,
    Taint,
    check_claims,
    check_fixed,
    smallest,
)
from ..discovery import discovery_labels
from ..scalers import SCALERS, NotWith, check_scaler
from ..schema.decode import at, camel
from ..schema.effect import Sent, Silent
from ..schema.fallback import DISTINCT, check_keys, of_each, way
from ..schema.limits import UNIQUE, Example, Hint, Limit, none_of, one_of
from ..schema.on_change import OnChange
from ..schema.refusal import Range, Refusal, Refusals, collected, raised, refuse
from ..schema.rules import Checked, Order, instead_of, never, only, rule
from . import reservation as reservations
from .autoscaler_args import EksPoolAutoscalerArgs, check_priorities
from .cluster_args import check_desired, update_minutes
from .disk_args import (
    AUTO_MODE_IOPS,
    LEAST_DISK_GIB,
    DiskIops,
    DiskSize,
    DiskThroughput,
    InitializationRate,
    SnapshotId,
    check_iops,
    possible_iops,
)
from .existing_args import AnyEksClusterArgs, EksExistingClusterArgs
from .fallback_args import INSTANCE_TYPE, EksFallbackArgs, part_names
from .immutable import bought, never_lower, node_groups_kept
from .karpenter_args import MAX_CLASS_DISK_GIB, EksPoolKarpenterArgs, Scaler, check_node_class
from .network_args import SubnetId, missing, places_of
from .node_args import (
    AMI_ID,
    HOP_LIMIT,
    SECURITY_GROUPS,
    USER_DATA,
    EksKubeletArgs,
    check_user_data,
)  # fmt: skip
from .node_repair_args import Count, EksNodeRepairArgs, Percentage, without_effect
from .pool_labels import NodeLabels, check_marks, check_tag_count
from .reservation import CapacityType, ReservationName
from .sharing_args import BOTTLEROCKET_WITHOUT_PLUGIN, EksSharingArgs, bottlerocket_version
from .user_data import (
    BOTTLEROCKET_PARALLEL_SINCE,
    PARALLEL_NEVER_READY,
    PARALLEL_ON_DISKS_SINCE,
    PARALLEL_THROUGHPUT,
    RAID_AGAIN_SINCE,
    Bootstrap,
    ImagePull,
    LocalStorage,
    bottlerocket,
)
from .warm_pool_args import EksWarmPoolArgs

_MAX_TAGS = 32
"""An Auto Scaling group can have 50 tags: five are EKS's, and the stack's are three labels, a
taint, five resources and four options of the autoscaler, plus those of `discoveryLabels`."""
_MAX_UNAVAILABLE = 100
"""How many nodes of a group EKS updates at a time at most (botocore, NodegroupUpdateConfig)."""
_OSES = ("al2023", "bottlerocket")
_IMAGE = NotWith(
    "auto-mode", "it chooses the image, a Bottlerocket built by AWS, and its configuration"
)
_NO_SIZE = "it starts nodes for pods and keeps minNodes of them"
_NO_GROUP = "it replaces nodes one by one instead of node groups"
_MOVES = "it starts, replaces and consolidates nodes wherever it finds room"
_NO_ASG = "it launches instances without an Auto Scaling group, which the warm pool belongs to"
_CA_ONLY = "it is an option of Cluster Autoscaler; use karpenter.consolidateAfter instead"
_GROWS_SINCE = "1.35"
"""The first whose Cluster Autoscaler supports claims in production, in groups with at least one
node: kubernetes/autoscaler, cluster-autoscaler/docs/dra_support.md (read 2026-11-29)."""
_AL2 = "is no longer available: EKS has published no Amazon Linux 2 images since 2025-11-26"


def _not_an_os(os: str) -> Refusal | str | None:
    if os.lower() in ("al2", "amazonlinux2", "amazon-linux-2"):
        return f"{os!r} {_AL2}, and none for Kubernetes 1.33 and later; use {' or '.join(_OSES)}"
    return one_of(*_OSES).refusal(os)


_OS = Limit(_not_an_os, {"enum": _OSES})
_AMI_TYPE = none_of(
    *catalog.REMOVED_AMI_TYPES, why=f"{_AL2}; drop the key, so that it follows from os"
)


_CLASS_DISK = Range(LEAST_DISK_GIB, MAX_CLASS_DISK_GIB)
# ephemeralStorage of a NodeClass: create-node-class.html, read 2026-11-24.
_POSSIBLE_WITH: Mapping[str, Mapping[str, Range]] = {
    "karpenter": {"diskSizeGb": _CLASS_DISK},
    "auto-mode": {
        "diskSizeGb": _CLASS_DISK,
        "diskThroughput": Range(catalog.GP3_THROUGHPUT[0], 1000),
        "diskIops": Range(catalog.GP3_IOPS[0], AUTO_MODE_IOPS),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EksGpuNodeGroupArgs(Checked):
    """A GPU node group on EKS."""

    instance_types: Annotated[
        Sequence[Annotated[str, INSTANCE_TYPE]],
        Len(1, catalog.MAX_INSTANCE_TYPES),
        Hint("give one such as g4dn.xlarge"),
        UNIQUE,
        OnChange("GPU pool"),
        Sent("NodeGroup instanceTypes"),
        Example("[g6.xlarge]"),
    ]
    """One instance type, or several with the same GPUs, the smallest first; EC2 uses any."""
    accelerator: Annotated[
        str | None, Silent("the instance type decides it; another value is refused")
    ] = None
    """The GPU, as in `k8s.amazonaws.com/accelerator`; it follows from the instance type."""
    gpus_per_node: Annotated[
        Count | None, Silent("the instance type decides it; another value is refused")
    ] = None
    """The number of GPUs per node; it follows from the instance type."""
    min_nodes: Annotated[int, Ge(0), Sent("NodeGroup scalingConfig.minSize")] = 0
    """The minimum number of nodes in the whole pool."""
    max_nodes: Annotated[
        int, Interval(ge=1, le=catalog.MAX_POOL_NODES), Sent("NodeGroup scalingConfig.maxSize")
    ] = 1
    """The maximum number of nodes in the whole pool."""
    warm_pool: Annotated[
        EksWarmPoolArgs | None, NotWith("karpenter", _NO_ASG), NotWith("auto-mode", _NO_ASG)
    ] = None
    """Instances that have booted once and wait, stopped or running, from which the pool takes its
    next nodes; by default, none. They cost something while the pool has no node."""
    desired_nodes: Annotated[
        int | None,
        Sent("NodeGroup scalingConfig.desiredSize", "NodeGroup (ignore_changes)"),
        NotWith("karpenter", _NO_SIZE),
        NotWith("auto-mode", _NO_SIZE),
    ] = None
    """The number of nodes, for one update only: needed if minNodes rises above the current number
    or maxNodes falls below it. Remove it afterwards, so that the autoscaler decides again."""
    zones: Annotated[Sequence[str], UNIQUE, OnChange("GPU pool"), Sent("NodeGroup subnetIds")] = ()
    """Some of the network's zones; by default, all of them. With several, Auto Scaling may
    terminate a node, and the pods on it, to balance the zones."""
    subnet_ids: Annotated[
        Sequence[SubnetId], UNIQUE, OnChange("GPU pool"), Sent("NodeGroup subnetIds")
    ] = ()
    """Some of an existing network's subnets; by default, all of them."""
    labels: Annotated[NodeLabels, Sent("NodeGroup labels", "Tag")] = field(default_factory=dict)
    """Additional labels of the nodes."""
    discovery_labels: Annotated[bool, Sent("NodeGroup labels", "Tag")] = False
    """Whether nodes have the labels of GPU feature discovery (`nvidia.com/gpu.product`, `.count`,
    `.memory`, and `.replicas` with `sharing`), which SkyPilot, dstack and dashboards use to find
    GPUs, even in a pool without nodes."""
    taints: Annotated[Sequence[Taint], Sent("NodeGroup taints[]", "Tag")] = ()
    """Additional taints; `GPU_TAINT` is always set."""
    startup_taints: Annotated[
        Sequence[Taint],
        Sent("NodeGroup taints[]", "Tag", "NodePool spec.template.spec.startupTaints[]"),
    ] = ()
    """Taints that are removed from a node once it is set up: no pod of this stack tolerates them,
    and Cluster Autoscaler considers a node to be starting until they are gone. The CSI drivers of
    volumes and buckets remove `ebs.csi.aws.com/agent-not-ready` and
    `s3.csi.aws.com/agent-not-ready`."""
    capacity_type: Annotated[CapacityType, OnChange(bought), Sent("NodeGroup capacityType")] = (
        "on-demand"
    )
    """How the nodes are bought: `reservation` means only from on-demand Capacity Reservations. The
    pool of a Capacity Block can be updated (version, disk, tags) only with zero nodes: before the
    block starts, or after it ends."""
    fallback: Annotated[
        Sequence[CapacityType | EksFallbackArgs],
        Len(2, 100),
        Hint("name at least two ways of buying nodes, or set capacityType"),
        DISTINCT,
        OnChange(node_groups_kept),
        Sent("NodeGroup", "NodePool spec.template.spec.requirements[].values[]"),
    ] = ()
    """The ways of buying nodes, in the order in which they are tried, with the values of
    `capacityType`, which must be omitted. An entry may be a map with `capacityType`, `zones` and
    `instanceTypes` of its own. With Cluster Autoscaler, each is a separate node group of at most
    `maxNodes`; the autoscaler skips one that failed for 5 minutes, and for up to 30 if it fails
    again. Karpenter has one NodePool for a reservation, Spot and on demand in this order, and one
    of at most `maxNodes` for each entry of any other order; if a choice has no capacity, it uses
    the next one, and does not retry the first for 3 minutes."""
    topology_aware: Annotated[
        bool,
        NotWith("karpenter", _MOVES),
        NotWith("auto-mode", _MOVES),
        Sent("Topology", "ResourceFlavor spec.topologyName"),
    ] = False
    """Whether Kueue places the pods of jobs by where nodes are in AWS's network, so that a training
    job can have `requiredTopology` or `preferredTopology`. On a pool with equal `minNodes` and
    `maxNodes`, of instance types that docs/reference/support-matrix.md lists, in most regions."""
    reservation: Annotated[
        ReservationName | None, Sent("LaunchTemplate capacityReservationSpecification")
    ] = None
    """The reservation that the nodes use: with capacityType `capacity-block`, the ID of the block;
    with `reservation`, the ID of an on-demand Capacity Reservation or the ARN of a resource group
    of them. `gpu-cluster capacity` shows how much of it is free."""
    os: Annotated[str, _OS, OnChange("GPU pool"), Sent("NodeGroup amiType"), _IMAGE] = "al2023"
    """The operating system of the nodes, `al2023` or `bottlerocket`; both include the driver."""
    ami_type: Annotated[
        str | None,
        _AMI_TYPE,
        Silent("os and the instance type decide it; another value is refused"),
    ] = None
    """The EKS image type; it follows from `os` and the instance type."""
    release_version: Annotated[
        str | None,
        OnChange(never_lower),
        never(ami_id=True)(
            "applies only to EKS images, and amiId names another image; drop one of the two"
        ),
        Sent("NodeGroup releaseVersion"),
        _IMAGE,
    ] = None
    """The image's release such as `1.36.2-20260714`; by default, the newest one when the group is
    created or its Kubernetes version changes. Karpenter then follows each new release."""
    ami_id: Annotated[AMI_ID, _IMAGE] = None
    """Your own image, built from EKS's GPU image for the same `os`: it must have the NVIDIA driver,
    with `al2023` also NVIDIA's toolkit 1.18 or later, and the root volume `/dev/xvda`. The nodes
    have the image's Kubernetes version, regardless of `cluster.version`: change both together."""
    kubelet: Annotated[
        EksKubeletArgs | None,
        Sent("LaunchTemplate userData"),
        NotWith("auto-mode", "it configures the kubelet"),
    ] = None
    """Settings of the kubelet; by default, the image's. A change recycles the nodes."""
    user_data: Annotated[USER_DATA, NotWith("auto-mode", "its nodes take none")] = ()
    """Additional parts of the user data, each as text. With `al2023`, a script that begins with
    `#!`, a cloud-config, or a NodeConfig, which nodeadm merges with those of EKS and of this stack;
    with `bottlerocket`, settings in TOML. A change recycles the nodes."""
    security_group_ids: SECURITY_GROUPS = ()
    """Security groups of the nodes, at most 15, besides the cluster's own, which they keep."""
    efa: Annotated[
        bool,
        NotWith("auto-mode", "this stack describes no network interfaces to it"),
        Sent(
            "LaunchTemplate networkInterfaces[]",
            "EC2NodeClass spec.networkInterfaces[]",
            "DaemonSet",
        ),
    ] = False
    """Whether nodes have the Elastic Fabric Adapters of their instance type, which NCCL needs for
    its full bandwidth between nodes: for pods, each is one `vpc.amazonaws.com/efa`. The pool is in
    one zone. A change recycles the nodes."""
    placement_group: Annotated[
        Literal["cluster"] | None,
        never(capacity_type="capacity-block")(
            "is not needed: EC2 places instances of a Capacity Block close together; drop the key"
        ),
        NotWith("auto-mode", "its NodeClass names no placement group"),
        Sent(
            "PlacementGroup strategy",
            "LaunchTemplate placement.groupName",
            "EC2NodeClass spec.placementGroupSelector.name",
        ),
    ] = None
    """The strategy of a placement group for the nodes: with `cluster` they are close together, with
    less latency between them, and EC2 has room for another one less often. The pool is in one zone.
    A change recycles the nodes."""
    metadata_hop_limit: Annotated[
        HOP_LIMIT, NotWith("auto-mode", "it always sets the limit to 1")
    ] = 1
    """The maximum distance, in network hops, at which the instance metadata answers. Above 1, every
    pod can use the node's role, which the policy `imds` refuses."""
    delete_before_replace: Annotated[
        bool,
        Sent("NodeGroup (delete_before_replace)"),
        NotWith("karpenter", _NO_GROUP),
        NotWith("auto-mode", _NO_GROUP),
    ] = False
    """Whether a pool that is replaced is deleted first; otherwise, it needs twice the quota."""
    device_plugin: Annotated[
        Literal["nvidia", "dra", "none"],
        Sent("DaemonSet spec.template.spec.affinity"),
        NotWith("auto-mode", "NVIDIA's is part of its image"),
    ] = "nvidia"
    """Which device plugin runs: NVIDIA's, in a DaemonSet of this stack or, with os `bottlerocket`,
    as a service of the host (`nvidia`), or one that you install (`none`), such as NVIDIA's GPU
    Operator's; or NVIDIA's DRA driver in a DaemonSet of this stack (`dra`), from which pods get
    GPUs by ResourceClaims. The driver and the container toolkit are in the image. `dra` needs
    Kubernetes 1.34 or newer, os `al2023`, and with Cluster Autoscaler `minNodes` of 1 or more (of
    `maxNodes` on 1.34)."""
    sharing: Annotated[
        EksSharingArgs | None,
        NotWith("auto-mode", "the device plugin in its image gives whole GPUs only"),
        never(device_plugin="none")(
            "is done by the device plugin; set devicePlugin: nvidia, or drop the key"
        ),
        NOT_SHARED,
    ] = None
    """How pods share a GPU; by default, each GPU belongs to one pod."""
    disk_size_gb: Annotated[
        DiskSize, Sent("LaunchTemplate blockDeviceMappings[].ebs.volumeSize", "Tag")
    ] = LEAST_DISK_GIB
    """The size of a node's encrypted gp3 volume for images and pods."""
    disk_throughput: Annotated[
        DiskThroughput, Sent("LaunchTemplate blockDeviceMappings[].ebs.throughput")
    ] = 500
    """The throughput of that volume in MiB/s, 125 to 2000. It limits how fast a CUDA image of 20 GB
    is unpacked, during which the GPU is idle."""
    disk_iops: Annotated[DiskIops, Sent("LaunchTemplate blockDeviceMappings[].ebs.iops")] = 3000
    """The I/O operations per second of that volume, 3000 to 80000: at least 4 for each MiB/s, at
    most 500 for each GiB."""
    disk_snapshot_id: Annotated[
        SnapshotId | None,
        only(os="bottlerocket")(
            "is for the volume with images and pods, which os al2023 has together with its system; "
            "use os: bottlerocket, or drop the key"
        ),
        never(local_storage=True)(
            "has no effect with localStorage, by which images are on the local disks; drop one of "
            "the two"
        ),
        Sent("LaunchTemplate blockDeviceMappings[].ebs.snapshotId"),
        NotWith("auto-mode", "its NodeClass names no snapshot"),
    ] = None
    """The EBS snapshot from which that volume is created, with container images that its nodes need
    not pull: the data volume of a Bottlerocket, of at most `diskSizeGb`, in the pool's region. A
    change recycles the nodes."""
    disk_initialization_rate: Annotated[
        InitializationRate | None,
        only(disk_snapshot_id=True)(
            "is for a volume from a snapshot; set diskSnapshotId, or drop the key"
        ),
        Sent("LaunchTemplate blockDeviceMappings[].ebs.volumeInitializationRate"),
        NotWith("auto-mode", "its NodeClass names no snapshot"),
    ] = None
    """The MiB/s at which EBS copies the snapshot to the volume, 100 to 300; by default, what is
    read first. It is billed for each node that starts. A change recycles the nodes."""
    local_storage: Annotated[
        LocalStorage | None,
        Sent("LaunchTemplate userData", "Tag"),
        NotWith("auto-mode", "it decides itself how local disks are used"),
    ] = None
    """How the local NVMe disks of the instance types are used; by default, not at all. `raid0`
    makes them together the disk for images and pods, instead of the volume; `mounts` mounts each
    below `/mnt/k8s-disks`, at `1`, `2` and so on. What is on them goes with the node. A change
    recycles the nodes."""
    image_pull: Annotated[
        ImagePull | None,
        Sent("LaunchTemplate userData"),
        NotWith("auto-mode", "it pulls the images of GPU nodes in parallel itself"),
    ] = None
    """How nodes pull images; by default, as containerd does, one layer after the other. `parallel`
    downloads layers in parts and unpacks several at a time, with the SOCI snapshotter and the
    images as they are. It needs `diskThroughput: 600` or more, or, with `al2023`, `localStorage:
    raid0`. A change recycles the nodes."""
    max_unavailable: Annotated[
        Annotated[int, Interval(ge=1, le=_MAX_UNAVAILABLE)] | None,
        instead_of("max_unavailable_percentage"),
        Sent("NodeGroup updateConfig.maxUnavailable"),
    ] = None
    """How many nodes an update replaces at a time, 1 to 100; by default, one. With Auto Mode,
    by default none: nodes are replaced when they reach their maximum age."""
    max_unavailable_percentage: Annotated[
        Percentage | None, Sent("NodeGroup updateConfig.maxUnavailablePercentage")
    ] = None
    """The same as a share of the pool's nodes, 1 to 100; instead of maxUnavailable."""
    force_update: Annotated[bool, Sent("NodeGroup forceUpdateVersion")] = False
    """Whether an update evicts pods despite a disruption budget; otherwise it fails after 15 min.
    With Karpenter and Auto Mode, the pods of every node that is drained have 15 min, jobs too."""
    node_repair: Annotated[
        EksNodeRepairArgs,
        NotWith(
            "karpenter",
            "it repairs nodes by its own rules if cluster.karpenter.nodeRepair is true",
            but=(EksNodeRepairArgs(enabled=False),),
        ),
        NotWith("auto-mode", "it repairs nodes by its own rules"),
    ] = field(default_factory=EksNodeRepairArgs)
    """What EKS does with nodes whose GPUs or kubelet fail."""
    autoscaler: Annotated[
        EksPoolAutoscalerArgs,
        Sent("Tag"),
        NotWith("karpenter", _CA_ONLY),
        NotWith("auto-mode", _CA_ONLY),
    ] = field(default_factory=EksPoolAutoscalerArgs)
    """Options of Cluster Autoscaler for this pool only; by default, the cluster's."""
    karpenter: Annotated[
        EksPoolKarpenterArgs,
        NotWith("cluster-autoscaler", "its options are Karpenter's; use autoscaler instead"),
    ] = field(default_factory=EksPoolKarpenterArgs)
    """How nodes of this pool are removed, with `cluster.scaler` karpenter or auto-mode."""

    ORDERS: ClassVar = (Order("min_nodes", "max_nodes"),)
    POSSIBLE_WITH: ClassVar = _POSSIBLE_WITH

    @property
    def instance_type(self) -> catalog.InstanceType:
        """The catalog's row for the first instance type, which Cluster Autoscaler uses."""
        return catalog.INSTANCE_TYPES[self.instance_types[0]]

    @property
    def efa_cards(self) -> Sequence[int]:
        """The network cards that have an EFA interface in this pool."""
        return self.instance_type.efa_cards if self.efa else ()

    @property
    def purchases(self) -> Sequence[CapacityType]:
        """The ways of buying nodes, in the order in which they are tried."""
        return tuple(map(way, self.fallback)) or (self.capacity_type,)

    @property
    def choices(self) -> "Sequence[EksGpuNodeGroupArgs]":
        """The pool as each entry of `fallback` has it; without, only itself."""
        return of_each(self.fallback, self._as) or [self]

    def _as(self, entry: CapacityType | EksFallbackArgs) -> "EksGpuNodeGroupArgs":
        bought = way(entry)
        own = EksFallbackArgs() if isinstance(entry, str) else entry
        choice = replace(
            self,
            fallback=(),
            capacity_type=bought,
            reservation=self.reservation if reservations.is_reserved(bought) else None,
            zones=own.zones or self.zones,
            instance_types=own.instance_types or self.instance_types,
            warm_pool=None,
        )
        first, row = self.instance_type, choice.instance_type
        if (row.gpus, row.gpu_model, row.arch) != (first.gpus, first.gpu_model, first.arch):
            raise refuse("instanceTypes")(
                f"{row.name} has {_shape(row)}, {first.name} has {_shape(first)}",
                remedy="all nodes of a pool have the same GPUs, by which pods and quotas name "
                "them: choose such a type, or add a pool",
            )
        return choice

    def parts(self, name: str, scaler: Scaler) -> Sequence[str]:
        """The names of the node groups or NodePools of the pool `name`, one for each of its
        `choices`; only its own if one has all of them."""
        return part_names(name, self.fallback, groups=SCALERS[scaler].node_groups)

    check_given = staticmethod(check_keys)

    @property
    def gpus(self) -> int:
        """Physical GPUs per node."""
        return int(self.instance_type.gpus)

    @property
    def gpu_model(self) -> str:
        """Key of the catalog's `GPUS`."""
        model = self.instance_type.gpu_model
        assert model is not None
        return model

    @property
    def update_minutes(self) -> int:
        """Timeout of an update in minutes."""
        together = self.max_unavailable or 1
        if self.max_unavailable_percentage is not None:
            together = max(self.max_nodes * self.max_unavailable_percentage // 100, 1)
        return update_minutes(self.max_nodes, together=together)

    @property
    def node_taints(self) -> list[Taint]:
        """All taints that a node has when it starts."""
        return [GPU_TAINT, *self.taints, *self.startup_taints]

    @property
    def disk_gib(self) -> int:
        """The disk of a node for pods: a tenth is kept free, and EKS reserves 1 GiB. Of local
        disks, the file system takes less than a hundredth."""
        size = self.disk_size_gb
        if self.local_storage == "raid0":
            rows = [catalog.INSTANCE_TYPES[name] for name in self.instance_types]
            size = min(row.local_nvme_gb or 0 for row in rows) * 10**9 * 99 // 100 // 2**30 or size
        return self.kubelet.disk_gib(size) if self.kubelet else size * 9 // 10 - 2

    @property
    def ephemeral_storage(self) -> str:
        """`disk_gib` as a quantity."""
        return f"{self.disk_gib}Gi"

    @property
    def cpu_millis(self) -> int | None:
        """CPU that the smallest of its nodes has for pods, in thousandths of a core; None if the
        shape of an instance type is uncertain."""
        return self._room(min)[0]

    @property
    def memory_mib(self) -> tuple[int | None, int | None]:
        """Maximum and minimum memory that the smallest of its nodes has for pods, in MiB."""
        return self._room(min)[1:]

    def _room(
        self, node: Callable[[Iterable[int]], int]
    ) -> tuple[int | None, int | None, int | None]:
        """CPU in thousandths of a core, and maximum and minimum memory in MiB, that a node has for
        pods. `node`: `min` for the smallest type of the pool, `max` for the largest."""
        if self._sizes is None:
            return None, None, None
        least = [mib for _, _, mib in self._sizes if mib is not None]
        return (
            node(cpu for cpu, _, _ in self._sizes),
            node(most for _, most, _ in self._sizes),
            node(least) if len(least) == len(self._sizes) else None,
        )

    @property
    def _sizes(self) -> list[tuple[int, int, int | None]] | None:
        rows = [catalog.INSTANCE_TYPES[name] for name in self.instance_types]
        if any(instance.uncertain for instance in rows):
            return None
        sizes = [
            room.eks(
                instance.vcpu,
                instance.memory_gib,
                instance.max_pods,
                **(self.kubelet.reserved(instance.memory_gib) if self.kubelet else {}),
            )
            for instance in rows
        ]
        pages = [catalog.efa_huge_pages_mib(self.os, row.vcpu) * self.efa for row in rows]
        return [
            (cpu, most - taken, least and least - taken)
            for (cpu, most, least), taken in zip(sizes, pages, strict=True)
        ]

    @property
    def image(self) -> str:
        """The EKS image type, `amiType`."""
        if self.ami_id is not None:
            return "CUSTOM"
        return catalog.ami_type(self.os, self.instance_type.arch)

    def resolve(self, name: str, cluster: AnyEksClusterArgs) -> "ResolvedPool[EksGpuNodeGroupArgs]":
        """The pool in its cluster; raises `Refusal` if it does not match the cluster."""
        each_in, refusals = [choice.places_in(name, cluster) for choice in self.choices], Refusals()
        places = tuple(dict.fromkeys(place for some in each_in for place in some))
        auto_mode = SCALERS[cluster.scaler].serves_system
        most = AUTO_MODE_IOPS if auto_mode else catalog.GP3_IOPS[1]
        taints = {"taints": self.taints, "startupTaints": self.startup_taints}
        refusals.run(
            lambda: check_scaler(self, cluster.scaler, type(cluster)),
            lambda: check_marks(cluster.scaler, self.labels, taints, [GPU_TAINT]),
            lambda: check_node_class(cluster.scaler, LEAST_DISK_GIB, places),
            *([self._check_tags] if SCALERS[cluster.scaler].node_groups else []),
            self._check_topology,
            lambda: reservations.check_scaler(self.reservation, cluster.scaler),
            lambda: self._check_fallback(name, cluster),
            lambda: self._check_max_pods(cluster),
            lambda: self._check_groups(cluster),
            lambda: self._check_one_zone(cluster, places),
            lambda: self._check_possible_with(cluster.scaler),
            lambda: self._check_images_on_local_disks(cluster.scaler),
            *([self._check_auto_mode] if auto_mode else []),
            lambda: self._check_claims(cluster),
            lambda: check_iops(self.disk_size_gb, self.disk_throughput, self.disk_iops, most),
            *([] if self.fallback else [lambda: self._check_in(cluster, places)]),
        )
        refusals.check()
        fallback = of_each(self.fallback, lambda entry: self._as(entry).resolve(name, cluster))
        pool = self.gpu_pool(name, cluster.scaler)
        pool = smallest(pool, [choice.pool for choice in fallback] or [pool])
        with refusals:
            check_tag_count(cluster.scaler, cluster.tags, pool.labels)
        refusals.check()
        if self.os == "bottlerocket":
            # The values of a real cluster are known later; this checks that they can be merged with
            # the rest.
            likely = Bootstrap("a", "https://a", "a", "10.0.0.0/16", pool.labels, self.node_taints)
            bootstrap = likely if self.ami_id is not None else None
            disks = (self.local_storage, self.image_pull)
            bottlerocket(self.kubelet, pool, self.user_data, bootstrap, *disks)
        return ResolvedPool(
            args=self,
            pool=pool,
            places=places,
            warnings=[*dict.fromkeys(line for choice in fallback for line in choice.warnings)]
            if fallback
            else [f"gpuPools.{name}{warning}" for warning in self._warnings(cluster, places)],
            fallback=fallback,
        )

    @collected
    def _check_fallback(self, name: str, cluster: AnyEksClusterArgs) -> Iterator[Refusal]:
        if not self.fallback:
            return
        for position, entry in enumerate(self.fallback):
            if cluster.network.subnet_ids and not isinstance(entry, str) and entry.zones:
                yield refuse(("fallback", position, "zones"))(
                    "is not possible with network.subnetIds, whose zones this stack does not know",
                    remedy="drop the key",
                )
        parts, groups = self.parts(name, cluster.scaler), SCALERS[cluster.scaler].node_groups
        if len(parts) == 1:
            return
        what = "node group" if groups else "NodePool"
        for key, nodes in (("minNodes", self.min_nodes), ("desiredNodes", self.desired_nodes)):
            if nodes:
                yield refuse(key, nodes)(
                    f"is not possible with this fallback and cluster.scaler {cluster.scaler}: each "
                    f"choice is a {what} with its own size, and starts without nodes",
                    remedy="drop the key",
                )
        weight = self.karpenter.weight
        if not groups and weight is not None and weight < len(parts):
            yield refuse(("karpenter", "weight"), weight)(
                "is too small: it is the weight of the first choice, each further one has one "
                f"less, and the last has at least 1; allowed: {len(parts)} to 100"
            )
        if groups:
            check_priorities(cluster.autoscaler)

    @collected
    def _check_claims(self, cluster: AnyEksClusterArgs) -> Iterator[Refusal]:
        """docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-dra-device-plugin.html
        and the sources of Cluster Autoscaler 1.36.1, read 2026-11-29; for Karpenter
        karpenter.sh/docs/tasks/dra, read 2026-11-30."""
        if self.device_plugin != "dra":
            return
        yield from raised(check_claims, self.device_plugin, cluster.version)
        kubelet = (self.release_version or "").partition("-")[0]
        if self.os == "al2023" and kubelet in names.KUBELETS_LOSING_DRIVERS:
            yield refuse("releaseVersion", self.release_version)(
                f"has kubelet {kubelet}, which does not reach NVIDIA's DRA driver after 30 idle "
                "minutes",
                remedy="give one of 1.34.2 or later, or drop the key for the newest",
            )
        row = SCALERS[cluster.scaler]
        if row.node_groups and (self.fallback or self.capacity_type == "capacity-block"):
            yield refuse("devicePlugin")(
                f"dra is not possible with {'fallback' if self.fallback else 'a Capacity Block'}, "
                "whose node groups start from zero nodes: Cluster Autoscaler does not know which "
                "devices the first node of a group has",
                remedy="set devicePlugin: nvidia",
            )
            return
        grows = row.node_groups and self.min_nodes < self.max_nodes
        # cloudprovider/aws builds the template of an empty group without ResourceSlices
        # (kubernetes/autoscaler issue 7799). Before 1.35, processors/customresources compares a new
        # node with that template even if the group has others, which are the template from then on.
        if grows and cluster.version < _GROWS_SINCE:
            yield refuse("minNodes", self.min_nodes)(
                f"must be maxNodes with devicePlugin dra before Kubernetes {_GROWS_SINCE}: Cluster "
                "Autoscaler does not wait for the devices of a new node, and starts another",
                remedy=f"set it to {self.max_nodes}, or set devicePlugin: nvidia",
            )
        elif grows and self.min_nodes == 0:
            yield refuse("minNodes", self.min_nodes)(
                "is not possible with devicePlugin dra: Cluster Autoscaler does not know which "
                "devices the first node of a group has",
                remedy="set it to 1 or more, or set devicePlugin: nvidia",
            )
        if row.launches and self.min_nodes < self.max_nodes:
            yield from self._unknown_to_karpenter(cluster.scaler)
        if self.os == "bottlerocket":
            yield refuse("devicePlugin")(
                "dra is supported only with os al2023: the DRA driver looks for NVIDIA's libraries "
                "in directories that Bottlerocket does not have",
                remedy="use os: al2023, or devicePlugin: nvidia",
            )

    @collected
    def _check_auto_mode(self) -> Iterator[Refusal]:
        for kind in self.instance_types:
            family = kind.partition(".")[0]
            if family not in catalog.AUTO_MODE_FAMILIES:
                yield refuse("instanceTypes")(
                    f"{kind} is not possible with cluster.scaler auto-mode: EKS Auto Mode has no "
                    f"instances of the family {family}",
                    remedy="choose another, or set cluster.scaler: cluster-autoscaler or karpenter",
                )
        at("karpenter", self.karpenter.check_auto_mode)

    @collected
    def _check_possible_with(self, scaler: Scaler) -> Iterator[Refusal]:
        values = {
            "diskSizeGb": self.disk_size_gb,
            "diskThroughput": self.disk_throughput,
            "diskIops": self.disk_iops,
        }
        for key, allowed in self.POSSIBLE_WITH.get(scaler, {}).items():
            if values[key] not in allowed:
                yield refuse(key, values[key])(
                    f"is not possible with cluster.scaler {scaler}",
                    allowed=allowed,
                    remedy=f"lower it, or set cluster.scaler: {_without(key)}",
                )

    def gpu_pool(self, name: str, scaler: Scaler = "cluster-autoscaler") -> GpuPool:
        """The pool as pods and the GPU layer see it."""
        accelerator, claimed = (
            catalog.accelerator_label(self.gpu_model),
            self.device_plugin == "dra",
        )
        # Cluster Autoscaler knows the first type only; Karpenter starts one that the pod fits on.
        row = SCALERS[scaler]
        cpu_millis, most, least = self._room(max if row.in_cluster else min)
        return GpuPool(
            name=name,
            accelerator=accelerator,
            models=[model for model in GPUS if catalog.accelerator_label(model) == accelerator],
            cpu_millis=cpu_millis,
            # At zero, the autoscaler starts no node for a pod that requests more than the tags say.
            memory_mib=least or most if self.min_nodes == 0 else most,
            max_pods=self.max_pods or self._addresses,
            # The user data may add the instance's own disks.
            disk_mib=None if self.user_data or self.local_disks(scaler) else self.disk_gib * 1024,
            gpus_per_node=self.gpus,
            min_nodes=self.min_nodes,
            max_nodes=self.max_nodes,
            labels={
                POOL_LABEL: name,
                names.GPU_PRESENT: "true",
                # Cluster Autoscaler waits for the device plugin only on nodes with this label, and
                # a node whose GPUs are claimed would never be ready to it.
                **({} if claimed else {names.EKS_ACCELERATOR: accelerator}),
                **self._discovered,
                **self.labels,
            },
            taints=[GPU_TAINT, *self.taints],
            node_selector={POOL_LABEL: name},
            spot="spot" in self.purchases,
            stay_annotations=row.stay_annotations(spot="spot" in self.purchases),
            extended_resources={names.EFA: len(self.efa_cards)} if self.efa else None,
            fabric=Fabric(
                resource=names.EFA, env=catalog.EFA_ENV, gbps=self.instance_type.network_gbps
            )
            if self.efa
            else None,
            topology=names.EKS_TOPOLOGY if self.topology_aware else None,
            sharing=self._shared,
            # Bottlerocket runs the plugin as a service of the host.
            device_plugin=self.os != "bottlerocket"
            and self.device_plugin == "nvidia"
            and not row.own_nvidia,
            # Images of al2023 differ in what their NVIDIA runtime accepts (amazon-eks-ami issue
            # 2706); containerd has CDI enabled from Kubernetes 1.32 (nodeadm's template).
            cdi=self.os != "bottlerocket" or None,
            device_class=names.GPU_CLASS if claimed else None,
            left_to_others=("device plugin",) if self.device_plugin == "none" else None,
            driver_branch=None if row.own_nvidia else self._driver_branch,
        )

    @property
    def _driver_branch(self) -> int | None:
        """As `GpuPool.driver_branch` has it: which ones Bottlerocket has depends on the cluster."""
        if self.os != "al2023" or self.ami_id is not None:
            return None
        newest = catalog.al2023_driver(self.release_version)
        last = GPUS[self.gpu_model].last_driver
        return newest and min(newest, last or newest)

    def local_disks(self, scaler: Scaler) -> Sequence[str]:
        """The instance types whose local NVMe disks are the node's disk: Auto Mode prefers them to
        a smaller volume, and gives the node only one of 20 GiB (EKS user guide,
        automode-learn-instances, "Considerations", read 2026-11-28)."""
        if not SCALERS[scaler].uses_nvme:
            return ()
        rows = [catalog.INSTANCE_TYPES[name] for name in self.instance_types]
        size = self.disk_size_gb * 2**30 / 10**9
        return [row.name for row in rows if size < (row.local_nvme_gb or 0)]

    @property
    def _shared(self) -> Sharing | None:
        sharing = self.sharing
        return Sharing(strategy=sharing.strategy, replicas=sharing.replicas) if sharing else None

    @property
    def _discovered(self) -> Mapping[str, str]:
        if not self.discovery_labels:
            return {}
        return discovery_labels(self.gpu_model, self.gpus, self._shared)

    def places_in(self, name: str, cluster: AnyEksClusterArgs) -> tuple[str, ...]:
        subnets = places_of(f"gpuPools.{name}.subnetIds", self.subnet_ids)
        chosen = subnets if cluster.network.subnet_ids else tuple(self.zones)
        return chosen or cluster.network.places

    @collected
    def _check_in(self, cluster: AnyEksClusterArgs, places: Sequence[str]) -> Iterator[Refusal]:
        network = cluster.network
        for key, other, chosen, offered in (
            ("zones", "subnetIds", self.zones, network.zones),
            ("subnetIds", "zones", self.subnet_ids, network.subnet_ids),
        ):
            if chosen and not offered:
                yield refuse(key)(
                    f"the cluster's network is configured by the key {other}; use that"
                )
            for place in missing(chosen, offered) if offered else ():
                yield refuse(key, place)("is not in the cluster's network", allowed=offered)
        key = "subnetIds" if network.subnet_ids else "zones"
        block = "capacity-block" in self.purchases
        reservations.check_place(self.reservation, key, places, block=block)
        release = self.release_version
        # EKS takes the whole name for a node group; Karpenter only needs the part before the dash.
        groups = SCALERS[cluster.scaler].node_groups
        suffix = "-[0-9a-f]{8}" if groups else "(-[0-9a-f]{8})?"
        if (
            release is not None
            and self.os == "bottlerocket"
            and not re.fullmatch(rf"[0-9]+(\.[0-9]+){{2}}{suffix}", release)
        ):
            yield refuse("releaseVersion", release)(
                "is not a release of Bottlerocket's images",
                remedy="give one such as 1.65.0-0be31b34",
            )
        since = catalog.bottlerocket_with_drivers(cluster.version)
        if needed := self._newer_driver:
            given = bottlerocket_version(release)
            only = f"only driver {catalog.DRIVERS[0]}"
            if since is None:
                yield refuse("os")(
                    f"{needed}, and bottlerocket has {only} for Kubernetes {cluster.version}; "
                    "use al2023"
                )
            elif given and given < since:
                yield refuse("releaseVersion", release)(
                    f"has {only}, and {needed}; give {since[0]}.{since[1]}.0 or later, or drop "
                    "the key for the newest"
                )
        if (
            release is not None
            and self.os == "al2023"
            and cluster.version in catalog.AMI_RELEASES
            and not re.fullmatch(rf"{re.escape(cluster.version)}\.[0-9]+-[0-9]{{8}}", release)
        ):
            yield refuse("releaseVersion", release)(
                f"is not an image for Kubernetes {cluster.version}",
                remedy=f"give one such as {catalog.AMI_RELEASES[cluster.version]}",
            )

    @property
    def _newer_driver(self) -> str | None:
        """The need for the second of `catalog.DRIVERS`, if the nodes run Bottlerocket."""
        row = self.instance_type
        newer = row.first_driver is not None and row.first_driver > catalog.DRIVERS[0]
        needed = newer and self.os == "bottlerocket"
        return f"{row.name} needs driver {row.first_driver}" if needed else None

    def _groups(self, cluster: AnyEksClusterArgs) -> tuple[int, str]:
        """How many security groups a node has, and that in words."""
        of_cluster = max(1, len(cluster.network.security_group_ids))
        number = len(self.security_group_ids) + of_cluster + self.efa
        others = "cluster's and the one for EFA" if self.efa else "cluster's"
        return number, f"the nodes have {number} security groups, including the {others}"

    def _check_groups(self, cluster: AnyEksClusterArgs) -> None:
        number, counted = self._groups(cluster)
        if number > (most := catalog.MAX_SECURITY_GROUPS):
            raise refuse("securityGroupIds")(
                f"{counted}, and a network interface at most {most}; drop some"
            )

    def _warnings(self, cluster: AnyEksClusterArgs, places: Sequence[str]) -> Iterator[str]:
        """Warnings about the pool in its cluster, each without the path that precedes it."""
        groups = SCALERS[cluster.scaler].node_groups
        if self.max_nodes > 1 and len(places) > 1 and groups:
            key = "subnetIds" if cluster.network.subnet_ids else "zones"
            yield (
                f".{key}: with several zones, Auto Scaling may terminate a node to balance them, "
                "whatever runs on it, and one zone without capacity stops the whole pool from "
                "growing; name one zone, and add a pool for each of the others"
            )
        row = self.instance_type
        if row.uncertain:
            yield f": {row.name} is known from a secondary source only"
        if (release := self.release_version) and (bad := harm(self.os, release)):
            yield f".releaseVersion: {bad.line(release)}"
        last = GPUS[self.gpu_model].last_driver
        since = catalog.bottlerocket_with_drivers(cluster.version)
        if (needed := self._newer_driver) and since and cluster.version < "1.36":
            yield (
                f".os: {needed}, which Bottlerocket's images for Kubernetes {cluster.version} have "
                "since 1.68.0 by its release notes, and do not have by its table of GPU drivers; "
                "try one node, or use al2023"
            )
        # Images with two driver branches choose the one that supports the GPU.
        if last and self.os == "bottlerocket" and since is None and self.release_version is None:
            yield (
                f": the last driver for {self.gpu_model} is of branch {last}, and a newer "
                "Bottlerocket may carry another: use al2023, or create the pool with a "
                f"releaseVersion whose driver is {last}, since EKS does not move an existing pool "
                "to an older one"
            )
        number, counted = self._groups(cluster)
        if number > catalog.SECURITY_GROUPS:
            yield (
                f".securityGroupIds: {counted}, and a network interface at most "
                f"{catalog.SECURITY_GROUPS} unless AWS has raised the quota L-2AFB9258; ask for "
                "it, or drop some"
            )
        if (too_many := self._more_pods) and isinstance(cluster, EksExistingClusterArgs):
            yield (
                f".kubelet.maxPods: {self.max_pods} {too_many}, unless the cluster's CNI assigns "
                "prefixes (ENABLE_PREFIX_DELEGATION of vpc-cni) or gives pods other addresses: "
                "further pods would not start"
            )
        if self.placement_group and "reservation" in self.purchases:
            yield (
                ".placementGroup: EC2 may start fewer nodes than the reservation has, or none, "
                "unless it was created in this placement group "
                "(https://github.com/eksctl-io/eksctl/issues/7949); drop the key, or create the "
                "reservation there"
            )
        if self.disk_snapshot_id and self.image_pull:
            # https://github.com/bottlerocket-os/bottlerocket-core-kit/pull/582
            yield (
                ".imagePull: parallel uses another snapshotter than AWS's builder of "
                "diskSnapshotId, and Bottlerocket removes images of another one when it starts; "
                "drop the key, or build the snapshot on a node with it"
            )
        if self.disk_snapshot_id and self.disk_initialization_rate is None:
            yield (
                ".diskSnapshotId: without diskInitializationRate, a node reads its images from S3 "
                "when it first needs them, which may take longer than to pull them; set it, or "
                "enable fast snapshot restore of the snapshot in the zones of the pool"
            )
        yield from without_effect(self.node_repair)
        by_default = {item.name: item.default for item in fields(self)}
        for key in ("disk_throughput", "disk_iops"):
            given = getattr(self, key)
            if given != by_default[key] and (local := self.local_disks(cluster.scaler)):
                yield (
                    f".{camel(key)}: {given} has no effect on {local[0]}, whose local disks are "
                    "larger than diskSizeGb, so that Auto Mode uses them instead; drop the key"
                )
        if row.arch == "arm64" and self.node_repair.enabled and groups:
            yield (
                f".nodeRepair: EKS sees no GPU fault on {row.name}: eks-node-monitoring-agent up "
                "to v1.7.0 does not watch GPUs on arm64, so that only nodes with a failed kubelet "
                "are repaired; set cluster.addonVersions.eks-node-monitoring-agent to a newer one"
            )
        for position, part in enumerate(self.user_data if self.warm_pool else ()):
            # cloud-init runs both at the first boot only, which is in the warm pool:
            # docs.aws.amazon.com/autoscaling/ec2/userguide/warm-pool-instance-lifecycle.html
            if part.startswith(("#!", "#cloud-config")):
                yield (
                    f".userData[{position}]: runs when an instance boots for the first time, into "
                    "the warm pool, and not again when it becomes a node; with poolState stopped, "
                    "the instance may be stopped before it ends; do the work in a DaemonSet, or "
                    "drop warmPool"
                )
        reserved = all(map(reservations.is_reserved, self.purchases))
        if self.min_nodes and not groups and reserved and self.release_version is None:
            yield (
                ".minNodes: new images make Karpenter replace these nodes, and a successor starts "
                "before its node ends: in a full reservation none does, and the nodes keep their "
                "image; set releaseVersion, and leave one reserved instance free while you change "
                "it"
            )
        if self.desired_nodes is not None:
            yield (
                f".desiredNodes: sets the size to {self.desired_nodes} whatever size the "
                "autoscaler chose; remove it after this update"
            )

    @rule
    def _check_instance_types(self) -> Iterator[Refusal]:
        first = self.instance_type
        for position, name in enumerate(self.instance_types[1:], start=1):
            row = catalog.INSTANCE_TYPES[name]
            if (row.gpus, row.gpu_model, row.arch) != (first.gpus, first.gpu_model, first.arch):
                yield refuse(("instanceTypes", position))(
                    f"{name} has {_shape(row)}, {first.name} has {_shape(first)}",
                    remedy="put only instance types with the same GPUs into one pool",
                )
            elif row.vcpu < first.vcpu or row.memory_gib < first.memory_gib:
                yield refuse(("instanceTypes", position))(
                    f"{name} is smaller than {first.name}; put the smallest first: the "
                    "autoscaler assumes that all have the resources of the first"
                )
        accelerator = catalog.accelerator_label(self.gpu_model)
        if self.accelerator not in (None, accelerator):
            yield refuse("accelerator", self.accelerator)(
                f"contradicts {first.name}, which carries {accelerator}; drop one of the two"
            )
        if self.gpus_per_node not in (None, self.gpus):
            yield refuse("gpusPerNode", self.gpus_per_node)(
                f"contradicts {first.name}, which carries {self.gpus}; drop the key"
            )

    @rule
    def _check_efa(self) -> Iterator[Refusal]:
        first = self.instance_type
        choices = self.choices if self.efa else []
        for name in dict.fromkeys(name for choice in choices for name in choice.instance_types):
            row = catalog.INSTANCE_TYPES[name]
            if not row.efa_cards:
                larger = [
                    other.name
                    for other in catalog.INSTANCE_TYPES.values()
                    if other.gpu_model == row.gpu_model and other.efa_cards
                ]
                way = f", or choose one that has, such as {larger[0]}" if larger else ""
                yield refuse("efa")(f"{name} has no EFA", remedy=f"drop the key{way}")
            elif [*row.efa_cards] != [*first.efa_cards]:
                yield refuse("efa")(
                    f"{name} has {len(row.efa_cards)} EFA interfaces, {first.name} has "
                    f"{len(first.efa_cards)}, and the nodes of a pool have one network",
                    remedy="put only instance types with the same number into the pool",
                )

    @collected
    def _check_one_zone(
        self, cluster: AnyEksClusterArgs, places: Sequence[str]
    ) -> Iterator[Refusal]:
        unread = isinstance(cluster, EksExistingClusterArgs) and cluster.endpoint is not None
        if self.efa and unread:
            yield refuse("efa")(
                "needs a security group in the cluster's VPC, which is not read if "
                "cluster.endpoint is given; drop cluster.endpoint and "
                "cluster.certificateAuthority, or the key"
            )
        setting, words = (
            ("efa", "EFA connects only nodes")
            if self.efa
            else ("placementGroup", "a cluster placement group has only nodes")
        )
        if (self.efa or self.placement_group) and len(places) > 1:
            key = "subnetIds" if cluster.network.subnet_ids else "zones"
            yield refuse(setting)(
                f"{words} of one zone, and the pool is in {', '.join(places)}",
                remedy=f"name one of them in {key}",
            )

    @rule
    def _check_image(self) -> Iterator[Refusal]:
        bad = harm(self.os, self.release_version)
        if bad and bad.level == "refusal":
            yield refuse("releaseVersion", self.release_version)(
                f"{bad.symptom} ({bad.source})", remedy=bad.remedy
            )
        if self.device_plugin == "nvidia" and "" < self._image_day < catalog.TOOLKIT_SINCE:
            yield refuse("releaseVersion", self.release_version)(
                "has an NVIDIA toolkit older than 1.18, with which GPU pods do not start; give "
                f"one from {catalog.TOOLKIT_SINCE} or later, or drop the key for the newest"
            )
        for instance in map(catalog.INSTANCE_TYPES.__getitem__, self.instance_types):
            if refused := catalog.image_refusal(instance, self.os, self.release_version):
                yield Refusal((refused[0],), refused[1])
        if (
            self.device_plugin == "none"
            and self.os == "bottlerocket"
            and (version := bottlerocket_version(self.release_version))
            and version < BOTTLEROCKET_WITHOUT_PLUGIN
        ):
            yield refuse("devicePlugin")(
                "none needs a release of Bottlerocket whose own device plugin can be turned off, "
                f"and releaseVersion is {self.release_version}",
                remedy="raise that to 1.63.0 or later, or drop it for the newest",
            )
        if self.ami_type not in (None, self.image):
            yield refuse("amiType", self.ami_type)(
                f"contradicts os {self.os} on {self.instance_type.name}, which is {self.image}",
                remedy="drop the key",
            )

    def check_located(self, region: str) -> None:
        """Raises `Refusal` for a topology-aware pool in a region without instance topology."""
        if self.topology_aware and region not in catalog.LOCATED_REGIONS:
            raise refuse("topologyAware")(
                f"EC2 does not say where instances in {region} are, and Kueue would place no job "
                "on this pool; drop the key, or use a region that is listed in "
                "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-topology-prerequisites.html"
            )

    @collected
    def _check_topology(self) -> Iterator[Refusal]:
        if not self.topology_aware:
            return
        for name in self.instance_types:
            if not catalog.INSTANCE_TYPES[name].located:
                yield refuse("topologyAware")(
                    f"EC2 does not say where {name} instances are; families of which it does: "
                    f"{', '.join(catalog.LOCATED_FAMILIES)}, but not p5.4xlarge; drop the key"
                )
        if self.fallback or "capacity-block" in self.purchases:
            way = "fallback" if self.fallback else "capacityType capacity-block"
            yield refuse("topologyAware")(
                f"is not possible with {way}, with which a pool has no minNodes: Kueue places "
                "pods only on nodes that exist; drop the key"
            )
        else:
            check_fixed(self.min_nodes, self.max_nodes)

    def possible(self, key: str) -> Range | Sequence[Any] | None:
        if key == "gpusPerNode":
            return [self.gpus]
        if key == "diskIops":
            return possible_iops(self.disk_size_gb, self.disk_throughput)
        if key == "diskThroughput" and self._pulls_to_volume:
            return Range(PARALLEL_THROUGHPUT, None)
        if key == "capacityType":
            return reservations.ways(self.instance_type)
        if key == "sharing.strategy":
            mps = GPUS[self.gpu_model].supports_mps
            return ["mps", "time-slicing"] if mps else ["time-slicing"]
        if key == "localStorage":
            return ["raid0"] if self.os == "bottlerocket" else None
        from_zero = self.fallback or "capacity-block" in self.purchases
        if key == "minNodes":
            return [0] if from_zero else Range(1, None) if self.device_plugin == "dra" else None
        if key == "devicePlugin" and (from_zero or self.os == "bottlerocket"):
            return ["none", "nvidia"]
        most = self._addresses
        return Range(None, most) if key == "kubelet.maxPods" and most else None

    def _unknown_to_karpenter(self, scaler: str) -> Iterator[Refusal]:
        """What keeps it from starting nodes for claims."""
        # The nodes of minNodes are a static NodePool's, which provisioner.NewScheduler leaves out:
        # until they are ready, draExistingNode has no devices for them (sigs.k8s.io/karpenter
        # 1.15.0, pkg/controllers/provisioning).
        if self.min_nodes:
            yield refuse("minNodes", self.min_nodes)(
                f"must be 0 or maxNodes with devicePlugin dra and cluster.scaler {scaler}: "
                "Karpenter does not know which devices the nodes of minNodes will have, and starts "
                "others for pods that wait for them",
                remedy=f"set it to 0 or {self.max_nodes}, or set devicePlugin: nvidia",
            )
        kinds = dict.fromkeys(kind for choice in self.choices for kind in choice.instance_types)
        known = catalog.KARPENTER_CLAIM_FAMILIES
        if unknown := [kind for kind in kinds if kind.partition(".")[0] not in known]:
            yield refuse("devicePlugin")(
                f"dra is not possible with {', '.join(unknown)} and cluster.scaler {scaler}: "
                "Karpenter does not know their GPUs before a node has started; it knows those of "
                f"{', '.join(sorted(known))}",
                remedy="choose such types, set minNodes to maxNodes, or set devicePlugin: nvidia",
            )

    @property
    def _image_day(self) -> str:
        """The day of a pinned AL2023 image; empty without one."""
        return names.al2023_day(self.release_version) if self.os == "al2023" else ""

    @property
    def _images_on_disks(self) -> bool:
        return self.os == "al2023" and self.local_storage == "raid0"

    @property
    def _pulls_to_volume(self) -> bool:
        """Whether images are pulled in parallel to the volume of `disk_throughput`."""
        return self.image_pull is not None and not self._images_on_disks

    @property
    def _addresses(self) -> int | None:
        """The number of pods for which each of its types has addresses; None if unknown."""
        rows = map(catalog.INSTANCE_TYPES.__getitem__, self.instance_types)
        return min((row.pods(self.efa) for row in rows if row.interfaces), default=None)

    @property
    def max_pods(self) -> int | None:
        """The maximum number of pods on a node; None for the image's default."""
        return self.kubelet.max_pods if self.kubelet else None

    @property
    def _more_pods(self) -> str | None:
        """What is wrong with `kubelet.maxPods` if the CNI gives pods single addresses, as the
        stack's own clusters do."""
        for row in map(catalog.INSTANCE_TYPES.__getitem__, self.instance_types):
            if self.max_pods and row.interfaces and self.max_pods > (most := row.pods(self.efa)):
                return (
                    f"is above {most}, the number of pods for which {row.name} has addresses"
                    f"{' with efa' if most != row.max_pods else ''}"
                )
        return None

    def _check_max_pods(self, cluster: AnyEksClusterArgs) -> None:
        if (too_many := self._more_pods) and not isinstance(cluster, EksExistingClusterArgs):
            raise refuse(("kubelet", "maxPods"), self.max_pods)(f"{too_many}; lower it")

    @rule
    def _check_warm_pool(self) -> None:
        if self.warm_pool is None:
            return
        at(
            "warmPool",
            self.warm_pool.check,
            nodes=(self.min_nodes, self.max_nodes),
            ordered=bool(self.fallback),
            purchases=self.purchases,
            os=self.os,
            own_image=self.ami_id is not None,
        )

    @rule
    def _check_sharing(self) -> None:
        if self.sharing is not None:
            at("sharing", self.sharing.check, self.os, self.release_version)

    @rule
    def _check_parts(self) -> Iterator[Refusal]:
        yield from raised(lambda: check_desired(self.desired_nodes, self.min_nodes, self.max_nodes))
        yield from raised(lambda: reservations.check_choices(self.purchases))
        yield from raised(lambda: reservations.check_reserved(self.purchases, self.reservation))
        yield from raised(lambda: self.choices)
        yield from raised(lambda: self._discovered)
        yield from raised(lambda: check_user_data(self.user_data, self.os))
        if not self.fallback:
            types = [catalog.INSTANCE_TYPES[name] for name in self.instance_types]
            bought = (self.capacity_type, self.reservation)
            yield from raised(reservations.check_purchase, *bought, types, self.min_nodes)

    @rule
    def _check_local_storage(self) -> Iterator[Refusal]:
        if self.local_storage is None:
            return
        rows = [catalog.INSTANCE_TYPES[name] for name in self.instance_types]
        if without := [row.name for row in rows if not (row.local_nvme_gb or row.uncertain)]:
            yield refuse("localStorage", self.local_storage)(
                f"needs local disks, and {without[0]} has none",
                remedy="choose instance types that have some, or drop the key",
            )
        if self.local_storage == "mounts" and self.os == "bottlerocket":
            yield refuse("localStorage", self.local_storage)(
                "is not possible with os bottlerocket, which mounts no single disks",
                remedy="use raid0, or os: al2023",
            )
        stopped = self.warm_pool is not None and self.warm_pool.pool_state == "stopped"
        if stopped and self._images_on_disks and "" < self._image_day < RAID_AGAIN_SINCE:
            yield refuse("releaseVersion", self.release_version)(
                "does not set up the local disks of a stopped instance again, so that those of "
                "warmPool never become nodes",
                remedy=f"give one from {RAID_AGAIN_SINCE} or later, drop the key for the newest, "
                "or set warmPool.poolState: running",
            )

    @rule
    def _check_image_pull(self) -> Iterator[Refusal]:
        if self.image_pull is None:
            return
        if self.disk_throughput < PARALLEL_THROUGHPUT and self._pulls_to_volume:
            yield refuse("diskThroughput", self.disk_throughput)(
                "may make imagePull parallel slower than the default",
                allowed=Range(PARALLEL_THROUGHPUT, catalog.GP3_THROUGHPUT[1]),
                remedy="raise it, or drop imagePull",
            )
        version = bottlerocket_version(self.release_version)
        lacks = None
        if self.os == "bottlerocket" and version and version < BOTTLEROCKET_PARALLEL_SINCE:
            lacks = "has no SOCI snapshotter"
        if self._images_on_disks and "" < self._image_day < PARALLEL_ON_DISKS_SINCE:
            lacks = "leaves such images on the volume"
        if self._image_day == PARALLEL_NEVER_READY:
            lacks = "has a containerd with which such nodes never become ready"
        if lacks:
            yield refuse("imagePull", self.image_pull)(
                f"is not possible with releaseVersion {self.release_version}, which {lacks}",
                remedy="set a later one, or drop that key for the newest",
            )

    def _check_images_on_local_disks(self, scaler: Scaler) -> None:
        launched = self.os == "bottlerocket" and not SCALERS[scaler].node_groups
        if self.image_pull and self.local_storage == "raid0" and launched:
            # BottlerocketConfig.BootstrapCommandSettings of aws/karpenter-provider-aws,
            # pkg/providers/amifamily/bootstrap, read 2026-11-29.
            raise refuse("imagePull", self.image_pull)(
                "is not possible with localStorage raid0 and os bottlerocket: Karpenter leaves the "
                "directory of the SOCI snapshotter on the volume",
                remedy="use os: al2023, or drop one of the two",
            )

    def _check_tags(self) -> None:
        taints = len(self.taints) + len(self.startup_taints)
        most = _MAX_TAGS - len(self._discovered)
        if len(self.labels) + taints > most:
            raise refuse("labels")(
                f"{len(self.labels)} labels and {taints} taints exceed the tags of an Auto Scaling "
                f"group; allowed: {most} together"
            )


def _without(key: str) -> str:
    """The scalers that allow more of a setting."""
    return " or ".join(
        other for other in get_args(Scaler) if key not in _POSSIBLE_WITH.get(other, {})
    )


def _shape(row: catalog.InstanceType) -> str:
    return f"{row.gpus:g} {row.gpu_model} on {row.arch}"
