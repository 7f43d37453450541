"""The narrow waist: what every platform yields and the GPU layer consumes.

Labels, taints, tolerations, selectors, autoscaler tags and the exported contract all derive from
one `GpuPool`; no value of it is written down a second time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from .access import BucketDriver, ServiceAccountArgs
from .catalog import kubernetes as names
from .catalog.accelerators import GPUS
from .catalog.metrics import Source
from .kube.taints import CLOUD_EFFECTS, Effect
from .limits import LABEL_KEY, LABEL_VALUE, check_limits

# Settings are read by commands that answer at once and declare nothing: the SDKs take a second.
if TYPE_CHECKING:
    import pulumi
    import pulumi_kubernetes as kubernetes
    from pulumi_kubernetes.core.v1 import TolerationArgsDict

Args = TypeVar("Args")
Installer = Literal["cos", "ubuntu"]
GpuPart = Literal["driver", "device plugin"]

GPU_RESOURCE = "nvidia.com/gpu"
"""The extended resource that NVIDIA's and GKE's device plugins advertise."""

POOL_LABEL = "gpu-cluster/pool"
"""Our own node label, with the pool's name: the cloud's carries a physical name, unknown in a
preview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node taint, in Kubernetes spelling."""

    key: Annotated[str, LABEL_KEY]
    """The taint's key."""
    value: Annotated[str, LABEL_VALUE]
    """The taint's value. It is never empty: Cluster Autoscaler drops an EKS node group's taint that
    has no value."""
    effect: Effect = "NoSchedule"
    """What happens to pods that do not tolerate it."""

    def __post_init__(self) -> None:
        check_limits(self)

    def __str__(self) -> str:
        """As `kubectl taint` takes it: `key=value:NoSchedule`."""
        return f"{self.key}={self.value}:{self.effect}"

    @property
    def cloud_effect(self) -> str:
        """The effect as the GKE and EKS APIs spell it: `NO_SCHEDULE`."""
        return CLOUD_EFFECTS[self.effect]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A pod's toleration. `value` is unset with operator `Exists`."""

    key: str
    """The key of the taint that is tolerated."""
    operator: Literal["Exists", "Equal"] = "Exists"
    """Whether any value is tolerated (`Exists`) or one (`Equal`)."""
    value: str | None = None
    """The value that is tolerated; with operator `Equal`."""
    effect: Effect | None = None
    """The effect that is tolerated; by default, every effect."""

    def manifest(self) -> "TolerationArgsDict":
        """The toleration as a pod spec has it."""
        manifest: TolerationArgsDict = {"key": self.key, "operator": self.operator}
        if self.value is not None:
            manifest["value"] = self.value
        if self.effect is not None:
            manifest["effect"] = self.effect
        return manifest


