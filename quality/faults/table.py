"""The results of all faults as a table for readers and as JSON for programs."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import attrgetter
from typing import Any

from quality.faults.changes import Effect
from quality.faults.fault_run import FaultResult
from quality.faults.workers import Part, Result

HEAD = (
    "| fault | environment | tried at | recoveries | recovered | lost |",
    "|---|---|---|---|---|---|",
)

CHANGES_HEAD = (
    "| platform | change of | what it does | because of | the preview | applied |",
    "|---|---|---|---|---|---|",
)


def document(results: Sequence[Result], minutes: float) -> str:
    """All results as JSON."""
    return json.dumps({"minutes": round(minutes, 1), "parts": list(map(asdict, results))}, indent=1)


def parse_results(text: str) -> tuple[list[Result], float]:
    """The results in a document, and its minutes."""
    found = json.loads(text)
    results = [
        Result(
            part=Part(**row.pop("part")),
            fault_results=[FaultResult(**_with_tuples(item)) for item in row.pop("fault_results")],
            effects=[Effect(**_with_tuples(effect)) for effect in row.pop("effects")],
            **row,
        )
        for row in found["parts"]
    ]
    return results, found["minutes"]


def _with_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}


def markdown(results: Sequence[Result], minutes: float) -> str:
    """The table: a row for each fault in each environment."""
    fault_results = [fault for result in results for fault in result.fault_results]
    left = sum(r.planned - r.tried for r in results if r.part.work != "changes")
    rest = f"; {left} were left out, the time was up" if left else ""
    head = f"{len(fault_results)} faults in {minutes:.0f} minutes, by `make inject-faults`{rest}."
    return "\n".join([head, *_served(results), "", *HEAD, *rows(fault_results)]) + "\n"


def _served(results: Sequence[Result]) -> Iterator[str]:
    """The plugins that served each package, one line each."""
    served = sorted({plugin for result in results for plugin in result.plugins.items()})
    for package, group in groupby(served, lambda pair: pair[0]):
        words = " and ".join(
            f"{words} ({', '.join(_stacks(results, package, words))})" for _, words in group
        )
        yield f"`{package}`: {words}."


def _stacks(results: Sequence[Result], package: str, words: str) -> list[str]:
    found = (r.part.stack for r in results if r.plugins.get(package) == words)
    return list(dict.fromkeys(found))


def rows(fault_results: Iterable[FaultResult]) -> Iterator[str]:
    """One line for each fault and environment."""
    key = attrgetter("fault", "environment")
    for (fault, environment), group in groupby(sorted(fault_results, key=key), key):
        found = list(group)
        points = f"{len(found)} operations" if len(found) > 1 else found[0].at
        tries = sorted({fault.tries for fault in found})
        span = str(tries[0]) if len(tries) == 1 else f"{tries[0]} to {tries[-1]}"
        fine = sum(item.recovered for item in found)
        lost = "; ".join(dict.fromkeys(line for row in found for line in row.lost)) or "nothing"
        yield f"| {fault} | {environment} | {points} | {span} | {fine} of {len(found)} | {lost} |"


def replacements(results: Sequence[Result]) -> str:
    """The changes by their effect, with a table of those that are not simply updates in place."""
    effects = [effect for result in results for effect in result.effects]
    left = sum(r.planned - r.tried for r in results if r.part.work == "changes")
    rest = f" {left} were left out, the time was up." if left else ""
    environments = len({effect.environment for effect in effects})
    counts = Counter(map(_kind, effects))
    applied = Counter(_kind(effect) for effect in effects if effect.made)
    head = (
        f"Of {len(effects)} changes, one at a time in {environments} environments that were up, "
        f"{counts['in place']} are made in place, {counts['recycles']} recycle the nodes of a "
        f"pool, {counts['replaces']} replace a node pool or the cluster, {counts['keeps']} change "
        f"nothing and {counts['refused']} are refused. Those of a cluster or its pools were then "
        f"applied, by an `up` each: {applied['in place']} in place, {applied['recycles']} that "
        f"recycle and {applied['replaces']} that replace.{rest}"
    )
    return "\n".join([head, "", *CHANGES_HEAD, *changes_rows(effects)]) + "\n"


def _kind(effect: Effect) -> str:
    """The effect of a change, the most severe one first."""
    if effect.refused:
        return "refused"
    if effect.replaced:
        return "replaces"
    if effect.recycled:
        return "recycles"
    return "keeps" if effect.kept else "in place"


def changes_rows(effects: Iterable[Effect]) -> Iterator[str]:
    """One line for each platform and setting whose change is not simply an update in place."""
    found = sorted((e for e in effects if _kind(e) != "in place"), key=attrgetter("platform"))
    for platform, group in groupby(found, attrgetter("platform")):
        by_key: dict[str, list[Effect]] = {}
        for effect in group:
            by_key.setdefault(effect.key, []).append(effect)
        for key, same in by_key.items():
            cells = [_does(same), _because(same), _says(same), _applied(same)]
            if all(effect.refused for effect in same):
                cells = ["nothing", "the setting is immutable", "refuses", "-"]
            yield f"| {platform} | `{key}` | {' | '.join(cells)} |"


def _does(same: Sequence[Effect]) -> str:
    lost = ", ".join(dict.fromkeys(what for effect in same for what in effect.replaced))
    nodes = ", ".join(dict.fromkeys(what for effect in same for what in effect.recycled))
    done = [f"replaces {lost}"] if lost else []
    done += [f"recycles nodes of {nodes}"] if nodes else []
    return "; ".join(done) or "nothing"


def _because(same: Sequence[Effect]) -> str:
    if all(effect.kept for effect in same):
        return "the cloud keeps what it has"
    return ", ".join(dict.fromkeys(f"`{path}`" for e in same for path in e.because)) or "-"


def _says(same: Sequence[Effect]) -> str:
    return "warns" if all(e.warned or e.recycled or e.kept for e in same) else "**nothing**"


def _applied(same: Sequence[Effect]) -> str:
    reasons = dict.fromkeys(effect.not_made for effect in same if effect.not_made)
    return "yes" if all(effect.made for effect in same) else "; ".join(reasons) or "**no**"


def summary(results: Sequence[Result]) -> list[str]:
    """A line for each fault that lost something, and for each change that deviates from its
    expected effect."""
    lost = [
        f"{fault.environment}: {fault.fault}, at {fault.at}: {'; '.join(fault.lost)}"
        for result in results
        for fault in result.fault_results
        if not fault.recovered
    ]
    wrong = [
        f"{effect.environment}: {effect.key} to {effect.value}: {'; '.join(effect.wrong)}"
        for result in results
        for effect in result.effects
        if effect.wrong
    ]
    return lost + wrong
