"""A proof, with a program in the place of the engine: every step fails or is interrupted once."""

import json
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kubernetes.client
import pytest
import yaml

from gpu_cluster.stacks.definition.files import ROOT, read_stack
from gpu_cluster.stacks.definition.settings import NOWHERE, config_of, settings_of
from gpu_cluster.stacks.engine.pulumi import Pulumi
from gpu_cluster.stacks.live.cluster import client_of
from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode
from gpu_cluster.stacks.proof import proof as proof_module
from gpu_cluster.stacks.proof import variants
from gpu_cluster.stacks.proof.cluster import ProvenCluster
from gpu_cluster.stacks.proof.interruption import Interruption, Stopped
from gpu_cluster.stacks.proof.limits import RESERVE, Limits
from gpu_cluster.stacks.proof.proof import Proof, refuse_existing

STEPS = ["capacity", "pulumi up", "GPU job", "acceptance test", "second up", "0 to 1 to 0 nodes",
         "change in place", "leftovers", "pulumi destroy"]  # fmt: skip
FINDING: Answer = (ExitCode.FINDING, {"leftovers": [
    {"kind": "Service", "name": "a/web", "what": "load balancer", "remove": "kubectl delete"},
]}, "found something")  # fmt: skip
OK: Answer = (ExitCode.OK, {"leftovers": []}, "good")
FIRST_UP = {"pulumi up": 1, "GPU job": 2, "acceptance test": 3, "second up": 4,
            "0 to 1 to 0 nodes": 5, "change in place": 8}  # fmt: skip
"""Step -> the number of its first `up`."""


class Cluster:
    """A cluster in which everything is as a proof expects it, but for the given answers."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def version(self) -> str:
        return "v1.35.0"

    def gpu_nodes(self) -> list[dict[str, Any]]:
        return [{"pool": "train-gpu"}]

    def pools(self) -> list[dict[str, Any]]:
        found = self.answers.get("pools", [[]])
        nodes = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(nodes, Exception):
            raise nodes
        if isinstance(nodes, signal.Signals):
            with suppress(Stopped):  # As a library may.
                signal.raise_signal(nodes)
            nodes = ["train-gpu"]
        return [{"pool": pool} for pool in nodes]

    def job(self, name: str) -> str:
        return f"{name}: Test PASSED"

    def test(self, args: Any) -> Answer:
        return self.answers.get("test", OK)

    def leftovers(self) -> Answer:
        return self.answers.get("leftovers", OK)


Make = Callable[..., Proof]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A proof of dev, whose engine follows a plan."""

    def made(
        plan: Mapping[str, str] | None = None, *, seconds: float = 60, capacity: Answer = OK,
        state: Mapping[str, str] | None = None, **answers: Any,
    ) -> Proof:  # fmt: skip
        command = tmp_path / "pulumi"
        script = Path(__file__).with_name("fake_engine.py")
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{script}" "$@"\n')
        command.chmod(0o755)
        (tmp_path / "plan.json").write_text(json.dumps(plan or {}))
        (tmp_path / "state.json").write_text(json.dumps(state or {}))
        (tmp_path / "calls").touch()
        packages = str(Path(yaml.__file__).parents[1])  # -S leaves them out, and starts sooner
        environment = {"FAKE_ENGINE": str(tmp_path), "PYTHONPATH": packages}
        pulumi = Pulumi(command=command, program=tmp_path, stack="dev", environment=environment)
        return Proof(
            stack="dev",
            pulumi=pulumi,
            document=read_stack(ROOT, "dev"),
            settings=settings_of("dev", config_of("dev"), kubeconfig=NOWHERE),
            limits=Limits(cost=1000, minutes=RESERVE + seconds / 60, hourly=1),
            folder=tmp_path,
            capacity=lambda: capacity,
            connect=lambda kubeconfig: Cluster(**answers),  # type: ignore[arg-type, return-value]
            poll=0.01,
            pause=0.01,
        )

    return made


def left(proof: Proof) -> dict[str, str]:
    """What the fake engine's state still has."""
    return dict(json.loads((proof.folder / "state.json").read_text()))


