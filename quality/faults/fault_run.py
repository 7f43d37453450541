"""One stack on one sandbox, broken on purpose again and again, and put in order again."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from quality.faults.fault_injector import FaultInjector, InjectionPoint, kill_at
from rehearsal.engine import Outcome
from rehearsal.plugins.faults import Faults
from rehearsal.provider_plugins import Choice
from rehearsal.sandbox import Sandbox, SandboxOptions
from rehearsal.simulators.cloud import Cloud
from rehearsal.simulators.inventory import INVENTORIES
from stacks.engine.pulumi import EngineError
from stacks.engine.state import Row, in_backend
from stacks.engine.urn import Urn
from stacks.recovery.aws import Aws
from stacks.recovery.clouds import LiveClouds
from stacks.recovery.command import recover
from stacks.recovery.engine import RecoveringPulumi

TRIES = 3
"""Recoveries after which a fault counts as not recovered from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultResult:
    """One fault and what became of it."""

    environment: str
    fault: str
    at: str
    """The operation that was hit: its number, and what it was on."""
    tries: int
    """How often recovery and the command had to be run until all was well."""
    recovered: bool
    lost: tuple[str, ...] = ()
    """What was there twice, or left, or not in the state."""
    seen: str = ""
    """What the user saw, one line."""


class NotRecovered(Exception):
    """The stack did not get back to what it should be; the lines say why."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


class FakeCloudApi(LiveClouds):
    """A sandbox's cloud, as recovery asks a live one. `endpoint`: of a simulated Google Cloud."""

    def __init__(self, cloud: Cloud, endpoint: str | None) -> None:
        super().__init__(endpoint=endpoint)
        self._cloud: Any = cloud

    def aws(self, region: str) -> Aws:
        """The simulated account's own API."""
        return Aws(self._cloud.account.client)


