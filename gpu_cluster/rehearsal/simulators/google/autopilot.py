"""The nodes that GKE Autopilot would start, whose shapes depend on the pods that request them.

Shared, partitioned and reserved GPUs exist only if a pod selects them, so such shapes are derived
from the selectors of the cluster's pods.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpu_cluster.components.catalog.gke import (
    ACCELERATORS,
    MAX_SHARED_CLIENTS,
    MIN_SHARED_CLIENTS,
    Accelerator,
    MachineType,
    gpu_counts_for,
    largest_with,
    machine_type,
    region_of,
    zones_with,
)
from gpu_cluster.rehearsal.simulators.cloud import GpuSharing, NodeGroup, NodeTaint, NodeTemplate
from gpu_cluster.rehearsal.simulators.google.container.node_features import (
    ACCELERATOR_LABEL,
    CLIENTS_LABEL,
    GPU_RESOURCE,
    PARTITION_LABEL,
    STRATEGY_LABEL,
)
from gpu_cluster.rehearsal.simulators.google.container.tokens import NODE_POOL
from gpu_cluster.rehearsal.simulators.google.nodes import allocatable, hourly_price
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.reservations import Reservation

ACCELERATOR_COUNT_LABEL = "cloud.google.com/gke-accelerator-count"
SPOT_LABEL = "cloud.google.com/gke-spot"
_RESERVATION_LABEL = "cloud.google.com/reservation-name"
_OWNER_LABEL = "cloud.google.com/reservation-project"
_AFFINITY_LABEL = "cloud.google.com/reservation-affinity"
_BLOCK_LABEL = "cloud.google.com/reservation-blocks"
"""cloud.google.com, consuming-reservations, read 2026-11-22."""
_LONGEST = 63
"""The most characters of a label's value."""
_LARGEST: Mapping[str, Mapping[int, tuple[int, int]]] = {
    "nvidia-tesla-t4": {1: (48, 312), 2: (48, 312), 4: (96, 624)},
    "nvidia-l4": {1: (32, 128), 2: (24, 96), 4: (48, 192), 8: (96, 384)},
    "nvidia-rtx-pro-6000": {1: (48, 180), 2: (96, 360), 4: (192, 720), 8: (384, 1440)},
    "nvidia-tesla-a100": {1: (11, 74), 2: (24, 170), 4: (48, 340), 8: (96, 680), 16: (96, 1360)},
    "nvidia-a100-80gb": {1: (12, 170), 2: (24, 340), 4: (48, 680), 8: (96, 1360)},
    "nvidia-h100-80gb": {1: (26, 234), 2: (52, 468), 4: (104, 936), 8: (208, 1872)},
    "nvidia-h100-mega-80gb": {8: (208, 1872)},
    "nvidia-h200-141gb": {8: (224, 2952)},
    "nvidia-b200": {8: (224, 3968)},
}
"""Accelerator -> GPUs of a pod -> vCPUs and GiB above which Autopilot's admission refuses it. For
one A100 what its webhook answers (argoproj/argo-workflows issue 13073); for the others the whole
machine (Compute Engine, accelerator-optimized machines and limits of N1, 2026-04-14), which is more
than Autopilot admits: its table could not be read."""
_POD_DISK = "122Gi"
"""The disk for pods of a GPU node, whose boot disk GKE sizes for them. General knowledge."""
_CPU_MACHINE = "e2-standard-8"
_MAX_NODES = 1000
_DEFAULT_CLIENTS = 2


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class GpuRequestShape:
    """The kind of GPU that pods select on Autopilot, if not a whole one."""

    accelerator: str
    partition: str = ""
    clients: int = 1
    """Pods that share a GPU, or a partition of it."""
    reservation: str = ""
    """The reservation of the machines, in the form of GKE's `reservationAffinity`."""


def admitted(accelerator: str) -> dict[int, dict[str, str]]:
    """Number of GPUs of a pod -> the most that it can request of other resources."""
    return {
        gpus: {"cpu": str(vcpu), "memory": f"{gib}Gi"}
        for gpus, (vcpu, gib) in _LARGEST.get(accelerator, {}).items()
    }


