"""`gpu-cluster simulate`: a cloud by itself, for programs that know nothing of this project."""

import os
import subprocess
import sys
from pathlib import Path

import boto3
import httplib2
import pytest
from googleapiclient.discovery import build

ROOT = Path(__file__).parents[2]


class Simulated:
    """The command in a process of its own, and what it printed; ends with the context."""

    def __init__(self, cloud: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gpu_cluster.cli", "simulate", cloud],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.environment: dict[str, str] = {}

    def __enter__(self) -> dict[str, str]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, _, value = line.removeprefix("export ").strip().partition("=")
            self.environment[name] = value
            if name == "PULUMI_DEBUG_PROVIDERS":  # the last one
                break
        return self.environment

    def __exit__(self, *_: object) -> None:
        self._process.terminate()  # Ctrl-C is ignored below a shell's `&`
        assert self._process.wait(30) == 0


def test_googles_client_library_meets_a_simulated_google_cloud() -> None:
    """With the printed addresses alone, a foreign program makes a network and finds it."""
    with Simulated("google") as environment:
        base = environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"]
        compute = build(
            "compute", "v1", http=httplib2.Http(), client_options={"api_endpoint": base}
        )
        body = {"name": "net", "autoCreateSubnetworks": False}
        compute.networks().insert(project="p", body=body).execute()
        found = compute.networks().list(project="p").execute()["items"]
        assert [one["name"] for one in found] == ["net"]
        assert environment["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"].startswith("http://127.0.0.1:")


def test_boto3_meets_a_simulated_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the printed environment alone, boto3 makes a network and finds its own account."""
    with Simulated("aws") as environment:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        ec2 = boto3.client("ec2")
        made = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        assert made in [vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"]]
