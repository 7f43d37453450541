"""The limits of a run on a real cloud: minutes, and dollars at the stack's price."""

from dataclasses import dataclass
from typing import Any

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.cost.bill import Bill
from gpu_cluster.stacks.cost.cost_text import money
from gpu_cluster.stacks.outcome import CheckError

RESERVE = 20.0
"""Minutes of the limits that are kept for the destroy: EKS takes about 15 for a cluster."""

_SLOWEST = {"google": 120, "aws": 60, None: 30}
"""Cloud -> minutes after which its provider gives up the update of a node pool, the creation of a
node group, or, without a cloud, the wait for an object that this program gives most time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a run may take. Every minute counts at the price of the stack's maximum size, so
    that the real cost is lower."""

    cost: float
    """Dollars."""
    minutes: float
    hourly: float
    """Dollars an hour."""

    @property
    def allowed(self) -> float:
        """Minutes until everything should be deleted: the smaller of the two limits."""
        return min(self.minutes, self._paid)

    @property
    def seconds(self) -> float:
        """Seconds after which no step continues and the destroy begins."""
        return 60 * (self.allowed - RESERVE)

    @property
    def reason(self) -> str:
        """Why a run ends after `seconds`."""
        limit = f"{money(self.cost)}" if self._paid < self.minutes else f"{self.minutes:g} minutes"
        return f"the limit of {limit} is reached, less {RESERVE:g} minutes for the destroy"

    @property
    def _paid(self) -> float:
        return 60 * self.cost / self.hourly if self.hourly else float("inf")

    def spent(self, seconds: float) -> float:
        """Dollars that a run has cost at most, without what is billed by use."""
        return self.hourly * seconds / 3600

    def check(self) -> None:
        """Raises CheckError if the limits leave no time for a step."""
        if self.seconds <= 0:
            least = self.hourly * 2 * RESERVE / 60
            raise CheckError(
                f"the limits allow {self.allowed:.0f} minutes at {money(self.hourly)} an hour, and "
                f"{RESERVE:g} are kept for the destroy; allow at least {2 * RESERVE:g} minutes and "
                f"{money(least)}, or give the stack fewer or smaller nodes"
            )


def longest_wait(settings: Settings[Any]) -> int:
    """Minutes that the slowest operation may go on after a signal: the providers finish it first.
    The timeout of an update grows with the pool, by 15 minutes for each node at most."""
    sizes = [getattr(pool.args, "max_nodes", None) or 0 for pool in settings.pools.values()]
    slowest = _SLOWEST[PLATFORMS[settings.platform].cloud]
    return max([slowest, *(60 + 15 * (size + 1) for size in sizes if size)])


def hourly_price(bill: Bill, given: float | None) -> float:
    """Dollars an hour with every pool at its maximum, or the `given` price.

    Raises CheckError if no price is known for a part of the stack.
    """
    if given is not None:
        return given
    total = bill.total("configured", "full")
    if total.missing:
        raise CheckError(
            f"no price is known for {', '.join(total.missing)}, so a limit of cost cannot be kept; "
            "give the price of the whole stack per hour with --hourly"
        )
    return total.hour
