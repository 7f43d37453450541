"""Which plugin serves a package in a rehearsal, and what the report says of it."""

from pathlib import Path

import pytest

from gpu_cluster import tools
from gpu_cluster.rehearsal.engine import provider_plugins
from gpu_cluster.rehearsal.engine.provider_plugins import POINTED, chosen
from gpu_cluster.rehearsal.plugins import official
from gpu_cluster.stacks.outcome import CheckError


@pytest.fixture(autouse=True)
def sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (official, provider_plugins):
        monkeypatch.setattr(module, "sdk_version", lambda package: "4.34.2")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A user's environment without any plugin."""
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path))
    return {"PATH": str(tmp_path), "PULUMI_HOME": str(tmp_path)}


def cached(home: dict[str, str], package: str, version: str) -> Path:
    folder = Path(home["PULUMI_HOME"], "plugins", f"resource-{package}-v{version}")
    folder.mkdir(parents=True)
    file = folder / f"pulumi-resource-{package}"
    file.touch()
    return file


def test_auto_takes_the_official_one_where_its_major_version_is_the_sdk_s(
    home: dict[str, str],
) -> None:
    assert chosen(["kubernetes"], "auto", home)["kubernetes"].words == "offline plugin for 4.34.2"
    file = cached(home, "kubernetes", "4.32.0")
    plugin = chosen(["kubernetes"], "auto", home)["kubernetes"]
    assert (plugin.program, plugin.words) == (file, "official plugin 4.32.0")
    assert chosen(["kubernetes"], "offline", home)["kubernetes"].program is None


def test_one_that_was_found_and_not_used_is_in_the_report(home: dict[str, str]) -> None:
    cached(home, "kubernetes", "3.0.0")
    words = chosen(["kubernetes"], "auto", home)["kubernetes"].words
    assert words.startswith("offline plugin for 4.34.2 (")
    assert words.endswith("pulumi-resource-kubernetes is of version 3.0.0, the SDK of 4.34.2)")


def test_official_fails_in_one_line_where_none_is_installed(home: dict[str, str]) -> None:
    with pytest.raises(CheckError, match=r"^--plugins official: no official plugin pulumi-r\S+ is"):
        chosen(["gcp", "kubernetes"], "official", home)


def test_the_one_that_is_built_here_is_used_only_where_official_ones_are_asked_for(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is older than the SDK. An installed one comes first."""
    built = tmp_path / "pulumi-resource-kubernetes"
    monkeypatch.setattr(official, "_asked", lambda program: "v4.0.0-20260115033456-f47bc2d6f199")
    monkeypatch.setattr(tools, "binary", {built.name: built}.__getitem__)
    assert chosen(["kubernetes"], "auto", home)["kubernetes"].program is None
    plugin = chosen(["kubernetes"], "official", home)["kubernetes"]
    assert (plugin.program, plugin.words) == (
        built,
        "official plugin v4.0.0-20260115033456-f47bc2d6f199",
    )
    file = cached(home, "kubernetes", "4.32.0")
    assert chosen(["kubernetes"], "official", home)["kubernetes"].program == file


def test_google_s_official_plugin_is_pointed_at_the_simulated_apis(home: dict[str, str]) -> None:
    """By the environment that its simulator names; the one of Kubernetes needs none."""
    cached(home, "gcp", "4.40.0")
    assert chosen(["gcp"], "auto", home)["gcp"].words == "official plugin 4.40.0"
    points = {"GOOGLE_CONTAINER_CUSTOM_ENDPOINT": "http://127.0.0.1:1/container/v1beta1/"}
    assert POINTED["gcp"](points) == points
    assert POINTED["kubernetes"](points) == {}


def test_the_official_aws_plugin_is_used_only_where_it_is_asked_for(home: dict[str, str]) -> None:
    """It never ran in a rehearsal, and the report says how to try it."""
    cached(home, "aws", "4.40.0")
    assert chosen(["aws"], "auto", home)["aws"].words == (
        "offline plugin for 4.34.2 (official plugin 4.40.0 has never been used in a rehearsal; "
        "use --plugins official tries it)"
    )
    assert chosen(["aws"], "official", home)["aws"].words == "official plugin 4.40.0"


def test_the_official_aws_plugin_reaches_the_simulated_account_alone(home: dict[str, str]) -> None:
    """With its address and keys, and without those of the machine that it runs on."""
    points = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1/", "AWS_ACCESS_KEY_ID": "simulated"}
    assert POINTED["aws"](points) == {**points, "AWS_EC2_METADATA_DISABLED": "true"}
    with pytest.raises(CheckError, match="no official plugin pulumi-resource-aws is installed"):
        chosen(["aws"], "official", home)
