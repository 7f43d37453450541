"""How faults are aimed, and how their table is written."""

import random
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_cluster.rehearsal.engine.engine import Outcome
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from quality.faults import workers
from quality.faults.changes import Effect
from quality.faults.fault_injector import FaultInjector, InjectionPoint, Moment, kill_at
from quality.faults.fault_run import TRIES, FaultResult, FaultRunner, NotRecovered, cycle
from quality.faults.injected import ERRORS, FAULTS, hits_any
from quality.faults.table import document, markdown, parse_results, summary
from quality.faults.workers import Part, Result, dealt, parts_of, together


def urn(number: int) -> str:
    return f"urn:pulumi:dev::p::T::{number}"


def point(number: int, moment: Moment = "done") -> InjectionPoint:
    return InjectionPoint(number=number, kind="create", urn=urn(number), moment=moment)


def operations(injector: FaultInjector, count: int) -> list[str]:
    """What becomes of so many creates: `done`, or `not asked`, or `unreported`."""
    found = []
    for number in range(count):
        did = False
        try:
            with injector.around("create", urn(number)):
                did = True
            found.append("done")
        except CloudError:
            found.append("unreported" if did else "not asked")
    return found


@pytest.mark.parametrize(("moment", "second"), [("asked", "not asked"), ("done", "unreported")])
def test_one_operation_is_hit_before_or_after_the_cloud_acts(moment: str, second: str) -> None:
    """The others are left alone, and the act comes exactly once."""
    injector, acts = FaultInjector(), []
    injector.arm(kill_at([point(1)]), moment, lambda: acts.append(1))  # type: ignore[arg-type]
    assert operations(injector, 3) == ["done", second, "done"]
    assert (injector.hit, acts) == ([urn(1)], [1])
    assert injector.operations == [("create", urn(number)) for number in range(3)]


def test_a_disarmed_strike_hits_nothing_and_remembers() -> None:
    """The next run is whole."""
    injector = FaultInjector()
    injector.arm(kill_at([point(0)]), "asked", lambda: None)
    operations(injector, 1)
    injector.disarm()
    assert operations(injector, 2) == ["done", "done"]
    assert injector.hit == [urn(0)]


def test_a_killed_runs_operations_are_waited_for() -> None:
    """The cloud goes on with what it was asked."""
    injector, begun, ended = FaultInjector(), threading.Event(), []

    def slow() -> None:
        with injector.around("create", "urn:slow"):
            begun.set()
            threading.Event().wait(0.3)
            ended.append(1)

    thread = threading.Thread(target=slow)
    thread.start()
    begun.wait()
    injector.settle()
    assert ended == [1]
    thread.join()


def fault_result(number: int, *lost: str) -> FaultResult:
    return FaultResult(
        environment="dev", fault="SIGKILL", at=f"{number}: T n", tries=number,
        recovered=not lost, lost=lost,
    )  # fmt: skip


def test_the_table_has_a_row_for_each_fault_and_environment() -> None:
    """How often, how many tries at the least and the most, and what was lost."""
    part = Part(stack="dev", work="kills")
    found = [fault_result(1), fault_result(2, "a network"), fault_result(3, "a network")]
    results = [Result(part=part, fault_results=found, planned=5, tried=3)]
    *_, last = markdown(results, 2).rstrip().splitlines()
    assert last == "| SIGKILL | dev | 3 operations | 1 to 3 | 1 of 3 | a network |"
    assert "2 were left out" in markdown(results, 2)
    results[0].effects.append(
        Effect(environment="dev", platform="gke", key="k", value="v", replaced=("cluster",))
    )
    assert parse_results(document(results, 2)) == (results, 2)
    assert len(summary(results)) == 2


def test_the_table_says_which_plugins_served() -> None:
    """Those of each package, and in which environments where they are not the same in all."""
    served = {"dev": "official plugin 10.2.0", "onprem": "offline plugin for 4.34.2"}
    results = [
        Result(part=Part(stack=stack, work=work), plugins={"kubernetes": words})  # type: ignore[arg-type]
        for stack, words in served.items()
        for work in ("kills", "errors")
    ]
    _, said, *_ = markdown(results, 2).splitlines()
    assert said == (
        "`kubernetes`: official plugin 10.2.0 (dev) and offline plugin for 4.34.2 (onprem)."
    )
    assert parse_results(document(results, 2)) == (results, 2)


def test_every_part_of_a_stack_is_worked_on() -> None:
    """Kills are dealt to several, and everything else comes once."""
    assert [str(part) for part in parts_of("train")][-3:] == [
        "train kills 3/3",
        "train errors",
        "train changes",
    ]
    assert {part.number for part in parts_of("train") if part.work == "kills"} == {1, 2, 3}


def test_every_operation_is_killed_at() -> None:
    """After the cloud acted always, before it at some; by one part each, in whatever order they
    see them."""
    made = [("create", urn(number)) for number in range(20)]
    shares = [
        dealt(random.Random(part.number).sample(made, k=20), part)
        for part in parts_of("train")
        if part.work == "kills"
    ]
    points = [(point.urn, point.moment) for share in shares for point in share]
    assert len(points) == len(set(points))
    assert {name for name, moment in points if moment == "done"} == {name for _, name in made}
    assert len([name for name, moment in points if moment == "asked"]) == 4
    assert all([p.number for p in share] == sorted(p.number for p in share) for share in shares)


