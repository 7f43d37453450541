"""The nodes that GKE Autopilot would start: shapes that come only for pods that ask for them."""

from collections.abc import Mapping

from components.catalog.gke import (
    ACCELERATORS,
    MACHINE_TYPES,
    Accelerator,
    MachineType,
    gpu_counts_for,
    machine_type,
    region_of,
    zones_with,
)
from rehearsal.cloud import NodeGroup, NodeShape, NodeTaint
from rehearsal.gcp.nodes import ACCELERATOR_LABEL, GPU_RESOURCE, allocatable, price
from rehearsal.gcp.thing import Thing

ACCELERATOR_COUNT_LABEL = "cloud.google.com/gke-accelerator-count"
SPOT_LABEL = "cloud.google.com/gke-spot"
_CPU_MACHINE = "e2-standard-8"
_MAX_NODES = 1000


def autopilot_groups(cluster: Thing) -> list[NodeGroup]:
    """What Autopilot can start in the cluster's region."""
    region = region_of(cluster.state["location"])
    machine = machine_type(_CPU_MACHINE)
    assert machine is not None
    zone = cluster.state["nodeLocations"][0]
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
            name = f"autopilot-{accelerator.name}-{count}"
            found += [
                _group(name, machine, zones[0], labels, accelerator, count),
                _group(f"{name}-spot", machine, zones[0], labels, accelerator, count, spot=True),
            ]
    return found


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
    *,
    spot: bool = False,
) -> NodeGroup:
    capacity = allocatable(machine, 100)
    taints: tuple[NodeTaint, ...] = ()
    if accelerator is not None:
        capacity[GPU_RESOURCE] = str(count)
        taints = (NodeTaint(key=GPU_RESOURCE, value="present", effect="NoSchedule"),)
    if spot:
        # Only for pods that select it: GKE starts no Spot node for any other.
        gpu_labels = {**gpu_labels, SPOT_LABEL: "true"}
        taints += (NodeTaint(key=SPOT_LABEL, value="true", effect="NoSchedule"),)
    shape = NodeShape(
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
        template=shape,
        node=shape,
        node_os="cos",
        spot=spot,
        on_demand_per_hour=price(machine, (accelerator, count) if accelerator else None),
        auto_provisioned=True,
    )
