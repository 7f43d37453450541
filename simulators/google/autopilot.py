"""The nodes that GKE Autopilot would start: shapes that come only for pods that ask for them.

Shared and partitioned GPUs come only where a pod selects them, so that such shapes are made from
the selectors of the cluster's pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from components.catalog.gke import (
    ACCELERATORS,
    MACHINE_TYPES,
    MAX_SHARED_CLIENTS,
    MIN_SHARED_CLIENTS,
    Accelerator,
    MachineType,
    gpu_counts_for,
    machine_type,
    region_of,
    zones_with,
)
from simulators.cloud import GpuSharing, NodeGroup, NodeTaint, NodeTemplate
from simulators.google.nodes import (
    ACCELERATOR_LABEL,
    CLIENTS_LABEL,
    GPU_RESOURCE,
    PARTITION_LABEL,
    STRATEGY_LABEL,
    allocatable,
    price,
)
from simulators.google.resource import CloudResource

ACCELERATOR_COUNT_LABEL = "cloud.google.com/gke-accelerator-count"
SPOT_LABEL = "cloud.google.com/gke-spot"
_CPU_MACHINE = "e2-standard-8"
_MAX_NODES = 1000
_DEFAULT_CLIENTS = 2


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class GpuRequestShape:
    """What pods select of a GPU on Autopilot, other than a whole one."""

    accelerator: str
    partition: str = ""
    clients: int = 1
    """Pods that share a GPU, or a partition, by turns."""


def gpu_request_shapes(selectors: Iterable[Mapping[str, str]]) -> set[GpuRequestShape]:
    """What these node selectors ask for and Autopilot has.

    Without one of the two labels of time-sharing it takes `time-sharing`, or 2 clients (gkeas).
    MPS is for Standard clusters alone (cloud.google.com, nvidia-mps-gpus, read 2026-11-21).
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
        if partition or clients > 1:
            found.add(
                GpuRequestShape(accelerator=gpu_model.name, partition=partition, clients=clients)
            )
    return found


def autopilot_groups(
    cluster: CloudResource, wanted: Iterable[GpuRequestShape] = ()
) -> list[NodeGroup]:
    """What Autopilot can start in the cluster's region: whole GPUs, and what pods `wanted`."""
    region = region_of(cluster.state["location"])
    machine = machine_type(_CPU_MACHINE)
    assert machine is not None
    zone = cluster.state["locations"][0]
    found = [_group("autopilot-cpu", machine, zone, {}, None, 0)]
    for accelerator in ACCELERATORS.values():
        zones = zones_with(accelerator.name, region)
        for count in accelerator.autopilot_counts if zones else ():
            if (machine := _largest(accelerator, count)) is None:
                continue
            labels = {
                ACCELERATOR_LABEL: accelerator.name,
                ACCELERATOR_COUNT_LABEL: str(count),
                "cloud.google.com/gke-gpu-driver-version": "default",
            }
            whole = GpuRequestShape(accelerator=accelerator.name)
            theirs = [one for one in sorted(wanted) if one.accelerator == accelerator.name]
            for shape in [whole, *theirs]:
                name = f"autopilot-{accelerator.name}-{count}{_suffix(shape)}"
                for spot in (False, True):
                    found.append(
                        _group(
                            f"{name}-spot" if spot else name,
                            machine,
                            zones[0],
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
    return partition + (f"-shared-{shape.clients}" if shape.clients > 1 else "")


def _labels(shape: GpuRequestShape) -> dict[str, str]:
    labels = {PARTITION_LABEL: shape.partition} if shape.partition else {}
    if shape.clients > 1:
        labels |= {STRATEGY_LABEL: "time-sharing", CLIENTS_LABEL: str(shape.clients)}
    return labels


def _largest(accelerator: Accelerator, count: int) -> MachineType | None:
    """The largest machine with these GPUs, so that whatever pod fits Autopilot's fits ours."""
    if accelerator.machine_family == "n1":
        candidates = [machine_type(f"n1-standard-{vcpu}") for vcpu in (1, 2, 4, 8, 16, 32, 64, 96)]
    else:
        candidates = list(MACHINE_TYPES.values())
    fitting = [
        machine
        for machine in candidates
        if machine is not None and count in gpu_counts_for(machine.name, accelerator.name)
    ]
    return max(fitting, key=lambda machine: machine.vcpu, default=None)


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
        partitions = accelerator.mig.get(shape.partition, 1)
        capacity[GPU_RESOURCE] = str(count * partitions * shape.clients)
        if shape.clients > 1:
            sharing = GpuSharing(strategy="time-slicing", replicas=shape.clients, most=1)
        taints = (NodeTaint(key=GPU_RESOURCE, value="present", effect="NoSchedule"),)
    if spot:
        # Only for pods that select it: GKE starts no Spot node for any other.
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
        on_demand_per_hour=price(machine, (accelerator, count) if accelerator else None),
        auto_provisioned=True,
        gpus=count,
        sharing=sharing,
    )
