"""One stack in one sandbox, repeatedly broken by faults and repaired."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_cluster.rehearsal.engine.engine import Outcome
from gpu_cluster.rehearsal.engine.provider_plugins import Choice
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.sandbox import Sandbox, SandboxOptions
from gpu_cluster.rehearsal.simulators.cloud import Cloud
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES
from gpu_cluster.stacks.engine.pulumi import EngineError
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.stacks.recovery.aws_resources import Aws
from gpu_cluster.stacks.recovery.clouds import LiveClouds
from gpu_cluster.stacks.recovery.command import recover
from gpu_cluster.stacks.recovery.engine import RecoveringPulumi
from quality.faults.fault_injector import FaultInjector, InjectionPoint, kill_at

TRIES = 3
"""The number of attempts after which a fault counts as not recovered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultResult:
    """One fault and its result."""

    environment: str
    fault: str
    at: str
    """The operation with the fault: its number, and its resource."""
    tries: int
    """How often recovery and the command had to run until the stack was intact."""
    recovered: bool
    lost: tuple[str, ...] = ()
    """Resources that were duplicated, left over, or missing in the state."""
    seen: str = ""
    """The message that the user saw, one line."""


class NotRecovered(Exception):
    """The stack could not be restored; the lines contain the reasons."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


class FakeCloudApi(LiveClouds):
    """A sandbox's cloud, as recovery accesses a live one. `endpoint`: a simulated Google
    Cloud's."""

    def __init__(self, cloud: Cloud, endpoint: str | None) -> None:
        super().__init__(endpoint=endpoint)
        self._cloud: Any = cloud

    def aws(self, region: str) -> Aws:
        """The simulated account's API."""
        return Aws(self._cloud.account.client)


class FaultRunner:
    """A sandbox that is reused for several faults. Use it as a context manager."""

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
        """The most recoveries that a single kill needed."""
        self.seen = ""
        """The last message that the user saw before the command succeeded."""

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

    def __exit__(self, *_: object) -> None:
        self.sandbox.stop()

    def baseline_run(self) -> None:
        """Runs `up` and `destroy` without faults, and records the resources for comparisons."""
        self.baseline_up()
        self.baseline_destroy()

    def baseline_up(self) -> None:
        """The first half of a baseline run."""
        self.ups = self._operations_of(self.sandbox.engine.up)
        self.kinds = self._kinds()
        self.made = self.sandbox.engine.resources()

    def baseline_destroy(self) -> None:
        """The second half of a baseline run."""
        self.destroys = self._operations_of(self.sandbox.engine.destroy)
        self.assert_empty()

    def _operations_of(self, run: Callable[[], Outcome]) -> list[tuple[str, str]]:
        """The operations of a run without faults."""
        self.injector.disarm()
        self.injector.operations = []
        self.run_or_fail(run)
        operations, self.injector.operations = self.injector.operations, []
        return operations

    def killed(self, run: Callable[[], Outcome], points: Sequence[InjectionPoint]) -> None:
        """Runs the engine to its end, killed at these operations, at the given moment.

        After each kill it follows the documented way: recover, then the interrupted command; again
        if that fails. An operation that the cloud had finished without reporting it when the engine
        was killed at another one does not occur again, and is then missing in `injected`.
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
        """Recovers, after `tries` attempts; returns the number of attempts so far."""
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
        """Runs the documented command; fails if it leaves anything for a manual check."""
        found = recover(
            self._pulumi,
            clouds=FakeCloudApi(self.sandbox.cloud, self.sandbox.cloud_api),
            adopt_orphans=adopt_orphans,
        )
        if left := [*found.notes, *found.unknown]:
            raise NotRecovered(*left)

    def run_or_fail(self, run: Callable[[], Outcome]) -> Outcome:
        """Runs the engine; raises NotRecovered with its errors if it fails."""
        outcome = run()
        if not outcome.ok:
            raise NotRecovered(*outcome.errors)
        return outcome

    def assert_converged(self) -> None:
        """Checks that a further `up` changes nothing, and every resource exists once."""
        outcome = self.run_or_fail(self.sandbox.engine.up)
        lines = [f"a further up: {what} {urn}" for what, urn in outcome.resources]
        kinds = self._kinds()
        lines += [
            f"the cloud has {kinds[k]} of {k}, not {self.kinds[k]}"
            for k in sorted(kinds | self.kinds)
            if kinds[k] != self.kinds[k]
        ]
        if (count := len(self.sandbox.engine.resources())) != len(self.made):
            lines.append(f"the state has {count} resources, not {len(self.made)}")
        if lines:
            raise NotRecovered(*lines)

    def assert_empty(self) -> None:
        """Checks that nothing is left in the cloud or in the state."""
        left = [f"left: {line}" for line in self.sandbox.cloud.list_resources()]
        left += [f"left in the state: {row['urn']}" for row in self.sandbox.engine.resources()]
        if left:
            raise NotRecovered(*left)
        # The next cluster then need not wait for its control plane.
        threading.Thread(target=self.sandbox.control_plane.ensure_started, daemon=True).start()

    def destroy(self) -> None:
        """Runs `destroy` without faults."""
        self.run_or_fail(self.sandbox.engine.destroy)
        self.assert_empty()

    def _kinds(self) -> Counter[str]:
        """The number of the cloud's resources by type; in a line, the name is the last word before
        a remark in brackets."""
        lines = (line.partition(" (")[0] for line in self.sandbox.cloud.list_resources())
        return Counter(line.rpartition(" ")[0] for line in lines)


def cycle(
    runner: FaultRunner, ups: Sequence[InjectionPoint], destroys: Sequence[InjectionPoint]
) -> tuple[list[FaultResult], list[InjectionPoint], list[InjectionPoint]]:
    """Runs `up`, killed at some operations and recovered after each, then the same with `destroy`.

    Returns the results, and the points of either command that did not occur. If something is lost,
    all kills of the command count as having lost it, and the sandbox must not be used again.
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
