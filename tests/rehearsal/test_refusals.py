"""A bad config under the real engine: one line, a failed run, nothing registered, no state.

Only the engine shows what a user sees, and what becomes of the state.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from stacks.definition.files import EXAMPLES
from stacks.engine.urn import Urn
from tests.program.environments import with_changes, without_keys
from tests.rehearsal.conftest import Sandboxes, as_it_was

STACKS = {"dev": "refused_gke.yaml", "train": "refused_eks.yaml"}
ROOT_TYPE = "pulumi:pulumi:Stack"
EVERY = 100
"""Each takes some seconds; the tables as a whole are tested without the engine."""


def config_with(stack: str, changes: list[list[Any]]) -> dict[str, Any]:
    """The stack file's document after changes of its config."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"Pulumi.{stack}.yaml").read_text())
    return document | {"config": with_changes(document["config"], changes)}


@pytest.mark.xdist_group("previews")
@pytest.mark.parametrize("stack", STACKS)
def test_the_engine_shows_one_line_and_registers_nothing(previewing: Sandboxes, stack: str) -> None:
    """Preview and update fail with the table's line, without a traceback; the state stays empty."""
    table = yaml.safe_load(
        (Path(__file__).parents[1] / "unit" / "components" / STACKS[stack]).read_text()
    )
    sandbox = previewing(stack)
    with as_it_was(sandbox) as program:
        for entry in table[::EVERY]:
            text = yaml.safe_dump(config_with(stack, entry["change"]))
            (program / f"Pulumi.{stack}.yaml").write_text(text)
            # Pulumi.yaml requires the block: the engine refuses its absence by itself.
            whole = ["gpu-cluster:cluster", "absent"] in entry["change"]
            says = "missing configuration value 'gpu-cluster:cluster'" if whole else entry["says"]
            for outcome in (sandbox.engine.preview(), sandbox.engine.up()):
                assert not outcome.ok
                assert any(says in without_keys(error) for error in outcome.errors), (
                    says,
                    outcome.errors,
                )
                assert not any("Traceback" in error for error in outcome.errors)
                assert {Urn.parse(urn).type for _, urn in outcome.resources} <= {ROOT_TYPE}
            # The engine itself records the stack's root before the program has said a word.
            assert {resource["type"] for resource in sandbox.engine.resources()} <= {ROOT_TYPE}
    assert sandbox.cloud.list_resources() == []
