"""The verdict of the cost policies on a stack, before a preview."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from gpu_cluster.components.catalog.prices import HOURS_PER_MONTH
from gpu_cluster.policy import ceiling, settings
from gpu_cluster.policy.ceiling import MINIMUM, PRODUCTION, RULE, UNCONFIRMED, judged
from gpu_cluster.stacks.definition.names import ROOT

if TYPE_CHECKING:
    from gpu_cluster.components.settings.model import Settings
    from gpu_cluster.stacks.cost.bill import Bill

_FILE = ROOT / "policy" / "config.json"


def kept_running(stack: str, found: "Settings[Any]") -> list[str]:
    """The verdict of `gpu-pool-minimum` on each GPU pool that keeps nodes running."""
    try:
        _, given = settings.parsed(_FILE)
        stacks = given.get(MINIMUM, {}).get("stacks", PRODUCTION)
        if any(fnmatchcase(stack, pattern) for pattern in stacks):
            return []
    except (ValueError, AttributeError, TypeError):  # `line` reports it.
        return []
    return [
        f"policy {MINIMUM}: {ceiling.kept_running(name, least, stack, stacks)}"
        for name, pool in found.pools.items()
        if (least := pool.pool.min_nodes)
    ]


def line(stack: str, bill: "Bill") -> str:
    """The verdict of `monthly-ceiling` and `ceiling-confirmed` on the pools of a bill; empty for a
    bill without pools, and in a project without policies."""
    machines = [
        (item.name, item.full, part)
        for item in bill.items
        for part in item.parts
        if part.name == "machine"
    ]
    if not machines or not _FILE.parent.is_dir():
        return ""
    costs: dict[str, float] = {}
    for name, nodes, part in machines:
        price = part.on_demand if part.on_demand is not None else part.spot
        if price is not None and nodes is not None:
            costs[name] = nodes * price * HOURS_PER_MONTH
    try:
        _, given = settings.parsed(_FILE)
        rule = given.get(RULE, {})
        verdict, reason = judged(
            stack,
            costs,
            complete=len(costs) == len(machines),
            dollars=rule.get("dollars"),
            stacks=rule.get("stacks", {}),
        )
    except (ValueError, AttributeError, TypeError) as error:  # Every preview refuses these.
        verdict, reason = "above", f"the settings of the policies cannot be read: {error}"
    # With the name that a preview shows.
    return f"policy {UNCONFIRMED if verdict == 'unconfirmed' else RULE}: {reason}"
