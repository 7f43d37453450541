"""A cluster that is already there: a provider and descriptions of its GPU nodes, nothing else."""

import pulumi
import pulumi_kubernetes as kubernetes

from ..cluster import Cluster, Runs
from .settings import ExistingSettings


def declare(settings: ExistingSettings, runs: Runs) -> Cluster:
    """Describes the cluster that the kubeconfig reaches; creates nothing in it, whatever `runs`."""
    args = settings.cluster
    # A user's kubeconfig may hold a key or a token, unlike those that the other platforms write.
    secret = pulumi.Output.secret(settings.kubeconfig)
    return Cluster(
        name=args.name,
        platform="existing",
        provider=kubernetes.Provider(
            args.name,
            kubeconfig=secret,
            cluster_identifier=f"existing/{args.name}",
            # What exists under a name of this stack's is somebody else's. Left out, the SDK takes
            # PULUMI_K8S_UPSERT_EXISTING_OBJECTS of the environment, and would overwrite it.
            upsert_existing_objects=False,
            opts=runs.component_options,
        ),
        kubeconfig=secret,
        pools={name: pool.pool for name, pool in settings.pools.items()},
        parent=runs.parent,
    )
