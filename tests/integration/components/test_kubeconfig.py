"""The kubeconfigs that stacks hand out, and the simulated GKE plugin that reads the machine's."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpu_cluster.components.gke.kubeconfig import kubeconfig
from gpu_cluster.components.gke.sign_in import identity_warnings
from gpu_cluster.rehearsal.engine.engine import BIN

PLUGIN = BIN / "gke-gcloud-auth-plugin"
ADC = "--use_application_default_credentials"
SIGNED_IN = '{"type": "authorized_user", "refresh_token": "the-token"}'


def plugin(*arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, token and complaint of the simulated plugin."""
    env = {"PATH": os.environ["PATH"], **environment}
    done = subprocess.run([PLUGIN, *arguments], env=env, capture_output=True, text=True)
    token = json.loads(done.stdout)["status"]["token"] if done.stdout else ""
    return done.returncode, token, done.stderr


def test_gke_signs_in_to_the_cluster_as_pulumi_does_to_the_cloud() -> None:
    """One identity for both: the plugin takes Application Default Credentials, never gcloud's."""
    document = json.loads(kubeconfig(name="c", endpoint="192.0.2.1", ca_certificate="Q0E="))
    (user,) = document["users"]
    assert user["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert user["user"]["exec"]["args"] == ["--use_application_default_credentials"]
    assert document["clusters"] == [
        {
            "name": "c",
            "cluster": {"server": "https://192.0.2.1", "certificate-authority-data": "Q0E="},
        }
    ]


def test_the_plugin_takes_gcloud_s_account_where_it_is_not_told_otherwise(tmp_path: Path) -> None:
    """As in life: after `gcloud auth application-default login` alone it has none."""
    file = tmp_path / "adc.json"
    file.write_text(SIGNED_IN)
    code, _, said = plugin(GOOGLE_APPLICATION_CREDENTIALS=str(file), HOME=str(tmp_path))
    assert code == 1
    assert "You do not currently have an active account selected" in said


@pytest.mark.parametrize(
    ("where", "environment"),
    [
        (".config/gcloud/application_default_credentials.json", {}),
        ("elsewhere.json", {"GOOGLE_APPLICATION_CREDENTIALS": "{home}/elsewhere.json"}),
    ],
)
def test_the_plugin_finds_the_credentials_as_google_s_libraries_do(
    tmp_path: Path, where: str, environment: Mapping[str, str]
) -> None:
    """What signing in leaves in the home folder, or the file that a variable names."""
    file = tmp_path / where
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SIGNED_IN)
    given = {name: value.format(home=tmp_path) for name, value in environment.items()}
    assert plugin(ADC, HOME=str(tmp_path), **given)[:2] == (0, "the-token")


def test_the_plugin_does_not_read_what_only_the_provider_reads(tmp_path: Path) -> None:
    """A token in GOOGLE_OAUTH_ACCESS_TOKEN reaches the cloud and not the cluster."""
    code, _, said = plugin(ADC, HOME=str(tmp_path), GOOGLE_OAUTH_ACCESS_TOKEN="t")
    assert code == 1
    assert "could not find default credentials" in said


def test_a_named_file_that_is_gone_is_not_passed_over(tmp_path: Path) -> None:
    """GOOGLE_APPLICATION_CREDENTIALS wins over the home folder, also where it is wrong."""
    code, _, said = plugin(
        ADC, HOME=str(tmp_path), GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "gone.json")
    )
    assert code == 1
    assert "gone.json: no such file" in said


@pytest.mark.parametrize(
    ("config", "environment", "named"),
    [
        ({}, {"GOOGLE_APPLICATION_CREDENTIALS": "adc.json"}, []),
        ({"gcp:project": "my-project", "gcp:credentials": ""}, {"GOOGLE_CREDENTIALS": ""}, []),
        ({"gcp:impersonateServiceAccount": "a@b"}, {}, ["gcp:impersonateServiceAccount"]),
        ({"gcp:accessToken": "t"}, {}, ["gcp:accessToken"]),
        ({"gcp:credentials": "{}"}, {}, ["gcp:credentials"]),
        ({}, {"GOOGLE_OAUTH_ACCESS_TOKEN": "t"}, ["GOOGLE_OAUTH_ACCESS_TOKEN"]),
        ({}, {"GOOGLE_CREDENTIALS": "{}"}, ["GOOGLE_CREDENTIALS"]),
    ],
)
def test_credentials_that_reach_the_cloud_alone_are_warned_of(
    config: Mapping[str, str], environment: Mapping[str, str], named: list[str]
) -> None:
    """The cluster would be made, and bill, before its first object fails."""
    found = identity_warnings(config, environment)
    assert [line.partition(": ")[0] for line in found] == named
    assert all("gcloud auth application-default login" in line for line in found)
