"""The steps to Google Cloud: what they enable and install is what the stacks need."""

import re

import pulumi
import pytest

from tests.components.recording import record
from tests.program.environments import ROOT, config_of, recorded, run_program, values_of

APIS = {
    "gcp:container/": "container.googleapis.com",
    "gcp:compute/": "compute.googleapis.com",
    "gcp:serviceaccount/": "iam.googleapis.com",
    "gcp:projects/iAMMember": "cloudresourcemanager.googleapis.com",
    "gcp:monitoring/": "monitoring.googleapis.com",
}
"""Beginning of a resource type -> the API that makes it."""
STEPS = (ROOT / "docs" / "getting-started" / "gke.md").read_text()


@pytest.mark.parametrize("stack", ["dev", "train-gke", "autopilot"])
def test_the_steps_enable_every_api_that_a_stack_uses(stack: str) -> None:
    """An API that is off fails the update half way, with a cluster that bills."""
    enabled = set(re.findall(r"[a-z]+\.googleapis\.com", STEPS))
    update = recorded(values_of(stack))
    used = {resource.type for resource in update.resources if resource.type.startswith("gcp:")}
    for token in used:
        (api,) = [api for start, api in APIS.items() if token.startswith(start)]
        assert api in enabled, token


def test_the_steps_sign_in_whom_the_cluster_s_plugin_asks_for() -> None:
    """The plugin is installed, and gets Application Default Credentials."""
    assert "gcloud components install gke-gcloud-auth-plugin" in STEPS
    assert "\n$ gcloud auth login --update-adc " in STEPS


def test_a_preview_warns_of_credentials_that_do_not_reach_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is made, and by name."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda line, *_: said.append(line))
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "t")
    for stack in ("dev", "autopilot"):
        record(run_program, config=config_of(stack), preview=True)
    assert sum(line.startswith("GOOGLE_OAUTH_ACCESS_TOKEN: signs in") for line in said) == 2


def test_a_preview_warns_of_a_server_that_the_stack_file_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The provider would send its credentials there."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda line, *_: said.append(line))
    monkeypatch.delenv("CI", raising=False)
    config = {**config_of("dev"), "gcp:containerCustomEndpoint": "https://theirs.example/"}
    record(run_program, config=config, preview=True)
    assert [line for line in said if line.startswith("gcp:containerCustomEndpoint: sends requests")]
