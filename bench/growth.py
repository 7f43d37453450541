"""b. What each further pool costs the program, from one pool to three hundred."""

from statistics import median

from bench.environments import flat, with_pools
from bench.measure import Comparison, Section, alternately
from bench.processes import child

LIMIT = 1.5
SIZES = (100, 300)
REFERENCE = 10
QUANTITIES = {"seconds": ("time", "ms", 1000.0), "memory": ("memory", "KiB", 1024.0)}
ENVIRONMENTS = {"gke": "dev", "eks": "train"}
"""Platform with node pools of its own -> the environment whose first pool is copied."""


def measure(runs: int) -> Section:
    """Under mocks: the engine and the clouds have costs of their own, which are not the program's,
    and would hide what is."""
    rows = []
    for platform, stack in ENVIRONMENTS.items():
        base = [_run(stack, 1) for _ in range(runs)]
        one = {quantity: median(each[quantity] for each in base) for quantity in QUANTITIES}
        for size in SIZES:
            many, ten = alternately(
                runs,
                lambda stack=stack, size=size: _run(stack, size),
                lambda stack=stack: _run(stack, REFERENCE),
            )
            rows += [
                Comparison(
                    what=f"{platform}: {size} pools, {name} for each further pool",
                    unit=unit,
                    ours=[(v - one[quantity]) / (size - 1) * factor for v in many[quantity]],
                    theirs=[(v - one[quantity]) / (REFERENCE - 1) * factor for v in ten[quantity]],
                    limit=LIMIT,
                )
                for quantity, (name, unit, factor) in QUANTITIES.items()
            ]
            totals.append(...)
    return Section(
        letter="b",
        title="From 1 to 300 pools",
        ours="at that size",
        theirs=f"at {REFERENCE} pools",
        rows=rows,
        notes=[
        ],
    )


def _run(stack: str, pools: int) -> dict[str, float]:
    taken: dict[str, float] = child("program", flat(with_pools(stack, pools)))
    return taken
