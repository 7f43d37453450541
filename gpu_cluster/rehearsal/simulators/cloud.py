"""The interface of a cloud's simulator: which nodes it would start, and how.

Everything here is read from the simulator's *content*, never from the program's config, so that a
forgotten tag, label or taint has the same effect as in the cloud.
"""

import fnmatch
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.rehearsal.simulators.stock import Stocks

ProvidedBy = Literal["cloud", "pod"]
"""Who provides a part: the cloud (or the node's image) itself, or a pod on the node."""

MOST_MPS_CLIENTS = 48
"""The MPS clients of one GPU, from Volta on; NVIDIA's device plugin refuses more replicas."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = ("karpenter.sh/do-not-disrupt", "true")

RENAMED = "advertises shared GPUs as nvidia.com/gpu.shared (renameByDefault), and no nvidia.com/gpu"

NODE_SECONDS = 7 * 60.0
"""The real time, in seconds, to drain and end a GPU node and to have its successor ready: an
estimate, of 6 to 8 minutes. Here it takes a second; whether a provider's timeout for an update is
sufficient is judged by this value."""
RECYCLE_SECONDS = 60.0
"""How long an update here waits for each of its nodes, which may never leave: a PodDisruptionBudget
can keep its pods."""
EVICTION_SECONDS = 30.0
"""How long here the pods of a node are asked to leave where the update is forced. EKS asks for 15
minutes (docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html), GKE for an
hour (cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies)."""

Progress = Literal["done", "going on", "held", "starting"]
Recycled = Callable[[str, int], Progress]
"""Whether none of a group's nodes is of an earlier revision than this one, and all are ready; if
not, whether a PodDisruptionBudget holds the pods of the next one, or a new one is not ready."""


def wait_for_nodes(recycled: Recycled, group: str, revision: int, *, nodes: int) -> Progress:
    """Returns how far an update that recycles a group's nodes is when it ends: "done" also if a
    node is only late to leave.

    `nodes`: how many it has."""
    until = time.monotonic() + RECYCLE_SECONDS * nodes
    while (now := recycled(group, revision)) != "done" and time.monotonic() < until:
        time.sleep(0.05)
    return "done" if now == "going on" else now


class RefusedError(Exception):
    """A cloud's refusal: its message, in one line; `quota`: whether a quota is exceeded."""

    def __init__(self, message: str, *, quota: bool = False) -> None:
        super().__init__(message)
        self.quota = quota


class ApiFaults(Protocol):
    """Faults to inject into a cloud's API."""

    quota: dict[str, int]
    """Limits that replace the simulator's generous ones: metric name -> units."""
    errors: dict[str, list[str]]
    """Operation, such as `eks:CreateNodegroup` (for Google: the Pulumi type of the created
    resource) -> errors of its next calls, in this order."""
    no_capacity: list[str]
    """Offerings for which the cloud has no machine left, as `TYPE/ZONE/MARKET` with wildcards:
    `*/us-east-1a/spot`."""
    halfway: dict[str, list[str]]
    """Type of a long-running GKE operation -> the results of its next ones, in this order."""


@dataclass(slots=True)
class NoFaults:
    """Implements `ApiFaults`."""

    quota: dict[str, int] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    no_capacity: list[str] = field(default_factory=list)
    halfway: dict[str, list[str]] = field(default_factory=dict)


