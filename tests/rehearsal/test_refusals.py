"""A bad config under the real engine: one line, a failed run, nothing registered, no state.

Only the engine shows what a user sees, and what becomes of the state. What is refused, and in which
words, tests/unit/components has in tables.
"""

import pytest

from gpu_cluster.stacks.engine.urn import Urn
from tests.rehearsal.conftest import Sandboxes, as_it_was, configured

ROOT_TYPE = "pulumi:pulumi:Stack"
SAYS = "gpu-cluster:cluster.name: 5 is not a string; put it in quotes"


@pytest.mark.xdist_group("previews")
def test_the_engine_shows_one_line_and_registers_nothing(previewing: Sandboxes) -> None:
    """Preview and update fail with it, without a traceback; the state stays empty."""
    sandbox = previewing("dev")
    with as_it_was(sandbox) as program:
        configured(lambda config: config["gpu-cluster:cluster"].update(name=5))(program)
        for outcome in (sandbox.engine.preview(), sandbox.engine.up()):
            assert not outcome.ok
            assert any(SAYS in error for error in outcome.errors), outcome.errors
            assert not any("Traceback" in error for error in outcome.errors)
            assert {Urn.parse(urn).type for _, urn in outcome.resources} <= {ROOT_TYPE}
    # The engine itself records the stack's root before the program has said a word.
    assert {resource["type"] for resource in sandbox.engine.resources()} <= {ROOT_TYPE}
    assert sandbox.cloud.list_resources() == []
