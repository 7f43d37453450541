"""The labels with an EKS node's position in AWS's network.

docs.aws.amazon.com/eks/latest/userguide/ml-workload-topology and docs.aws.amazon.com/AWSEC2/latest/
UserGuide/ec2-instance-topology-prerequisites, read 2026-11-24: P6 has four layers, others
three, and not every region has them.
"""

from gpu_cluster.components.catalog.eks import INSTANCE_TYPES, LOCATED_REGIONS
from gpu_cluster.rehearsal.simulators.blocks import Sizes
from gpu_cluster.rehearsal.simulators.cloud import Block

LABEL = "topology.k8s.aws/network-node-layer"


def blocks(instance_type: str, region: str, sizes: Sizes) -> tuple[Block, ...]:
    """The nodes of the lowest layer, with those above; a single, unlimited one by default."""
    row = INSTANCE_TYPES.get(instance_type)
    if row is None or not row.located or region not in LOCATED_REGIONS:
        return ()
    layers = 4 if instance_type.startswith(("p6-b200.", "p6-b300.")) else 3
    return tuple(
        Block(
            labels={
                f"{LABEL}-{layer}": f"nn-{layer}{number if layer > 1 else 1}"
                for layer in range(1, layers + 1)
            },
            nodes=nodes,
        )
        for number, nodes in enumerate(sizes.get(instance_type, [None]), start=1)
    )