def gpu_request_shapes(selectors: Iterable[Mapping[str, str]]) -> set[GpuRequestShape]:
    """The shapes that these node selectors request and Autopilot offers.

    If one of the two time-sharing labels is missing, it defaults to `time-sharing`, or 2 clients
    (gkeas). MPS is only for Standard clusters (cloud.google.com, nvidia-mps-gpus, read 2026-11-21).
    """
    found = set()
    for selector in selectors:
        gpu_model = ACCELERATORS.get(selector.get(ACCELERATOR_LABEL, ""))
        partition, strategy = selector.get(PARTITION_LABEL, ""), selector.get(STRATEGY_LABEL)
        clients = 1
        if strategy is not None or CLIENTS_LABEL in selector:
            words = selector.get(CLIENTS_LABEL, str(_DEFAULT_CLIENTS))
            clients = int(words) if words.isdigit() else 0
            if strategy not in (None, "time-sharing"):
                continue
            if not MIN_SHARED_CLIENTS <= clients <= MAX_SHARED_CLIENTS:
                continue
        if gpu_model is None or (partition and partition not in gpu_model.mig):
            continue
        shape = GpuRequestShape(
            accelerator=gpu_model.name,
            partition=partition,
            clients=clients,
            reservation=_reservation(selector),
        )
        if shape != GpuRequestShape(accelerator=gpu_model.name):
            found.add(shape)
    return found


def _reservation(selector: Mapping[str, str]) -> str:
    """Autopilot uses machines of a reservation only for pods that name it."""
    name = selector.get(_RESERVATION_LABEL, "")
    if not name or selector.get(_AFFINITY_LABEL) != "specific":
        return ""
    owner, block = selector.get(_OWNER_LABEL), selector.get(_BLOCK_LABEL)
    whole = f"projects/{owner}/reservations/{name}" if owner else name
    return f"{whole}/reservationBlocks/{block}" if block else whole


def reserved_pool(cluster: CloudResource, group: NodeGroup, nodes: int) -> CloudResource | None:
    """A group whose machines come from a reservation, as the node pool that GKE creates for it;
    None for any other group."""
    labels = group.node.labels
    if not (path := _reservation(labels)):
        return None
    config = {
        "machineType": labels["node.kubernetes.io/instance-type"],
        "accelerators": [
            {"acceleratorType": labels[ACCELERATOR_LABEL], "acceleratorCount": str(group.gpus)}
        ],
        "reservationAffinity": {"consumeReservationType": "SPECIFIC_RESERVATION",
                                "values": [path]},
    }  # fmt: skip
    return CloudResource(
        token=NODE_POOL,
        display_name="node pool",
        identity=f"{cluster.identity}/nodePools/{group.name}",
        parent=cluster.identity,
        state={
            "name": group.name,
            "config": config,
            "locations": [labels["topology.kubernetes.io/zone"]],
        },
        nodes=nodes,
    )


def autopilot_groups(
    cluster: CloudResource,
    wanted: Iterable[GpuRequestShape] = (),
    reserved: Callable[[str], Reservation | None] = lambda path: None,
) -> list[NodeGroup]:
    """The groups that Autopilot can start in the cluster's region: whole GPUs, and those in
    `wanted`. `reserved` finds a reservation in the region by its path."""
    region = region_of(cluster.state["location"])
    machine = machine_type(_CPU_MACHINE)
    assert machine is not None
    zone = cluster.state["locations"][0]
    found = [_group("autopilot-cpu", machine, zone, {}, None, 0)]
    for accelerator in ACCELERATORS.values():
        zones = zones_with(accelerator.name, region)
        for count in accelerator.autopilot_counts if zones else ():
            if (machine := largest_with(accelerator.name, count)) is None:
                continue
            labels = {
                ACCELERATOR_LABEL: accelerator.name,
                ACCELERATOR_COUNT_LABEL: str(count),
                "cloud.google.com/gke-gpu-driver-version": "default",
            }
            whole = GpuRequestShape(accelerator=accelerator.name)
            theirs = [need for need in sorted(wanted) if need.accelerator == accelerator.name]
            for shape in [whole, *theirs]:
                name = f"autopilot-{accelerator.name}-{count}{_suffix(shape)}"[:_LONGEST]
                reservation = reserved(shape.reservation) if shape.reservation else None
                node = machine_type(reservation.type) if reservation else None
                if reservation and node and count in gpu_counts_for(node.name, accelerator.name):
                    has = reservation.gpus or int(node.gpus)
                    if has != count:
                        continue  # its machines have exactly this number of GPUs
                for spot in (False, True) if not shape.reservation else (False,):
                    found.append(
                        _group(
                            f"{name}-spot" if spot else name,
                            node or machine,
                            reservation.zone if reservation else zones[0],
                            labels | _labels(shape),
                            accelerator,
                            count,
                            shape,
                            spot=spot,
                        )
                    )
    return found


