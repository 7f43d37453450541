"""The labels with a GKE node's position in Google's network.

docs.cloud.google.com/ai-hypercomputer/docs/workloads/schedule-gke-workloads-tas and
docs.cloud.google.com/compute/docs/instances/view-instance-topology, read 2026-11-24.
"""

from gpu_cluster.components.catalog.gke import MACHINE_TYPES
from gpu_cluster.rehearsal.simulators.blocks import Sizes
from gpu_cluster.rehearsal.simulators.cloud import Block

LABEL = "cloud.google.com/gce-topology"


def blocks(machine_type: str, sizes: Sizes) -> tuple[Block, ...]:
    """The blocks of a machine type; a single, unlimited one by default."""
    machine = MACHINE_TYPES.get(machine_type)
    if machine is None or not machine.located:
        return ()
    return tuple(
        Block(
            labels={f"{LABEL}-block": f"block-{number}", f"{LABEL}-subblock": f"subblock-{number}"},
            host=f"{LABEL}-host",
            nodes=nodes,
        )
        for number, nodes in enumerate(sizes.get(machine_type, [None]), start=1)
    )
