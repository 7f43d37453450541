"""The interface of a cloud's simulator: which nodes it would start, and how.

Everything here is read from what the simulator *holds*, never from the program's config, so that a
forgotten tag, label or taint shows as it would in the cloud.
"""

import fnmatch
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

ProvidedBy = Literal["cloud", "pod"]
"""Who does a part: the cloud (or the node's image) itself, or a pod that runs on the node."""

MOST_MPS_CLIENTS = 48
"""Of one GPU, from Volta on; NVIDIA's device plugin refuses more replicas."""

RENAMED = "advertises shared GPUs as nvidia.com/gpu.shared (renameByDefault), and no nvidia.com/gpu"

NODE_SECONDS = 7 * 60.0
"""What it takes in life to drain a GPU node, to end it and to have its successor ready: an
estimate, of 6 to 8 minutes. Here it takes a second; the time that a provider waits for an update is
judged by this."""


class RefusedError(Exception):
    """What a cloud answers when it refuses, in one line and in its own words."""


class ApiFaults(Protocol):
    """What a cloud's API does wrong on purpose."""

    quota: dict[str, int]
    """Limits that replace the simulator's generous ones: metric name -> units."""
    errors: dict[str, list[str]]
    """Operation, e.g. `eks:CreateNodegroup` (of Google: type of what it makes, as Pulumi calls it)
    -> errors that its next calls answer with, in turn."""
    no_capacity: list[str]
    """Offerings of which the cloud has no machine left, as `TYPE/ZONE/MARKET` with wildcards:
    `*/us-east-1a/spot`."""
    halfway: dict[str, list[str]]
    """Kind of a long-running operation of GKE's -> what its next ones end with, in turn."""


@dataclass(slots=True)
class NoFaults:
    """Implements `ApiFaults`."""

    quota: dict[str, int] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    no_capacity: list[str] = field(default_factory=list)
    halfway: dict[str, list[str]] = field(default_factory=dict)


