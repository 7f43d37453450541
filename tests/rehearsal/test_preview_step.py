"""The step of the workflow that previews a pull request's stacks without credentials."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.sandbox import Sandbox, SandboxOptions
from gpu_cluster.stacks.definition.files import ROOT
from tests.unit.project.test_workflows import WORKFLOWS

STEPS = {step.get("name"): step for step in WORKFLOWS["pull-request"]["jobs"]["check"]["steps"]}
STEP, COMMENT = STEPS["Preview them without credentials"], STEPS["Write the comment"]


@pytest.mark.parametrize("stack", ["train", pytest.param("dev", marks=pytest.mark.prove)])
def test_a_pull_request_is_previewed(stack: str, tmp_path: Path) -> None:
    """Its own script and variables, with the rehearsal's engine and plugins in place of the
    official ones: a plan and a comment are written."""
    expressions = {"runner.temp": str(tmp_path), "steps.changed.outputs.stacks": stack}
    options = SandboxOptions(prestart=False)
    with Sandbox(stack, folder=tmp_path / "sandbox", options=options) as sandbox:
        engine = sandbox.engine.environment
        variables = {name: _filled(text, expressions) for name, text in STEP["env"].items()}
        environment = {
            **engine,
            **variables,
            # The runner has the engine on PATH, and plugins in its home.
            "PATH": os.pathsep.join([str(sandbox.engine.command.parent), engine["PATH"]]),
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_WORKSPACE": str(ROOT),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "BASE": "HEAD",
        }
        said = _run(STEP["run"], environment)
        plan = json.loads((tmp_path / "previews" / f"{stack}.json").read_text())
        diagnostics = plan.get("diagnostics", [])
        assert [each for each in diagnostics if each["severity"] == "error"] == [], said
        assert plan["changeSummary"]["create"] > 20
        comment = COMMENT["run"].replace("comment.md", str(tmp_path / "comment.md"))
        said = _run(comment, environment)
    assert f"<summary>{stack}: " in (tmp_path / "summary").read_text(), said


def _filled(text: str, expressions: dict[str, str]) -> str:
    for name, value in expressions.items():
        text = text.replace(f"${{{{ {name} }}}}", value)
    assert "${{" not in text
    return text


def _run(script: str, environment: dict[str, str]) -> str:
    """As GitHub does, in the checkout."""
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
