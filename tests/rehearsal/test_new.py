"""What `gpu-cluster new` writes rehearses: the program previews it, and its pods get their GPUs."""

from pathlib import Path

import pytest

from gpu_cluster.rehearsal.sandbox import Sandbox, SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.environments.new_stack import Choices, stack_text
from tests.rehearsal.own_stacks import folder_of


@pytest.mark.prove(
    reason="tests/program/test_new.py runs the program on what it writes, unsimulated"
)
@pytest.mark.parametrize(
    "choices",
    [
        Choices(platform="gke", gpu="l4", location="europe-west4"),
        Choices(platform="eks", gpu="l4", location="us-west-2"),
        Choices(platform="gke-autopilot"),
        Choices(platform="existing", gpus_per_node=2),
        Choices(platform="gke", existing="platform"),
        Choices(platform="eks", existing="platform"),
    ],
    ids=lambda choices: choices.row,
)
def test_a_new_environment_rehearses(tmp_path: Path, choices: Choices) -> None:
    """From nothing to a job that has had its GPU, and a second `up` that changes nothing."""
    source = folder_of("staging", tmp_path, stack_text("staging", choices))
    options = SandboxOptions(inventories=tmp_path)
    with Sandbox("staging", source=source, folder=tmp_path / "sandbox", options=options) as sandbox:
        run = Rehearsal(sandbox=sandbox)
        assert run.run_until_ready(), run.failures
