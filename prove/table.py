"""The results of all faults as a table for people and as JSON for machines."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import attrgetter

from prove.shards import Result
from prove.trial import Trial

HEAD = (
    "| fault | environment | tried at | recoveries | recovered | lost |",
    "|---|---|---|---|---|---|",
)


def document(results: Sequence[Result], minutes: float) -> str:
    """Everything that was tried, as JSON."""
    rows = [asdict(trial) for result in results for trial in result.trials]
    left = sum(result.planned - result.tried for result in results)
    return json.dumps({"minutes": round(minutes, 1), "not_tried": left, "trials": rows}, indent=1)


def markdown(results: Sequence[Result], minutes: float) -> str:
    """The table: a row for each fault in each environment."""
    trials = [trial for result in results for trial in result.trials]
    left = sum(result.planned - result.tried for result in results)
    rest = f"; {left} were left out, the time was up" if left else ""
    head = f"{len(trials)} faults in {minutes:.0f} minutes, by `make prove`{rest}."
    return "\n".join([head, "", *HEAD, *rows(trials)]) + "\n"


def rows(trials: Iterable[Trial]) -> Iterator[str]:
    """One line for each fault and environment."""
    key = attrgetter("fault", "environment")
    for (fault, environment), group in groupby(sorted(trials, key=key), key):
        found = list(group)
        points = f"{len(found)} operations" if len(found) > 1 else found[0].at
        tries = sorted({trial.tries for trial in found})
        span = str(tries[0]) if len(tries) == 1 else f"{tries[0]} to {tries[-1]}"
        fine = sum(trial.recovered for trial in found)
        lost = "; ".join(dict.fromkeys(line for trial in found for line in trial.lost)) or "nothing"
        yield f"| {fault} | {environment} | {points} | {span} | {fine} of {len(found)} | {lost} |"


def summary(results: Sequence[Result]) -> list[str]:
    """A line for each fault after which something was lost."""
    return [
        f"{trial.environment}: {trial.fault}, at {trial.at}: {'; '.join(trial.lost)}"
        for result in results
        for trial in result.trials
        if not trial.recovered
    ]
