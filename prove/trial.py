"""One stack on one stage, broken on purpose again and again, and put in order again."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from prove.account import StandIns
from prove.strike import Moment, Strike, kill_at
from recovery.command import recover
from recovery.engine import Pulumi, RecoveryError
from rehearsal.cloud import Faults
from rehearsal.engine import Outcome
from rehearsal.stage import Stage

TRIES = 3
"""Recoveries after which a fault counts as not recovered from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
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


class Trouble(Exception):
    """The stack did not get back to what it should be; the lines say why."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


class Bench:
    """A stage that is used for one trial after the other. Use as a context manager."""

    def __init__(self, stack: str, folder: Path) -> None:
        self.stack = stack
        self.folder = folder
        self.strike = Strike()
        self.tries = 0
        """How often the last fault had to be recovered from."""
        self.seen = ""
        """What the user was told last before it worked."""

    def __enter__(self) -> "Bench":
        faults = Faults(around=self.strike.around)
        self.stage = Stage(self.stack, folder=self.folder, faults=faults, scaling=False)
        self.stage.__enter__()
        self._pulumi = Pulumi(
            command=self.stage.engine.cli,
            program=self.folder / "program",
            stack=self.stack,
            environment=self.stage.engine.environment,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stage.stop()

    def whole(self) -> None:
        """An `up` and a `destroy` without a fault: how much there is, to compare with."""
        self.strike.disarm()
        self.must(self.stage.engine.up)
        self.ups, self.strike.count = self.strike.count, 0
        self.kinds = self._kinds()
        self.made = self.resources()
        self.must(self.stage.engine.destroy)
        self.destroys = self.strike.count
        self.empty()

    def killed(self, run: Callable[[], Outcome], number: int, moment: Moment) -> bool:
        """Runs the engine and kills it at an operation; False if it ended before."""
        self.strike.arm(kill_at(number), moment, self.stage.engine.kill)
        outcome = run()
        self.strike.disarm()
        if self.strike.hit:
            self.strike.settle()
            self.stage.drop_plugins()
        elif not outcome.ok:
            raise Trouble(*outcome.errors)
        return bool(self.strike.hit)

    def recover_and(self, run: Callable[[], Outcome]) -> None:
        """The documented way: recover, then what was interrupted; again if that fails."""
        self.seen = ""
        for self.tries in range(1, TRIES + 1):
            try:
                self.recover()
                self.must(run)
                return
            except (RecoveryError, Trouble) as error:
                if self.tries == TRIES:
                    raise Trouble(str(error)) from None
                self.seen = str(error)

    def recover(self, *, unheard: bool = False) -> None:
        """The documented command; what it leaves for people to look at is trouble."""
        found = recover(self._pulumi, clouds=StandIns(self.stage.cloud), unheard=unheard)
        if found.notes:
            raise Trouble(*found.notes)

    def must(self, run: Callable[[], Outcome]) -> Outcome:
        """Runs the engine; raises Trouble with its words if it fails."""
        outcome = run()
        if not outcome.ok:
            raise Trouble(*outcome.errors)
        return outcome

    def settled(self) -> None:
        """A further `up` changes nothing, and everything is there once."""
        outcome = self.must(self.stage.engine.up)
        lines = [f"a further up: {what} {urn}" for what, urn in outcome.resources]
        kinds = self._kinds()
        lines += [f"the cloud has {kinds[k]} of {k}, not {self.kinds[k]}"
                  for k in sorted(kinds | self.kinds) if kinds[k] != self.kinds[k]]  # fmt: skip
        if (count := len(self.resources())) != len(self.made):
            lines.append(f"the state has {count} resources, not {len(self.made)}")
        if lines:
            raise Trouble(*lines)

    def empty(self) -> None:
        """Nothing is left in the cloud or in the state."""
        left = [f"left: {line}" for line in self.stage.cloud.holdings()]
        left += [f"left in the state: {row['urn']}" for row in self.resources()]
        if left:
            raise Trouble(*left)
        # The next cluster need not wait for its control plane.
        threading.Thread(target=self.stage.control_plane.ensure_started, daemon=True).start()

    def away(self) -> None:
        """A `destroy` without a fault."""
        self.must(self.stage.engine.destroy)
        self.empty()

    def _kinds(self) -> Counter[str]:
        """How many of each kind of thing the cloud holds; the last word is its name, before what
        is said about it in brackets."""
        lines = (line.partition(" (")[0] for line in self.stage.cloud.holdings())
        return Counter(line.rpartition(" ")[0] for line in lines)

    def resources(self) -> list[dict[str, Any]]:
        """The state's, from its file: asking the engine takes longer."""
        file = self.folder / "state" / ".pulumi" / "stacks" / "gpu-cluster" / f"{self.stack}.json"
        latest = json.loads(file.read_text())["checkpoint"]["latest"]
        resources: list[dict[str, Any]] = latest.get("resources") or []
        return resources


def cycle(bench: Bench, number: int, moment: Moment) -> list[Trial]:
    """Kills `up` at an operation, recovers; then the same with `destroy`."""
    trials = []
    engine = bench.stage.engine
    for command, run, check in (
        ("up", engine.up, bench.settled),
        ("destroy", engine.destroy, bench.empty),
    ):
        lost: tuple[str, ...] = ()
        struck = bench.killed(run, number, moment)
        try:
            if struck:
                bench.recover_and(run)
            check()
        except Trouble as trouble:
            lost = trouble.lines
        if struck or lost:
            trials.append(
                Trial(
                    environment=bench.stack,
                    fault=f"SIGKILL during {command}, {WHEN[moment]}",
                    at=f"{number}: {', '.join(map(named, bench.strike.hit))}",
                    tries=bench.tries,
                    recovered=not lost,
                    lost=lost,
                    seen=bench.seen,
                )
            )
        if lost:
            break  # the stage is of no use any more
    return trials


WHEN = {
    "asked": "before the cloud acted",
    "done": "after the cloud acted, before the answer",
}


def named(urn: str) -> str:
    """Type and name of a resource."""
    kind, name = urn.split("::")[2].rpartition("$")[2], urn.rpartition("::")[2]
    return f"{kind} {name}"
