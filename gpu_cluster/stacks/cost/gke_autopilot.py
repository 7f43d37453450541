"""The cost of a GKE Autopilot environment."""

from datetime import date

from gpu_cluster.components.gke_autopilot.settings import GkeAutopilotSettings
from gpu_cluster.components.schema.fallback import price_rank
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.cost.bill import Bill, Item, Part
from gpu_cluster.stacks.cost.bill_parts import (
    bought_as,
    bucket_notes,
    claims,
    other_region,
    pod_gpu,
)
from gpu_cluster.stacks.cost.google import by_use, cloud_nat, fee, google_notes, volume


def bill(settings: Settings[GkeAutopilotSettings], today: date) -> Bill:
    """An Autopilot cluster's bill: its pods have no known price or number."""
    cluster = settings.own.cluster
    pods = [
        Item(
            name=name,
            what=f"pods with {pool.pool.accelerator}, by what they request",
            parts=[Part(name="pods", on_demand=None, spot=None, source="")],
            idle=0,
            full=None,
            bought=bought_as(min(pool.args.order, key=price_rank)),
            pod_gpu=pod_gpu(pool.pool),
        )
        for name, pool in settings.own.pools.items()
    ]
    volumes = claims(settings.auxiliary.claims, volume)
    return Bill(
        other_region=other_region("google", cluster.region),
        items=[fee("GKE Autopilot"), *pods, *cloud_nat(cluster.network, None, None), *volumes],
        metered=by_use(cluster.network, prometheus=True, alerts=settings.monitoring is not None),
        notes=[
            *google_notes(cluster, free=True),
            "Autopilot bills pods by what they request; its prices are unknown, and the number "
            "of pods is not limited",
            *bucket_notes(settings.auxiliary.accounts),
        ],
    )
