"""Whatever the settings accept, the rehearsal's real preview accepts: configs that nobody wrote.

The simulated clouds are strict, and refuse what they do not know: here they are asked more than the
five samples ask.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from rehearsal.sandbox import Sandbox
from tests.program.generated import PLATFORM_STACKS, configs
from tests.program.test_generated import QUICK, refusal
from tests.rehearsal.conftest import entered

FEW, MANY = 3, 30
"""Examples of each platform; one takes some three seconds on two idle cores."""


@pytest.fixture(scope="module", params=PLATFORM_STACKS)
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    """One sandbox for all examples of a platform, where nothing was ever applied."""
    with ExitStack() as sandboxes:
        made = entered(sandboxes, request.param, tmp_path_factory.mktemp(request.param) / "sandbox")
        if made.platform == "existing":  # the pools name it, and a cluster that is there has it
            body = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
            made.control_plane.api.create("/apis/node.k8s.io/v1/runtimeclasses", body)
        yield made


@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.prove)])
def test_a_preview_accepts_what_the_settings_accept(
    sandbox: Sandbox, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No accepted config fails in the preview, on any platform."""
    # What the settings of a cluster that is there are read with here, as in the sandbox.
    monkeypatch.setenv("KUBECONFIG", str(sandbox.control_plane.kubeconfig))
    file = sandbox.folder / "program" / f"Pulumi.{sandbox.stack}.yaml"
    written = file.read_text()
    accepted = configs(sandbox.stack).filter(lambda values: refusal(values) is None)

    @settings(QUICK, max_examples=examples)
    @given(values=accepted)
    def check(values: dict[str, Any]) -> None:
        file.write_text(yaml.safe_dump({"config": values}))
        outcome = sandbox.engine.preview()
        assert outcome.ok, (outcome.errors, values)

    try:
        check()
    finally:
        file.write_text(written)
