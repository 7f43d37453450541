"""Machines of AWS that carry a GPU (`stacks.cost.gpu_offers.Offers`)."""

from collections.abc import Iterator, Mapping

from gpu_cluster.components.catalog import eks
from gpu_cluster.components.catalog.aws_prices import eks_node
from gpu_cluster.components.catalog.eks_instances import Blocks
from gpu_cluster.components.eks.regions import is_region, meant_region
from gpu_cluster.stacks.cost.gpu_offers import Offer

CARRIERS = ()
ABOUT = "Quota codes, read on 2026-11-21: four public programs; zones: run gpu-cluster capacity"
_SOLD: Mapping[Blocks, tuple[str, ...]] = {
    "none": ("on-demand", "spot", "reservation"),
    "also": ("on-demand", "spot", "reservation", "capacity-block"),
    "only": ("capacity-block",),
}
"""Whether EC2 sells an instance type in Capacity Blocks -> possible values of `capacityType`."""


def offers(place: str | None = None) -> Iterator[Offer]:
    """AWS's offers; the zones that have them differ by account."""
    for name, row in eks.INSTANCE_TYPES.items():
        if eks.refusal(name) is None:
            assert row.gpu_model is not None
            code, price = eks.quota_code(name), eks_node([name])
            yield Offer(
                cloud="aws", gpu=row.gpu_model, gpus=int(row.gpus), machine=name,
                accelerator=eks.accelerator_label(row.gpu_model), vcpu=row.vcpu,
                memory_gib=row.memory_gib, zones=None, more_zones=True,
                on_demand=None if row.blocks == "only" else price.on_demand, spot=None,
                price_source=price.source, uncertain=price.uncertain,
                quota=f"{code} ({row.quota.replace('_', '/')})" if code else "unknown",
                spot_quota=eks.quota_code(name, spot=True),
                sold=_SOLD[row.blocks],
                autopilot=False,
            )  # fmt: skip


def place(name: str) -> str | None:
    """The region, rightly spelt."""
    return (meant_region(name) or name) if is_region(name) else None
