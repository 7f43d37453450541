"""A new environment's file is one that the program takes, whatever was chosen."""

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.cli.main import main
from gpu_cluster.components.eks.cluster_args import DEFAULT_VERSION
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.stacks.definition.files import EXAMPLES, ROOT
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.environments.new_stack import Choices, stack_text, write_stack
from gpu_cluster.stacks.outcome import ExitCode

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands look for stack files: one with dev."""
    (tmp_path / "Pulumi.dev.yaml").write_text((EXAMPLES / "Pulumi.dev.yaml").read_text())
    monkeypatch.setenv("GPU_CLUSTER_STACKS", str(tmp_path))
    return tmp_path


def made(capsys: pytest.CaptureFixture[str], line: str) -> Any:
    """The config that the command writes with these options."""
    assert main(["new", *line.split(), "--json"]) == ExitCode.OK
    return json.loads(capsys.readouterr().out)["config"]


@pytest.mark.parametrize("platform", ["gke", "gke-autopilot", "eks", "existing"])
def test_defaults_make_a_file(here: Path, platform: str) -> None:
    """With nothing but a platform; the first line names the schema, and the lines are short."""
    assert main(["new", "staging", "--platform", platform, "--yes"]) == ExitCode.OK
    lines = (here / "Pulumi.staging.yaml").read_text().splitlines()
    assert lines[0].endswith(os.path.relpath(ROOT / "docs/reference/stack.schema.json", here))
    assert all(len(line) <= 120 for line in lines)
    config = yaml.safe_load("\n".join(lines))["config"]
    assert config["gpu-cluster:cluster"]["name"] == "gpu-staging"
    if platform != "existing":
        assert config["gpu-cluster:cluster"]["deletionProtection"] is True


@pytest.mark.parametrize("row", [name for name, row in PLATFORMS.items() if row.environment])
def test_lines_are_whole_without_options(row: str) -> None:
    """No two blanks inside one, and a value after each option: what is not given has a default."""
    existing = "platform" if PLATFORMS[row].added else ""
    platform = row.removesuffix("-existing")
    lines = stack_text("s", Choices(platform=platform, existing=existing)).splitlines()
    assert not [line for line in lines if re.search(r"\S  |--[\w-]+ *(?:$|--)", line)]


def test_options_are_taken(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And JSON says what was written."""
    line = "s --platform eks --location eu-west-1 --gpu l4 --max-nodes 5 --name mine"
    line += " --zone euw1-az1 --zone euw1-az2 --network vpn=198.51.100.0/24"
    line += " --network home=192.0.2.7/32 --admin arn:aws:iam::210987654321:user/me"
    config = made(capsys, line)
    assert config["aws:region"] == "eu-west-1"
    assert config["gpu-cluster:cluster"] == {
        "platform": "eks",
        "name": "mine",
        "admins": ["arn:aws:iam::210987654321:user/me"],
        "authorizedNetworks": {"vpn": "198.51.100.0/24", "home": "192.0.2.7/32"},
        "deletionProtection": True,
        "network": {"zones": ["euw1-az1", "euw1-az2"]},
    }
    assert config["gpu-cluster:gpuPools"] == {
        "gpus": {"instanceTypes": ["g6.xlarge"], "maxNodes": 5, "zones": ["euw1-az1"]}
    }


def test_pools_on_an_existing_gke_cluster(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of the cluster is in the file but where it is; two stacks can share it."""
    line = "--platform gke --existing platform --project mine-1 --location us-central1-a --gpu l4"
    line += " --kubernetes-version 1.35"
    config = made(capsys, f"a {line}")
    assert main(["new", "b", *line.split()]) == ExitCode.OK
    assert config["gcp:project"] == "mine-1"
    assert config["gpu-cluster:cluster"] == {
        "platform": "gke",
        "existing": "platform",
        "location": "us-central1-a",
        "version": "1.35",
    }
    assert config["gpu-cluster:gpuPools"]["gpus"]["machineType"] == "g2-standard-4"
    assert "yours instead" not in (here / "Pulumi.a.yaml").read_text()


def test_pools_on_an_existing_eks_cluster(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its version, subnets and security groups; what is left out is marked, and what is given
    is not, even if the default is the same."""
    line = "a --platform eks --existing platform --location us-east-1"
    line += f" --kubernetes-version {DEFAULT_VERSION}"
    line += "".join(f" --subnet-id {subnet}" for subnet in SUBNETS)
    config = made(capsys, f"{line} --security-group-id sg-0123456789abcdef0 --yes")
    assert config["gpu-cluster:cluster"] == {
        "platform": "eks",
        "existing": "platform",
        "version": DEFAULT_VERSION,
        "network": {"subnetIds": SUBNETS, "securityGroupIds": ["sg-0123456789abcdef0"]},
        "autoscaler": {},
    }
    pool = config["gpu-cluster:gpuPools"]["gpus"]
    assert pool["subnetIds"] == SUBNETS[:1]
    assert pool["nodeRepair"] == {"enabled": False}
    assert "yours instead" not in (here / "Pulumi.a.yaml").read_text()
    assert main(["new", "b", "--platform", "eks", "--existing", "platform", "--yes"]) == ExitCode.OK
    # The region, the version and the subnets.
    assert "change the 3 lines that say `yours instead of this example`" in capsys.readouterr().out


SUBNETS = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]


