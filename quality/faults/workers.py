"""The work in parts, each in its own sandbox and process, several at a time."""

import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from gpu_cluster.rehearsal.engine.provider_plugins import Choice
from gpu_cluster.rehearsal.processes import ProcessError
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES
from gpu_cluster.stacks.definition.files import ROOT, read_stack, use_instead
from gpu_cluster.stacks.definition.settings import platform_of
from gpu_cluster.stacks.outcome import CheckError
from quality.faults.changes import MORE, STACKS, Effect, applied, effects, table
from quality.faults.fault_injector import InjectionPoint, Moment
from quality.faults.fault_run import FaultResult, FaultRunner, NotRecovered, cycle
from quality.faults.injected import FAULTS, hits_any, inject
from quality.platforms import KILL_PARTS

ASKED_EVERY = 6
"""At one in this many operations, the engine is also killed before the cloud acts. The state is
then as after a kill at the previous operation, but with another operation in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some of the work on one stack."""

    stack: str
    work: Literal["kills", "errors", "changes"]
    number: int = 1
    """For kills: every `of`-th point, starting from this one."""
    of: int = 1

    def __str__(self) -> str:
        return f"{self.stack} {self.work}{f' {self.number}/{self.of}' if self.of > 1 else ''}"


@dataclass(slots=True, kw_only=True)
class Result:
    """The result of one part."""

    part: Part
    fault_results: list[FaultResult] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    planned: int = 0
    """The number of faults to try; fewer were tried if the time ran out."""
    tried: int = 0
    plugins: dict[str, str] = field(default_factory=dict)
    """Package -> the plugin that served it."""


def parts_of(stack: str) -> list[Part]:
    """The parts of a stack, the longest first."""
    count = KILL_PARTS.get(platform_of(read_stack(ROOT, stack)["config"]), 1)
    kills = [Part(stack=stack, work="kills", number=n, of=count) for n in range(1, count + 1)]
    return [*kills, Part(stack=stack, work="errors"), Part(stack=stack, work="changes")]


def run_parts(
    parts: Sequence[Part],
    folder: Path,
    *,
    plugins: Choice,
    workers: int,
    until: float,
    log: Callable[[str], None],
) -> list[Result]:
    """Runs these parts and returns their results. Starts none after `until`, a monotonic time."""
    results = []
    # moto has one account per process, so each sandbox gets a new process.
    with ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        longest_first = sorted(parts, key=lambda part: -part.of)
        asked = [pool.submit(run_part, part, folder, until, plugins) for part in longest_first]
        for done in as_completed(asked):
            result = done.result()
            results.append(result)
            bad = sum(not fault.recovered for fault in result.fault_results)
            bad += sum(bool(effect.wrong) for effect in result.effects)
            log(f"{result.part}: {result.tried} of {result.planned} tried, {bad} failed")
    return results


def run_part(part: Part, folder: Path, until: float, plugins: Choice = "auto") -> Result:
    """Runs a part in this process."""
    result = Result(part=part)
    place = folder / f"{part.stack}-{part.work}-{part.number}"
    try:
        if part.work == "changes":
            _changes(part, place, result, until, plugins)
        else:
            work = _errors if part.work == "errors" else _kills
            with FaultRunners(part.stack, place, plugins) as runners:
                result.plugins = runners.ready().sandbox.providers
                for fault_results in work(part, runners, result, until):
                    result.fault_results += fault_results
    except Exception as error:
        # Whatever the error is, the other parts continue, and the table shows that this one failed.
        if not isinstance(error, NotRecovered | ProcessError | CheckError):
            traceback.print_exc()
        result.fault_results.append(
            FaultResult(
                environment=part.stack, fault=f"none, in {part}", at="the sandbox", tries=0,
                recovered=False, lost=_error_lines(error),
            )
        )  # fmt: skip
    return result


def _error_lines(error: Exception) -> tuple[str, ...]:
    """An error in lines: what is wrong with the stack, or what failed here."""
    if isinstance(error, NotRecovered):
        return error.lines
    return (str(error) if isinstance(error, CheckError) else f"{type(error).__name__}: {error}",)


