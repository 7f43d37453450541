"""Declares a GKE Autopilot environment from its settings; its GPU pools are selectors for pods."""

from dataclasses import replace

import pulumi_kubernetes as kubernetes

from ..cluster import Cluster, Runs
from ..gke.compute_class import GkeComputeClass
from ..gke.control_plane import declare_monitoring, identifier_of
from ..gke.pod_access import declare_access
from ..gke.storage import declare_storage
from ..lifecycle.replacement import LastingSettings
from ..scalers import scaler_of
from ..schema.on_change import change_rules
from .cluster import GkeAutopilotCluster
from .cluster_args import GkeAutopilotArgs
from .settings import GkeAutopilotSettings


def declare(settings: GkeAutopilotSettings, runs: Runs) -> Cluster:
    """Declares a GKE Autopilot cluster."""
    args = settings.cluster
    gke = GkeAutopilotCluster(
        args.name,
        args,
        project=settings.project,
        dcgm=runs.metrics == "managed",
        opts=runs.component_options,
    )
    LastingSettings(
        args,
        {},
        cluster=change_rules(GkeAutopilotArgs),
        pool={},
        after=[gke],
        claims=runs.claims,
        opts=runs.component_options,
    )
    declare_monitoring(args, runs)
    granted = declare_access(
        runs,
        project=settings.project,
        cluster=gke.cluster,
        cluster_path=f"projects/{settings.project}/locations/{args.location}/clusters/{args.name}",
    )
    cluster = Cluster(
        name=args.name,
        platform="gke-autopilot",
        provider=kubernetes.Provider(
            args.name,
            kubeconfig=gke.kubeconfig,
            context=args.name,
            cluster_identifier=identifier_of(args, settings.project, gke.cluster),
            opts=runs.component_options,
        ),
        kubeconfig=gke.kubeconfig,
        pools={name: pool.pool for name, pool in settings.pools.items()},
        managed_prometheus=settings.metrics.managed_prometheus,
        granted=granted,
        buckets=settings.access.buckets,
        ready=gke.network.egress,
        deleted_with=gke.cluster,
        parent=runs.parent,
    )
    if scaler_of("gke-autopilot", args.scaler).in_cluster:
        classes = [
            GkeComputeClass(
                name, pool.args.class_spec(name), cluster=cluster, opts=runs.component_options
            )
            for name, pool in settings.pools.items()
        ]
        # GKE creates nodes for a pod that selects a class only once the class exists.
        cluster = replace(
            cluster, ready=[*cluster.ready, *(pool.compute_class for pool in classes)]
        )
    declare_storage(
        runs,
        args=args.network,
        network=gke.network.network,
        project=settings.project,
        cluster=cluster,
    )
    return cluster
