"""The waist between the platforms, which return it, and the GPU layer, which uses it.

Labels, taints, tolerations, selectors, autoscaler tags and the exported contract are all derived
from one `GpuPool`; no value of it is written down twice.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from .access.service_accounts import BucketDriver, ServiceAccountArgs
from .catalog import kubernetes as names
from .catalog.accelerators import GPUS
from .catalog.metrics import Source
from .kube.taints import CLOUD_EFFECTS, Effect
from .schema.decode import NAMESPACE, at
from .schema.limits import LABEL_KEY, LABEL_VALUE, Example
from .schema.refusal import Refusal, Refusals, collected, known_only, refuse
from .schema.rules import Checked, never

# Not imported at runtime: commands that only read settings declare nothing, and the SDKs take a
# second to import.
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
"""Our own node label, with the pool's name: the cloud's has a name unknown in a preview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint(Checked):
    """A node taint, in Kubernetes spelling."""

    key: Annotated[str, LABEL_KEY, Example("team")]
    """The taint's key."""
    value: Annotated[str, LABEL_VALUE, Example('"true"')]
    """The taint's value; Cluster Autoscaler ignores a taint of an EKS node group without one."""
    effect: Effect = "NoSchedule"
    """What happens to pods that do not tolerate it."""

    def __str__(self) -> str:
        """The form that `kubectl taint` accepts: `key=value:NoSchedule`."""
        return f"{self.key}={self.value}:{self.effect}"

    @property
    def cloud_effect(self) -> str:
        """The effect in the spelling of the GKE and EKS APIs: `NO_SCHEDULE`."""
        return CLOUD_EFFECTS[self.effect]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration(Checked):
    """A pod's toleration. `value` is unset with operator `Exists`."""

    key: str
    """The key of the taint that is tolerated."""
    operator: Literal["Exists", "Equal"] = "Exists"
    """Whether any value is tolerated (`Exists`) or one (`Equal`)."""
    value: Annotated[
        str | None,
        never(operator="Exists")(
            "is not used with operator Exists, which tolerates every value; drop it, or set "
            "operator: Equal"
        ),
    ] = None
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
"""The taint that GKE adds to GPU nodes; here it is always declared, on every platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How a physical GPU serves several pods."""

    strategy: Literal["time-slicing", "mps", "mig"]
    replicas: int
    """Maximum number of pods per physical GPU (with `partition`: per partition), at least 1."""
    partition: str | None = None
    """MIG profile such as `1g.5gb`; only with strategy `mig`."""
    partitions: int = 1
    """Partitions of this profile on one physical GPU, from the catalog; 1 without MIG."""


NOT_SHARED = never(device_plugin="dra")(
    "is not possible with devicePlugin dra: NVIDIA's DRA driver offers only whole GPUs, and its "
    "settings for MPS and time slices are behind feature gates that are alpha; set sharedGpus for "
    "pods that may use the same GPUs, set devicePlugin: nvidia, or drop the key"
)
"""Of a pool's `sharing`. TimeSlicingSettings, MPSSupport and DynamicMIG of dra-driver-nvidia-gpu
v0.4.1, pkg/featuregates, are off by default (read 2026-11-29)."""


