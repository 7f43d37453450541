"""The quota usage of the stack's own pods on GKE Autopilot, and what they need of a region."""

from collections.abc import Iterable, Mapping
from functools import partial

from gpu_cluster.components.catalog.gke import region_of
from gpu_cluster.components.cluster import ResolvedPool
from gpu_cluster.components.gke_autopilot.pool_args import GkeAutopilotPoolArgs
from gpu_cluster.components.gke_autopilot.settings import GkeAutopilotSettings
from gpu_cluster.components.gpu.pod_group import PodGroup
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.capacity import (
    advice,
    choices,
    google_buckets,
    google_grants,
    google_network,
)
from gpu_cluster.stacks.capacity.google import KEYS, GoogleQuotas, needs, one_node
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.offers import Wanted
from gpu_cluster.stacks.capacity.questions import Questions
from gpu_cluster.stacks.images import pulled

__all__ = ["KEYS", "questions"]

Pools = Mapping[str, ResolvedPool[GkeAutopilotPoolArgs]]


def questions(settings: Settings[GkeAutopilotSettings], endpoint: str | None) -> Questions:
    """Implements `stacks.capacity.questions.Capacity`."""
    own = settings.own
    region = region_of(own.cluster.location)
    gpus = filled_gpus(own.pools, settings.pod_groups)
    quota_needs, notes = needs(own.pools, gpus, project=own.project, region=region)
    api = GoogleApi(endpoint)
    buckets, far = google_buckets.bucket_findings(
        settings.auxiliary.accounts, region=region, api=api
    )
    cloud = GoogleQuotas(own.project, region, api)
    order = choices.lines(
        own.pools, [], cloud=cloud, cluster=own.cluster.name, need=partial(one_node, region=region)
    )
    return Questions(
        cloud=cloud,
        needs=quota_needs,
        wanted=wanted(own.pools, region),
        machines=[
            advice.Wanted(pool=name, way="spot", types=(), zones=(), nodes=0)
            for name, pool in own.pools.items()
            if "spot" in pool.args.order
        ],
        notes=[
            "Autopilot has no maxNodes: the requests of the stack's workloads are counted",
            *notes,
            *order,
            *far,
            *advice.silent({name: pool.args.order for name, pool in own.pools.items()}),
        ],
        findings=[
            *buckets,
            *google_grants.grant_findings(
                own.cluster, settings.images.registry, project=own.project, api=api
            ),
            *google_network.network_findings(
                own.cluster.network,
                project=own.project,
                region=region,
                nodes=None,
                images=pulled(settings),
                api=api,
            ),
        ],
    )


def filled_gpus(pools: Pools, pod_groups: Iterable[PodGroup]) -> dict[str, int]:
    """Pool -> physical GPUs of the nodes that the stack's own pods fill, the only limit."""
    gpus = dict.fromkeys(pools, 0)
    for pods in pod_groups:
        if not pods.gpus:
            continue
        args, pool = pools[pods.pool].args, pools[pods.pool].pool
        shares = pool.allocatable // pool.gpus_per_node if pool.sharing else 1
        on_node = args.gpus_per_node or -(-pods.gpus // shares)
        pods_on_node = 1 if pods.own_nodes else max(on_node * shares // pods.gpus, 1)
        gpus[pods.pool] += -(-pods.count // pods_on_node) * on_node
    return gpus


def wanted(pools: Pools, region: str) -> list[Wanted]:
    """GKE chooses machine and zone: any zone of the region with the accelerator is enough."""
    return [
        Wanted(pool=name, types=(resolved.pool.accelerator,), region=region)
        for name, resolved in pools.items()
    ]
