"""Warnings about pools that training jobs use for days."""

from collections.abc import Mapping

from ..cluster import ResolvedPool
from .pool_args import EksGpuNodeGroupArgs


def training_warnings(
    pools: Mapping[str, ResolvedPool[EksGpuNodeGroupArgs]], workers: Mapping[str, int]
) -> list[str]:
    """A warning for each pool whose training jobs use several nodes with an Elastic Fabric Adapter.

    `workers`: pool -> number of nodes of its largest training job.
    """
    lines = []
    for name, count in workers.items():
        instance_type = pools[name].args.instance_type
        if count > 1 and instance_type.efa_interfaces:
            lines.append(
                f"gpuPools.{name}: a training job uses {count} nodes of {instance_type.name}, "
                "which talk over TCP through one network interface, a fraction of the machine's "
                f"bandwidth: this stack does not set up EFA ({instance_type.efa_interfaces} "
                "interfaces); use one node, or smaller machines"
            )
    return lines
