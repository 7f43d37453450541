"""What the last tagged version made is updated by this one: nothing that matters is made anew.

The states are kept by `python -m prove.released TAG`; only the engine compares them with what the
program declares now.
"""

import subprocess
from pathlib import Path

import pytest

from checks.plan import Plan, read_plan
from prove.released import FIXTURES, restored
from rehearsal.program import Mutation
from rehearsal.stage import Stage
from tests.rehearsal.conftest import configured

STATES = sorted(FIXTURES.glob("state-*.json"))
QUICK = "state-dev-"
"""The one that every run of the tests looks at."""


def planned(folder: Path, file: Path, mutate: Mutation | None = None) -> Plan:
    """What the program would do to a kept state."""
    stack = file.stem.removeprefix("state-").rpartition("-")[0]
    with Stage(stack, folder=folder / "stage", mutate=mutate) as stage:
        restored(file, stage)
        done = subprocess.run(
            [stage.engine.cli, "preview", "--stack", stack, "--json", "--non-interactive"],
            cwd=stage.folder / "program",
            env={**stage.engine.environment, "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"},
            capture_output=True,
            text=True,
        )
    assert done.stdout, done.stderr
    plan = read_plan(done.stdout, file.name)
    assert plan.errors == []
    return plan


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(
            each, id=each.stem, marks=[] if each.name.startswith(QUICK) else pytest.mark.prove
        )
        for each in STATES
    ],
)
def test_nothing_that_matters_is_made_anew(tmp_path: Path, file: Path) -> None:
    """Neither a cluster nor a node pool, and most resources are left alone."""
    plan = planned(tmp_path, file)
    assert plan.losses == []
    assert plan.same > len(plan.changes)


def test_a_pool_made_anew_would_be_seen(tmp_path: Path) -> None:
    """The same comparison finds a pool that this version declares with another card."""
    (file,) = (each for each in STATES if each.name.startswith(QUICK))
    plan = planned(tmp_path, file, configured(_other_card))
    assert [(change.loss, change.name) for change in plan.losses] == [("GPU pool", "train-gpu")]


def _other_card(config: dict) -> None:
    config["gpu-cluster:gpuPools"]["train-gpu"]["accelerator"] = "nvidia-tesla-v100"