GPU_TAINT = Taint(key=GPU_RESOURCE, value="present")
"""The taint that GKE puts on GPU nodes; here it is declared on every platform, always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How one physical GPU serves several pods."""

    strategy: Literal["time-slicing", "mps", "mig"]
    replicas: int
    """Pods that one physical GPU (with `partition`: one partition) can hold, 1 or more."""
    partition: str | None = None
    """MIG profile such as `1g.5gb`; only with strategy `mig`."""
    partitions: int = 1
    """Partitions of this profile on one physical GPU, from the catalog; 1 without MIG."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllAtOnce:
    """How Kueue asks the cluster's autoscaler for all nodes of a job at once, with a
    ProvisioningRequest."""

    provisioning_class: str
    """Its `provisioningClassName`."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """Label of the nodes that come for a request -> which of its `provisioningClassDetails` is the
    label's value."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of each request. Its job says them: Kueue makes a request anew that differs from its
    ProvisioningRequestConfig, and the jobs of others may set their own values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPool:
    """Nodes of one shape that carry GPUs, as pods see them."""

    name: str
    accelerator: str
    """The platform's name of the GPU: `nvidia-tesla-t4` on Google Cloud, `nvidia-tesla-v100` as
    `k8s.amazonaws.com/accelerator` has it on AWS, the user's own word on an existing cluster."""
    models: Sequence[str] = ()
    """Keys of the catalog's `GPUS` that the accelerator can be; none named: any of them."""
    gpus_per_node: int
    """Physical GPUs on one node."""
    min_nodes: int | None
    """Nodes in the whole pool that are always there; None if somebody else decides."""
    max_nodes: int | None
    """Nodes in the whole pool at the most; None if nothing bounds them."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Every label that this stack puts on the pool's nodes."""
    taints: Sequence[Taint] = ()
    """Every taint on the pool's nodes."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """What brings a pod to this pool and to no other."""
    extra_tolerations: Sequence[Toleration] = ()
    """Tolerations that pods need beyond those that `taints` imply."""
    spot: bool = False
    """Whether the cloud may take a node back at any time, with 25 s of notice."""
    pod_gpus: Sequence[int] = ()
    """GPUs that one pod may ask for, where the platform allows some counts only; else empty."""
    sharing: Sharing | None = None
    installer: Installer | None = None
    """The driver installer DaemonSet that must run on these nodes; None if the driver is in
    the image or the cloud installs it."""
    installer_image: str | None = None
    """One's own installer image instead of the one that GKE preloads."""
    installer_version: str | None = None
    """The driver's version for the installer; None for the installer's own."""
    device_plugin: bool = False
    """Whether NVIDIA's device plugin DaemonSet of this stack must run on these nodes."""
    left_to_others: Sequence[GpuPart] | None = None
    """What neither the cloud nor this stack gives these nodes, but somebody else's software, such
    as NVIDIA's GPU Operator; None if there is nothing of the kind."""
    runtime_class: str | None = None
    """RuntimeClass that GPU pods need where the NVIDIA runtime is not the node's default."""
    host_ipc: bool = False
    """Whether GPU pods need the host's IPC namespace: GKE's MPS daemon is reached through it."""
    cpu_millis: int | None = None
    """Thousandths of a core that a node has for pods, at the most; None if that is not known."""
    memory_mib: int | None = None
    """MiB of memory that a node has for pods, at the most; None if that is not known."""
    keeps_pods: bool = True
    """Whether a pod may ask to keep its node; GKE Autopilot does not grant that to Spot pods."""
    karpenter: bool | None = None
    """Whether Karpenter, EKS Auto Mode's too, removes its nodes; None if it does not: older
    versions, which read published pools, do not know the word."""
    all_at_once: AllAtOnce | None = None
    """How a job gets all of its nodes or none; None if the pool grows for any pod."""
    driver_directory: str | None = None
    """Directory of the nodes with the driver's libraries, where no NVIDIA container runtime gives
    them to containers; None if one does."""
    host_paths: bool = True
    """Whether pods may mount directories of the host; GKE Autopilot admits none."""
    unattachable: Sequence[str] = ()
    """StorageClasses whose disks the nodes cannot attach; the cluster's default one as an empty
    name."""
    attachable: str | None = None
    """A StorageClass whose disks they can, where `unattachable` has the default one."""

    @property
    def nvidia_runtime(self) -> bool:
        """Whether an NVIDIA container runtime gives devices and driver to containers."""
        return self.driver_directory is None

    @property
    def driver_libraries(self) -> str | None:
        """Directory of the nodes that GPU pods must mount at `/usr/local/nvidia`; None if pods get
        the driver's libraries together with the GPU."""
        return self.driver_directory if self.device_plugin else None

    @property
    def job_annotations(self) -> dict[str, str]:
        """What a job of the pool says to Kueue."""
        parameters = self.all_at_once.parameters if self.all_at_once else {}
        return {
            f"{names.REQUEST_PARAMETER_PREFIX}{key}": value for key, value in parameters.items()
        }

    @property
    def bounds(self) -> tuple[int, int]:
        """Nodes at the least and at the most, of a pool that this stack makes.

        Raises ValueError for another.
        """
        if self.min_nodes is None or self.max_nodes is None:
            raise ValueError(f"pool {self.name}: its size is not managed by this stack")
        return self.min_nodes, self.max_nodes

    @property
    def tolerations(self) -> list[Toleration]:
        """What lets a pod past the pool's taints. The GPU taint is tolerated whatever its value."""
        return [
            Toleration(key=taint.key, effect=taint.effect)
            if taint.key == GPU_RESOURCE
            else Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
            for taint in self.taints
        ] + list(self.extra_tolerations)

    @property
    def resource(self) -> str:
        """The resource that a pod asks for in its limits."""
        return GPU_RESOURCE

    @property
    def allocatable(self) -> int:
        """Units of `resource` that one node offers once driver and plugin have done their part."""
        if self.sharing is None:
            return self.gpus_per_node
        return self.gpus_per_node * self.sharing.partitions * self.sharing.replicas

    @property
    def gpus_per_pod(self) -> list[int]:
        """What one pod may ask for: shares of a GPU come one at a time, since two may be of one."""
        if self.sharing is not None and self.sharing.replicas > 1:
            return [1]
        return list(self.pod_gpus) or list(range(1, self.allocatable + 1))

    def contract(self) -> dict[str, Any]:
        """The pool as the stack output `gpuPools` shows it to other projects."""
        return {
            "nodeSelector": dict(self.node_selector),
            "tolerations": [toleration.manifest() for toleration in self.tolerations],
            "resource": self.resource,
            "allocatablePerNode": self.allocatable,
            "gpusPerPod": self.gpus_per_pod,
            "gpusPerNode": self.gpus_per_node,
            "accelerator": self.accelerator,
            "minNodes": self.min_nodes,
            "maxNodes": self.max_nodes,
            "runtimeClass": self.runtime_class,
            "hostIPC": self.host_ipc,
            "driverLibraries": self.driver_libraries,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPool(Generic[Args]):
    """A pool whose every question is answered: all that declares it, or prices it, goes by this."""

    args: Args
    """What the user says of it."""
    pool: GpuPool
    places: Sequence[str] = ()
    """Zones, or the IDs of an existing VPC's subnets, where its nodes may be."""
    warnings: Sequence[str] = ()
    """What may go wrong with it there, a line each, with the key's path in front."""


def nvlink_warnings(models: Mapping[str, str]) -> list[str]:
    """A line for each pool of machines that NVLink connects; `models`: pool -> key of `GPUS`."""
    return [
        f"gpuPools.{name}: NVLink connects the {model} of several machines, but this stack does "
        "not set up IMEX: a job on several nodes uses the network instead; use machines with 8 "
        "GPUs such as H100 or B200, or one node for each job"
        for name, model in models.items()
        if GPUS[model].nvlink_domain
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """How a cluster can have the metrics of its GPUs collected."""

    sources: Sequence[Source]
    """The first is taken where the user names none."""
    managed_prometheus: bool = False
    """Whether Google's Managed Prometheus collects them, and Cloud Monitoring shows them and
    alerts; else objects in the cluster do, for a Prometheus of the user's."""
    needs: str = ""
    """What has to be set before anything collects them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """What a claim asks of a platform on which the stack itself creates its disk."""

    gib: int
    """Its size, rounded up to whole GiB."""
    zone: str | None = None
    """None for the first of the platform's `Disks.zones`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVolume:
    """A disk of the stack's, as the PersistentVolume of its claim names it."""

    driver: str
    """The CSI driver that attaches it to nodes."""
    handle: "pulumi.Input[str]"
    """The disk, as the driver calls it."""
    gib: int
    storage_class: str
    """The class by whose rules the claim can grow."""
    zone: "pulumi.Input[str]"
    """`topology.kubernetes.io/zone` of the nodes that can attach it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What is to run in a cluster, as far as the code that declares it has to know."""

    metrics: Source | None = None
    notification_channels: Sequence[str] = ()
    """Who hears of alerts, as `projects/.../notificationChannels/...`."""
    training_nodes: Mapping[str, int] = field(default_factory=dict)
    """Pool that training jobs name -> nodes of the largest of them."""
    accounts: Mapping[str, ServiceAccountArgs] = field(default_factory=dict)
    """Service accounts of pods, and their rights in the cloud."""
    storage_classes: frozenset[str] = frozenset()
    """Classes that the stack's own claims name."""
    claims: Mapping[str, "Disk"] = field(default_factory=dict)
    """The stack's own claims, whose disks outlive a cluster that is deleted."""
    parent: "pulumi.Resource | None" = None
    """The component that a stack is declared as; None for resources at the root of the program."""

    @property
    def component_options(self) -> "pulumi.ResourceOptions":
        """The options of what a platform declares at the top."""
        import pulumi

        return pulumi.ResourceOptions(parent=self.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kubernetes cluster with its GPU pools, no matter who created it."""

    name: str
    platform: str
    """As users write it."""
    provider: "kubernetes.Provider"
    """The only provider through which Kubernetes objects are made."""
    kubeconfig: "pulumi.Output[str]"
    """Exec plugins only, never a token."""
    pools: Mapping[str, GpuPool]
    ready: Sequence["pulumi.Resource"] = ()
    """What must stand before objects of the GPU layer are made, and must outlive them."""
    system_nodes: Sequence["pulumi.Resource"] = ()
    """Nodes that run the cloud's own webhooks: before, objects of kinds that the cloud brings are
    refused. Nothing else waits for them, so that a GPU node can start while they do."""
    managed_prometheus: bool = False
    """Whether Google's Managed Prometheus collects metrics, and Cloud Monitoring shows them and
    alerts; else objects in the cluster do, for a Prometheus of the user's."""
    granted: Mapping[str, Sequence["pulumi.Resource"]] = field(default_factory=dict)
    """Service account of pods -> its rights in the cloud, which stand before its pods start."""
    buckets: BucketDriver | None = None
    """How pods mount buckets; None if they mount none."""
    volumes: Mapping[str, ClaimVolume] = field(default_factory=dict)
    """Claim of the stack -> its disk, where the stack creates that; else the cluster's driver does.
    """
    deleted_with: "pulumi.Resource | None" = None
    """The cluster resource, if this stack owns it: objects inside need no deletion of their own."""
    launches_nodes: bool = False
    """Whether objects inside launch its nodes, which would outlive it: then every object is deleted
    before it, and nodes once nothing of this stack keeps them."""
    parent: "pulumi.Resource | None" = None
    """The component that the stack is declared as; None for resources at the program's root."""

    @property
    def component_options(self) -> "pulumi.ResourceOptions":
        """The options of a component that runs something in the cluster."""
        import pulumi

        return pulumi.ResourceOptions(parent=self.parent)

    def options(
        self,
        parent: "pulumi.Resource",
        *,
        delete_before_replace: bool | None = None,
        depends_on: Sequence["pulumi.Resource"] = (),
        holds_disk: bool = False,
        protects_others: bool = False,
    ) -> "pulumi.ResourceOptions":
        """The options of a Kubernetes object inside this cluster.

        `holds_disk`: it is a claim of this stack, or mounts one. Nobody but the cluster's
        controllers deletes the claim's disk, and they do when the claim goes, not with the cluster.

        `protects_others`: on a cluster that this stack does not own, the engine refuses to delete
        the object, as objects of others would be deleted with it.
        """
        import pulumi

        return pulumi.ResourceOptions(
            parent=parent,
            provider=self.provider,
            depends_on=[*self.ready, *depends_on],
            # Not the cluster itself: of a cluster that is replaced, the engine would still delete
            # every object, with a provider that it has closed (pulumi/pulumi issue 14650). The
            # provider goes and comes with the cluster.
            deleted_with=None
            if self.deleted_with is None or holds_disk or self.launches_nodes
            else self.provider,
            delete_before_replace=delete_before_replace,
            protect=True if protects_others and self.deleted_with is None else None,
        )
