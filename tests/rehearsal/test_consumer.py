"""`examples/consumer` on the cluster of a rehearsed stack, through the engine and its outputs."""

import json
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from gpu_cluster.rehearsal.control_plane.pods import GPU, phase
from gpu_cluster.rehearsal.engine.engine import Engine, Outcome
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox
from gpu_cluster.stacks.engine.state import resources
from tests.rehearsal.conftest import Sandboxes

STACKS = {"dev": "train-gpu", "autopilot": "t4", "train": "train-gpu", "onprem": "gpus"}
"""One stack of each platform -> the pool that the consumer takes there."""
ORDINARY = ("dev",)
"""What one platform's kubeconfig carries through a stack reference, all do: the others are of the
nightly run."""
ON_ONE = pytest.mark.parametrize("sandbox", ORDINARY, indirect=True)
"""For what does not depend on the platform."""
UP_SECONDS = 90.0
FROM_STAGE = (
    "PATH",
    "PULUMI_BACKEND_URL",
    "PULUMI_DEBUG_PROVIDERS",
    "REHEARSAL_TOKEN_FILE",
    "GPU_CLUSTER_PYTHON",
    "GOOGLE_APPLICATION_CREDENTIALS",
)
"""What the consumer's engine needs of the sandbox: tools, state, simulators, who it is."""


def engine_on(sandbox: Sandbox, program: Path, names: Iterable[str]) -> Engine:
    """An engine for a program in a folder of its own, which has these variables of the sandbox's.
    It has no kubeconfig from the environment: that comes through a stack's output."""
    mark, token = sandbox.mark, sandbox.control_plane.pki.token_file
    engine = Engine(program.parent, program, "dev", providers={}, token_file=token, mark=mark)
    theirs = sandbox.engine.environment
    engine.environment.update({name: theirs[name] for name in names if name in theirs})
    engine.environment["KUBECONFIG"] = os.devnull
    engine.init()
    return engine


class Consumer:
    """The consumer's project, copied, with an engine on the sandbox's backend and simulators."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        program = folder / "program"
        shutil.copytree(ROOT / "examples" / "consumer", program)
        (program / ".venv").symlink_to(ROOT / ".venv")
        self.cluster = f"organization/gpu-cluster/{sandbox.stack}"
        self.stack_file = program / "Pulumi.dev.yaml"
        self.engine = engine_on(sandbox, program, FROM_STAGE)

    def up(self, **config: object) -> Outcome:
        """`pulumi up` with these settings instead of the committed ones."""
        document = yaml.safe_load(self.stack_file.read_text())
        config = {"cluster": self.cluster, "gpus": 1, **config}
        document["config"] |= {f"gpu-consumer:{key}": value for key, value in config.items()}
        self.stack_file.write_text(yaml.safe_dump(document))
        # A job whose pod finds no node would be awaited for half an hour.
        watch = threading.Timer(UP_SECONDS, self.engine.interrupt)
        watch.start()
        try:
            return self.engine.up()
        finally:
            watch.cancel()


pytestmark = pytest.mark.xdist_group("running")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(stack, marks=() if stack in ORDINARY else pytest.mark.prove)
        for stack in STACKS
    ],
)
def sandbox(request: pytest.FixtureRequest, running: Sandboxes) -> Sandbox:
    return running(request.param)


@pytest.fixture(scope="module")
def consumer(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consumer]:
    consumer = Consumer(sandbox, tmp_path_factory.mktemp("consumer"))
    yield consumer
    gone = consumer.engine.destroy()
    assert gone.ok, gone.errors


def declared(outcome: Outcome) -> list[str]:
    """The Kubernetes objects among what changed."""
    return [urn for _, urn in outcome.resources if "::kubernetes:" in urn]


def said(outcome: Outcome) -> str:
    """What the program complained of; the engine adds that it ended."""
    (line,) = [error for error in outcome.errors if "Program exited with non-zero" not in error]
    return line


def test_job_runs_on_a_gpu_node_of_the_named_pool(sandbox: Sandbox, consumer: Consumer) -> None:
    """The consumer's pod runs on a GPU node of the pool, and its kubeconfig is a secret."""
    pool = STACKS[sandbox.stack]
    outcome = consumer.up(pool=pool)
    assert outcome.ok, outcome.errors
    contract = sandbox.engine.outputs()["gpuPools"][pool]
    job = consumer.engine.outputs()["job"]
    api = sandbox.control_plane.api
    pods = [
        pod
        for pod in api.items("/api/v1/namespaces/default/pods")
        if pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == job
    ]
    assert [phase(pod) for pod in pods] == ["succeeded"]
    # As it was seen: on a busy machine it may have left by now.
    nodes = {one["metadata"]["name"]: one for one in sandbox.cluster_cache.gpu_nodes}
    node = nodes[pods[0]["spec"]["nodeName"]]
    assert contract["nodeSelector"].items() <= node["metadata"]["labels"].items()
    # On Autopilot a node is as large as its pod asks for.
    assert 1 <= int(node["status"]["allocatable"][GPU]) <= contract["allocatablePerNode"]
    assert pods[0]["spec"]["containers"][0]["resources"]["limits"] == {GPU: "1"}

    state = resources(consumer.engine.export())
    plain = json.dumps(state)
    assert sandbox.control_plane.endpoint not in plain
    (provider,) = [one for one in state if one["type"] == "pulumi:providers:kubernetes"]
    assert set(provider["inputs"]["kubeconfig"]) > {"ciphertext"}
    (reference,) = [one for one in state if one["type"] == "pulumi:pulumi:StackReference"]
    assert "ciphertext" in reference["outputs"]["outputs"]["kubeconfig"]


@ON_ONE
def test_second_up_changes_nothing(sandbox: Sandbox, consumer: Consumer) -> None:
    """A second `up` of the consumer changes nothing."""
    first = consumer.up(pool=STACKS[sandbox.stack])
    assert first.ok, first.errors
    again = consumer.up(pool=STACKS[sandbox.stack])
    assert again.ok, again.errors
    assert again.changed == 0, again.resources


@ON_ONE
def test_unknown_pool_is_refused_in_one_line(sandbox: Sandbox, consumer: Consumer) -> None:
    """A pool that the stack has not is refused in one line with those that it has."""
    outcome = consumer.up(pool="no-such")
    pools = ", ".join(sorted(sandbox.engine.outputs()["gpuPools"]))
    assert said(outcome) == (
        f"gpu-consumer:pool: 'no-such' is not a pool of {consumer.cluster}; allowed: {pools}"
    )
    assert declared(outcome) == []


@ON_ONE
def test_too_many_gpus_are_refused_in_one_line(sandbox: Sandbox, consumer: Consumer) -> None:
    """More GPUs than a node of the pool has are refused in one line with how many it has."""
    pool = STACKS[sandbox.stack]
    outcome = consumer.up(pool=pool, gpus=99)
    counts = sandbox.engine.outputs()["gpuPools"][pool]["gpusPerPod"]
    assert said(outcome) == (
        f"gpu-consumer:gpus: 99 is not possible for a pod on pool {pool}; allowed: "
        f"{', '.join(map(str, counts))}"
    )
    assert declared(outcome) == []
