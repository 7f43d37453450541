"""What the last tagged version made is updated by this one: nothing is replaced.

The states are kept by `python -m quality state-fixtures TAG`; only the engine compares them
with what the program declares now.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpu_cluster.cli.ci.kept_state import opened
from gpu_cluster.rehearsal.sandbox import Sandbox, SandboxOptions
from gpu_cluster.stacks.definition.program import Mutation
from gpu_cluster.stacks.engine.plan import Plan, read_plan
from gpu_cluster.stacks.engine.urn import Urn
from quality.faults.state_fixtures import FIXTURES, restored
from tests import packaged
from tests.integration.cli.test_kept_state import encrypted
from tests.rehearsal.conftest import as_it_was, configured

STATES = sorted(FIXTURES.glob("state-*.json"))
(DEV,) = FIXTURES.glob("state-dev-*.json")
"""The one that every run of the tests looks at."""


Preview = Callable[..., str]


@pytest.fixture(scope="module")
def preview(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preview]:
    """The engine's own words on a kept state, a JSON document a line; one sandbox a stack."""
    with ExitStack() as running:
        made: dict[str, Sandbox] = {}

        def sandbox(stack: str) -> Sandbox:
            if stack not in made:  # One at a time: a process has one simulated AWS.
                running.close()
                made.clear()
                folder = tmp_path_factory.mktemp(stack) / "sandbox"
                new = Sandbox(stack, folder=folder, options=SandboxOptions(scaling=False))
                made[stack] = running.enter_context(new)
            return made[stack]

        def preview(file: Path, mutate: Mutation = lambda program: None) -> str:
            own = sandbox(file.stem.removeprefix("state-").rpartition("-")[0])
            restored(file, own)
            with as_it_was(own) as program:
                mutate(program)
                streamed = {"PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"}
                done = own.engine.run("preview", "--json", **streamed)
            assert done.stdout, done.stderr
            return done.stdout

        yield preview


def planned(preview: Preview, file: Path, *mutations: Mutation) -> Plan:
    """What the program would do to a kept state, and what it warns of."""
    return read_plan(preview(file, *mutations), file.name)


BLOCKS_OF_CONFIG = """
import pulumi
from gpu_cluster.components.settings.blocks import BLOCKS

config = pulumi.Config("gpu-cluster")
keys = ("cluster", "gpuPools", *BLOCKS)
blocks = {key: value for key in keys if (value := config.get_object(key))}
"""
IN_PYTHON = """
from gpu_cluster import GpuStack

GpuStack("gpus", blocks)
"""
IN_ANY_LANGUAGE = """
pulumi.ComponentResource("gpu-cluster:index:GpuStack", "gpus", blocks, remote=True)
"""
PACKAGE = """
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu_cluster.components.plugin import serve

serve()
"""
"""The component package, from the program's own copy of the components."""


def as_component(program: Path) -> None:
    """Declares the stack as a component, instead of at the root of the program."""
    (program / "__main__.py").write_text(BLOCKS_OF_CONFIG + IN_PYTHON)


def through_the_package(program: Path) -> None:
    """The same as programs in other languages do it: the engine starts a plugin."""
    (program / "__main__.py").write_text(BLOCKS_OF_CONFIG + IN_ANY_LANGUAGE)
    folder = program / "package"
    folder.mkdir()
    (folder / "PulumiPlugin.yaml").write_text("runtime: python\n")
    (folder / "__main__.py").write_text(PACKAGE)
    packaged.as_a_plugin(program)


OF_EVERY_STATE = pytest.mark.parametrize(
    "file",
    [
        pytest.param(state, id=state.stem, marks=[] if state == DEV else pytest.mark.prove)
        for state in STATES
    ],
    scope="module",  # every test of a state, then those of the next
)


@OF_EVERY_STATE
def test_nothing_is_replaced(preview: Preview, file: Path) -> None:
    """Neither a cluster nor a pool nor anything in it, and most resources are left alone."""
    plan = planned(preview, file)
    assert plan.errors == []
    assert plan.count("replace") == plan.count("delete") == 0
    assert plan.same >= len(plan.changes)


@OF_EVERY_STATE
@pytest.mark.parametrize(
    "mutation",
    [through_the_package, pytest.param(as_component, marks=pytest.mark.prove)],
    ids=["package", "python"],
)
def test_a_stack_becomes_a_component(preview: Preview, file: Path, mutation: Mutation) -> None:
    """What was at the root of the program is the same resource below a `GpuStack`."""
    plan = planned(preview, file, mutation)
    assert plan.errors == []
    assert plan.count("replace") == plan.count("delete") == 0
    component = "urn:pulumi:{0}::gpu-cluster::gpu-cluster:index:GpuStack::gpus"
    created = [change.urn for change in plan.changes if change.verb == "create"]
    assert component.format(Urn.parse(created[0]).stack) in created


def test_a_pool_made_anew_would_be_seen(preview: Preview) -> None:
    """The same comparison finds a pool that now has another GPU, and the program says so."""

    def other_card(config: dict) -> None:
        config["gpu-cluster:gpuPools"]["train-gpu"]["accelerator"] = "nvidia-tesla-v100"

    plan = planned(preview, DEV, configured(other_card))
    (loss,) = plan.losses
    assert (loss.loss, loss.name) == ("GPU pool", "train-gpu")
    assert loss.paths == ("nodeConfig.guestAccelerators[0].type",)
    assert [line for line in plan.warnings if " replaces " in line] == [
        "gpuPools.train-gpu.accelerator: nvidia-tesla-t4 -> nvidia-tesla-v100 replaces the GPU "
        "pool: its nodes are deleted, and the pods on them start again [GPUC-REPLACE-GPU-POOL]"
    ]


def test_what_no_cloud_can_change_is_refused_in_the_preview(preview: Preview) -> None:
    """Google would refuse other addresses for pods half way through the update."""

    def other_addresses(config: dict) -> None:
        config["gpu-cluster:cluster"]["network"] = {"podsCidr": "10.32.0.0/14"}

    plan = planned(preview, DEV, configured(other_addresses))
    assert "cluster.network.podsCidr: 10.16.0.0/14 -> 10.32.0.0/14 cannot change while" in "".join(
        plan.errors
    )


def test_a_state_without_its_secrets_is_previewed(tmp_path: Path, preview: Preview) -> None:
    """As a pull request does it, without anybody's key: no provider refuses what stands for them,
    and nothing is replaced."""
    file = tmp_path / DEV.name
    file.write_text(json.dumps(opened(encrypted(json.loads(DEV.read_text())))))
    plan = planned(preview, file)
    assert plan.errors == []
    assert plan.count("replace") == plan.count("delete") == 0