def check_claims(device_plugin: str, version: str | None) -> None:
    """Raises a refusal if pods cannot claim the GPUs of a pool in a cluster of this version; None
    if it is not known."""
    if device_plugin != "dra" or version is None:
        return
    remedy = "raise that, or set devicePlugin: nvidia"
    if names.minor_of(version) < names.minor_of(names.CLAIMS_SINCE):
        raise refuse("devicePlugin")(
            f"dra needs Kubernetes {names.CLAIMS_SINCE} or newer, and cluster.version is {version}",
            remedy=remedy,
        )
    if version in names.KUBELETS_LOSING_DRIVERS:
        raise refuse("devicePlugin")(
            f"dra needs Kubernetes 1.34.2 or newer, and cluster.version is {version}, whose "
            "kubelet does not reach NVIDIA's DRA driver after 30 idle minutes",
            remedy=remedy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllAtOnce:
    """How Kueue requests all nodes of a job at once: with a ProvisioningRequest."""

    provisioning_class: str
    """The request's `provisioningClassName`."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """Label of the nodes that are created for a request -> the key of its
    `provisioningClassDetails` that has the label's value."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of each request, set on the job: Kueue recreates a request that differs from its
    ProvisioningRequestConfig, and other jobs may set their own values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The network adapters of a node that only GPUs use, which pods request like a device."""

    resource: str
    """The extended resource of which each adapter is one, such as `vpc.amazonaws.com/efa`; with
    `claimed` their DeviceClass, such as `mrdma.google.com`; with `networks` the prefix of GKE's
    resources for networks."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of a container that requests any, unless it sets them itself."""
    gbps: int | None = None
    """Gbit/s of all adapters of a node together; None if unknown."""
    claimed: int | None = None
    """How many a node has, if pods get all of them by a ResourceClaim; None if they request an
    extended resource."""
    networks: Sequence[str] | None = None
    """GKE's `Network` objects that a pod joins with its interfaces from eth1 on, in this order;
    None if pods name none."""
    plugin: str | None = None
    """Directory on the nodes with NCCL's plugin for them; None if it is in the pods' images."""
    installed: str | None = None
    """File in that directory by which a pod knows that the plugin is there; None for the one that
    this stack's installer writes."""
    over_tcp: Literal["tcpx", "tcpxo"] | None = None
    """The GPUDirect whose daemon receives for a pod's GPUs; None if they need none."""
    daemon: str | None = None
    """Version of that daemon; None for that of this stack's plugin."""

    @property
    def whole(self) -> bool:
        """Whether a pod gets either all adapters of its node or none."""
        return bool(self.claimed or self.networks)

    def of_google(self) -> "Fabric":
        """With the plugin as Google's own installers leave it, which do not report that they have
        finished: pods wait for the script that they need, or the library."""
        if self.over_tcp is None:
            return replace(self, plugin=names.GIB_DIRECTORY, installed=names.GIB_SETUP)
        last = names.TCPXO_SETUP if self.over_tcp == "tcpxo" else names.TCPX_LIBRARY
        return replace(self, plugin=names.GKE_DRIVER_DIRECTORY, installed=last)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPool:
    """A pool of nodes of one shape with GPUs, as pods see it."""

    name: str
    accelerator: str
    """The platform's name for the GPU: `nvidia-tesla-t4` on Google Cloud, `nvidia-tesla-v100` (as
    in `k8s.amazonaws.com/accelerator`) on AWS, the user's own name on an existing cluster."""
    models: Sequence[str] = ()
    """Keys of the catalog's `GPUS` that the accelerator can be; if empty, any of them."""
    gpus_per_node: int
    """Physical GPUs per node."""
    min_nodes: int | None = None
    """Minimum number of nodes in the whole pool; None if this stack does not control it."""
    max_nodes: int | None = None
    """Maximum number of nodes in the whole pool; None if there is no limit."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """All labels that this stack sets on the pool's nodes."""
    taints: Sequence[Taint] = ()
    """All taints on the pool's nodes."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """The node selector that assigns a pod to this pool only."""
    extra_tolerations: Sequence[Toleration] = ()
    """Tolerations that pods need in addition to those that `taints` imply."""
    spot: bool = False
    """Whether the cloud may reclaim a node at any time, with 25 s of notice."""
    pod_gpus: Sequence[int] = ()
    """Allowed numbers of GPUs per pod if the platform restricts them; empty if it does not."""
    sharing: Sharing | None = None
    installer: Installer | None = None
    """The driver installer DaemonSet that must run on these nodes; None if the driver is in
    the image or the cloud installs it."""
    installer_image: str | None = None
    """The user's own installer image instead of the one that GKE preloads."""
    installer_version: str | None = None
    """The driver version to install; None for the installer's default."""
    device_plugin: bool = False
    """Whether this stack's device plugin DaemonSet (NVIDIA's) must run on these nodes."""
    cdi: bool | None = None
    """Whether that plugin passes GPUs to containerd by the Container Device Interface, because the
    nodes' NVIDIA runtime may ignore the variable NVIDIA_VISIBLE_DEVICES of unprivileged pods; None
    if not."""
    device_class: str | None = None
    """The DeviceClass by which pods claim the pool's GPUs from NVIDIA's DRA driver, which the stack
    runs there instead of a device plugin; None if they request `resource`."""
    name_at_zero: str | None = None
    """All that the scaler knows of the GPUs that pods claim while a zone has no node: their name;
    None if it need not know, or if pods do not claim."""
    left_to_others: Sequence[GpuPart] | None = None
    """Parts that neither the cloud nor this stack installs on these nodes, but other software, such
    as NVIDIA's GPU Operator; None if there are none."""
    runtime_class: str | None = None
    """RuntimeClass that GPU pods need if the NVIDIA runtime is not the node's default."""
    host_ipc: bool = False
    """Whether GPU pods need the host's IPC namespace, through which they reach GKE's MPS daemon."""
    cpu_millis: int | None = None
    """Maximum CPU that a node has for pods, in thousandths of a core; None if it is not known."""
    memory_mib: int | None = None
    """Maximum memory that a node has for pods, in MiB; None if it is not known."""
    max_pods: int | None = None
    """Maximum number of pods on a node, including those of DaemonSets; None if it is not known."""
    stay_annotations: Mapping[str, str] = field(default_factory=dict)
    """The annotations of a pod that must not be evicted in favor of fewer nodes, as its scaler
    reads them; empty if the platform does not allow any."""
    disk_mib: int | None = None
    """Maximum disk that a node has for pods' logs, images' writable layers and `emptyDir` volumes,
    in MiB; None if it is not known."""
    sure_disk: str | None = None
    """The disk of a pod above which the platform may refuse it, a quantity; None without such."""
    default_disk: str | None = None
    """The disk of a container that requests none, a quantity; None if it may fill the node's."""
    node_rooms: Mapping[str, Sequence[int]] | None = None
    """GPUs of a pod -> the CPU, in thousandths of a core, and the memory, in MiB, of the largest
    node that the platform starts for it; None if all nodes have one size."""
    all_at_once: AllAtOnce | None = None
    """How a job gets either all of its nodes or none; None if the pool grows for any pod."""
    topology: Sequence[str] | None = None
    """Labels that say where a node is in the cloud's network, the broadest level first, if Kueue
    places jobs by them; None if it does not."""
    driver_branch: int | None = None
    """The newest branch of NVIDIA's driver that its nodes have; None if it is not known."""
    driver_directory: str | None = None
    """Directory on the nodes with the driver's libraries, if no NVIDIA container runtime provides
    them to containers; None if one does."""
    host_paths: bool = True
    """Whether pods may mount host directories; GKE Autopilot does not allow it."""
    unattachable: Sequence[str] = ()
    """StorageClasses whose disks the nodes cannot attach; the default one is an empty name."""
    attachable: str | None = None
    """A StorageClass whose disks they can attach, if `unattachable` contains the default one."""
    cacheable: Sequence[str] = ()
    """StorageClasses with a cache on local SSDs whose disks they can attach."""
    cached_disks: Mapping[str, int] = field(default_factory=dict)
    """StorageClass whose disks share a cache on the node's local SSDs -> how many disks of these
    classes a node can mount at the same time."""
    extended_resources: Mapping[str, int] | None = None
    """Extended resources besides GPUs -> how many a node offers; None without any."""
    fabric: Fabric | None = None
    """The fast network between the GPUs of several nodes; None if it is the nodes' ordinary one."""

    @property
    def nvidia_runtime(self) -> bool:
        """Whether an NVIDIA container runtime provides devices and driver to containers."""
        return self.driver_directory is None

    @property
    def driver_libraries(self) -> str | None:
        """Directory on the nodes that GPU pods must mount at `/usr/local/nvidia`; None if pods get
        the driver's libraries together with the GPU."""
        return self.driver_directory if self.device_plugin else None

    @property
    def job_annotations(self) -> dict[str, str]:
        """The annotations through which a job of the pool passes parameters to Kueue."""
        parameters = self.all_at_once.parameters if self.all_at_once else {}
        return {
            f"{names.REQUEST_PARAMETER_PREFIX}{key}": value for key, value in parameters.items()
        }

    @property
    def adapters(self) -> int:
        """How many adapters of its `fabric` a node has."""
        return (self.extended_resources or {}).get(self.fabric.resource, 0) if self.fabric else 0

    def adapters_of(self, nodes: int, gpus: int) -> int:
        """How many adapters each of the pods on `nodes` nodes has by default: all of its node's, if
        they use all GPUs of several nodes."""
        return self.adapters if nodes > 1 and gpus == self.gpus_per_node else 0

    def claimed_by(self, nodes: int, gpus: int) -> Fabric | None:
        """Its `fabric`, if each of the pods on `nodes` nodes gets all adapters of its node: they
        use all GPUs of several nodes."""
        claimed = self.fabric and self.fabric.whole and nodes > 1 and gpus == self.gpus_per_node
        return self.fabric if claimed else None

    @property
    def bounds(self) -> tuple[int, int]:
        """Minimum and maximum number of nodes of a pool that this stack creates.

        Raises ValueError for other pools.
        """
        if self.min_nodes is None or self.max_nodes is None:
            raise ValueError(f"pool {self.name}: its size is not managed by this stack")
        return self.min_nodes, self.max_nodes

    @property
    def tolerations(self) -> list[Toleration]:
        """Tolerations for the pool's taints. The GPU taint is tolerated whatever its value."""
        return [
            Toleration(key=taint.key, effect=taint.effect)
            if taint.key == GPU_RESOURCE
            else Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
            for taint in self.taints
        ] + list(self.extra_tolerations)

    @property
    def resource(self) -> str:
        """The resource that a pod requests in its limits."""
        return GPU_RESOURCE

    @property
    def allocatable(self) -> int:
        """Units of `resource` that a node offers once driver and device plugin are ready."""
        if self.sharing is None:
            return self.gpus_per_node
        return self.gpus_per_node * self.sharing.partitions * self.sharing.replicas

    @property
    def gpus_per_pod(self) -> list[int]:
        """The numbers that a pod may request: one share, since two may be of the same GPU."""
        if self.sharing is not None and self.sharing.replicas > 1:
            return [1]
        return list(self.pod_gpus) or list(range(1, self.allocatable + 1))

    def room(self, gpus: int) -> dict[str, str]:
        """Field of `ResourcesArgs` -> the most that a pod with `gpus` GPUs can request; without
        what is not known."""
        cpu, memory = (self.node_rooms or {}).get(str(gpus), (self.cpu_millis, self.memory_mib))
        amounts = {"cpu": (cpu, "m"), "memory": (memory, "Mi"),
                   "ephemeral_storage": (self.disk_mib, "Mi")}  # fmt: skip
        return {
            field: f"{amount}{unit}"
            for field, (amount, unit) in amounts.items()
            if amount is not None
        }

    def contract(self) -> dict[str, Any]:
        """The pool as published in the stack output `gpuPools` for other projects."""
        return {
            "nodeSelector": dict(self.node_selector),
            "tolerations": [toleration.manifest() for toleration in self.tolerations],
            "resource": None if self.device_class else self.resource,
            "deviceClass": self.device_class,
            "allocatablePerNode": self.allocatable,
            "gpusPerPod": self.gpus_per_pod,
            "gpusPerNode": self.gpus_per_node,
            "accelerator": self.accelerator,
            "minNodes": self.min_nodes,
            "maxNodes": self.max_nodes,
            "runtimeClass": self.runtime_class,
            "hostIPC": self.host_ipc,
            "driverLibraries": self.driver_libraries,
            "extendedResources": self.extended_resources,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPool(Generic[Args]):
    """A pool with all decisions made: everything that declares or prices the pool uses it."""

    args: Args
    """The user's settings for it."""
    pool: GpuPool
    places: Sequence[str] = ()
    """Zones, or IDs of an existing VPC's subnets, in which its nodes may be."""
    warnings: Sequence[str] = ()
    """Warnings about it, one line each, starting with the key's path."""
    fallback: Sequence["ResolvedPool[Args]"] = ()
    """The pool as each entry of its order of fallback has it; empty without an order."""

    @property
    def choices(self) -> Sequence["ResolvedPool[Args]"]:
        """Those of its order, or only itself."""
        return self.fallback or (self,)


def all_places(choices: Iterable[ResolvedPool[Any]]) -> tuple[str, ...]:
    """The zones or subnets in which nodes of any of the choices may be."""
    return tuple(dict.fromkeys(place for choice in choices for place in choice.places))


def smallest(pool: GpuPool, choices: Sequence[GpuPool]) -> GpuPool:
    """The pool with the room of its smallest nodes, so that each choice can run its pods."""
    rooms: dict[str, Any] = {
        name: None if None in amounts else min(amounts)
        for name in ("cpu_millis", "memory_mib", "disk_mib")
        for amounts in [[getattr(choice, name) for choice in choices]]
    }
    return replace(pool, **rooms)


def resolved(
    pools: Mapping[str, Any], refusals: Refusals, *cluster: object
) -> dict[str, ResolvedPool[Any]]:
    """The pools with all decisions made, in their `cluster` if these depend on it. Of one that is
    refused, only the name is known."""
    found = {}
    for name, pool in pools.items():
        found[name] = known_only(ResolvedPool, args=pool, pool=known_only(GpuPool, name=name))
        with refusals:
            found[name] = at(f"{NAMESPACE}:gpuPools.{name}", pool.resolve, name, *cluster)
    return found


@collected
def check_pool_names(cpu_pools: Collection[str], pools: Collection[str]) -> Iterator[Refusal]:
    """Raises `Refusal` for a CPU pool with the name of a GPU pool."""
    for name in cpu_pools:
        if name in pools:
            yield refuse((f"{NAMESPACE}:cluster", "cpuPools", name))(
                "is also the name of a GPU pool; choose another"
            )


def check_fixed(min_nodes: int, max_nodes: int, advice: str = "") -> None:
    """Raises `Refusal` for a topology-aware pool whose size changes: Kueue finds a place only
    among nodes that exist, and does not ask an autoscaler for others (kueue.sigs.k8s.io/docs/
    concepts/topology_aware_scheduling, 2026-11-24). `advice`: what to do if the pool cannot have
    `minNodes`."""
    if min_nodes != max_nodes:
        raise refuse("topologyAware")(
            f"Kueue places pods only on nodes that exist, and this pool has {min_nodes} to "
            f"{max_nodes}; {advice or f'set minNodes to {max_nodes}'}, or drop the key"
        )


def nvlink_warnings(models: Mapping[str, str]) -> list[str]:
    """A warning for each pool of machines connected by NVLink; `models`: pool -> key of `GPUS`."""
    return [
        f"gpuPools.{name}: NVLink connects the {model} of several machines, but this stack does "
        "not set up IMEX: a job on several nodes uses the network instead; use machines with 8 "
        "GPUs such as H100 or B200, or one node for each job"
        for name, model in models.items()
        if GPUS[model].nvlink_domain
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """How the GPU metrics of a cluster can be collected."""

    sources: Sequence[Source]
    """The possible collectors; the first is the default."""
    managed_prometheus: bool = False
    """Whether Google's Managed Prometheus collects them, and Cloud Monitoring shows them and raises
    alerts; otherwise, objects in the cluster configure a Prometheus of the user's."""
    needs: str = ""
    """What has to be set before anything collects them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The disk that a claim requests on a platform where the stack itself creates it."""

    gib: int
    """Its size, rounded up to whole GiB."""
    zone: str | None = None
    """The zone; None for the first of the platform's `Disks.zones`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVolume:
    """A disk of the stack as the PersistentVolume of its claim refers to it."""

    driver: str
    """The CSI driver that attaches it to nodes."""
    handle: "pulumi.Input[str]"
    """The driver's ID of the disk."""
    gib: int
    storage_class: str
    """The class that determines how the claim can grow."""
    zone: "pulumi.Input[str]"
    """`topology.kubernetes.io/zone` of the nodes that can attach it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What will run in a cluster, as far as the code that declares the cluster needs it."""

    metrics: Source | None = None
    notification_channels: Sequence[str] = ()
    """Recipients of alerts, as `projects/.../notificationChannels/...`."""
    training_nodes: Mapping[str, int] = field(default_factory=dict)
    """Pool that training jobs name -> number of nodes of the largest job."""
    accounts: Mapping[str, ServiceAccountArgs] = field(default_factory=dict)
    """Service accounts of pods, with their cloud permissions."""
    storage_classes: frozenset[str] = frozenset()
    """Classes that the stack's own claims name."""
    claims: Mapping[str, "Disk"] = field(default_factory=dict)
    """The stack's own claims, whose disks outlive the cluster."""
    parent: "pulumi.Resource | None" = None
    """The component that contains the stack; None for resources at the root of the program."""

    @property
    def component_options(self) -> "pulumi.ResourceOptions":
        """The options of a platform's top-level components."""
        import pulumi

        return pulumi.ResourceOptions(parent=self.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kubernetes cluster with its GPU pools, no matter who created it."""

    name: str
    platform: str
    """The platform's name in settings."""
    provider: "kubernetes.Provider"
    """The only provider through which Kubernetes objects are created."""
    kubeconfig: "pulumi.Output[str]"
    """Uses exec plugins only, never a token."""
    pools: Mapping[str, GpuPool]
    ready: Sequence["pulumi.Resource"] = ()
    """Resources that must exist before objects of the GPU layer, and must outlive them."""
    system_nodes: Sequence["pulumi.Resource"] = ()
    """Nodes that run the cloud's own webhooks: before they exist, objects of kinds that the cloud
    defines are refused. Nothing else waits for them, so that GPU nodes can start in parallel."""
    managed_prometheus: bool = False
    """Whether Google's Managed Prometheus collects metrics, and Cloud Monitoring shows them and
    raises alerts; otherwise, objects in the cluster configure a Prometheus of the user's."""
    mapped: "pulumi.Input[bool]" = False
    """Whether pods that request `nvidia.com/gpu` get GPUs that others claim. False as long as a
    kubelet may be older than Kubernetes 1.36: it would start such a pod without its GPUs."""
    granted: Mapping[str, Sequence["pulumi.Resource"]] = field(default_factory=dict)
    """Service account of pods -> its cloud permissions, which must exist before its pods start."""
    buckets: BucketDriver | None = None
    """How pods mount buckets; None if no pod does."""
    volumes: Mapping[str, ClaimVolume] = field(default_factory=dict)
    """Claim of the stack -> its disk, if the stack creates it, not the cluster's driver."""
    deleted_with: "pulumi.Resource | None" = None
    """The cluster resource, if this stack owns it, with which all objects are deleted."""
    launches_nodes: bool = False
    """Whether objects in the cluster launch its nodes, which would outlive it: then every object is
    deleted before the cluster, and nodes once no object of this stack keeps them."""
    parent: "pulumi.Resource | None" = None
    """The component that contains the stack; None for resources at the root of the program."""

    @property
    def component_options(self) -> "pulumi.ResourceOptions":
        """The options of a component that runs something in the cluster."""
        import pulumi

        return pulumi.ResourceOptions(parent=self.parent, depends_on=self.ready)

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

        `holds_disk`: it is a claim of this stack, or mounts one. Only the cluster's controllers
        delete the claim's disk, and they do so when the claim is deleted, not with the cluster.

        `protects_others`: on a cluster that this stack does not own, the engine refuses to delete
        the object, because objects created by others would be deleted with it.
        """
        import pulumi

        return pulumi.ResourceOptions(
            parent=parent,
            provider=self.provider,
            depends_on=[*self.ready, *depends_on],
            # Not the cluster itself: when a cluster is replaced, the engine would still delete
            # every object, with a provider that it has closed (pulumi/pulumi issue 14650). The
            # provider is replaced together with the cluster.
            deleted_with=None
            if self.deleted_with is None or holds_disk or self.launches_nodes
            else self.provider,
            delete_before_replace=delete_before_replace,
            protect=True if protects_others and self.deleted_with is None else None,
        )
