"""The settings of EKS pools without GPUs, for work around the GPU pools."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval, MinLen

from ..catalog import eks as catalog
from ..catalog import room
from ..cluster import POOL_LABEL, GpuPool, Taint
from ..schema.decode import at
from ..schema.effect import Sent
from ..schema.limits import POOL_NAME, UNIQUE, Hint, Limit
from ..schema.on_change import Verdict
from ..schema.outputs import MaybeOutput
from ..schema.refusal import Refusal, collected, raised, refuse, shown
from ..schema.rules import Checked, Order, rule
from .autoscaler_args import EksPoolAutoscalerArgs
from .karpenter_args import check_node_class
from .network_args import missing, places_of
from .pool_labels import NodeLabels, check_marks, check_tag_count

_LASTING = ("instance_types", "spot", "zones")


def replaced(old: str, new: str) -> Verdict:
    """EKS cannot change these of a node group; adding or removing other pools is possible."""
    before, after = json.loads(old), json.loads(new)
    both = before.keys() & after.keys()
    changed = any(before[name][key] != after[name][key] for name in both for key in _LASTING)
    return "system pool" if changed else None


def _not_a_cpu_instance_type(name: str) -> str | None:
    instance = catalog.instance_type(name)
    if instance is None:
        sizes: dict[str, list[str]] = {}
        for kind in catalog.CPU_INSTANCE_TYPES:
            family, _, size = kind.partition(".")
            sizes.setdefault(family, []).append(size)
        family = name.partition(".")[0]
        of = (
            f"sizes of {family}: {', '.join(sizes[family])}"
            if family in sizes
            else (f"sizes from large, without metal, of {', '.join(sorted(sizes))}")
        )
        return f"{shown(name)} is not known; give one such as m7i.large; allowed: {of}"
    if not instance.gpus:
        return None
    return (
        f"{name} has GPUs; give a CPU instance type such as m7i.large here, and add a pool under "
        "gpuPools for GPUs"
    )


CPU_INSTANCE_TYPE = Limit(
    _not_a_cpu_instance_type, {"pattern": f"^(?:{catalog.CPU_INSTANCE_TYPE})$"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EksCpuPoolArgs(Checked):
    """Nodes without GPUs that are scaled up from zero."""

    instance_types: Annotated[
        Sequence[Annotated[str, CPU_INSTANCE_TYPE]],
        MinLen(1),
        Hint("give one such as m7i.2xlarge"),
        UNIQUE,
        Sent("NodeGroup instanceTypes"),
    ]
    """One instance type, or several of the same size, of which EC2 uses any that is available."""
    min_nodes: Annotated[int, Ge(0), Sent("NodeGroup scalingConfig.minSize")] = 0
    """The minimum number of nodes in the whole pool."""
    max_nodes: Annotated[
        int, Interval(ge=1, le=catalog.MAX_POOL_NODES), Sent("NodeGroup scalingConfig.maxSize")
    ] = 3
    """The maximum number of nodes in the whole pool."""
    zones: Annotated[Sequence[MaybeOutput], UNIQUE, Sent("NodeGroup subnetIds")] = ()
    """Some of the network's zones, or of an existing network's subnets, by ID; by default, all."""
    labels: Annotated[NodeLabels, Sent("NodeGroup labels", "Tag")] = field(default_factory=dict)
    """Labels of the nodes, in addition to `gpu-cluster/pool` with the pool's name."""
    taints: Annotated[Sequence[Taint], Sent("NodeGroup taints[]", "Tag")] = ()
    """Taints of the nodes; by default, none, so that every pod may run there."""
    disk_size_gb: Annotated[
        int,
        Interval(ge=catalog.DEFAULT_DISK_GIB, le=catalog.MAX_DISK_GIB),
        Sent("LaunchTemplate blockDeviceMappings[].ebs.volumeSize"),
    ] = 50
    """The size of a node's encrypted volume in GiB."""
    spot: Annotated[bool, Sent("NodeGroup capacityType")] = False
    """Whether the nodes are Spot instances."""

    ORDERS: ClassVar = (Order("min_nodes", "max_nodes"),)
    autoscaler: ClassVar[EksPoolAutoscalerArgs] = EksPoolAutoscalerArgs()
    """No options for the pool, so that the cluster's apply."""
    max_pods: ClassVar[None] = None
    """No limit, so that the image's default applies."""

    @rule
    def _check_sizes(self) -> None:
        sizes = {(instance.arch, instance.vcpu, instance.memory_gib) for instance in self._rows}
        if len(sizes) > 1:
            reason = f"{', '.join(self.instance_types)} differ in architecture or size"
            raise refuse("instanceTypes")(reason, remedy="put each into its own pool")

    @property
    def _rows(self) -> list[catalog.InstanceType]:
        rows = (catalog.instance_type(name) for name in self.instance_types)
        return [instance for instance in rows if instance is not None]

    @property
    def ami_type(self) -> str:
        """Amazon Linux 2023 without a GPU driver, for the instance types' architecture."""
        return catalog.ami_type("al2023", self._rows[0].arch, gpu=False)

    @property
    def node_taints(self) -> Sequence[Taint]:
        """All taints that a node has when it starts."""
        return self.taints

    @property
    def ephemeral_storage(self) -> str:
        """The ephemeral storage of a node for pods, calculated as for GPU nodes."""
        return f"{self.disk_size_gb * 9 // 10 - 2}Gi"

    @property
    def cpu_millis(self) -> int:
        """CPU that a node has for pods, in thousandths of a core."""
        return min(room.eks(row.vcpu, row.memory_gib, row.max_pods)[0] for row in self._rows)

    @property
    def memory_mib(self) -> tuple[int, int | None]:
        """Maximum and minimum memory that a node has for pods, in MiB."""
        _, most, least = room.eks(
            self._rows[0].vcpu, self._rows[0].memory_gib, self._rows[0].max_pods
        )
        return most, least

    def places(self, name: str) -> tuple[str, ...]:
        """The zones or subnets of the pool `name`; empty for all of the network's."""
        return places_of(f"cluster.cpuPools.{name}.zones", self.zones)

    def pool(self, name: str) -> GpuPool:
        """The pool as pods see it, without GPUs."""
        return GpuPool(
            name=name,
            accelerator="none",
            gpus_per_node=0,
            min_nodes=self.min_nodes,
            max_nodes=self.max_nodes,
            labels={POOL_LABEL: name, **self.labels},
            taints=self.taints,
            node_selector={POOL_LABEL: name},
            spot=self.spot,
            cpu_millis=self.cpu_millis,
            memory_mib=self.memory_mib[1] or self.memory_mib[0],
        )


CpuPools = Mapping[Annotated[str, POOL_NAME], EksCpuPoolArgs]


@collected
def check_pools(
    pools: Mapping[str, EksCpuPoolArgs],
    offered: Sequence[str],
    scaler: str,
    tags: Mapping[str, str],
) -> Iterator[Refusal]:
    """Raises `Refusal` for a pool in a zone or subnet that the cluster's network does not have, or
    with labels, taints or tags that the cluster's scaler does not accept."""
    for name, pool in pools.items():
        path = f"cpuPools.{name}"
        places = pool.places(name) or offered
        yield from raised(at, path, check_marks, scaler, pool.labels, {"taints": pool.taints})
        yield from raised(at, path, check_tag_count, scaler, tags, pool.pool(name).labels)
        yield from raised(at, path, check_node_class, scaler, pool.disk_size_gb, places)
        for zone in missing(pool.zones, offered):
            ids = "give IDs of subnets here; " if "subnet-" in offered[0] else ""
            yield refuse(("cpuPools", name, "zones"), zone)(
                f"is not in the cluster's network; {ids}allowed: {', '.join(offered)}"
            )
