"""Why a pod is not running, in one line that names the pool, the workload and the mismatch.

The pod is compared with each node group, in the order of the requirements: whether it fits the
shape of the group's nodes, whether another node can be added, whether its GPUs appear, whether one
is free.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.components.kube import quantity
from gpu_cluster.components.kube.requests import requests
from gpu_cluster.rehearsal.control_plane.attachments import PROVISIONER
from gpu_cluster.rehearsal.control_plane.pods import (
    CLAIMED,
    DRA_DRIVER,
    GPU,
    PUBLISHED,
    allocatable_gpus,
    alternatives,
    claims_of,
    condition,
    conditions,
    full_name,
    gpus_asked,
    installs_driver_on,
    is_starting,
    part,
    phase,
    pods_on,
    workload,
)
from gpu_cluster.rehearsal.nodes.gpus import gpu_parts
from gpu_cluster.rehearsal.nodes.matching import mismatches, shape_of, with_gpus
from gpu_cluster.rehearsal.nodes.queued import CONSUMES
from gpu_cluster.rehearsal.simulators.cloud import GpuSharing, NodeGroup

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The data for a diagnosis."""

    groups: Sequence[NodeGroup]
    nodes: Mapping[str, Sequence[Object]]
    """Group name -> its nodes."""
    pods: Sequence[Object] = ()
    daemon_sets: Sequence[Object] = ()
    events: Sequence[Object] = ()
    """The cluster's events."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Group name -> why the cloud would not start another node in it."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Kueue's Workload, `namespace/name` -> why the cloud starts none of its nodes."""
    sharing: Mapping[str, GpuSharing] = field(default_factory=dict)
    """Node -> how its device plugin shares its GPUs, if that differs from the group's."""

    device_classes: Collection[str] = ()
    """The names of the cluster's DeviceClasses."""
    mapped: bool = False
    """Whether one of them serves pods that request `nvidia.com/gpu`."""
    claim_templates: Mapping[str, Object] = field(default_factory=dict)
    """ResourceClaimTemplates by `namespace/name`."""
    resource_claims: Mapping[str, Object] = field(default_factory=dict)
    """ResourceClaims, likewise."""

    def on(self, node: Object) -> list[Object]:
        """The pods that use resources of a node."""
        return pods_on(node, self.pods)

    def of(self, group: NodeGroup) -> Sequence[Object]:
        """The nodes of a group."""
        return self.nodes.get(group.name, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a pod does not run."""

    message: str
    permanent: bool
    """Whether waiting will not help."""


def diagnose(pod: Object, snapshot: ClusterSnapshot) -> Diagnosis:
    """The diagnosis of a pod that is not running yet."""
    who = workload(pod)
    if pod["spec"].get("nodeName"):
        return Diagnosis(
            message=f"{who}: pod {full_name(pod)} is {phase(pod)} on {pod['spec']['nodeName']}",
            permanent=phase(pod) == "failed",
        )
    if not snapshot.groups:
        return Diagnosis(message=f"{who}: the cloud has no node pool", permanent=True)
    fitting = [group for group in snapshot.groups if _fits(pod, group, snapshot)]
    if not fitting:
        group, lines = _nearest(pod, snapshot)
        return Diagnosis(
            message=f"pool {group.name}: {who} cannot be scheduled: {'; '.join(lines)}",
            permanent=True,
        )
    if any(group.auto_provisioned for group in fitting):
        # The smallest node that fits is created for the pod, or none.
        fitting = [min(fitting, key=lambda group: int(group.template.capacity.get(GPU, 0)))]
    diagnoses = [_room(pod, who, group, snapshot) for group in fitting]
    # As long as one pool may still accept the pod, only that pool's state matters.
    return min(diagnoses, key=lambda diagnosis: diagnosis.permanent)


def _fits(pod: Object, group: NodeGroup, snapshot: ClusterSnapshot) -> bool:
    """Whether the pod fits a node of the group, in any of its zones."""
    zones = [group.in_zone(zone) for zone in group.zones] or [group]
    return any(not mismatches(pod["spec"], _best_shape(zone, snapshot)) for zone in zones)


def _best_shape(group: NodeGroup, snapshot: ClusterSnapshot) -> Any:
    """The shape that decides: an existing node's, or else the one that the autoscaler expects."""
    if snapshot.of(group):
        return group.node
    count = (group.template.devices or {}).get(DRA_DRIVER) if snapshot.mapped else None
    return with_gpus(group.template, count) if count else group.template


def _nearest(pod: Object, snapshot: ClusterSnapshot) -> tuple[NodeGroup, list[str]]:
    """The pool that the pod was most likely intended for, and the reasons why it does not fit."""
    asks_gpu = gpus_asked(pod["spec"]) > 0

    def distance(group: NodeGroup) -> tuple[bool, int, int]:
        has_gpu = GPU in group.node.capacity or GPU in group.template.capacity
        shape = _best_shape(group, snapshot)
        # A label with another value is a mistake; a missing label means another pool.
        strange = set(pod["spec"].get("nodeSelector") or {}) - set(shape.labels)
        return asks_gpu != has_gpu, len(strange), len(mismatches(pod["spec"], shape))

    group = min(snapshot.groups, key=distance)
    lines = mismatches(pod["spec"], _best_shape(group, snapshot))
    if not snapshot.of(group) and not mismatches(pod["spec"], group.node):
        lines = [
            f"the pool cannot scale up from zero for it: to the autoscaler, {'; '.join(lines)}"
        ]
    return group, lines


def _choices(group: NodeGroup, snapshot: ClusterSnapshot) -> list[str]:
    """The group and the others in its order of fallback."""
    if group.choice is None:
        return [group.name]
    return [
        row.name
        for row in snapshot.groups
        if row.choice is not None and row.choice.of == group.choice.of
    ]


def _room(pod: Object, who: str, group: NodeGroup, snapshot: ClusterSnapshot) -> Diagnosis:
    """Why a pod that fits the group's nodes runs on none of them."""
    start = f"pool {group.name}: {who}"
    nodes = snapshot.of(group)
    if refused := _no_disk(pod, snapshot, by=PROVISIONER):
        return Diagnosis(message=f"{start} cannot be scheduled{refused}", permanent=True)
    passing = [node for node in nodes if _passing(node)]
    for node in nodes:
        due = int(group.node.capacity.get(GPU, 0))
        if gpus_asked(pod["spec"]) and due and not allocatable_gpus(node) and node not in passing:
            missing = missing_part(node, group, snapshot)
            return Diagnosis(
                message=f"{start} waits for GPUs that never become allocatable on node "
                f"{node['metadata']['name']}: {missing.message}",
                permanent=missing.permanent,
            )
    if wrong := _unclaimable(pod, nodes, snapshot):
        return Diagnosis(message=f"{start} cannot be scheduled: {wrong}", permanent=True)
    if refusal := snapshot.refusals.get(group.name):
        return Diagnosis(
            message=f"{start} cannot be scheduled: the cloud refuses another node: {refusal}",
            permanent=all(choice in snapshot.refusals for choice in _choices(group, snapshot)),
        )
    if group.unscaled and len(nodes) < group.max_nodes:
        return Diagnosis(
            message=f"{start} cannot be scheduled: {_few(len(nodes))}, and no node is added: "
            f"{group.unscaled}",
            permanent=True,
        )
    if group.queued and CONSUMES not in (pod["metadata"].get("annotations") or {}):
        return Diagnosis(
            message=f"{start} cannot be scheduled: the pool is queued, and no ProvisioningRequest "
            "asks for its nodes",
            permanent=True,
        )
    limit = group.max_nodes if group.autoscaled else group.target_nodes
    if limit == 0:
        why = (
            "the pool's maximum is 0 nodes"
            if group.autoscaled
            else "the pool has 0 nodes and no autoscaling"
        )
        return Diagnosis(message=f"{start} cannot be scheduled: {why}", permanent=True)
    if len(nodes) >= limit:
        count = _count(limit)
        most = f"all {count} of its maximum" if group.autoscaled else f"{count}, no autoscaling"
        return Diagnosis(
            message=f"{start} cannot be scheduled: the pool has {most}"
            f"{_full(pod, nodes, snapshot)}",
            permanent=not passing
            and not any(_leaving(other) for node in nodes for other in snapshot.on(node)),
        )
    if nodes and (lines := mismatches(pod["spec"], group.template)):
        return Diagnosis(
            message=f"{start} cannot be scheduled: the nodes are full, and to the autoscaler, "
            f"{'; '.join(lines)}",
            permanent=True,
        )
    if not nodes and (lines := mismatches(pod["spec"], group.node)):
        return Diagnosis(
            message=f"{start} cannot be scheduled: on the node that joins, {'; '.join(lines)}",
            permanent=False,
        )
    message = condition(pod, "PodScheduled").get("message", "nothing yet")
    return Diagnosis(
        message=f"{start} waits for a node; the scheduler says: {message}{_no_disk(pod, snapshot)}"
        f"{_no_instance(pod, group, snapshot)}",
        permanent=False,
    )


def _no_instance(pod: Object, group: NodeGroup, snapshot: ClusterSnapshot) -> str:
    """Why Karpenter launches no instance for the pod, if it does so for the group."""
    reasons = [
        event["message"]
        for event in snapshot.events
        if group.machines is not None
        and event.get("reason") == "FailedScheduling"
        and (event.get("source") or {}).get("component") == "karpenter"
        and event["involvedObject"].get("uid") == pod["metadata"]["uid"]
    ]
    return f"; Karpenter says: {reasons[-1]}" if reasons else ""


def _unclaimable(pod: Object, nodes: Sequence[Object], snapshot: ClusterSnapshot) -> str:
    """Why no node ever has what the pod claims; empty if one may."""
    space = pod["metadata"]["namespace"]
    if (
        GPU in requests(pod["spec"])
        and any(map(allocatable_gpus, nodes))
        and not any(GPU in node["status"].get("allocatable", {}) for node in nodes)
        and not snapshot.mapped
    ):
        return (
            f"it requests {GPU}, its nodes have GPUs only for claims, and no DeviceClass has the "
            f"extendedResourceName {GPU}, which servers that run as Kubernetes before 1.36 drop"
        )
    for claim in pod["spec"].get("resourceClaims") or ():
        if name := claim.get("resourceClaimTemplateName"):
            kind, known = "ResourceClaimTemplate", snapshot.claim_templates
        else:
            kind, name, known = (
                "ResourceClaim",
                claim["resourceClaimName"],
                snapshot.resource_claims,
            )
        if (found := known.get(f"{space}/{name}")) is None:
            return f"its {kind} {name} does not exist"
        spec = found["spec"].get("spec", found["spec"])
        allocated = (found.get("status") or {}).get("allocation")
        for request in () if allocated else spec["devices"]["requests"]:
            options = alternatives(request)
            # The scheduler looks up those of all alternatives before it tries the first.
            for name in (option["deviceClassName"] for option in options):
                if name not in snapshot.device_classes:
                    return f"its claim names the DeviceClass {name}, which does not exist"
            texts = [" and ".join(conditions(option, {})) for option in options]
            least = min(int(option.get("count", 1)) for option in options)
            free = [
                allocatable_gpus(node)
                - sum(gpus_asked(other["spec"]) for other in snapshot.on(node))
                for node in nodes
            ]
            if all(texts) and max(free, default=0) >= least:
                return f"no free device of its nodes meets {', nor '.join(texts)}"
    return ""


def _no_disk(pod: Object, snapshot: ClusterSnapshot, by: str = "") -> str:
    """The events of the cluster, or only of the component `by`, about the pod's claims whose disk
    cannot be created."""
    claims = {
        (pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    }
    failed = {
        event["involvedObject"]["name"]: event["message"]
        for event in snapshot.events
        if event.get("reason") == "ProvisioningFailed"
        and by in ("", (event.get("source") or {}).get("component"))
        and (event["involvedObject"].get("namespace"), event["involvedObject"]["name"]) in claims
    }
    return "".join(f"; of its claim {name}: {why}" for name, why in sorted(failed.items()))


def _few(nodes: int) -> str:
    return f"the pool has {_count(nodes) if nodes else 'no node'}"


def _count(nodes: int) -> str:
    return f"{nodes} node" if nodes == 1 else f"{nodes} nodes"


def _full(pod: Object, nodes: Sequence[Object], snapshot: ClusterSnapshot) -> str:
    """Which resource is exhausted on the pool's nodes, and by which pods."""
    claimed = gpus_asked(pod["spec"]) if any(map(_publishes, nodes)) else 0
    if claimed := pod["spec"].get(CLAIMED, claimed):
        others = [other for node in nodes for other in snapshot.on(node)]
        users = sorted({_with_claims(other) for other in others if gpus_asked(other["spec"])})
        own = f" for its claim {' and '.join(names)}" if (names := claims_of(pod)) else ""
        return f", and none has {claimed} unclaimed GPUs{own}, used by {', '.join(users)}"
    for name, asked in requests(pod["spec"]).items():
        free = {
            node["metadata"]["name"]: quantity.parse(
                node["status"].get("allocatable", {}).get(name, 0)
            )
            - sum(requests(other["spec"]).get(name, 0) for other in snapshot.on(node))
            for node in nodes
        }
        if free and max(free.values()) < asked:
            users = sorted(
                {
                    workload(other)
                    for node in nodes
                    for other in snapshot.on(node)
                    if requests(other["spec"]).get(name)
                }
            )
            by = f", used by {', '.join(users)}" if users else ""
            return f", and none has {float(asked):g} {name} free{by}"
    return _spread(pod, nodes, snapshot)


def _with_claims(pod: Object) -> str:
    names = claims_of(pod)
    return f"{workload(pod)} (claim {' and '.join(names)})" if names else workload(pod)


def _publishes(node: Object) -> bool:
    return PUBLISHED in (node["metadata"].get("annotations") or {})


def _spread(pod: Object, nodes: Sequence[Object], snapshot: ClusterSnapshot) -> str:
    """A sentence if each node already runs one of the pods that need a node each."""
    for rule in pod["spec"].get("topologySpreadConstraints") or []:
        labels = (rule.get("labelSelector") or {}).get("matchLabels") or {}
        if rule["topologyKey"] != "kubernetes.io/hostname" or not labels:
            continue
        taken = [
            any(
                labels.items() <= (other["metadata"].get("labels") or {}).items()
                for other in snapshot.on(node)
            )
            for node in nodes
        ]
        if rule.get("whenUnsatisfiable") == "DoNotSchedule" and taken and all(taken):
            return ", and each has one of its pods, which need one node each"
    return ""


def missing_part(node: Object, group: NodeGroup, snapshot: ClusterSnapshot) -> Diagnosis:
    """Why a node that should have allocatable GPUs has none."""
    parts = gpu_parts(group, snapshot.on(node))
    if not parts.drivers:
        return _missing_daemon(
            "driver", "driver installer", node, group, snapshot,
            [ds for ds in snapshot.daemon_sets if installs_driver_on(ds["spec"]["template"])],
        )  # fmt: skip
    if not parts.plugins:
        return _missing_daemon(
            "device plugin", "device plugin", node, group, snapshot,
            [ds for ds in snapshot.daemon_sets if part(ds["spec"]["template"]) == "plugin"],
        )  # fmt: skip
    if fault := snapshot.sharing.get(node["metadata"]["name"], group.sharing).fault:
        return Diagnosis(message=fault, permanent=True)
    return Diagnosis(
        message="driver and device plugin are running, and the GPUs will follow", permanent=False
    )


def _missing_daemon(
    part: str, installer: str, node: Object, group: NodeGroup, snapshot: ClusterSnapshot,
    candidates: Sequence[Object],
) -> Diagnosis:  # fmt: skip
    if not candidates:
        return Diagnosis(
            message=f"the cloud does not install a {part} there, and the stack has no {installer} "
            "DaemonSet",
            permanent=True,
        )
    reasons = []
    for daemon_set in candidates:
        name = f"DaemonSet {full_name(daemon_set)}"
        spec = daemon_set["spec"]["template"]["spec"]
        made_for = installs_driver_on(daemon_set["spec"]["template"])
        own = [pod for pod in snapshot.on(node) if workload(pod) == name]
        if part == "driver" and made_for != group.node_os:
            reasons.append(f"{name} is built for {made_for}, but the node runs {group.node_os}")
        elif own:
            return Diagnosis(message=f"the pod of {name} is {phase(own[0])} there", permanent=False)
        elif lines := mismatches(spec, shape_of(node)):
            reasons.append(f"{name} does not select it: {'; '.join(lines)}")
        else:
            return Diagnosis(message=f"{name} has no pod on it yet", permanent=False)
    return Diagnosis(message="; ".join(reasons), permanent=True)


def _passing(node: Object) -> bool:
    """Whether the cloud has not started the node yet, or it is being deleted: a node that the cloud
    refuses is in the cluster from the autoscaler's request until its deletion."""
    return is_starting(node) or "deletionTimestamp" in node["metadata"]


def _leaving(pod: Object) -> bool:
    """Whether the pod will free its resources: a Job's pod, or one that is being deleted."""
    return workload(pod).startswith("Job ") or phase(pod) in ("deleting", "succeeded", "failed")
