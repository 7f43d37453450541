"""A cluster that is already there: a provider and descriptions of its GPU nodes, nothing else."""

from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as kubernetes

from components.cluster import Cluster
from components.existing.cluster_args import ExistingClusterArgs, ExistingGpuPoolArgs


def existing(
    args: ExistingClusterArgs, pools: Mapping[str, ExistingGpuPoolArgs], kubeconfig: str
) -> Cluster:
    """Describes the cluster that `kubeconfig` reaches; creates nothing in it."""
    # A user's kubeconfig may hold a key or a token, unlike those that the other platforms write.
    secret = pulumi.Output.secret(kubeconfig)
    return Cluster(
        name=args.name,
        platform="existing",
        provider=kubernetes.Provider(
            args.name, kubeconfig=secret, cluster_identifier=f"existing/{args.name}"
        ),
        kubeconfig=secret,
        pools={name: pool.gpu_pool(name) for name, pool in pools.items()},
    )