def exhausted(faults: ApiFaults, machine_type: str, zone: str, market: str) -> bool:
    """Whether the cloud has no machine left of an offering; `market`: `on-demand`, `spot` or what
    else the cloud has."""
    offering = f"{machine_type}/{zone}/{market}"
    return any(fnmatch.fnmatchcase(offering, pattern) for pattern in faults.no_capacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTaint:
    """A taint in Kubernetes spelling."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTemplate:
    """A node as the scheduler sees it: labels, taints, and capacity as Kubernetes quantities."""

    labels: Mapping[str, str]
    taints: tuple[NodeTaint, ...]
    capacity: Mapping[str, str]
    """cpu, memory, ephemeral-storage, pods, and `nvidia.com/gpu` once driver and plugin are up."""

    def without(self, taints: Collection[str]) -> "NodeTemplate":
        """The node without taints of these keys."""
        kept = tuple(taint for taint in self.taints if taint.key not in taints)
        return self if kept == self.taints else replace(self, taints=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSharing:
    """How the device plugin of a node shares out its GPUs, read from what configures it there."""

    strategy: Literal["none", "time-slicing", "mps"] = "none"
    replicas: int = 1
    """Pods that one GPU, or one partition of it, can hold."""
    most: int | None = None
    """GpuSharing that one container may ask for; None if the plugin does not care."""
    host_ipc: bool = False
    """Whether a pod reaches the MPS daemon in the host's IPC namespace only."""
    fault: str = ""
    """Why the plugin advertises nothing, with the plugin as its subject; empty if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that a controller in the cluster launched, and that joins as a node."""

    name: str
    """The node's."""
    provider_id: str
    node: NodeTemplate
    """As its kubelet registers it; what changes it later is the controller's business."""
    bought: str = ""
    """How, in the words of `capacityType`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several ways to get the nodes for the same pods."""

    of: str
    """What all of them are for: the name of a compute class, or the labels that pods select."""
    rank: int
    """0 for what is tried first."""
    migrates: bool
    """Whether pods move to an earlier choice once that can be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A node pool (GKE), a node group (EKS) or the nodes that were there before."""

    name: str
    """Unique in the rehearsal and a valid label value, e.g. the node pool's physical name."""
    min_nodes: int
    max_nodes: int
    target_nodes: int
    """Nodes that the cloud itself keeps (initial or minimum count); the autoscaler adds more."""
    template: NodeTemplate
    """What the cloud's autoscaler believes of a node that is not there yet. On EKS that is the
    instance type and the Auto Scaling group's tags; on GKE the node pool itself."""
    node: NodeTemplate
    """What really joins."""
    driver: ProvidedBy = "cloud"
    plugin: ProvidedBy = "cloud"
    node_os: Literal["cos", "ubuntu", "al2023", "bottlerocket", "other"] = "other"
    spot: bool = False
    on_demand_per_hour: float | None = None
    provider_id: str = ""
    """What the `spec.providerID` of its nodes begins with, before the machine's name, e.g.
    `gce://my-project/us-central1-a/`; empty if the cloud gives them none."""
    autoscaled: bool = True
    """Whether its size is an autoscaler's business."""
    unscaled: str = ""
    """Why no autoscaler changes the size although one should; empty if one does."""
    outdated: str = ""
    """Why the autoscaler uses a `template` that is not the current one; empty if it is."""
    unwaited: str = ""
    """Why the autoscaler does not wait for the GPUs of a node that is ready without them, and
    starts another for the same pods; empty if it waits."""
    auto_provisioned: bool = False
    """GKE Autopilot: nodes of this shape come only for pods that select the accelerator."""
    choice: Choice | None = None
    """Where it stands in an order of fallback; None if it is in none."""
    revision: int = 0
    """How often the cloud has begun to recycle its nodes: each node of an earlier revision is
    drained and replaced, one at a time."""
    real: bool = False
    """Whether its one node is a machine with its own kubelet, named as the group."""
    gpus: int = 0
    """Physical GPUs of a node, however they are partitioned and shared."""
    instances: tuple[str, ...] | None = None
    """Provider ids (`aws:///ZONE/INSTANCE`) of the nodes that the cloud itself keeps; None if
    the cloud names no machine before its node is there."""
    sharing: GpuSharing = GpuSharing()
    """As the cloud's own device plugin is configured; that of a pod is read from the pod."""
    machines: tuple[Machine, ...] | None = None
    """Of a pool of which a controller in the cluster launches the machines and removes the nodes:
    those that join. None for any other group."""
    queued: bool = False
    """Whether its nodes start only for ProvisioningRequests, all of one together."""
    refused: str = ""
    """Why the cloud launches no machine for the pool in any of the ways that it has; empty if it
    does, or if one was not tried yet."""
    attempts: tuple[tuple[str, str], ...] = ()
    """How such a controller tried to buy machines, in the words of `capacityType`, and why it got
    none, empty if it did: each change from the attempt before."""
    place: int = 0
    """In the order of the autoscaler's priority expander, if it has one; 0 for what is tried
    first."""
    known_as: str = ""
    """The name by which Cluster Autoscaler knows it: that of its Auto Scaling group."""

    @property
    def order(self) -> str:
        """The order of fallback that it is in, alone or with other groups; empty if in none."""
        return self.choice.of if self.choice else self.name if self.machines is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """A Cluster Autoscaler that runs as a pod in the cluster."""

    namespace: str
    service_account: str
    discovers: tuple[tuple[str, ...], ...]
    """Alternatives, each a list of tags, `key` or `key=value`, that a group must all have."""
    made: float | None = None
    """When its pod was created, in whole seconds since 1970."""
    expanders: tuple[str, ...] = ()
    """By which it chooses among groups, in this order."""
    startup_taints: frozenset[str] = frozenset()
    """Keys of taints that it takes to go away once a node has started."""

    def __str__(self) -> str:
        return f"Cluster Autoscaler {self.namespace}/{self.service_account}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateComparison:
    """The node template that an autoscaler has of a group, compared with a node."""

    tags: Mapping[str, str]
    """Tag -> its value, as read back through the cloud's API."""
    real: Mapping[str, str | None]
    """The same tags with what the node has, None if it has nothing of the kind."""
    differences: Sequence[str]
    """One line each: the tag, or the right of the autoscaler, and what it costs."""


class ControlPlane(Protocol):
    """The real Kubernetes control plane behind the simulator's cluster resource."""

    def ensure_started(self) -> None:
        """Returns when the API server answers; starts it, empty, if it is not running."""

    def stop(self) -> None:
        """Ends it; what was in it is gone, as when a cluster is deleted."""

    def define(self, kinds: Sequence[Mapping[str, Any]]) -> None:
        """Adds CustomResourceDefinitions that the cloud brings; returns when they are served."""

    @property
    def endpoint(self) -> str:
        """`127.0.0.1:<port>`, known before it is started."""

    @property
    def ca_certificate(self) -> bytes:
        """PEM."""


class Cloud(Protocol):
    """A cloud simulator, seen from the rehearsal's sandbox. All methods are thread-safe."""

    def node_groups(self) -> list[NodeGroup]:
        """Every group of nodes that the cloud holds now."""

    def set_size(self, group: str, nodes: int) -> None:
        """Tells the cloud how many nodes the group has now, after the autoscaler changed it. Raises
        RefusedError if the cloud starts no such node, and KeyError for an unknown group."""

    def release(self, group: str, provider_id: str) -> None:
        """Ends a node that the cloud itself keeps, as the autoscaler does with an idle one above
        the group's minimum. Raises KeyError for an unknown group."""

    def not_scaled(self, scalers: Sequence[Scaler]) -> Mapping[str, str]:
        """Group -> why none of these autoscalers changes its size. Empty if the cloud scales
        its groups itself."""

    def compare_template(self, group: str, node: NodeTemplate) -> TemplateComparison | None:
        """The autoscaler's node template of the group, against this node; None if it sees
        the group itself. Raises KeyError for an unknown group."""

    def list_resources(self) -> list[str]:
        """One line for each thing the cloud holds; empty after a complete `pulumi destroy`."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Registers what is called after every change of `node_groups`."""


@runtime_checkable
class Identifying(Protocol):
    """A cloud that gives pods their credentials when they are created: EKS Pod Identity."""

    def why_no_credentials(self, namespace: str, service_account: str, made: float) -> str:
        """Why a pod, created in this second since 1970, has none although its service account has
        rights in the cloud; empty if it has, or if the account has no rights."""


@runtime_checkable
class Assuming(Protocol):
    """A cloud that carries out changes whose effect no source describes."""

    def assumptions(self) -> Sequence[str]:
        """What it assumed of them so far, a line each, for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePools:
    """What a cluster holds of Karpenter's objects."""

    pools: Sequence[Mapping[str, Any]] = ()
    classes: Sequence[Mapping[str, Any]] = ()
    """Of every kind of node class."""
    controller: bool = False
    """Whether a pod of Karpenter is ready."""


@runtime_checkable
class Launching(Protocol):
    """A cloud in which a controller of the cluster launches machines: Karpenter on EKS."""

    def declared(self, objects: NodePools) -> None:
        """Tells it the cluster's NodePools; `node_groups` then has one group for each."""

    def pod_environment(
        self, namespace: str, service_account: str, made: float
    ) -> Mapping[str, str]:
        """What a pod, created in this second since 1970, has in its environment to call the cloud
        with. Raises RefusedError if it gets no credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoMode:
    """An autoscaler that the cloud itself runs for its cluster: Karpenter of EKS Auto Mode."""

    environment: Mapping[str, str]
    """What the controller has in its environment, with its credentials."""
    objects: Sequence[Mapping[str, Any]] = ()
    """What the cloud creates in the cluster for it."""


@runtime_checkable
class Automatic(Protocol):
    """A cloud that can run such an autoscaler."""

    def auto_mode(self) -> AutoMode | None:
        """It, while the cluster is there and has it on."""


@runtime_checkable
class Provisioner(Protocol):
    """A cloud that creates nodes to fit pods: GKE Autopilot."""

    def asked(self, selectors: Sequence[Mapping[str, str]]) -> None:
        """Tells it the node selectors of all pods; `node_groups` then has what fits them."""


@runtime_checkable
class ClassScaler(Protocol):
    """A cloud that creates node pools by objects of the cluster: GKE's ComputeClasses."""

    def classes(self, objects: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Tells it all ComputeClasses; `node_groups` then has their pools. Returns what is wrong
        with them, a line each."""

    def starts(self, group: str) -> bool:
        """Whether another node of this group would start now."""


@runtime_checkable
class Restocking(Protocol):
    """A cloud whose machines run out in a rehearsal, and may come back."""

    @property
    def restocks(self) -> bool:
        """Whether machines that run out come back during the rehearsal."""

    @property
    def restocking(self) -> bool:
        """Whether some that were refused are on their way back now."""


@runtime_checkable
class Queueing(Protocol):
    """A cloud that starts the nodes of a request all at once or not at all: GKE."""

    def start_together(self, group: str, nodes: int) -> None:
        """Starts so many more nodes in a `queued` group. Raises RefusedError, with none of them
        started, if it cannot start all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An object for which a cloud creates resources."""

    uid: str
    kind: Literal["load balancer", "disk", "ingress", "gateway"]
    name: str
    """`namespace/name`."""
    class_name: str = ""
    """Of a Gateway; of an Ingress and of a Service what its annotation says."""
    spec_class: str | None = None
    """Of an Ingress, `spec.ingressClassName`."""
    ports: tuple[int, ...] = ()
    """Of a Service."""
    backends: tuple[tuple[str, int], ...] = ()
    """Services (`namespace/name`) with their ports, to which an Ingress or a Gateway's routes lead.
    """
    gib: int = 0
    """Of a disk."""
    driver: str = ""
    """Of a disk: the provisioner that its StorageClass names."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of a disk: those of its StorageClass."""
    node: str = ""
    """Of a disk whose class waits for a pod: the node that the scheduler chose."""


@runtime_checkable
class Attaching(Protocol):
    """A cloud whose controllers run in its clusters."""

    def why_not_provisioned(self, wanted: Wanted) -> str:
        """The error with which the driver's provisioner refuses to create this disk; empty if it
        creates it. Asked again until the disk exists."""

    def attach(self, wanted: Sequence[Wanted]) -> Mapping[str, str]:
        """Creates what is missing, and deletes what is no longer wanted; returns the uid -> the
        address of a load balancer, or the handle of a disk."""

    def storage_classes(self) -> Sequence[Mapping[str, Any]]:
        """The StorageClasses that its cluster comes with; none before there is one."""


def storage_class(
    name: str, provisioner: str, *, waits: bool = True, default: bool = False
) -> dict[str, Any]:
    """A StorageClass; of one that `waits` a volume is created for the first pod that uses it."""
    marks = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": marks},
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A CSI volume that a pod mounts, as the driver on its node is asked for it."""

    volume: str
    """The PersistentVolume's name, or that of the volume in the pod."""
    namespace: str
    service_account: str
    driver: str
    attributes: Mapping[str, str]
    """The volume's own."""
    handle: str = ""
    """The `volumeHandle` of a PersistentVolume; empty for a volume in the pod itself."""
    options: tuple[str, ...]
    """Of a PersistentVolume."""
    writes: bool
    """Whether a container may write there."""
    annotations: Mapping[str, str]
    """The pod's."""
    taints: tuple[NodeTaint, ...]
    """The node's, which the driver's own pod must tolerate."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """The node's, with machine type and zone."""
    user: int = 0
    """The `runAsUser` of the container that mounts it; 0, root, if it is unset."""
    group: int | None = None
    """The pod's `fsGroup`."""


@runtime_checkable
class Pulling(Protocol):
    """A cloud that has image registries, in which nodes need a right."""

    def why_not_pulled(self, image: str) -> str:
        """What the container runtime of a node says of the image; empty if the node gets it."""


@runtime_checkable
class Mounting(Protocol):
    """A cloud whose disks, file systems and buckets pods can mount."""

    def why_not_mounted(self, mount: Mount) -> str:
        """The error of the driver that attaches and mounts it, of a bucket with its name in front;
        empty if the pod can use it."""


def not_as_before(
    before: Collection[str],
    now: Collection[str],
    states_before: Mapping[str, str],
    states: Mapping[str, str],
) -> list[str]:
    """What is new, what is gone, and what has another state than before, which only its owner may
    change. `before`, `now`: a line for each thing; `states`: line -> what it is like."""
    gone = [line for line in before if line not in now]
    changed = [line for line in states_before if line in states]
    changed = [line for line in changed if states[line] != states_before[line]]
    return [
        *sorted(line for line in now if line not in before),
        *(f"not any more: {line}, which is somebody else's" for line in sorted(gone)),
        *(f"changed: {line}, which is somebody else's" for line in sorted(changed)),
    ]