def results(proof: Proof) -> dict[str, str]:
    return {step.name: step.state for step in proof.steps}


def test_every_step_runs_once_in_its_order(make: Make) -> None:
    """And nothing is left; the first `up` is of the stack as its file has it."""
    proof = make()
    assert proof.run() is ExitCode.OK
    assert results(proof) == dict.fromkeys(STEPS, "passed")
    assert left(proof) == {}
    assert proof.created["gcp:container/cluster:Cluster"] == 1
    assert proof.versions == {
        "pulumi": "v3.0.0", "Kubernetes": "v1.35.0", "gcp provider": "10.2.0",
        "kubernetes provider": "10.2.0",
    }  # fmt: skip
    assert proof.providers == {"gcp:version": "10.2.0", "gcp:context": "gpu-dev"}
    calls = (proof.folder / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["up"] * 8 + ["destroy"]
    assert [number for number, call in enumerate(calls, 1) if "--refresh" in call] == [4]


@pytest.mark.parametrize("step", FIRST_UP)
def test_a_step_that_fails_ends_it_and_all_is_destroyed(make: Make, step: str) -> None:
    """With the engine's own reason; the steps after it do not run."""
    proof = make({f"up {FIRST_UP[step]}": "fail"})
    assert proof.run() is ExitCode.FINDING
    done = STEPS[: STEPS.index(step)]
    tail = dict.fromkeys(["leftovers", "pulumi destroy"], "passed")
    if step == "pulumi up":  # It created no cluster that could be asked.
        tail["leftovers"] = "skipped"
    assert results(proof) == {**dict.fromkeys(done, "passed"), step: "failed", **tail}
    assert "the cloud refuses it" in proof.steps[len(done)].detail
    assert left(proof) == {}


@pytest.mark.parametrize(
    ("step", "number"), [*((step, "SIGINT") for step in FIRST_UP), ("GPU job", "SIGTERM")]
)
def test_an_interruption_ends_it_and_all_is_destroyed(make: Make, step: str, number: str) -> None:
    """The engine finishes what it has begun, and the destroy is not interrupted."""
    proof = make({f"up {FIRST_UP[step]}": number})
    assert proof.run() is ExitCode.STOPPED
    found = results(proof)
    assert found[step] == "stopped"
    assert found["pulumi destroy"] == "passed"
    assert f"interrupted by {number}" in proof.steps[STEPS.index(step)].detail
    assert left(proof) == {}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_limit_ends_what_takes_too_long(make: Make) -> None:
    """The one of time or the one of cost, whichever comes first, and the report says which."""
    proof = make({"up 2": "wait"}, seconds=3)
    assert proof.run() is ExitCode.STOPPED
    assert results(proof)["GPU job"] == "stopped"
    (step,) = [step for step in proof.steps if step.state == "stopped"]
    assert step.detail.startswith("the limit of 20.05 minutes is reached, less 20 minutes")
    assert left(proof) == {}


def test_nodes_that_stay_are_named_when_it_is_stopped(make: Make) -> None:
    """A wait for nodes ends with the signal, too, even if something swallows that."""
    proof = make(pools=[["train-gpu"], signal.SIGINT, ["train-gpu"]])
    assert proof.run() is ExitCode.STOPPED
    (step,) = [step for step in proof.steps if step.state == "stopped"]
    assert step.name == "0 to 1 to 0 nodes"
    assert step.detail == "interrupted by SIGINT; pool train-gpu still has 1 nodes"
    assert step.seconds < 30
    assert left(proof) == {}


def test_an_api_server_that_is_silent_for_a_while_is_waited_for(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as GKE resizes it; then the step fails."""
    silent = CheckError("the cluster does not respond")
    assert make(pools=[silent, ["train-gpu"], []]).run() is ExitCode.OK
    monkeypatch.setattr(proof_module, "SILENT_SECONDS", 0.05)
    proof = make(pools=[silent])
    assert proof.run() is ExitCode.FINDING
    assert left(proof) == {}


@pytest.mark.parametrize(
    ("answers", "plan", "failed"),
    [
        ({"capacity": FINDING}, {}, "capacity"),
        ({"test": FINDING}, {}, "acceptance test"),
        ({}, {"up 4": "replace"}, "second up"),
        ({}, {"up 8": "replace"}, "change in place"),
    ],
)
def test_a_finding_fails_its_step(
    make: Make, answers: Any, plan: dict[str, str], failed: str
) -> None:
    """Nothing is created after a lack of capacity; everything else is destroyed."""
    proof = make(plan, **answers)
    assert proof.run() is ExitCode.FINDING
    assert [step.name for step in proof.steps if step.state == "failed"] == [failed]
    assert left(proof) == {}
    if failed == "capacity":
        assert (proof.folder / "calls").read_text() == ""
        assert results(proof) == {"capacity": "failed", "pulumi destroy": "skipped"}


def test_what_a_step_cannot_tell_does_not_end_it(make: Make) -> None:
    """The exit code says that something is not known."""
    unknown = (ExitCode.UNKNOWN, {}, "not allowed to look")
    proof = make(capacity=unknown, test=unknown)
    assert proof.run() is ExitCode.UNKNOWN
    assert [step.name for step in proof.steps if step.state == "unknown"] == [
        "capacity", "acceptance test",
    ]  # fmt: skip
    assert results(proof)["change in place"] == "passed"


def test_a_destroy_is_tried_again(make: Make) -> None:
    """Once; the second one succeeds."""
    proof = make({"destroy 1": "fail"})
    assert proof.run() is ExitCode.OK
    assert left(proof) == {}


@pytest.mark.parametrize("plan", [{"destroy 1": "fail", "destroy 2": "fail"},
                                  {"destroy 1": "SIGINT SIGINT"}])  # fmt: skip
def test_what_is_left_is_named(make: Make, plan: dict[str, str]) -> None:
    """After two destroys that failed, or one that was interrupted twice, which is not repeated."""
    said: list[str] = []
    proof = make(plan)
    proof.say = said.append
    assert proof.run() is ExitCode.LEFT
    assert "gcp:container/cluster:Cluster gpu-dev" in proof.left
    assert not any("providers" in line for line in proof.left)
    assert proof.left[-1].startswith("to delete it: gpu-cluster recover dev, then pulumi destroy")
    destroys = (proof.folder / "calls").read_text().count("destroy ")
    assert destroys == len(plan)
    assert (sum("Ctrl-C twice more" in line for line in said) == 2) == (destroys == 1)


def test_what_controllers_leave_in_the_cloud_is_left(make: Make) -> None:
    """A load balancer outlives the cluster, so a destroy that succeeded is not all."""
    proof = make(leftovers=FINDING)
    assert proof.run() is ExitCode.LEFT
    assert proof.left == ["Service a/web: load balancer"]
    assert left(proof) == {}


def test_a_defect_of_a_step_leaves_nothing_either(make: Make) -> None:
    """The report has its traceback, also if asking what would be left has the defect."""
    for name, answers in (("acceptance test", {"test": ()}), ("leftovers", {"leftovers": ()})):
        proof = make(**answers)
        assert proof.run() is ExitCode.FINDING
        (step,) = [step for step in proof.steps if step.state == "failed"]
        assert (step.name, proof.code) == (name, ExitCode.FINDING)
        assert "a defect of this command" in step.detail
        assert "ValueError: not enough values to unpack" in step.detail
        assert results(proof)["pulumi destroy"] == "passed"
        assert left(proof) == {}


@pytest.mark.parametrize("plan", ["locked", "other"])
def test_what_another_command_creates_meanwhile_is_not_destroyed(make: Make, plan: str) -> None:
    """A colleague's `up` of the same stack, before the first `up` or while it waits for it."""
    theirs = {"urn:pulumi:dev::gpu-cluster::gcp:container/cluster:Cluster::theirs": ""}
    proof = make({"up 1": "fail" if plan == "other" else plan})
    state = proof.folder / "state.json"
    if plan == "other":
        proof.capacity = lambda: (OK, state.write_text(json.dumps(theirs)))[0]
    else:  # It has finished when the first `up` has failed.
        state.with_name("theirs.json").write_text(json.dumps(theirs))
    assert proof.run() is ExitCode.LEFT
    assert results(proof) == {
        "capacity": "passed", "pulumi up": "failed", "pulumi destroy": "skipped",
    }  # fmt: skip
    assert left(proof) == theirs
    assert proof.left == [
        "gcp:container/cluster:Cluster theirs",
        "not created by this run, which therefore destroyed nothing of dev",
    ]


def test_a_stack_with_encrypted_values_is_proven(make: Make) -> None:
    """Its settings are read without them."""
    proof = make()
    pod = proof.config["gpu-cluster:workloads"]["sample-gpu-pod"]
    pod["env"] = {"TOKEN": {"secure": "v1:abcdefgh:abcdefghijklmnopqrstuvwxyz"}}
    assert proof.run() is ExitCode.OK
    assert set(results(proof).values()) == {"passed"}


def test_a_proof_without_a_job_is_no_success(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one of a stack whose pools are all queued."""
    monkeypatch.setattr(variants, "refusal", lambda config: "it is full")
    proof = make()
    assert proof.run() is ExitCode.UNKNOWN
    assert proof.steps[2].detail == "no pool ran a job; it is full"


def test_an_interruption_that_something_swallows_is_raised_again() -> None:
    """As soon as a step, or a wait in one, asks; and at the next signal."""
    with Interruption(60, "", 1, lambda line: None) as interruption:
        for number in ("SIGTERM", "SIGINT"):
            with suppress(Stopped):
                signal.raise_signal(getattr(signal, number))
                pytest.fail("nothing is raised")
            with pytest.raises(Stopped, match="interrupted by SIGTERM"):
                interruption.check()


def test_the_limit_ends_a_command_that_signs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of Kubernetes swallows each Exception while it waits for one."""
    command = tmp_path / "aws"
    command.write_text("#!/bin/sh\nexec sleep 20\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    sign_in = {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "args": []}
    user = {"exec": {**sign_in, "interactiveMode": "Never"}}
    config = {**json.loads(NOWHERE), "users": [{"name": "a", "user": user}]}
    with Interruption(0.5, "the limit", 1, lambda line: None), pytest.raises(Stopped):
        client_of(json.dumps(config))


def test_nohup_is_respected() -> None:
    """The end of the terminal ends nothing if its signal was ignored before."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption(60, "", 1, lambda line: None):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_silent_api_server_is_no_version() -> None:
    """But an error of its step."""
    cluster = {"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}
    config = {**json.loads(NOWHERE), "clusters": [cluster]}
    with pytest.raises(CheckError, match="the cluster does not respond"):
        ProvenCluster("dev", json.dumps(config)).version()


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ({"minor": "36", "emulationMinor": "35", "gitVersion": "v1.36.5"}, "v1.36.5 as 1.35"),
        ({"minor": "35+", "emulationMinor": "35", "gitVersion": "v1.35.4-eks-4136f65"},
         "v1.35.4-eks-4136f65"),
        ({"minor": "30", "gitVersion": "v1.30.14"}, "v1.30.14"),
    ],
)  # fmt: skip
def test_a_version_is_that_of_a_rehearsals_report(
    answer: dict[str, str], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the API server runs as an older one; Kubernetes before 1.31 does not say."""
    raw = json.dumps({"emulationMajor": "1", **answer}).encode()
    response = SimpleNamespace(data=raw)
    monkeypatch.setattr(kubernetes.client.VersionApi, "get_code", lambda *_, **__: response)
    assert ProvenCluster("dev", NOWHERE).version() == version


def test_a_stack_with_resources_is_refused(make: Make) -> None:
    """A provider or a component on its own is nothing in the cloud."""
    prefix = "urn:pulumi:dev::gpu-cluster::"
    refuse_existing(make(state={f"{prefix}pulumi:providers:gcp::p": ""}).pulumi)
    with pytest.raises(CheckError, match="has 1 resources, and a proof destroys all of a stack"):
        refuse_existing(make(state={f"{prefix}gcp:container/cluster:Cluster::c": ""}).pulumi)
