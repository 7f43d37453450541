"""Whether a stack's pools stay below its confirmed monthly ceiling; pure functions."""

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

RULE = "monthly-ceiling"
UNCONFIRMED = "ceiling-confirmed"
"""The rule that advises confirming a ceiling; it uses the settings of `RULE`."""
MINIMUM = "gpu-pool-minimum"
PRODUCTION = ("prod", "prod-*", "production", "*-prod")
"""The default stack names of several rules."""
UNCONFIRMED_DOLLARS = 10_000
"""Monthly cost above which a stack needs a confirmed ceiling, if `dollars` is not set."""

Word = Literal["below", "above", "unconfirmed"]


def judged(
    stack: str,
    costs: Mapping[str, float],
    *,
    complete: bool,
    dollars: float | None,
    stacks: Mapping[str, float],
) -> tuple[Word, str]:
    """The verdict, and a line with the pools' cost and what to do.

    `costs`: pool -> dollars per month for its machines at the pool's maximum, on demand, since Spot
    and reserved machines may cost as much. `complete`: whether every pool has a price. `stacks`:
    pattern of stack names -> confirmed ceiling, the first match counts. `dollars`: the ceiling of a
    stack without one; None if such a stack is only unconfirmed, above `UNCONFIRMED_DOLLARS`.
    """
    total = sum(costs.values())
    confirmed = confirmed_for(stack, dollars, stacks)
    message = (
        f"the machines of all pools cost {'' if complete else 'at least '}${total:,.0f} a month "
        "at maximum size, on demand (disks, network and control plane are not counted)"
    )
    if total <= (UNCONFIRMED_DOLLARS if confirmed is None else confirmed):
        return "below", message
    dearest = max(costs, key=lambda name: costs[name])
    entry = f'{{"{stack}": {math.ceil(round(total, 2))}}}'
    fix = f'"{RULE}": {{"stacks": {entry}}} in policy/config.json'
    part = f"pool {dearest} accounts for the largest part, ${costs[dearest]:,.0f}"
    if confirmed is None:
        return "unconfirmed", (
            f"{message}; {part}. No ceiling is confirmed for stack {stack}: set {fix}, so that a "
            "later increase is refused"
        )
    return "above", (
        f"{message}, and ${confirmed:,.0f} is confirmed for stack {stack}; {part}: lower its "
        f"maximum, or confirm the new amount: {fix}"
    )


def confirmed_for(stack: str, dollars: float | None, stacks: Mapping[str, float]) -> float | None:
    """The stack's ceiling in dollars per month, from the first matching pattern; else None."""
    return next((most for name, most in stacks.items() if fnmatchcase(stack, name)), dollars)


def kept_running(pool: str, least: float, stack: str, stacks: Sequence[str]) -> str:
    """The rule's message about a pool with a minimum, in a stack that is not in `stacks`."""
    return (
        f"GPU pool {pool} keeps {least:g} node{'' if least == 1 else 's'} running in stack "
        f"{stack}; set its minimum to 0, or {_allowed(stacks)}"
    )


def kept_warm(pool: str, instances: int, stack: str, stacks: Sequence[str]) -> str:
    """What the rule says of a pool whose warm instances run, likewise."""
    return (
        f"GPU pool {pool} keeps {instances} warm instance{'' if instances == 1 else 's'} running "
        f"in stack {stack}; set warmPoolConfig.poolState to STOPPED, or {_allowed(stacks)}"
    )


def _allowed(stacks: Sequence[str]) -> str:
    now = ", ".join(stacks) or "none"
    return f"allow the stack in policy/config.json ({MINIMUM}: stacks; now {now})"
