"""How faults are aimed, and how their table is written."""

import threading
import time
from pathlib import Path

import pytest

from prove import shards
from prove.changes import Effect
from prove.injected import FAULTS, hits_any
from prove.shards import Part, Result, kills, parts_of
from prove.strike import Strike, kill_at
from prove.table import document, markdown, read, summary
from prove.trial import Trial
from rehearsal.provider.handler import CloudError


def operations(strike: Strike, count: int) -> list[str]:
    """What becomes of so many creates: `done`, or `not asked`, or `unheard`."""
    found = []
    for number in range(count):
        did = False
        try:
            with strike.around("create", f"urn:{number}"):
                did = True
            found.append("done")
        except CloudError:
            found.append("unheard" if did else "not asked")
    return found


@pytest.mark.parametrize(("moment", "second"), [("asked", "not asked"), ("done", "unheard")])
def test_one_operation_is_hit_before_or_after_the_cloud_acts(moment: str, second: str) -> None:
    """The others are left alone, and the act comes exactly once."""
    strike, acts = Strike(), []
    strike.arm(kill_at(2), moment, lambda: acts.append(1))  # type: ignore[arg-type]
    assert operations(strike, 3) == ["done", second, "done"]
    assert (strike.hit, strike.count, acts) == (["urn:1"], 3, [1])


def test_a_disarmed_strike_hits_nothing_and_remembers() -> None:
    """The next run is whole."""
    strike = Strike()
    strike.arm(kill_at(1), "asked", lambda: None)
    operations(strike, 1)
    strike.disarm()
    assert operations(strike, 2) == ["done", "done"]
    assert strike.hit == ["urn:0"]


def test_a_killed_runs_operations_are_waited_for() -> None:
    """The cloud goes on with what it was asked."""
    strike, begun, ended = Strike(), threading.Event(), []

    def slow() -> None:
        with strike.around("create", "urn:slow"):
            begun.set()
            threading.Event().wait(0.3)
            ended.append(1)

    thread = threading.Thread(target=slow)
    thread.start()
    begun.wait()
    strike.settle()
    assert ended == [1]
    thread.join()


def trial(number: int, *lost: str) -> Trial:
    return Trial(
        environment="dev", fault="SIGKILL", at=f"{number}: T n", tries=number,
        recovered=not lost, lost=lost,
    )  # fmt: skip


def test_the_table_has_a_row_for_each_fault_and_environment() -> None:
    """How often, how many tries at the least and the most, and what was lost."""
    part = Part(stack="dev", work="kills")
    found = [trial(1), trial(2, "a network"), trial(3, "a network")]
    results = [Result(part=part, trials=found, planned=5, tried=3)]
    *_, last = markdown(results, 2).rstrip().splitlines()
    assert last == "| SIGKILL | dev | 3 operations | 1 to 3 | 1 of 3 | a network |"
    assert "2 were left out" in markdown(results, 2)
    results[0].effects.append(Effect(environment="dev", platform="gke", key="k", value="v",
                                     replaced=("cluster",)))  # fmt: skip
    assert read(document(results, 2)) == (results, 2)
    assert len(summary(results)) == 2


def test_every_part_of_a_stack_is_worked_on() -> None:
    """Kills are dealt to several, and everything else comes once."""
    assert [str(part) for part in parts_of("train")][-3:] == [
        "train kills 4/4", "train errors", "train changes",
    ]  # fmt: skip
    assert {part.number for part in parts_of("train") if part.work == "kills"} == {*range(1, 5)}


def test_every_operation_is_killed_at() -> None:
    """After the cloud acted always, before it at every so many."""
    assert [k for k, moment in kills(5, 3) if moment == "done"] == [1, 2, 3, 4, 5]
    assert [k for k, moment in kills(5, 3) if moment == "asked"] == [1, 4]
    assert [k for k, moment in kills(3, 1) if moment == "asked"] == [1, 2, 3]


def test_every_fault_says_what_a_cloud_says() -> None:
    """None is empty, and none hits before the first operation."""
    for fault in FAULTS:
        assert fault.says
        assert 1 <= fault.first <= fault.last


def test_a_fault_is_left_out_where_it_could_hit_nothing() -> None:
    """No network of a cloud's own, or too few operations."""
    pod = "urn:pulumi:s::p::gpu-cluster:gpu:Workload$kubernetes:core/v1:Pod::n"
    network = "urn:pulumi:s::p::gcp:compute/network:Network::n"
    (lost,) = (fault for fault in FAULTS if fault.name.startswith("the network is made"))
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

    def broken(*_: object) -> None:
        raise KeyError("checkpoint")

    monkeypatch.setattr(shards, "Bench", broken)
    part = Part(stack="dev", work=work)  # type: ignore[arg-type]
    result = shards.one(part, tmp_path, time.monotonic() + 60)
    assert [trial.lost for trial in result.trials] == [("KeyError: 'checkpoint'",)]
    assert len(summary([result])) == 1
