"""A stack's bill from list prices: its cost idle and full. Unknown prices remain unknown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, Protocol

from gpu_cluster.components.catalog.prices import HOURS_PER_MONTH

Purchase = Literal["on-demand", "spot", "configured"]
"""How GPU nodes are bought: all on demand, all as Spot, or each pool according to its settings."""
Bought = Literal["on-demand", "spot", "other"]
"""How the settings buy a pool's nodes; `other` has its own price, which is not known here."""
Time = Literal["idle", "full"]
"""Every pool at its minimum, every pool at its maximum."""
PURCHASES: tuple[Purchase, ...] = ("on-demand", "spot", "configured")
TIMES: tuple[Time, ...] = ("idle", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that a unit is billed for. Dollars per hour; None if not known, never 0."""

    name: str
    on_demand: float | None
    spot: float | None
    source: str
    uncertain: bool = False
    """Whether the price is general knowledge: good for an estimate."""


def fixed(name: str, hourly: float | None, source: str, *, uncertain: bool = False) -> Part:
    """A part that costs the same whether its machine is Spot or not."""
    return Part(name=name, on_demand=hourly, spot=hourly, source=source, uncertain=uncertain)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGpu:
    """What a pod gets for one `nvidia.com/gpu`, and how many of those a unit has."""

    what: str
    """`1/4 of nvidia-tesla-t4`."""
    per_piece: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A line of the bill: a number of units, idle and full, with these parts."""

    name: str
    what: str
    parts: Sequence[Part]
    idle: float | None
    """The number of units; None if it is not known."""
    full: float | None
    bought: Bought = "on-demand"
    pod_gpu: PodGpu | None = None
    """Set for GPU pools; nothing else depends on how GPUs are bought."""
    reserved: bool = False
    """Whether its machines are already paid for, so that they cannot be Spot."""

    @property
    def gpus(self) -> bool:
        """Whether it is a GPU pool."""
        return self.pod_gpu is not None

    def hourly(self, purchase: Purchase) -> float | None:
        """Dollars per hour for one unit: the parts with a known price; None if the price of the
        first part, such as the machine, is not known."""
        prices = self._prices(purchase)
        if not prices or prices[0] is None:
            return None
        return sum(price for price in prices if price is not None)

    def missing(self, purchase: Purchase, time: Time) -> list[str]:
        """The parts without a known price, because of which `cost` is a lower bound."""
        if not self.cost(purchase, time):
            return []
        prices = zip(self.parts, self._prices(purchase), strict=True)
        return [part.name for part, price in prices if price is None]

    def _prices(self, purchase: Purchase) -> list[float | None]:
        """The prices of all parts; empty if that of this way of buying nodes is not known."""
        fixed = purchase == "configured" or (purchase == "spot" and self.reserved)
        bought = purchase if self.gpus and not fixed else self.bought
        if bought == "other":
            return []
        return [part.spot if bought == "spot" else part.on_demand for part in self.parts]

    def per_gpu(self, purchase: Purchase) -> float | None:
        """Dollars per hour for one `nvidia.com/gpu` of a unit whose pods use all of them,
        calculated as `hourly`."""
        hourly = self.hourly(purchase)
        return None if hourly is None or self.pod_gpu is None else hourly / self.pod_gpu.per_piece

    def cost(self, purchase: Purchase, time: Time) -> float | None:
        """Dollars per hour for all units, as `hourly`; also None if their number is not known."""
        pieces = self.idle if time == "idle" else self.full
        if pieces == 0:
            return 0.0
        hourly = self.hourly(purchase)
        return None if pieces is None or hourly is None else pieces * hourly


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """A price for usage whose amount is not known."""

    name: str
    dollars: float | None
    """Dollars per `unit`; None if the price is not known here."""
    unit: str
    source: str = ""

    def text(self) -> str:
        """`NAT traffic: $0.045 per GB`."""
        price = "price not known" if self.dollars is None else f"${self.dollars:g}"
        return f"{self.name}: {price} per {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum over all items."""

    hour: float
    """Dollars for the items with a known cost."""
    missing: Sequence[str]
    """Items, and parts of items, with unknown cost: if there are any, the sum is a lower bound."""

    @property
    def month(self) -> float:
        return self.hour * HOURS_PER_MONTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Everything that a stack is billed for."""

    items: Sequence[Item] = ()
    metered: Sequence[Metered] = ()
    notes: Sequence[str] = field(default_factory=list)
    other_region: str = ""
    """A note if the prices are those of another region than the stack's."""

    def total(self, purchase: Purchase, time: Time) -> Total:
        """The sum of everything, with each pool at its minimum or at its maximum."""
        costs = {item.name: item.cost(purchase, time) for item in self.items}
        return Total(
            hour=sum(cost for cost in costs.values() if cost is not None),
            missing=[
                *(name for name, cost in costs.items() if cost is None),
                *(
                    f"{item.name}'s {part}"
                    for item in self.items
                    for part in item.missing(purchase, time)
                ),
            ],
        )

    def document(self) -> dict[str, Any]:
        """The bill for programs: dollars per hour, None if not known."""
        return {
            "items": [
                {
                    "name": item.name,
                    "what": item.what,
                    "bought": item.bought,
                    "pieces": {"idle": item.idle, "full": item.full},
                    "hourly": _costs(item),
                    "missing": item.missing("configured", "full"),
                    **(
                        {
                            "podGpu": {
                                "what": item.pod_gpu.what,
                                "perPiece": item.pod_gpu.per_piece,
                                "hourly": {
                                    _key(purchase): _rounded(item.per_gpu(purchase))
                                    for purchase in PURCHASES
                                },
                            }
                        }
                        if item.pod_gpu
                        else {}
                    ),
                    "parts": [
                        {
                            "name": part.name,
                            "onDemand": _rounded(part.on_demand),
                            "spot": _rounded(part.spot),
                            "source": part.source,
                            "uncertain": part.uncertain,
                        }
                        for part in item.parts
                    ],
                }
                for item in self.items
            ],
            "totals": {
                _key(purchase): {
                    time: {
                        "hour": _rounded((total := self.total(purchase, time)).hour),
                        "month": _rounded(total.month, 2),
                        "missing": list(total.missing),
                    }
                    for time in TIMES
                }
                for purchase in PURCHASES
            },
            "byUse": [
                {"name": row.name, "dollars": row.dollars, "per": row.unit, "source": row.source}
                for row in self.metered
            ],
            "notes": [*filter(None, [self.other_region]), *self.notes],
        }


class Prices(Protocol):
    """The module that `Platform.cost` names."""

    def bill(self, settings: Any, today: date) -> Bill:
        """A stack's bill for these `Settings`; `today` decides what is in extended support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How an item's configured cost changes, in dollars per month; None if not known."""

    name: str
    before: Mapping[Time, float | None]
    after: Mapping[Time, float | None]

    def by(self, time: Time) -> float | None:
        """The difference."""
        before, after = self.before[time], self.after[time]
        return None if before is None or after is None else after - before

    def document(self) -> dict[str, Any]:
        """The change for programs."""
        return {
            "name": self.name,
            **{
                time: {
                    "before": _rounded(self.before[time], 2),
                    "after": _rounded(self.after[time], 2),
                    "change": _rounded(self.by(time), 2),
                }
                for time in TIMES
            },
        }


def changes(before: Bill, after: Bill) -> list[Change]:
    """The items whose cost differs, or may differ: new and removed ones are compared with 0."""
    old = {item.name: item for item in before.items}
    new = {item.name: item for item in after.items}
    result = []
    for name in dict.fromkeys([*old, *new]):
        change = Change(name=name, before=_monthly(old.get(name)), after=_monthly(new.get(name)))
        if old.get(name) != new.get(name):
            result.append(change)
    return result


def _monthly(item: Item | None) -> dict[Time, float | None]:
    if item is None:
        return dict.fromkeys(TIMES, 0.0)
    costs = {
        time: None if item.missing("configured", time) else item.cost("configured", time)
        for time in TIMES
    }
    return {time: None if cost is None else cost * HOURS_PER_MONTH for time, cost in costs.items()}


def _costs(item: Item) -> Mapping[str, Mapping[str, float | None]]:
    return {
        _key(purchase): {time: _rounded(item.cost(purchase, time)) for time in TIMES}
        for purchase in PURCHASES
    }


def _key(purchase: Purchase) -> str:
    return "onDemand" if purchase == "on-demand" else purchase


def _rounded(dollars: float | None, digits: int = 5) -> float | None:
    return None if dollars is None else round(dollars, digits)