def _kills(
    part: Part, runners: "FaultRunners", result: Result, until: float
) -> Iterator[list[FaultResult]]:
    first = runners.ready()
    ups, destroys = dealt(first.ups, part), dealt(first.destroys, part)
    result.planned = len(ups) + len(destroys)
    while ups or destroys:
        runs = list(zip_longest(together(ups), together(destroys), fillvalue=()))
        ups, destroys = [], []
        for up, destroy in runs:
            if time.monotonic() > until:
                return
            fault_results, missed_ups, missed_destroys = cycle(runners.ready(), up, destroy)
            result.tried += len(fault_results)
            ups += missed_ups
            destroys += missed_destroys
            if any(fault.lost for fault in fault_results):
                runners.close()
            yield fault_results


def dealt(operations: Sequence[tuple[str, str]], part: Part) -> list[InjectionPoint]:
    """A part's share of the points at which a run with these operations is killed.

    All points after the cloud has acted, and some before. Parts see the operations in different
    orders, as many of them run in parallel, so the points are distributed by their names.
    """
    numbers = {operation: number for number, operation in enumerate(operations, 1)}
    moments: list[tuple[tuple[str, str], Moment]] = []
    for place, operation in enumerate(sorted(numbers)):
        moments.append((operation, "done"))
        if place % ASKED_EVERY == 0:
            moments.append((operation, "asked"))
    share = [
        InjectionPoint(number=numbers[kind, urn], kind=kind, urn=urn, moment=moment)
        for (kind, urn), moment in moments[part.number - 1 :: part.of]
    ]
    return sorted(share, key=lambda point: point.number)


def together(points: Sequence[InjectionPoint]) -> list[tuple[InjectionPoint, ...]]:
    """The points in pairs, one run for each: an early kill, and a late one in the recovery."""
    found: list[tuple[InjectionPoint, ...]] = []
    for moment in ("done", "asked"):
        those = [point for point in points if point.moment == moment]
        half = (len(those) + 1) // 2
        found += [tuple(filter(None, two)) for two in zip_longest(those[:half], those[half:])]
    return found


def _errors(
    part: Part, runners: "FaultRunners", result: Result, until: float
) -> Iterator[list[FaultResult]]:
    """Runs every error of `up`, then every error of `destroy` on the resulting stack."""
    urns = [row["urn"] for row in runners.ready().made if row["custom"]]
    faults = [fault for fault in FAULTS if hits_any(fault, urns)]
    ups = [fault for fault in faults if fault.command == "up"]
    downs = [fault for fault in faults if fault.command == "destroy"]
    result.planned = len(faults)
    while (ups or downs) and time.monotonic() < until:
        runner, fault_results = runners.ready(), []
        if ups:
            fault_results.append(inject(runner, ups.pop(0)))
        else:
            runner.run_or_fail(runner.sandbox.engine.up)
        if any(fault and fault.lost for fault in fault_results):
            runners.close()
        elif downs:
            fault_results.append(inject(runner, downs.pop(0)))
        else:
            runner.destroy()
        result.tried += len(fault_results)
        yield [item for item in fault_results if item]
        if fault_results[-1] and fault_results[-1].lost:
            runners.close()


def _changes(part: Part, folder: Path, result: Result, until: float, plugins: Choice) -> None:
    inventories = INVENTORIES
    if part.stack in MORE:
        use_instead(STACKS)  # applies to this part's own process
        inventories = STACKS / "inventories"
    with FaultRunner(part.stack, folder, inventories, plugins) as runner:
        result.plugins = runner.sandbox.providers
        planned = table(runner.sandbox.program.platform, part.stack)
        result.planned = len(planned.changes)
        runner.run_or_fail(runner.sandbox.engine.up)
        for effect in effects(runner, planned):
            result.effects.append(effect)
            result.tried += 1
            if time.monotonic() > until:
                return
        for number, effect in applied(runner, planned, tuple(result.effects)):
            result.effects[number] = effect
            if time.monotonic() > until:
                return


class FaultRunners:
    """Provides runners: after a loss, the next fault gets a new one."""

    def __init__(self, stack: str, folder: Path, plugins: Choice) -> None:
        self._stack, self._folder = stack, folder
        self._plugins: Choice = plugins
        self._runner: FaultRunner | None = None

    def __enter__(self) -> "FaultRunners":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ready(self) -> FaultRunner:
        """A runner with an empty sandbox."""
        if self._runner is None:
            self._runner = FaultRunner(self._stack, self._folder, plugins=self._plugins)
            self._runner.__enter__()
            self._runner.baseline_run()
        return self._runner

    def close(self) -> None:
        if self._runner is not None:
            self._runner.__exit__(None, None, None)
            self._runner = None
