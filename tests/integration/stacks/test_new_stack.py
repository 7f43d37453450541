"""A new environment's file is one that the program takes, whatever was chosen."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.catalog import gke
from gpu_cluster.stacks.cost import aws_offers, google_offers
from gpu_cluster.stacks.definition.files import EXAMPLES, ROOT
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.validation import file_findings
from gpu_cluster.stacks.environments.new_stack import Choices, write_stack
from tests.unit.cli.test_stack_schema import complaints


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands look for stack files: one with dev."""
    (tmp_path / "Pulumi.dev.yaml").write_text((EXAMPLES / "Pulumi.dev.yaml").read_text())
    monkeypatch.setenv("GPU_CLUSTER_STACKS", str(tmp_path))
    return tmp_path


def every_choice() -> Iterator[Choices]:
    """Every GPU of every platform, where it is."""
    for offer in google_offers.offers():
        assert offer.zones
        zone = offer.zones[0]
        if not offer.machine.startswith("n1-"):
            yield Choices(platform="gke", gpu=offer.machine, location=zone)
        yield Choices(platform="gke", gpu=offer.gpu, location=gke.region_of(zone))
        if offer.autopilot:
            place = gke.region_of(zone)
            yield Choices(platform="gke-autopilot", gpu=offer.accelerator, location=place)
    for offer in aws_offers.offers():
        yield Choices(platform="eks", gpu=offer.machine, location="us-west-2")
    yield Choices(platform="gke", existing="platform")
    yield Choices(platform="eks", existing="platform")
    yield Choices(platform="existing", gpus_per_node=8, node_label=("gpu", "a100"))


def test_whatever_is_chosen_is_accepted_or_said_in_a_line(here: Path) -> None:
    """Of every machine with a GPU: neither the program nor the schema has anything against it. What
    is sold by reservation or in blocks alone needs more than this file, and none is written."""
    written, reserved = 0, list[str]()
    for choices in every_choice():
        try:
            file, _ = write_stack("x", choices)
        except StackError as error:
            reserved.append(str(error))
            continue
        assert file_findings("x") == []
        assert complaints(yaml.safe_load(file.read_text())) == []
        file.unlink()
        written += 1
    assert written > 100
    assert 0 < len(reserved) < 20
    assert all("which needs additional keys" in said for said in reserved)


def answered(answers: bytes, *options: str) -> tuple[dict[str, Any], str]:
    """The config that follows from these answers in a terminal, and what the command printed."""
    master, slave = pty.openpty()
    os.write(master, answers)
    done = subprocess.run(
        [sys.executable, "-m", "gpu_cluster.cli", "new", "asked", *options, "--json"],
        cwd=ROOT, env=dict(os.environ), stdin=slave, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    os.close(slave)
    os.close(master)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["config"], done.stderr


def test_a_terminal_is_asked(here: Path) -> None:
    """What no option says has a question with a default; other output is not mixed with them."""
    answers = b"\nmy-own-project\neurope-west4-a\nl4\nvpn=198.51.100.0/24\n"
    config, printed = answered(answers)
    assert config["gcp:project"] == "my-own-project"
    assert config["gpu-cluster:cluster"]["location"] == "europe-west4-a"
    assert config["gpu-cluster:cluster"]["authorizedNetworks"] == {"vpn": "198.51.100.0/24"}
    assert config["gpu-cluster:gpuPools"]["gpus"]["machineType"] == "g2-standard-4"
    assert "platform" in printed


def test_an_existing_cluster_is_asked_for_in_its_own_words(here: Path) -> None:
    """Its version and subnets, and nothing that its owner decided."""
    subnets = ["subnet-0123456789abcdef1", "subnet-0123456789abcdef2"]
    answers = f"eks\n1.34\n{', '.join(subnets)}\n\nl4\n".encode()
    config, printed = answered(answers, "--existing", "platform")
    cluster = config["gpu-cluster:cluster"]
    assert cluster["version"] == "1.34"
    assert cluster["network"]["subnetIds"] == subnets
    assert "control plane" not in printed


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--gpu", "t4", "--gpu", "l4", "--yes"], "--gpu is given more than once; give it once"),
        (
            ["--platform", "eks", "--gpu", "l4"],
            "there is no terminal to ask for --admin, ",
        ),
    ],
)
def test_nothing_is_decided_silently(here: Path, options: list[str], says: str) -> None:
    """Neither which of two values counts, nor that examples will do."""
    done = subprocess.run(
        [sys.executable, "-m", "gpu_cluster.cli", "new", "silent", *options],
        cwd=ROOT, env=dict(os.environ), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert says in done.stderr
