"""Killed at an operation, or answered with an error: after recovery nothing is twice or lost.

`make inject-faults` does this at every operation of every environment; here are the points that
hurt most.
"""

import pytest

from gpu_cluster.cli.main import main
from quality.faults.fault_injector import InjectionPoint
from quality.faults.fault_run import FaultRunner, cycle
from quality.faults.injected import FAULTS, inject
from tests.rehearsal.conftest import Runners


@pytest.fixture(scope="module")
def runner(runners: Runners) -> FaultRunner:
    """The dev environment, up and down once."""
    made = runners("dev")
    if made.sandbox.engine.resources():
        made.baseline_destroy()
    return made


PROVIDERS = 2
"""Of the custom resources that dev has, those that no cloud makes: gcp's and Kubernetes' own."""


def test_no_operation_is_missed(runner: FaultRunner) -> None:
    """Every custom resource of the state is counted once: clouds' and Kubernetes' alike."""
    assert len(runner.ups) == sum(each["custom"] for each in runner.made) - PROVIDERS


def test_a_cluster_that_nobody_heard_of_is_adopted_by_the_command(
    runner: FaultRunner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`gpu-cluster recover` unlocks and names what it adopts; `up` then changes the rest.

    It asks the simulated Google Cloud, in this process, whose label the cluster carries.
    """
    engine = runner.sandbox.engine

    def clusters(number: int, kind: str, urn: str) -> bool:
        return "gcp:container/cluster:Cluster" in urn

    runner.injector.arm(clusters, "done", engine.kill)
    assert not engine.up().ok
    runner.injector.disarm()
    runner.injector.settle()
    runner.sandbox.drop_plugins()
    assert "is currently locked" in engine.up().errors[0]
    endpoint = runner.sandbox.cloud_api
    assert endpoint
    with monkeypatch.context() as patched:
        patched.chdir(runner.folder / "program")
        for name, value in engine.environment.items():
            patched.setenv(name, value)
        code = main(["recover", "dev", "--yes", "--endpoint", endpoint])
    said = capsys.readouterr()
    assert code == 0, said.err
    cluster = "projects/my-project/locations/us-central1-a/clusters/gpu-dev"
    assert f"gcp:container/cluster:Cluster gpu-dev: adopted {cluster}" in said.out
    assert "unlocked: it was created by" in said.out
    assert runner.run_or_fail(engine.up).changes["same"] >= 5
    runner.assert_converged()
    runner.destroy()


@pytest.mark.prove
def test_a_kill_in_the_middle_is_recovered_from(runner: FaultRunner) -> None:
    """In `up`, and again in the `up` after recovery; in `destroy` with several under way."""

    def point(operations: list[tuple[str, str]], number: int) -> InjectionPoint:
        kind, urn = operations[number - 1]
        return InjectionPoint(number=number, kind=kind, urn=urn, moment="asked")

    ups = [point(runner.ups, 5), point(runner.ups, len(runner.ups))]
    fault_results, *missed = cycle(runner, ups, [point(runner.destroys, 5)])
    assert [(one.tries, one.recovered, one.lost) for one in fault_results] == [(1, True, ())] * 3
    assert [one.at.partition(":")[0] for one in fault_results] == ["5", str(len(runner.ups)), "5"]
    assert missed == [[], []]


@pytest.mark.prove(reason="the adoption of a cluster goes the same way, by the command")
def test_a_lost_answer_does_not_make_a_second_network(runner: FaultRunner) -> None:
    """Its generated name is in no state; recovery finds it in the cloud."""
    (fault,) = (each for each in FAULTS if each.name.startswith("the network is created"))
    fault_result = inject(runner, fault)
    assert fault_result is not None
    assert (fault_result.tries, fault_result.lost) == (1, ())
    assert "timeout while waiting for state" in fault_result.seen
    runner.destroy()


@pytest.mark.prove(reason="the counterpart of the test above")
def test_without_recovery_it_would_be_there_twice(runner: FaultRunner) -> None:
    """What the results call a loss is one: a plain second `up` leaves a network behind."""
    engine = runner.sandbox.engine
    runner.injector.arm(
        lambda number, kind, urn: "gcp:compute/network:Network" in urn and kind == "create",
        "done",
        lambda: None,
        error=lambda urn: "timeout",
    )
    assert not engine.up().ok
    runner.injector.disarm()
    runner.run_or_fail(engine.up)
    kinds = [line.split()[0] for line in runner.sandbox.cloud.list_resources()]
    assert kinds.count("network") == 2