def test_two_kills_of_a_run_are_far_apart() -> None:
    """Of one moment each, and every point once."""
    points = [point(n) for n in range(1, 6)] + [point(1, "asked")]
    assert [[p.number for p in run] for run in together(points)] == [[1, 4], [2, 5], [3], [1]]
    assert together([]) == []


class Simulated(FaultRunner):
    """Creates six things, one after the other, in an `up` that goes on after a kill."""

    def __init__(self, folder: Path) -> None:
        super().__init__("dev", folder)
        engine = SimpleNamespace(kill=lambda: None)
        self.sandbox = SimpleNamespace(engine=engine, drop_plugins=lambda: None)  # type: ignore[assignment]
        self.made: set[int] = set()  # type: ignore[assignment]
        self.recoveries = 0
        self.also: set[int] = set()
        """What else the cloud finishes when the engine is killed."""
        self.fails = 0
        """So many runs after a recovery fail."""

    def recover(self, *, adopt_orphans: bool = False) -> None:
        self.recoveries += 1

    def up(self) -> Outcome:
        if self.recoveries and self.fails:
            self.fails -= 1
            return Outcome(operation="up", ok=False, seconds=0, errors=("no",))
        for number in sorted(set(range(6)) - self.made):
            try:
                with self.injector.around("create", urn(number)):
                    self.made.add(number)
            except CloudError:
                self.made |= self.also
                return Outcome(operation="up", ok=False, seconds=0, errors=("killed",))
        return Outcome(operation="up", ok=True, seconds=0)


def test_a_run_is_killed_twice_and_recovered_each_time(tmp_path: Path) -> None:
    """The second time in the run after the first recovery."""
    runner = Simulated(tmp_path)
    runner.killed(runner.up, [point(1), point(4)])
    assert (runner.injected, runner.recoveries, runner.tries) == ([point(1), point(4)], 2, 1)
    assert runner.made == set(range(6))


def test_what_the_cloud_finished_at_the_first_kill_is_not_killed_at(tmp_path: Path) -> None:
    """It is left for another run."""
    runner = Simulated(tmp_path)
    runner.also = {4}
    runner.killed(runner.up, [point(1), point(4)])
    assert (runner.injected, runner.recoveries) == ([point(1)], 1)


def test_a_run_that_fails_after_recovery_is_tried_so_often(tmp_path: Path) -> None:
    """And is trouble then, in the engine's words."""
    runner = Simulated(tmp_path)
    runner.fails = TRIES - 1
    runner.killed(runner.up, [point(1)])
    assert (runner.tries, runner.seen) == (TRIES, "no")
    runner = Simulated(tmp_path)
    runner.fails = TRIES
    with pytest.raises(NotRecovered, match="no"):
        runner.killed(runner.up, [point(1)])
    assert runner.injected == [point(1)]


def test_what_a_loss_kept_from_being_tried_is_tried_later(tmp_path: Path) -> None:
    """Both kills of the `up` count as having lost it; `destroy` was not even run."""

    def not_converged() -> None:
        raise NotRecovered("a network is there twice")

    runner = Simulated(tmp_path)
    runner.sandbox.engine.up, runner.sandbox.engine.destroy = runner.up, None  # type: ignore[assignment]
    runner.assert_converged = not_converged  # type: ignore[method-assign]
    runner.assert_empty = not_converged  # type: ignore[method-assign]
    fault_results, ups, destroys = cycle(runner, [point(1), point(4)], [point(2)])
    assert [(result.at[0], result.lost) for result in fault_results] == [
        ("1", ("a network is there twice",)),
        ("4", ("a network is there twice",)),
    ]
    assert (ups, destroys) == ([], [point(2)])


def test_every_fault_says_what_a_cloud_says() -> None:
    """None is empty, and none hits before the first operation."""
    assert {name for errors in ERRORS.values() for name in errors} == {f.error for f in FAULTS}
    for fault in FAULTS:
        assert fault.says
        assert 1 <= fault.first <= fault.last


def test_a_fault_is_left_out_where_it_could_hit_nothing() -> None:
    """No network of a cloud's own, or too few operations."""
    pod = "urn:pulumi:s::p::gpu-cluster:gpu:Workload$kubernetes:core/v1:Pod::n"
    network = "urn:pulumi:s::p::gcp:compute/network:Network::n"
    (lost,) = (fault for fault in FAULTS if fault.name.startswith("the network is created"))
    (expired, _) = (fault for fault in FAULTS if fault.name.startswith("credentials expire"))
    assert not hits_any(lost, [pod])
    assert hits_any(lost, [pod, network])
    assert not hits_any(expired, [pod] * 4)
    assert hits_any(expired, [pod] * 5)


@pytest.mark.parametrize("work", ["kills", "errors", "changes"])
def test_a_part_that_breaks_is_a_row_of_the_table(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other parts' results are kept, and this one counts as lost."""

    def broken(*_: object, **__: object) -> None:
        raise KeyError("checkpoint")

    monkeypatch.setattr(workers, "FaultRunner", broken)
    part = Part(stack="dev", work=work)  # type: ignore[arg-type]
    result = workers.run_part(part, tmp_path, time.monotonic() + 60)
    assert [one.lost for one in result.fault_results] == [("KeyError: 'checkpoint'",)]
    assert len(summary([result])) == 1
