"""Declares a provider for an existing cluster and describes its GPU nodes."""

import pulumi
import pulumi_kubernetes as kubernetes

from ..catalog import kubernetes as names
from ..cluster import Cluster, Runs
from .settings import ExistingSettings


def declare(settings: ExistingSettings, runs: Runs) -> Cluster:
    """Describes the cluster that the kubeconfig reaches; creates nothing in it, whatever `runs`."""
    args = settings.cluster
    # A user's kubeconfig may contain a key or a token, unlike those that other platforms write.
    secret = pulumi.Output.secret(settings.kubeconfig)
    return Cluster(
        name=args.name,
        platform="existing",
        provider=kubernetes.Provider(
            args.name,
            kubeconfig=secret,
            cluster_identifier=f"existing/{args.name}",
            # Existing objects with one of this stack's names belong to others. If this is unset,
            # the SDK uses PULUMI_K8S_UPSERT_EXISTING_OBJECTS from the environment, and could
            # overwrite them.
            upsert_existing_objects=False,
            opts=runs.component_options,
        ),
        kubeconfig=secret,
        pools={name: pool.pool for name, pool in settings.pools.items()},
        mapped=names.maps_requests([args.version]),
        parent=runs.parent,
    )