def _suffix(shape: GpuRequestShape) -> str:
    partition = f"-{shape.partition}" if shape.partition else ""
    clients = f"-shared-{shape.clients}" if shape.clients > 1 else ""
    path = shape.reservation.removeprefix("projects/").replace("/", "-")
    return partition + clients + (f"-{path}" if path else "")


def _labels(shape: GpuRequestShape) -> dict[str, str]:
    labels = {PARTITION_LABEL: shape.partition} if shape.partition else {}
    if shape.clients > 1:
        labels |= {STRATEGY_LABEL: "time-sharing", CLIENTS_LABEL: str(shape.clients)}
    if shape.reservation:
        whole, _, block = shape.reservation.partition("/reservationBlocks/")
        owner, _, name = whole.removeprefix("projects/").rpartition("/reservations/")
        labels |= {_RESERVATION_LABEL: name, _AFFINITY_LABEL: "specific"}
        labels |= {_OWNER_LABEL: owner} if owner else {}
        labels |= {_BLOCK_LABEL: block} if block else {}
    return labels


def _group(
    name: str,
    machine: MachineType,
    zone: str,
    gpu_labels: Mapping[str, str],
    accelerator: Accelerator | None,
    count: int,
    shape: GpuRequestShape | None = None,
    *,
    spot: bool = False,
) -> NodeGroup:
    capacity = allocatable(machine, 100)
    taints: tuple[NodeTaint, ...] = ()
    sharing = GpuSharing()
    if accelerator is not None and shape is not None:
        capacity["ephemeral-storage"] = _POD_DISK
        partitions = accelerator.mig.get(shape.partition, 1)
        capacity[GPU_RESOURCE] = str(count * partitions * shape.clients)
        if shape.clients > 1:
            sharing = GpuSharing(strategy="time-slicing", replicas=shape.clients, most=1)
        taints = (NodeTaint(key=GPU_RESOURCE, value="present", effect="NoSchedule"),)
    if spot:
        # Only for pods that select it: GKE starts no Spot node for any other pod.
        gpu_labels = {**gpu_labels, SPOT_LABEL: "true"}
        taints += (NodeTaint(key=SPOT_LABEL, value="true", effect="NoSchedule"),)
    node = NodeTemplate(
        labels={
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": machine.arch,
            "node.kubernetes.io/instance-type": machine.name,
            "topology.kubernetes.io/region": region_of(zone),
            "topology.kubernetes.io/zone": zone,
            "cloud.google.com/gke-nodepool": name,
            "cloud.google.com/gke-os-distribution": "cos",
            "cloud.google.com/gke-provisioning": "spot" if spot else "standard",
            **gpu_labels,
        },
        taints=taints,
        capacity=capacity,
    )
    return NodeGroup(
        name=name,
        min_nodes=0,
        max_nodes=_MAX_NODES,
        target_nodes=0,
        template=node,
        node=node,
        node_os="cos",
        spot=spot,
        on_demand_per_hour=hourly_price(machine, (accelerator, count) if accelerator else None),
        auto_provisioned=True,
        autopilot=True,
        gpus=count,
        sharing=sharing,
        admitted=admitted(accelerator.name) if accelerator and sharing.strategy == "none" else {},
    )
