"""e. What an environment costs a month while nobody computes, against modules' defaults.

Both from the same price list. The modules get the environment's own GPU machine, and otherwise what
they choose when nothing is said.
"""

from collections.abc import Sequence
from datetime import date

from components.platforms import PLATFORMS
from quality.bench.measure import Comparison, Section
from quality.environments import platform_of, values_of
from quality.platforms import measured
from stacks.cost.bill import Bill
from stacks.cost.stack_cost import bill_at
from stacks.definition.files import SAMPLES
from stacks.definition.settings import settings_of

READ = date(2026, 11, 21)


def measure(chosen: Sequence[str]) -> Section:
    """One row per environment and module; none where nothing is made, or no module has defaults."""
    rows, notes = [], []
    for stack in chosen or SAMPLES:
        platform = platform_of(stack)
        if not PLATFORMS[platform].owned:
            notes.append(f"{stack}: an existing cluster is on somebody else's bill.")
            continue
        known = measured(platform)
        if known is None:
            notes.append(
                f"{stack}: an idle cluster is its fee on {PLATFORMS[platform].title}, whichever "
                "module creates it."
            )
            continue
        own = _month(bill_at(stack, values_of(stack)))
        settings = settings_of(stack, values_of(stack))
        rows += [
            Comparison(what=f"{stack}: {name}", unit="$", ours=[own], theirs=[_month(bill)])
            for name, bill in known.idle(settings.own).items()
        ]
    return Section(
        letter="e",
        title="Idle cost of a month",
        ours="this stack",
        theirs="module",
        rows=rows,
        notes=[
            f"Prices of `gpu-cluster cost`, modules read on {READ}. Traffic and logs are left out.",
            "terraform-google-kubernetes-engine: a regional cluster, in each of its three zones "
            "one e2-medium with 100 GB and a public address, and, with autoscaling on, one node of "
            "every further pool (`min_count` 1, here in one zone).",
            "terraform-aws-eks with terraform-aws-vpc: a node group of one t3.medium, every "
            "further one of one node (`min_size` 1), a NAT gateway for each private subnet.",
            "Second rows: the same with the GPU pools' minimum set to 0 by hand.",
            *notes,
        ],
    )


def _month(bill: Bill) -> float:
    """Dollars. Raises ValueError if a price is not known: a lower bound compares badly."""
    total = bill.total("configured", "idle")
    if total.missing:
        raise ValueError(f"no price is known of {', '.join(total.missing)}")
    return total.month