def exhausted(faults: ApiFaults, machine_type: str, zone: str, market: str) -> bool:
    """Whether the cloud has no machine left of an offering; `market`: `on-demand`, `spot` or
    another market of the cloud."""
    offering = f"{machine_type}/{zone}/{market}"
    return any(fnmatch.fnmatchcase(offering, pattern) for pattern in faults.no_capacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTaint:
    """A taint in Kubernetes' spelling."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTemplate:
    """A node as the scheduler sees it: labels, taints, and capacity as Kubernetes quantities."""

    labels: Mapping[str, str]
    taints: tuple[NodeTaint, ...]
    capacity: Mapping[str, str]
    """cpu, memory, ephemeral-storage, pods, and, with driver and plugin, `nvidia.com/gpu`."""
    devices: Mapping[str, int] | None = None
    """DeviceClass -> how many of its devices pods can claim; None if that is not known."""
    expected: Mapping[str, str | int] | None = None
    """What an autoscaler expects of each GPU that pods could claim on a node that does not exist
    yet: attribute -> value, and `memory` in bytes; empty if it knows only those of nodes that do,
    None if it considers no claims."""

    def without(self, taints: Collection[str]) -> "NodeTemplate":
        """The node without the taints that have these keys."""
        kept = tuple(taint for taint in self.taints if taint.key not in taints)
        return self if kept == self.taints else replace(self, taints=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSharing:
    """How a node's device plugin shares its GPUs, read from the plugin's configuration."""

    strategy: Literal["none", "time-slicing", "mps"] = "none"
    replicas: int = 1
    """Pods that one GPU, or one partition of it, can hold."""
    most: int | None = None
    """The most shares that one container may request; None without a limit."""
    host_ipc: bool = False
    """Whether a pod reaches the MPS daemon only in the host's IPC namespace."""
    fault: str = ""
    """Why the plugin advertises nothing, with the plugin as its subject; empty if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that a controller in the cluster launched, and that joins as a node."""

    name: str
    """The node's name."""
    provider_id: str
    node: NodeTemplate
    """The node as its kubelet registers it; later changes are up to the controller."""
    bought: str = ""
    """How it was bought, as a `capacityType`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a cloud's network, in which machines are close together."""

    labels: Mapping[str, str]
    """Of every node in it."""
    nodes: int | None = None
    """How many fit; None for any number."""
    host: str = ""
    """A label with another value for each node; empty if the cloud has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several alternatives for the nodes of the same pods."""

    of: str
    """The alternatives' common purpose: a compute class, or the labels that pods select."""
    rank: int
    """The position in the order, from 0 for the first choice."""
    migrates: bool
    """Whether pods move to an earlier choice once that is available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A node pool (GKE), a node group (EKS), or nodes that existed before the stack."""

    name: str
    """Unique in the rehearsal and a valid label value, such as the node pool's physical name."""
    min_nodes: int
    max_nodes: int
    target_nodes: int
    """Nodes that the cloud itself keeps (initial or minimum count); the autoscaler adds more."""
    template: NodeTemplate
    """What the cloud's autoscaler expects of a future node: on EKS, the instance type and the Auto
    Scaling group's tags; on GKE, the node pool itself."""
    node: NodeTemplate
    """The node that really joins."""
    driver: ProvidedBy = "cloud"
    plugin: ProvidedBy = "cloud"
    node_os: Literal["cos", "ubuntu", "al2023", "bottlerocket", "other"] = "other"
    toolkit: str = ""
    """The version of NVIDIA's toolkit in the image if it is older than 1.18."""
    spot: bool = False
    on_demand_per_hour: float | None = None
    provider_id: str = ""
    """The prefix of the nodes' `spec.providerID`, before the machine's name, such as
    `gce://my-project/us-central1-a/`; empty if the cloud sets none."""
    autoscaled: bool = True
    """Whether an autoscaler is responsible for its size."""
    unscaled: str = ""
    """Why no autoscaler changes the size although one should; empty if one does."""
    outdated: str = ""
    """Why the autoscaler uses an outdated `template`; empty if it is current."""
    unwaited: str = ""
    """Why the autoscaler does not wait for the GPUs of a ready node that has none yet, and starts
    another node for the same pods; empty if it waits."""
    efa_fault: str = ""
    """What is wrong with the nodes' Elastic Fabric Adapters; empty if nothing is known."""
    auto_provisioned: bool = False
    """GKE Autopilot and compute classes: such nodes start only for pods that select them."""
    admitted: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """GPUs of a pod -> resource -> the most that the platform's admission lets it request."""
    autopilot: bool = False
    """Whether it belongs to a GKE Autopilot cluster, which admits pods by rules of its own."""
    choice: Choice | None = None
    """The group's position in an order of fallback; None if it is in none."""
    revision: int = 0
    """How often the cloud has started to recycle its nodes: each node of an earlier revision is
    drained and replaced, one at a time."""
    forced: bool = False
    """Whether a node that is recycled leaves even if a PodDisruptionBudget keeps its pods."""
    surges: bool = False
    """Whether the cloud starts new nodes before it drains old ones. Here it does so only for those
    that it keeps itself: a pod that waits for its node then tells nothing about a budget."""
    surging: int = 0
    """How many of `target_nodes` go with the last nodes that are recycled."""
    blocks: tuple[Block, ...] = ()
    """Where its nodes are, in the order in which the cloud fills them; empty if it does not say."""
    real: bool = False
    """Whether its only node is a machine with its own kubelet and the group's name."""
    gpus: int = 0
    """Physical GPUs of a node, however they are partitioned and shared."""
    gpu_model: str = "H100"
    """Their model; for machines that an inventory describes, which does not name it, this one."""
    instances: tuple[str, ...] | None = None
    """Provider IDs (`aws:///ZONE/INSTANCE`) of the nodes that the cloud itself keeps; None if the
    cloud names no machine before its node exists."""
    sharing: GpuSharing = GpuSharing()
    """The sharing by the cloud's own device plugin; that by a pod is read from the pod."""
    machines: tuple[Machine, ...] | None = None
    """For a pool whose machines are launched, and nodes removed, by a controller in the cluster:
    the machines that join. None for any other group."""
    queued: bool = False
    """Whether its nodes start only for ProvisioningRequests, all of one together."""
    zones: tuple[str, ...] = ()
    """The zones of a GKE node pool: each node starts in one of them, and all nodes of a request of
    a queued pool in the same one. Templates and `provider_id` are those of the first."""
    refused: str = ""
    """Why the cloud launches no machine for the pool with any purchase option; empty if it does, or
    if an option has not been tried yet."""
    attempts: tuple[tuple[str, str], ...] = ()
    """Such a controller's attempts to buy machines: the `capacityType` and why it got none, empty
    if it did. Lists only changes from the previous attempt."""
    place: int = 0
    """The position in the order of the autoscaler's priority expander, from 0 for the first; 0
    without such an expander."""
    warm: int = 0
    """Instances that have booted and wait outside of the group until it needs a node."""
    warm_starts: int = 0
    """How many nodes came from such instances so far."""
    known_as: str = ""
    """The name that Cluster Autoscaler uses for it: its Auto Scaling group's."""

    def in_zone(self, zone: str) -> "NodeGroup":
        """The group with the labels and machines of one of its zones."""

        def zonal(shape: NodeTemplate) -> NodeTemplate:
            return replace(shape, labels={**shape.labels, ZONE: zone})

        machines = self.provider_id
        for other in self.zones:
            machines = machines.replace(f"/{other}/", f"/{zone}/")
        return replace(
            self, template=zonal(self.template), node=zonal(self.node), provider_id=machines
        )

    @property
    def protection(self) -> tuple[str, str] | None:
        """The annotation, and its value, by which a pod keeps its node from the group's scaler;
        None if its cloud allows none.

        Karpenter, and EKS Auto Mode's: karpenter.sh/docs/concepts/disruption, "Pod-Level Controls".
        Spot Pods of Autopilot: docs.cloud.google.com, extended-duration-pods, "Limitations"; both
        read on 2026-11-28.
        """
        if self.machines is not None:
            return DO_NOT_DISRUPT
        return None if self.autopilot and self.spot else (SAFE_TO_EVICT, "false")

    @property
    def order(self) -> str:
        """The order of fallback that contains it, perhaps with others; empty if in none."""
        return self.choice.of if self.choice else self.name if self.machines is not None else ""

    @property
    def as_choice(self) -> str:
        """Its name with its place in the order, since GKE names pools of flex-start like others."""
        return f"{self.name} (choice {self.choice.rank + 1})" if self.choice else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """A Cluster Autoscaler that runs as a pod in the cluster."""

    namespace: str
    service_account: str
    discovers: tuple[tuple[str, ...], ...]
    """Alternatives, each a list of tags (`key` or `key=value`) that a group must all have."""
    made: float | None = None
    """When its pod was created, in whole seconds since 1970."""
    expanders: tuple[str, ...] = ()
    """The expanders by which it chooses among groups, in this order."""
    startup_taints: frozenset[str] = frozenset()
    """Keys of taints that it expects to disappear once a node has started."""

    def __str__(self) -> str:
        return f"Cluster Autoscaler {self.namespace}/{self.service_account}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateComparison:
    """An autoscaler's node template of a group, compared with a node."""

    tags: Mapping[str, str]
    """Tag -> its value, as read back through the cloud's API."""
    real: Mapping[str, str | None]
    """The same tags with the node's values; None if the node has none."""
    differences: Sequence[str]
    """One line each: the tag or the missing permission of the autoscaler, and its consequence."""


class ControlPlane(Protocol):
    """The real Kubernetes control plane behind the simulator's cluster resource."""

    def ensure_started(self, version: str = "") -> None:
        """Returns when the API server responds; starts an empty one if none is running, as this
        Kubernetes version."""

    def stop(self) -> None:
        """Stops the control plane; its content is lost, as when a cluster is deleted."""

    def define(self, kinds: Sequence[Mapping[str, Any]]) -> None:
        """Adds the cloud's CustomResourceDefinitions, waits until they are served, and adds its
        DeviceClasses."""

    @property
    def endpoint(self) -> str:
        """`127.0.0.1:<port>`, known before the start."""

    @property
    def ca_certificate(self) -> bytes:
        """The CA certificate as PEM."""


class Cloud(Protocol):
    """A cloud simulator, as the rehearsal's sandbox sees it. All methods are thread-safe."""

    def node_groups(self) -> list[NodeGroup]:
        """All current groups of nodes."""

    def set_size(self, group: str, nodes: int) -> None:
        """Sets the group's number of nodes, after the autoscaler changed it. Raises RefusedError if
        the cloud cannot start such a node, and KeyError for an unknown group."""

    def release(self, group: str, provider_id: str) -> None:
        """Ends a node that the cloud itself keeps, as the autoscaler does with an idle one above
        the group's minimum. Raises KeyError for an unknown group."""

    def list_resources(self) -> list[str]:
        """One line for each existing resource; empty after a complete `pulumi destroy`."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Registers a function that is called after every change of `node_groups`."""


@runtime_checkable
class Scaled(Protocol):
    """A cloud whose groups are scaled by a Cluster Autoscaler in the cluster: EKS."""

    def not_scaled(self, scalers: Sequence[Scaler]) -> Mapping[str, str]:
        """Group -> why none of these autoscalers changes its size."""

    def compare_template(self, group: str, node: NodeTemplate) -> TemplateComparison | None:
        """Compares the autoscaler's node template of the group with this node; None if the
        autoscaler sees the group itself. Raises KeyError for an unknown group."""


@runtime_checkable
class Recycling(Protocol):
    """A cloud that recycles nodes, and whose updates last until it has."""

    def followed(self, recycled: Recycled) -> None:
        """Called when nodes follow the cloud; before, an update waits for none."""


@runtime_checkable
class Surging(Protocol):
    """A cloud that can start new nodes of a group before it recycles the others."""

    def left(self, group: str, provider_id: str) -> None:
        """Ends a drained node without a successor, unless the update has ended meanwhile."""


@runtime_checkable
class Zonal(Protocol):
    """A cloud whose groups may have several zones: GKE."""

    in_zones: Counter[tuple[str, str]]
    """Group and zone -> its nodes there. Who starts them counts them before and after the calls."""

    def start_in(self, group: str, nodes: int, zone: str) -> None:
        """Sets the group's number of nodes, the new one of which is in this zone. Raises what
        `Cloud.set_size` raises."""


@runtime_checkable
class Identifying(Protocol):
    """A cloud that gives pods their credentials when they are created: EKS Pod Identity."""

    def why_no_credentials(self, namespace: str, service_account: str, made: float) -> str:
        """Why a pod, created in this second since 1970, has no credentials although its service
        account has permissions in the cloud; empty if it has them, or if the account has no
        permissions."""


@runtime_checkable
class Enforcing(Protocol):
    """A cloud that enforces the NetworkPolicies of its clusters, if it was told to."""

    def why_unenforced(
        self,
        config_maps: Mapping[str, Mapping[str, Any]],
        node_classes: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Why nothing in the cluster enforces NetworkPolicies; empty if something does.
        `config_maps`: by `namespace/name`. `node_classes`: those of EKS Auto Mode."""


@runtime_checkable
class Assuming(Protocol):
    """A cloud that makes changes whose effect no source documents."""

    def assumptions(self) -> Sequence[str]:
        """Its assumptions so far, one line each, for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePools:
    """Karpenter's objects in a cluster."""

    pools: Sequence[Mapping[str, Any]] = ()
    classes: Sequence[Mapping[str, Any]] = ()
    """Objects of all kinds of node classes."""
    controller: bool = False
    """Whether a pod of Karpenter is ready."""


@runtime_checkable
class Launching(Protocol):
    """A cloud in which a controller in the cluster launches machines: Karpenter on EKS."""

    def declared(self, objects: NodePools) -> None:
        """Passes the cluster's NodePools to the cloud; `node_groups` then has one group each."""

    def pod_environment(
        self, namespace: str, service_account: str, made: float
    ) -> Mapping[str, str]:
        """The environment with which a pod, created in this second since 1970, calls the cloud.
        Raises RefusedError if it gets no credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoMode:
    """An autoscaler that the cloud itself runs for its cluster: Karpenter of EKS Auto Mode."""

    environment: Mapping[str, str]
    """The controller's environment, including its credentials."""
    objects: Sequence[Mapping[str, Any]] = ()
    """The objects that the cloud creates in the cluster for it."""


@runtime_checkable
class Automatic(Protocol):
    """A cloud that can run an autoscaler for its cluster."""

    def auto_mode(self) -> AutoMode | None:
        """The autoscaler, while the cluster exists and has it enabled; otherwise None."""


@runtime_checkable
class Provisioner(Protocol):
    """A cloud that creates nodes to fit pods: GKE Autopilot."""

    def asked(self, selectors: Sequence[Mapping[str, str]]) -> None:
        """Passes the node selectors of all pods; `node_groups` then has groups that fit them."""


@runtime_checkable
class ClassScaler(Protocol):
    """A cloud that creates node pools for objects in the cluster: GKE's ComputeClasses."""

    stock: Stocks
    """Machines that run out in the rehearsal, and may become available again."""

    def classes(self, objects: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Passes all ComputeClasses; `node_groups` then has their pools. Returns their errors."""

    def starts(self, group: str) -> bool:
        """Whether another node of this group would start now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNetwork:
    """What a cloud makes of the parameters of a network that pods can join."""

    refusal: str = ""
    """`Reason: message`, if the cloud refuses them."""
    network: str = ""
    """The object that refers to them; empty if none does."""
    mismatch: str = ""
    """`Reason: message`, if they do not fit that object."""
    fault: str = ""
    """Why nodes do not reach each other there; empty if they do."""
    vpc: str
    subnetwork: str

    @property
    def ready(self) -> bool:
        """Whether pods can join it on nodes with an interface there."""
        return bool(self.network) and not self.refusal and not self.mismatch


@runtime_checkable
class Networking(Protocol):
    """A cloud whose nodes can have several networks: GKE."""

    def networks(
        self, networks: Sequence[Mapping[str, Any]], params: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, PodNetwork]:
        """Passes all `Network` objects and their parameters; `node_groups` then has what nodes
        offer. Name of the parameters -> what the cloud makes of them."""


@runtime_checkable
class Queueing(Protocol):
    """A cloud that starts the nodes of a request all at once or not at all: GKE."""

    placed: Counter[tuple[str, str]]
    """`queued` group and zone -> its nodes there. Who starts them counts them before the calls."""

    def recommend(self, group: str, nodes: int, zones: Sequence[str]) -> str:
        """Which of the zones has this many more nodes of a `queued` group; the first if none."""

    def start_together(self, group: str, nodes: int, zone: str) -> None:
        """Starts this many more nodes of a `queued` group in a zone. Raises RefusedError, with
        none of them started, if it cannot start all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An object for which a cloud creates resources."""

    uid: str
    kind: Literal["load balancer", "disk", "ingress", "gateway"]
    name: str
    """The object's `namespace/name`."""
    class_name: str = ""
    """The class of a Gateway; of an Ingress or a Service, the class in its annotation."""
    spec_class: str | None = None
    """An Ingress's `spec.ingressClassName`."""
    ports: tuple[int, ...] = ()
    """A Service's ports."""
    backends: tuple[tuple[str, int], ...] = ()
    """Services (`namespace/name`) and ports to which an Ingress or a Gateway's routes lead."""
    gib: int = 0
    """A disk's size."""
    driver: str = ""
    """For a disk: the provisioner in its StorageClass."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """For a disk: the parameters in its StorageClass."""
    node: str = ""
    """For a disk whose class waits for a pod: the node that the scheduler chose."""
    zone: str = ""
    """For a disk: where it is created, the zone of `node` or, if its class does not wait, of any
    node; empty if no node has a zone."""


@runtime_checkable
class Attaching(Protocol):
    """A cloud whose controllers run in its clusters."""

    def why_not_provisioned(self, wanted: Wanted) -> str:
        """The error with which the driver's provisioner refuses to create this disk; empty if it
        creates it. Called again until the disk exists."""

    def attach(self, wanted: Sequence[Wanted]) -> Mapping[str, str]:
        """Creates what is missing, and deletes what is no longer wanted; returns the UID -> the
        address of a load balancer, or the handle of a disk."""

    def disk_zone(self, handle: str) -> str:
        """The only zone whose nodes can use a volume; empty for one of a whole region."""

    def storage_classes(self) -> Sequence[Mapping[str, Any]]:
        """The StorageClasses of its cluster; none without a cluster."""


def storage_class(
    name: str, provisioner: str, *, waits: bool = True, default: bool = False
) -> dict[str, Any]:
    """A StorageClass; with `waits`, a volume is created for the first pod that uses it."""
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
    """A CSI volume that a pod mounts, as passed to the driver on its node."""

    volume: str
    """The PersistentVolume's name, or that of the volume in the pod."""
    namespace: str
    service_account: str
    driver: str
    attributes: Mapping[str, str]
    """The volume's attributes."""
    handle: str = ""
    """The `volumeHandle` of a PersistentVolume; empty for a volume in the pod itself."""
    options: tuple[str, ...]
    """A PersistentVolume's mount options."""
    writes: bool
    """Whether a container may write to it."""
    annotations: Mapping[str, str]
    """The pod's annotations."""
    taints: tuple[NodeTaint, ...]
    """The node's taints, which the driver's own pod must tolerate."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """The node's labels, including machine type and zone."""
    user: int = 0
    """The `runAsUser` of the container that mounts it; 0, root, if it is unset."""
    group: int | None = None
    """The pod's `fsGroup`."""
    mounted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The volumes that the node has mounted before -> their attributes."""


@runtime_checkable
class Pulling(Protocol):
    """A cloud with image registries that require a permission of nodes."""

    def why_not_pulled(self, image: str) -> str:
        """The error of a node's container runtime for the image; empty if the node can pull it."""


@runtime_checkable
class Mounting(Protocol):
    """A cloud whose disks, file systems and buckets pods can mount."""

    def why_not_mounted(self, mount: Mount) -> str:
        """The error of the driver that attaches and mounts it, for a bucket prefixed by its name;
        empty if the pod can use it."""


def not_as_before(
    before: Collection[str],
    now: Collection[str],
    states_before: Mapping[str, str],
    states: Mapping[str, str],
) -> list[str]:
    """The resources that are new, missing or changed, which only their owner may change. `before`,
    `now`: a line for each resource; `states`: line -> its state."""
    gone = [line for line in before if line not in now]
    changed = [line for line in states_before if line in states]
    changed = [line for line in changed if states[line] != states_before[line]]
    return [
        *sorted(line for line in now if line not in before),
        *(f"not any more: {line}, which is somebody else's" for line in sorted(gone)),
        *(f"changed: {line}, which is somebody else's" for line in sorted(changed)),
    ]
