"""The documented training job on a real node: what it is there, its names, what its logs prove."""

import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.gpu_node import overrides, pod_names
from gpu_cluster.rehearsal.gpu_node.overrides import SAMPLE
from gpu_cluster.rehearsal.gpu_node.pytorch import PyTorch
from gpu_cluster.rehearsal.gpu_node.training import Training
from gpu_cluster.rehearsal.real_node.lost_worker import verdict
from gpu_cluster.rehearsal.scenario import Failure
from gpu_cluster.stacks.definition.program import copy_program
from gpu_cluster.stacks.definition.settings import config_of, settings_of
from tests.unit.rehearsal.test_real_node import KUBECONFIG

ROOT = Path(__file__).parents[3]
TORCH = PyTorch(
    python="/opt/torch/bin/python3",
    binary=Path("/usr/bin/python3.12"),
    mounts={"/opt/torch": "/opt/torch", "/machine-libraries": "/usr/lib/x86_64-linux-gnu"},
)
NAME = "first-workers-0-0.first.default.svc.cluster.local"
BEFORE = """\
rank 0: /data has no part-*.pt, made 4096 samples
step 1: loss 30.12345, 1 x NVIDIA H100 80GB HBM3
step 100: wrote /checkpoints/step-000100.pt
"""
AFTER = """\
resumed from step 100
step 101: loss 9.50000, 1 x NVIDIA H100 80GB HBM3
step 600: loss 2.25000, 1 x NVIDIA H100 80GB HBM3
step 600: wrote /checkpoints/step-000600.pt
done: 600 steps
"""


def question(name: str, kind: int) -> bytes:
    """A query as a resolver sends it, with one question."""
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    return struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


def worker(address: str = "198.18.7.10", **spec: Any) -> dict[str, Any]:
    named = {"hostname": "first-workers-0-0", "subdomain": "first", **spec}
    return {"metadata": {"namespace": "default"}, "spec": named, "status": {"podIP": address}}


@pytest.mark.parametrize(
    ("name", "kind", "code", "records"),
    [
        (NAME, 1, 0, ["198.18.7.10"]),
        (NAME.upper(), 1, 0, ["198.18.7.10"]),
        (NAME, 28, 0, []),  # it has no IPv6 address, and exists
        ("first-workers-0-0.first", 1, 3, []),
        ("example.com", 1, 3, []),
    ],
)
def test_a_worker_is_found_by_its_name(name: str, kind: int, code: int, records: list[str]) -> None:
    """Over a socket, as a container's resolver asks; nothing else has a name."""
    pods = [worker(), {"metadata": {"namespace": "default"}, "spec": {}, "status": {}}]
    server = pod_names.PodNames("127.0.0.1", lambda: pods, port=0)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.settimeout(5)
            asker.sendto(question(name, kind), ("127.0.0.1", server.port))
            reply = asker.recv(512)
    finally:
        server.stop()
    number, flags, questions, answers, _, _ = struct.unpack_from("!6H", reply)
    assert (number, flags & 0x8000, flags & 0xF, questions) == (7, 0x8000, code, 1)
    assert reply[12:].startswith(question(name, kind)[12:])
    assert answers == len(records)
    assert [socket.inet_ntoa(reply[-4:]) for _ in range(answers)] == records


def test_the_example_is_a_job_of_the_stack(tmp_path: Path) -> None:
    """It keeps its script, command and image's torchrun; data and PyTorch are claims."""
    program = tmp_path / "program"
    copy_program(ROOT, "onprem", program, overrides.Overrides(pool="gpus", gpus=1))
    how = Training(pytorch=TORCH, folder=tmp_path / "checkpoints")
    how.provide(Recorder(), program)
    overrides.edit(
        program / "Pulumi.onprem.yaml", lambda config: overrides.trained(config, "gpus", how)
    )
    found = settings_of("onprem", config_of("onprem", program), kubeconfig=KUBECONFIG)
    job = found.running["trainingJobs"]["first"]
    assert (job.image, job.nodes, job.queue, job.command) == (SAMPLE, 1, None, ("/code/train.py",))
    assert job.env["PATH"].startswith("/opt/torch/bin:")
    assert job.volumes["code"].files == ("examples/training/train.py",)
    (script,) = job.volumes["code"].contents(program).values()
    assert "resumed from step" in script
    places = {volume.mount_path: volume.existing_claim for volume in job.volumes.values()}
    assert places["/opt/torch"] in how.claims
    assert set(filter(None, places.values())) == set(how.claims)
    assert [name for name, volume in job.volumes.items() if volume.writable] == ["checkpoints"]
    assert set(found.running["workloads"]) == {"gpu-pod-using-device-plugin"}


class Recorder(Api):
    """Keeps what is made."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []

    def create(self, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
        self.made.append(manifest)
        return manifest


def test_claims_are_bound_to_folders_of_the_machine(tmp_path: Path) -> None:
    """Each claim names its volume and the volume its claim, so that no provisioner acts."""
    api, folder = Recorder(), tmp_path / "checkpoints"
    Training(pytorch=TORCH, folder=folder).provide(api, tmp_path)
    assert folder.is_dir()
    volumes, claims = api.made[::2], api.made[1::2]
    for volume, claim in zip(volumes, claims, strict=True):
        name = volume["metadata"]["name"]
        assert volume["spec"]["claimRef"] == {"namespace": "default", "name": name}
        assert (claim["metadata"]["name"], claim["spec"]["volumeName"]) == (name, name)
        assert claim["spec"]["storageClassName"] == volume["spec"]["storageClassName"] == ""
    assert [one["spec"]["hostPath"]["path"] for one in volumes] == [
        str(folder), "/opt/torch", "/usr/lib/x86_64-linux-gnu",
    ]  # fmt: skip


def test_the_logs_prove_that_it_learns_and_resumes() -> None:
    """A line with both losses; a job that starts over, or whose loss does not fall, fails."""
    assert verdict(BEFORE, AFTER) == (
        "loss 30.12345 at step 1, its worker deleted after step 100, resumed from step 100, loss "
        "2.25000 at step 600"
    )
    with pytest.raises(Failure) as error:
        verdict(BEFORE, AFTER.replace("resumed from step 100\n", ""))
    assert error.value.lines[0].startswith("the second worker started over")
    with pytest.raises(Failure) as flat:
        verdict(BEFORE, AFTER.replace("2.25000", "31.0"))
    assert flat.value.lines[0] == (
        "the loss does not decrease: loss 30.12345 at step 1, 31.0 at step 600"
    )