def test_a_private_control_plane_in_an_existing_network(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On either cloud, from options alone, and as the program takes it."""
    line = "a --platform eks --network vpn=10.8.0.0/16 --private-endpoint --yes"
    config = made(capsys, line + "".join(f" --subnet-id {subnet}" for subnet in SUBNETS))
    assert config["gpu-cluster:cluster"]["privateEndpoint"] is True
    assert config["gpu-cluster:cluster"]["authorizedNetworks"] == {"vpn": "10.8.0.0/16"}
    assert config["gpu-cluster:cluster"]["network"] == {"subnetIds": SUBNETS}
    assert config["gpu-cluster:gpuPools"]["gpus"]["subnetIds"] == SUBNETS[:1]
    line = "b --platform gke --private-endpoint --vpc shared --subnetwork gke --yes"
    line += " --pods-range pods --services-range services --host-project company-net"
    cluster = made(capsys, line)["gpu-cluster:cluster"]
    assert cluster["privateEndpoint"] is True
    assert "authorizedNetworks" not in cluster
    assert cluster["network"] == {
        "hostProject": "company-net",
        "vpc": "shared",
        "subnetwork": "gke",
        "podsRange": "pods",
        "servicesRange": "services",
    }


@pytest.mark.parametrize(("options", "says"), TABLE["test_what_would_be_refused_is_not_written"])
def test_what_would_be_refused_is_not_written(
    here: Path, capsys: pytest.CaptureFixture[str], options: str, says: str
) -> None:
    """In one line for each mistake, with what there is instead."""
    assert main(["new", "x", "--yes", *options.split()]) == ExitCode.UNKNOWN
    said = capsys.readouterr().err.splitlines()
    assert says in said[0]
    assert len(said) == (3 if options.endswith("--subnet-id a") and "zone" in options else 1)
    assert not (here / "Pulumi.x.yaml").exists()


def test_an_example_that_is_accepted_at_a_prompt_is_marked(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enter at every question leaves the example in the file, and an answer does not."""
    for answers, marked in (("\n" * 9, 2), ("gke\nmine-1\n\n\nvpn=198.51.100.0/24\n", 0)):
        terminal = io.StringIO(answers)
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", terminal)
        assert main(["new", f"x{marked}"]) == ExitCode.OK
        assert (here / f"Pulumi.x{marked}.yaml").read_text().count("yours instead") == marked


def test_an_answer_that_would_be_refused_is_asked_for_again(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, in the words of the setting, and before the next question."""
    role = "arn:aws:iam::210987654321:role/pulumi"
    terminal = io.StringIO(f"eks\narn:x\n{role}\nmars\n\nt5\nl4\noffice=1.2.3\n\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", terminal)
    assert main(["new", "x"]) == ExitCode.OK
    asked = re.findall("(?m)(?:^|: )Error: (.{14})", capsys.readouterr().err)
    assert asked == ["'arn:x' is not", "'mars' is not ", "'t5' is not a ", "'1.2.3' is not"]
    assert role in (here / "Pulumi.x.yaml").read_text()


def test_no_file_is_written_over(here: Path) -> None:
    """Neither by the same name nor where somebody else is faster."""
    before = (here / "Pulumi.dev.yaml").read_text()
    with pytest.raises(StackError, match="already exists"):
        write_stack("dev", Choices(platform="gke"))
    assert (here / "Pulumi.dev.yaml").read_text() == before


def test_a_value_that_yaml_would_read_otherwise_is_quoted() -> None:
    """Nothing that a user says becomes another key."""
    written = stack_text(
        "x", Choices(platform="existing", node_label=("a", "true # b: c"), name="on")
    )
    config = yaml.safe_load(written)["config"]
    assert config["gpu-cluster:cluster"]["name"] == "on"
    assert config["gpu-cluster:gpuPools"]["gpus"]["nodeSelector"] == {"a": "true # b: c"}
