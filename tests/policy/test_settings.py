"""What a user sets of the rules: `policy/config.json`, its mistakes, and that it takes effect."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_policy import EnforcementLevel

from gpu_cluster.policy import settings
from gpu_cluster.policy.pack import RULES, policies
from tests.policy.cases import RESOURCES, changed, findings, in_stack

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

ROOT = Path(__file__).parents[2]


def said(given: dict[str, Any], rule: str, *resources: Any) -> list[str]:
    """What the rule says under these settings."""
    return findings(rule, resources, settings=given)


def test_the_committed_settings_are_good() -> None:
    """The file beside the rules names rules and settings that there are; a user edits it."""
    assert settings.checked(json.loads(settings.FILE.read_text()), RULES, "x") is not None


def test_a_ceiling_and_a_stack_that_keeps_nodes_are_settings() -> None:
    """By stack, without a flag of the engine, in the words of the message that refuses."""
    dear = in_stack(
        changed(RESOURCES["t4-pool"], ("autoscaling", "totalMaxNodeCount"), 40), "staging"
    )
    (advice,) = said({}, "ceiling-confirmed", dear)
    assert said({}, "monthly-ceiling", dear) == []
    assert '"monthly-ceiling": {"stacks": {"staging": 15768}} in policy/config.json' in advice
    ceilings = {"monthly-ceiling": {"dollars": 1, "stacks": {"stag*": 20_000}}}
    assert said(ceilings, "monthly-ceiling", dear) == []
    assert said(ceilings, "ceiling-confirmed", dear) == []
    dearer = in_stack(
        changed(RESOURCES["t4-pool"], ("autoscaling", "totalMaxNodeCount"), 60), "staging"
    )
    (refusal,) = said(ceilings, "monthly-ceiling", dearer)
    assert "confirm the new amount" in refusal
    running = in_stack(
        changed(RESOURCES["t4-pool"], ("autoscaling", "totalMinNodeCount"), 1), "serving"
    )
    (refusal,) = said({}, "gpu-pool-minimum", running)
    assert "policy/config.json (gpu-pool-minimum: stacks; now prod" in refusal
    assert said({"gpu-pool-minimum": {"stacks": ["serving"]}}, "gpu-pool-minimum", running) == []


@pytest.mark.parametrize("stacks", [{"stacks": {}}, {"stacks": {"prod": 50_000}}, {}])
def test_a_file_with_dollars_refuses_every_stack_above_them(stacks: dict[str, Any]) -> None:
    """A file of an earlier version, which users have committed, lets no stack of any price pass."""
    dear = in_stack(
        changed(RESOURCES["t4-pool"], ("autoscaling", "totalMaxNodeCount"), 40), "staging"
    )
    ceilings = {"monthly-ceiling": {"dollars": 10_000, **stacks}}
    (refusal,) = said(ceilings, "monthly-ceiling", dear)
    assert "$10,000 is confirmed for stack staging" in refusal
    assert said(ceilings, "ceiling-confirmed", dear) == []


def test_a_rule_may_be_advice() -> None:
    """The engine's own word for it sets how much a rule weighs."""
    (policy,) = [
        one
        for one in policies({"image-pinned": {"enforcementLevel": "advisory"}})
        if one.name == "image-pinned"
    ]
    assert policy.enforcement_level is EnforcementLevel.ADVISORY


@pytest.mark.parametrize(("text", "message"), TABLE["test_a_mistake_is_one_line"])
def test_a_mistake_is_one_line(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the file, the key, what was given and what is allowed."""
    file = tmp_path / "f"
    file.write_text(text)
    monkeypatch.setenv(settings.ELSEWHERE, str(file))
    with pytest.raises(ValueError, match="f: ") as error:
        settings.read_settings(RULES)
    said = str(error.value).replace(f"{tmp_path}/", "")
    assert said.startswith(message)
    assert "\n" not in said


def test_the_pack_ends_with_that_line(tmp_path: Path) -> None:
    """As the engine starts it: no traceback. The settings are those of the pack's own folder, so
    that a project that uses the package has its own."""
    shutil.copytree(ROOT / "policy", pack := tmp_path / "policy")
    (file := pack / "config.json").write_text('{"monthly-ceiling": {"dolars": 5}}')
    command = [sys.executable, str(pack / "__main__.py")]
    done = subprocess.run(command, env={}, capture_output=True, text=True, cwd=pack)
    assert done.returncode != 0
    assert done.stderr.splitlines() == [
        f"policy: {file}: monthly-ceiling.dolars: there is no such setting; did you mean dollars?"
    ]


def test_a_missing_file_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever deletes it learns which one is meant."""
    monkeypatch.setenv(settings.ELSEWHERE, str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"none: cannot be read: No such file or directory$"):
        settings.read_settings(RULES)
