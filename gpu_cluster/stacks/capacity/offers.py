"""Whether the cloud offers what the pools need in the required zones; pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpu_cluster.stacks.capacity.verdict import Unknown
from gpu_cluster.stacks.table import table

Word = Literal["offered", "not offered", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the nodes of a pool consist of, and where they may be."""

    pool: str
    types: tuple[str, ...]
    """The cloud's names for everything that a node needs: machine type, accelerator."""
    region: str
    zones: tuple[str, ...] = ()
    """Zones that must all offer it; if empty, any zone of the region is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The requirement, and the zones that offer it."""

    wanted: Wanted
    zones: tuple[str, ...] | Unknown
    """Every zone that offers all types, in whatever region the cloud was queried for; sorted."""
    regional: bool = False
    """Whether the cloud was queried for the region only, as AWS is: all zones are in it."""

    @property
    def word(self) -> Word:
        if isinstance(self.zones, Unknown):
            return "unknown"
        if self.wanted.zones:
            offered = set(self.wanted.zones) <= set(self.zones)
        else:
            offered = bool(self.in_region)
        return "offered" if offered else "not offered"

    @property
    def reason(self) -> str:
        """Why it is not offered, or not known, and which other zones offer it."""
        if isinstance(self.zones, Unknown):
            return self.zones.reason
        if self.word == "offered":
            return ""
        need = self.wanted
        lacking = [zone for zone in need.zones if zone not in self.zones] or [need.region]
        message = f"{' with '.join(need.types)} is not in {', '.join(lacking)}"
        if self.in_region:
            return f"{message}; zones of {need.region} that have it: {', '.join(self.in_region)}"
        if self.regional:
            return f"{message}, nor anywhere else in {need.region}; choose another type"
        regions = sorted({zone.rpartition("-")[0] for zone in self.zones})
        elsewhere = ", ".join(regions) or "none that is visible to this account"
        return f"{message}, nor anywhere else in {need.region}; regions that have it: {elsewhere}"

    @property
    def in_region(self) -> list[str]:
        """The region's zones that offer all of it."""
        assert not isinstance(self.zones, Unknown)
        prefix = f"{self.wanted.region}-"
        return [zone for zone in self.zones if self.regional or zone.startswith(prefix)]

    def document(self) -> dict[str, Any]:
        is_known = not isinstance(self.zones, Unknown)
        return {
            "pool": self.wanted.pool,
            "types": list(self.wanted.types),
            "zones": list(self.wanted.zones) or [self.wanted.region],
            "offeredIn": self.in_region if is_known else None,
            "verdict": self.word,
            "reason": self.reason,
        }


def offers_text(offers: Sequence[Offer], once: str = "") -> str:
    """The table, then a line for each that is not offered or not known; empty if there are none.
    What is not known because of `once` has no line."""
    if not offers:
        return ""
    rows = [
        [
            offer.wanted.pool,
            ", ".join(offer.wanted.types),
            ", ".join(offer.wanted.zones) or offer.wanted.region,
            "-" if isinstance(offer.zones, Unknown) else ", ".join(offer.in_region) or "no zone",
            offer.word,
        ]
        for offer in offers
    ]
    parts = [table(["POOL", "NEEDS", "IN", "OFFERED IN", "VERDICT"], rows)]
    parts += [
        f"pool {offer.wanted.pool}: {offer.word}: {offer.reason}"
        for offer in offers
        if offer.word != "offered"
        and not (once and offer.reason == once)
        and not (isinstance(offer.zones, Unknown) and offer.zones.explained)
    ]
    return "\n".join(parts)
