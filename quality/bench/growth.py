"""b. What each further pool costs the program, from one pool to three hundred."""

from collections.abc import Sequence
from functools import partial
from statistics import median

from components.platforms import PLATFORMS
from quality.bench.measure import Comparison, Section, alternately
from quality.bench.processes import child
from quality.environments import with_pools
from quality.platforms import measured
from stacks.definition.settings import flat

LIMIT = 1.5
SIZES = (100, 300)
REFERENCE = 10
QUANTITIES = {"seconds": ("time", "ms", 1000.0), "memory": ("memory", "KiB", 1024.0)}


def measure(chosen: Sequence[str], runs: int) -> Section:
    """Under mocks: the engine's and the clouds' costs of a resource would hide the program's."""
    rows, notes = [], []
    for platform in PLATFORMS:
        known = measured(platform)
        if known is None:
            continue
        stack = known.ENVIRONMENT
        if chosen and stack not in chosen:
            continue
        for size in SIZES:
            many, ten = alternately(
                runs,
                partial(_run, stack, size),
                partial(_run, stack, REFERENCE),
            )
            rows += [
                Comparison(
                    what=f"{platform}: {size} pools, {name} of each further pool",
                    unit=unit,
                    ours=[value * factor for value in many[quantity]],
                    theirs=[value * factor for value in ten[quantity]],
                    limit=LIMIT,
                )
                for quantity, (name, unit, factor) in QUANTITIES.items()
            ]
            took = f"{median(many['whole']):.1f} s of CPU"
            notes.append(f"{platform}: {size} pools take the program {took}, imports apart.")
    return Section(
        letter="b",
        title="From 1 to 300 pools",
        ours="at that size",
        theirs=f"at {REFERENCE} pools",
        rows=rows,
        notes=[
            "Each further pool: what so many pools take more than one does, by their number less "
            "one, in a process that has run the program before. Under mocks, as in a first "
            "preview, in CPU time: the engine and the clouds have costs of their own for each "
            "resource, which would hide the program's.",
            *notes,
        ],
    )


def _run(stack: str, pools: int) -> dict[str, float]:
    taken: dict[str, float] = child(
        "growth",
        {
            "one": flat(with_pools(stack, 1)),
            "many": flat(with_pools(stack, pools)),
            "count": pools,
        },
    )
    return taken
