"""The settings of GKE pools without GPUs, for work around the GPU pools."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval

from ..catalog import gke as catalog
from ..catalog.spelling import nearest
from ..cluster import POOL_LABEL, Taint
from ..schema.effect import Sent
from ..schema.limits import LABEL_KEY, LABEL_VALUE, UNIQUE, Limit, matching, node_label_key
from ..schema.on_change import Verdict
from ..schema.refusal import shown
from ..schema.rules import Checked, Order

NodeLabels = Mapping[
    Annotated[str, LABEL_KEY, node_label_key("GKE", POOL_LABEL)], Annotated[str, LABEL_VALUE]
]
_ZONE = matching("a zone such as us-central1-a", catalog.ZONE)


def replaced(old: str, new: str) -> Verdict:
    """GKE cannot change `spot` of a pool; adding or removing other pools does not affect it."""
    before, after = json.loads(old), json.loads(new)
    changed = any(before[name]["spot"] != after[name]["spot"] for name in before.keys() & after)
    return "system pool" if changed else None


def _not_a_cpu_machine(name: str) -> str | None:
    machine = catalog.machine_type(name)
    if machine is None:
        near = nearest(name, catalog.CPU_MACHINE_TYPES, 0.6)
        hint = f"did you mean {near!r}? " if near else ""
        families = ", ".join(catalog.FAMILIES)
        return (
            f"{shown(name)} is not known; {hint}allowed: the sizes of {families}, such as "
            "e2-standard-2"
        )
    if machine.accelerator is not None:
        return (
            f"{name!r} has GPUs; give a CPU machine type such as e2-standard-2 here, and add a "
            "pool under gpuPools for GPUs"
        )
    return None


CPU_MACHINE = Limit(_not_a_cpu_machine, {"not": {"enum": list(catalog.MACHINE_TYPES)}})


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeCpuPoolArgs(Checked):
    """Nodes without GPUs that GKE's autoscaler scales up from zero."""

    machine_type: Annotated[str, CPU_MACHINE, Sent("NodePool nodeConfig.machineType")]
    """The machine type of a node."""
    min_nodes: Annotated[int, Ge(0), Sent("NodePool autoscaling.totalMinNodeCount")] = 0
    """The minimum number of nodes in the whole pool."""
    max_nodes: Annotated[
        int,
        Interval(ge=1, le=catalog.MAX_POOL_NODES_PER_ZONE),
        Sent("NodePool autoscaling.totalMaxNodeCount"),
    ] = 3
    """The maximum number of nodes in the whole pool."""
    zones: Annotated[Sequence[Annotated[str, _ZONE]], UNIQUE, Sent("NodePool nodeLocations[]")] = ()
    """The zones of the nodes, all in the cluster's region; by default, the cluster's."""
    labels: Annotated[NodeLabels, Sent("NodePool nodeConfig.labels")] = field(default_factory=dict)
    """Labels of the nodes, in addition to `gpu-cluster/pool` with the pool's name."""
    taints: Annotated[Sequence[Taint], Sent("NodePool nodeConfig.taints[]")] = ()
    """Taints of the nodes; by default, none, so that every pod may run there."""
    disk_size_gb: Annotated[
        int,
        Interval(ge=catalog.MIN_DISK_GB, le=catalog.MAX_DISK_GB),
        Sent("NodePool nodeConfig.diskSizeGb"),
    ] = 100
    """The size of a node's boot disk in GB."""
    spot: Annotated[bool, Sent("NodePool nodeConfig.spot")] = False
    """Whether the nodes are Spot machines."""

    ORDERS: ClassVar = (Order("min_nodes", "max_nodes"),)

    @property
    def machine(self) -> catalog.MachineType:
        """The catalog's row for the machine type."""
        machine = catalog.machine_type(self.machine_type)
        assert machine is not None
        return machine

    @property
    def boot_disk(self) -> str:
        """The type of a node's boot disk: the newest machine families support only Hyperdisk."""
        return self.machine.features.boot_disk
