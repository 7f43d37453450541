"""The results of all faults as a table for people and as JSON for machines."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import attrgetter
from typing import Any

from prove.changes import Effect
from prove.shards import Part, Result
from prove.trial import Trial

HEAD = (
    "| fault | environment | tried at | recoveries | recovered | lost |",
    "|---|---|---|---|---|---|",
)

CHANGES_HEAD = (
    "| platform | change of | made anew | because of | the preview |",
    "|---|---|---|---|---|",
)


def document(results: Sequence[Result], minutes: float) -> str:
    """Everything that was tried, as JSON."""
    return json.dumps({"minutes": round(minutes, 1), "parts": list(map(asdict, results))}, indent=1)


def read(text: str) -> tuple[list[Result], float]:
    """The results and the minutes of a document."""
    found = json.loads(text)
    results = [
        Result(
            part=Part(**row.pop("part")),
            trials=[Trial(**_with_tuples(each)) for each in row.pop("trials")],
            effects=[Effect(**_with_tuples(each)) for each in row.pop("effects")],
            **row,
        )
        for row in found["parts"]
    ]
    return results, found["minutes"]


def _with_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}


def markdown(results: Sequence[Result], minutes: float) -> str:
    """The table: a row for each fault in each environment."""
    trials = [trial for result in results for trial in result.trials]
    left = sum(r.planned - r.tried for r in results if r.part.work != "changes")
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


def replacements(results: Sequence[Result]) -> str:
    """The changes that replace something, as a table."""
    effects = [effect for result in results for effect in result.effects]
    left = sum(r.planned - r.tried for r in results if r.part.work == "changes")
    rest = f"; {left} were left out, the time was up" if left else ""
    environments = len({effect.environment for effect in effects})
    quiet = sum(not effect.replaced and not effect.refused for effect in effects)
    made = sum(effect.made for effect in effects)
    head = (
        f"Of {len(effects)} changes, one at a time in {environments} environments that were up, "
        f"{quiet} replace neither a cluster nor a node pool; {made} of these, those of a cluster "
        f"or its pools, were then made, by an `up` each. The others{rest}:"
    )
    return "\n".join([head, "", *CHANGES_HEAD, *changes_rows(effects)]) + "\n"


def changes_rows(effects: Iterable[Effect]) -> Iterator[str]:
    """One line for each platform and setting that replaces something."""
    found = sorted((e for e in effects if e.replaced or e.refused), key=attrgetter("platform"))
    for platform, group in groupby(found, attrgetter("platform")):
        by_key: dict[str, list[Effect]] = {}
        for effect in group:
            by_key.setdefault(effect.key, []).append(effect)
        for key, same in by_key.items():
            lost = ", ".join(dict.fromkeys(what for effect in same for what in effect.replaced))
            because = ", ".join(dict.fromkeys(f"`{p}`" for e in same for p in e.because))
            if all(effect.refused for effect in same):
                lost, because, says = "nothing", "the cloud changes it in no way", "refuses"
            else:
                says = "warns" if all(effect.warned for effect in same) else "**nothing**"
            yield f"| {platform} | `{key}` | {lost} | {because} | {says} |"


def summary(results: Sequence[Result]) -> list[str]:
    """A line for each fault after which something was lost, and for each change that is not as
    it should be."""
    lost = [
        f"{trial.environment}: {trial.fault}, at {trial.at}: {'; '.join(trial.lost)}"
        for result in results
        for trial in result.trials
        if not trial.recovered
    ]
    wrong = [
        f"{effect.environment}: {effect.key} to {effect.value}: {'; '.join(effect.wrong)}"
        for result in results
        for effect in result.effects
        if effect.wrong
    ]
    return lost + wrong