class FaultRunner:
    """A sandbox that is used for one fault after the other. Use as a context manager."""

    def __init__(
        self, stack: str, folder: Path, inventories: Path = INVENTORIES, plugins: Choice = "auto"
    ) -> None:
        self.stack = stack
        self._plugins: Choice = plugins
        self.folder = folder
        self._inventories = inventories
        self.injector = FaultInjector()
        self.injected: list[InjectionPoint] = []
        """Where the last run was killed."""
        self.tries = 0
        """How often it had to be recovered from a single kill, at the most."""
        self.seen = ""
        """The last message that the user saw before it worked."""

    def __enter__(self) -> "FaultRunner":
        faults = Faults(around=self.injector.around)
        self.sandbox = Sandbox(
            self.stack,
            folder=self.folder,
            faults=faults,
            options=SandboxOptions(
                scaling=False, inventories=self._inventories, plugins=self._plugins
            ),
        )
        self.sandbox.__enter__()
        engine = self.sandbox.engine
        self._pulumi = RecoveringPulumi(
            command=engine.command,
            program=engine.program,
            stack=self.stack,
            environment=engine.environment,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sandbox.stop()

    def baseline_run(self) -> None:
        """An `up` and a `destroy` without a fault: how much there is, to compare with."""
        self.injector.disarm()
        self.run_or_fail(self.sandbox.engine.up)
        self.ups, self.injector.operations = self.injector.operations, []
        self.kinds = self._kinds()
        self.made = self.resources()
        self.run_or_fail(self.sandbox.engine.destroy)
        self.destroys = self.injector.operations
        self.assert_empty()

    def killed(self, run: Callable[[], Outcome], points: Sequence[InjectionPoint]) -> None:
        """Runs the engine to its end, killed at these operations, all at one moment.

        After each kill the documented way: recover, then what was interrupted; again if that
        fails. An operation that the cloud had finished, unreported, when the engine was killed at
        another does not come any more, and is not in `injected` then.
        """
        self.injected, self.tries, self.seen = [], 0, ""
        while True:
            waiting = [point for point in points if point not in self.injected]
            if waiting:
                self.injector.arm(kill_at(waiting), waiting[0].moment, self.sandbox.engine.kill)
            outcome = run()
            self.injector.disarm()
            hit = [point for point in waiting if point.urn in self.injector.hit]
            if hit:
                self.injected += hit
                tries = 0
                self.injector.settle()
                self.sandbox.drop_plugins()
            elif outcome.ok:
                return
            elif not self.injected:
                raise NotRecovered(*outcome.errors)
            else:
                self.seen = "; ".join(outcome.errors)
            tries = self._recover(tries)

    def _recover(self, tries: int) -> int:
        """Recovers, after so many tries already; returns how many it has been by then."""
        while tries < TRIES:
            tries += 1
            self.tries = max(self.tries, tries)
            try:
                self.recover()
            except (EngineError, NotRecovered) as error:
                self.seen = str(error)
            else:
                return tries
        raise NotRecovered(self.seen)

    def recover(self, *, adopt_orphans: bool = False) -> None:
        """The documented command; what it leaves for people to look at is trouble."""
        found = recover(
            self._pulumi,
            clouds=FakeCloudApi(self.sandbox.cloud, self.sandbox.cloud_api),
            adopt_orphans=adopt_orphans,
        )
        if left := [*found.notes, *found.unknown]:
            raise NotRecovered(*left)

    def run_or_fail(self, run: Callable[[], Outcome]) -> Outcome:
        """Runs the engine; raises NotRecovered with its words if it fails."""
        outcome = run()
        if not outcome.ok:
            raise NotRecovered(*outcome.errors)
        return outcome

    def assert_converged(self) -> None:
        """A further `up` changes nothing, and everything is there once."""
        outcome = self.run_or_fail(self.sandbox.engine.up)
        lines = [f"a further up: {what} {urn}" for what, urn in outcome.resources]
        kinds = self._kinds()
        lines += [
            f"the cloud has {kinds[k]} of {k}, not {self.kinds[k]}"
            for k in sorted(kinds | self.kinds)
            if kinds[k] != self.kinds[k]
        ]
        if (count := len(self.resources())) != len(self.made):
            lines.append(f"the state has {count} resources, not {len(self.made)}")
        if lines:
            raise NotRecovered(*lines)

    def assert_empty(self) -> None:
        """Nothing is left in the cloud or in the state."""
        left = [f"left: {line}" for line in self.sandbox.cloud.list_resources()]
        left += [f"left in the state: {row['urn']}" for row in self.resources()]
        if left:
            raise NotRecovered(*left)
        # The next cluster need not wait for its control plane.
        threading.Thread(target=self.sandbox.control_plane.ensure_started, daemon=True).start()

    def destroy(self) -> None:
        """A `destroy` without a fault."""
        self.run_or_fail(self.sandbox.engine.destroy)
        self.assert_empty()

    def _kinds(self) -> Counter[str]:
        """How many of each kind of thing the cloud holds; the last word is its name, before what
        is said about it in brackets."""
        lines = (line.partition(" (")[0] for line in self.sandbox.cloud.list_resources())
        return Counter(line.rpartition(" ")[0] for line in lines)

    def resources(self) -> list[Row]:
        """The state's, from its file: asking the engine takes longer."""
        return in_backend(self.folder / "state", "gpu-cluster", self.stack)


def cycle(
    runner: FaultRunner, ups: Sequence[InjectionPoint], destroys: Sequence[InjectionPoint]
) -> tuple[list[FaultResult], list[InjectionPoint], list[InjectionPoint]]:
    """`up`, killed at some operations and recovered after each, then the same with `destroy`.

    Returns the results, and the points of either that did not come. Where something is lost, each
    of a command's kills counts as having lost it, and the sandbox is of no use any more.
    """
    fault_results: list[FaultResult] = []
    missed = {"up": list(ups), "destroy": list(destroys)}
    engine = runner.sandbox.engine
    for command, run, check, points in (
        ("up", engine.up, runner.assert_converged, ups),
        ("destroy", engine.destroy, runner.assert_empty, destroys),
    ):
        lost: tuple[str, ...] = ()
        try:
            runner.killed(run, points)
            if points or command == "destroy":
                check()
        except NotRecovered as failure:
            lost = failure.lines
        if not runner.injected and (lost or points):
            raise NotRecovered(*lost or [f"{command} had none of {', '.join(map(_at, points))}"])
        fault_results += [
            FaultResult(
                environment=runner.stack,
                fault=f"SIGKILL during {command}, {WHEN[point.moment]}",
                at=_at(point),
                tries=runner.tries,
                recovered=not lost,
                lost=lost,
                seen=runner.seen,
            )
            for point in runner.injected
        ]
        missed[command] = [point for point in points if point not in runner.injected]
        if lost:
            break
    return fault_results, missed["up"], missed["destroy"]


def _at(point: InjectionPoint) -> str:
    return f"{point.number}: {Urn.parse(point.urn).label}"


WHEN = {"asked": "before the API call", "done": "after the API call, before the checkpoint"}
