"""The comment on a pull request, made of what the real engine prints."""

import subprocess
from pathlib import Path

import pytest

from gpu_cluster.cli.ci.preview_comment import comment, exit_code, sections_of
from gpu_cluster.rehearsal.run import POLICIES
from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.stacks.outcome import ExitCode
from gpu_cluster.tools import pulumi
from tests.rehearsal.conftest import Sandboxes, as_it_was, configured

STREAM = {"PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"}


pytestmark = pytest.mark.xdist_group("running")


@pytest.fixture(scope="module")
def sandbox(running: Sandboxes) -> Sandbox:
    """The dev stack, up."""
    return running("dev")


def previewed(sandbox: Sandbox, folder: Path, more: dict[str, str], **cluster: object) -> str:
    """The comment on a preview with other settings of the cluster, and its exit code."""
    with as_it_was(sandbox) as program:
        configured(lambda config: config["gpu-cluster:cluster"].update(cluster))(program)
        done = subprocess.run(
            [pulumi()[0], "preview", "--stack", "dev", "--json", "--non-interactive",
             "--policy-pack", POLICIES],
            cwd=program,
            env={**sandbox.engine.environment, **more},
            capture_output=True,
            text=True,
        )  # fmt: skip
    (folder / "dev.json").write_text(done.stdout)
    sections = sections_of(folder, None)
    return f"{comment(sections)}\nexit {exit_code(sections)}"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        # The document has no reason for what is deleted before its subnetwork is replaced.
        pytest.param({}, "together with what it depends on", id="document"),
        pytest.param(STREAM, "because of `subnetwork`", id="events"),
    ],
)
def test_a_replaced_cluster_stands_at_the_top(
    sandbox: Sandbox, tmp_path: Path, more: dict[str, str], why: str
) -> None:
    """Other addresses for the nodes replace the cluster and every pool: the comment says it first,
    from either format of the engine's output."""
    said = previewed(sandbox, tmp_path, more, network={"nodesCidr": "10.1.0.0/20"})
    first = said[: said.index("| stack |")]
    assert f"the cluster `gpu-dev` would be replaced** {why}" in first
    assert "the GPU pool `train-gpu` would be replaced" in first
    assert said.endswith(f"exit {ExitCode.FINDING}")


@pytest.mark.prove(reason="31 s of a processor; tests/policy has the rules")
def test_what_a_policy_says_is_in_the_comment(sandbox: Sandbox, tmp_path: Path) -> None:
    """A preview that a mandatory rule refuses is a failed one, with the rule's own words."""
    said = previewed(
        sandbox, tmp_path, STREAM, systemPool={"machineType": "n2-standard-32", "maxNodes": 20}
    )
    assert "policy monthly-ceiling: the machines of all pools cost $" in said
    assert said.endswith(f"exit {ExitCode.UNKNOWN}")
