"""The price of a node per hour with its GPUs, as far as the catalog has prices.

List prices in US dollars in the cloud's `price_region`, from the sources; other regions differ.
Boot disks and addresses are in `prices`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from . import eks, gke, gke_accelerators


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrice:
    """Dollars per hour for one node; None if the price is not known, never 0."""

    on_demand: float | None
    spot: float | None
    source: str
    uncertain: bool = False
    """Whether it is general knowledge or derived: good for an estimate, not for a limit."""
    without: Literal["local SSD"] | None = None
    """What is included with the node and billed, but missing from these prices."""

    @property
    def most(self) -> float | None:
        """The highest known price: Spot is never above on demand."""
        return self.on_demand if self.on_demand is not None else self.spot


_UNKNOWN: Final = NodePrice(on_demand=None, spot=None, source="")
_EKS_SOURCE: Final = "karpenter's pricing tables of 2026-07-20 (GPUs) and 2026-01-19 (CPU)"
_DATE: Final = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")


def priced_on(sources: Iterable[str]) -> str:
    """`prices of 2026-06-23`: the oldest date in these sources of prices.

    Some copies of price lists have no date; the text then says that undated sources were used.
    """
    names = gke_accelerators.SOURCES
    texts = {
        names.get(key, text)
        for text in sources
        for key in ([key for key in names if key in text] or [text])
        if text
    }
    dates = [days for text in texts if (days := _DATE.findall(text))]
    oldest = min((date for days in dates for date in days), default="")
    undated = "" if len(dates) == len(texts) else ", and of sources without a date"
    if not oldest:
        return "prices without a date" if texts else "prices that are not known"
    return f"prices of {oldest}{undated}"


def gke_node(machine_type: str, accelerator: str | None = None, gpus: int = 0) -> NodePrice:
    """The price of a node of Google Cloud; `accelerator` and `gpus` apply to attached GPUs (N1)."""
    machine = gke.machine_type(machine_type)
    if machine is None:
        return _UNKNOWN
    on_demand, spot = machine.on_demand, machine.spot
    source, uncertain = machine.price_source, machine.price_uncertain
    if machine.accelerator is None and gpus:
        gpu_model = gke.ACCELERATORS.get(accelerator or "")
        if gpu_model is None:
            return _UNKNOWN
        on_demand = _sum(on_demand, gpu_model.on_demand, gpus)
        spot = _sum(spot, gpu_model.spot, gpus)
        source, uncertain = (
            f"{source} + {gpu_model.price_source}",
            uncertain or gpu_model.price_uncertain,
        )
    return NodePrice(
        on_demand=on_demand,
        spot=spot,
        source=source,
        uncertain=uncertain,
        without="local SSD" if machine.local_ssd_gib and "with SSD" not in source else None,
    )


def eks_node(instance_types: Sequence[str]) -> NodePrice:
    """The price of a node of a group with any of these instance types: the highest one."""
    rows = [eks.instance_type(name) for name in instance_types]
    prices = [None if instance is None else instance.on_demand for instance in rows]
    known_prices = [price for price in prices if price is not None]
    return NodePrice(
        on_demand=max(known_prices) if known_prices and len(known_prices) == len(prices) else None,
        # Spot prices on AWS change hourly and differ by zone.
        spot=None,
        source=_EKS_SOURCE if known_prices else "",
    )


def _sum(host: float | None, gpu_model: float | None, gpus: int) -> float | None:
    return None if host is None or gpu_model is None else round(host + gpus * gpu_model, 5)
