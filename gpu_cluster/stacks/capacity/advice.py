"""A cloud's estimates of whether machines are free, by zone; pure functions.

They guarantee nothing, so a low one is not reported as a finding. No cloud publishes estimates for
on-demand machines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from gpu_cluster.stacks.capacity.verdict import Unknown
from gpu_cluster.stacks.table import table

_SILENT = {"on-demand": "on demand", "flex-start": "with flex-start"}
"""Values of `capacityType` of which no public API tells whether machines are free: the advice on
flex-start needs `maxRunDuration`, a field only of Compute Engine's alpha (20261026)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The machines that a pool buys, and where."""

    pool: str
    way: str
    """How they are bought, as a value of `capacityType`."""
    types: tuple[str, ...]
    """The cloud's names of possible machines; empty if the cloud chooses them."""
    attached: tuple[str, int] | None = None
    """The accelerator and how many of it each machine has besides what its type includes."""
    zones: tuple[str, ...]
    nodes: int
    """The pool's `maxNodes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The cloud's answer about one zone."""

    zone: str
    words: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    """The same as keys of the JSON document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The machines, and the cloud's answer."""

    wanted: Wanted
    estimates: tuple[Estimate, ...] | Unknown = ()
    unasked: str = ""
    """Why the cloud is not asked."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """The time of the answer."""

    @property
    def word(self) -> Literal["estimated", "not asked", "unknown"]:
        if self.unasked:
            return "not asked"
        return "unknown" if isinstance(self.estimates, Unknown) else "estimated"

    @property
    def reason(self) -> str:
        """Why there is no estimate."""
        return self.estimates.reason if isinstance(self.estimates, Unknown) else self.unasked

    def document(self) -> dict[str, Any]:
        known = () if isinstance(self.estimates, Unknown) else self.estimates
        return {
            "pool": self.wanted.pool,
            "capacityType": self.wanted.way,
            "types": list(self.wanted.types),
            "nodes": self.wanted.nodes,
            "at": self.at.isoformat(timespec="seconds"),
            "zones": [{"zone": estimate.zone, **estimate.figures} for estimate in known],
            "verdict": self.word,
            "reason": self.reason,
        }


def silent(orders: Mapping[str, Sequence[str]]) -> list[str]:
    """A line about the pools of which no cloud tells whether machines are free. `orders`: pool ->
    the ways of buying its nodes."""
    ways = [text for way, text in _SILENT.items() if any(way in order for order in orders.values())]
    pools = [pool for pool, order in orders.items() if _SILENT.keys() & {*order}]
    if not pools:
        return []
    return [
        f"no cloud tells whether machines are free {' or '.join(ways)}: pool {', '.join(pools)}"
    ]


def time_text(when: datetime) -> str:
    """A time for people, to the minute."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def advice_text(advice: Sequence[Advice], once: str = "") -> str:
    """The table, then a line for each pool without an estimate; empty if there is no advice. What
    is not known because of `once` has no line."""
    rows = [
        [
            advised.wanted.pool, advised.wanted.way, ", ".join(advised.wanted.types),
            advised.wanted.nodes, estimate.zone, estimate.words, time_text(advised.at),
        ]
        for advised in advice
        if not isinstance(advised.estimates, Unknown)
        for estimate in advised.estimates
    ]  # fmt: skip
    parts = [table(["POOL", "BUYS", "MACHINES", "NODES", "ZONE", "ADVICE", "AT"], rows)]
    return "\n".join([
        *(parts if rows else []),
        *(
            f"pool {advised.wanted.pool}: {advised.word}: {advised.reason}"
            for advised in advice
            if advised.word != "estimated" and not (once and advised.reason == once)
        ),
    ])  # fmt: skip
