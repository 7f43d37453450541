"""Prices and the dates of their sources; the prices themselves are in a module for each cloud.

US dollars, in the cloud's `price_region`; other regions differ. A date in a source is the day on
which the page had the price; if only public notes that quote a page were read, the source says so.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

HOURS_PER_MONTH: Final = 730
"""The length of a month for billing."""

Unit = Literal["hour", "month", "GB", "GB-month", "GiB-month", "MiB/s-month", "IOPS-month"]


@dataclass(frozen=True, slots=True)
class Price:
    """An item of a bill."""

    dollars: float
    per: Unit
    source: str
    uncertain: bool = False
    """Whether it is general knowledge, without a source: good for an estimate, not for a limit."""
    notes: str = ""


def known(dollars: float, per: Unit, notes: str = "") -> Price:
    """A price from general knowledge."""
    source = "list price as generally known, 2026-11"
    return Price(dollars, per, source, uncertain=True, notes=notes)


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


_DATE: Final = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")


def priced_on(sources: Iterable[str]) -> str:
    """`prices of 2026-06-23`: the oldest date in these sources of prices.

    Some copies of price lists have no date; the text then says that undated sources were used.
    """
    from . import gke_accelerators  # no other price needs a fact of GKE's

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
