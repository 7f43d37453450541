"""Nodes whose volume for images is created from a snapshot, and one mistake at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.sandbox import SandboxOptions
from tests.program.effects import set_scaler
from tests.rehearsal.conftest import Rehearse, changed, configured, said, whole_life

pytestmark = pytest.mark.prove(reason="rehearsals; test_aws_disk_snapshots.py has EC2's rules")
SNAPSHOT = "snap-0123456789abcdef0"


def images_on_disk(scaler: str = "") -> Callable[[dict[str, Any]], None]:
    """Bottlerocket with a snapshot, launched by this scaler."""

    def configure(config: dict[str, Any]) -> None:
        disk = {"diskSnapshotId": SNAPSHOT, "diskInitializationRate": 300}
        config["gpu-cluster:gpuPools"]["train-gpu"] |= {"os": "bottlerocket", **disk}
        if scaler:
            set_scaler(config, scaler)

    return configure


@pytest.mark.parametrize("scaler", ["", "karpenter"])
def test_nodes_start_with_the_volume_of_a_snapshot(tmp_path: Path, scaler: str) -> None:
    """From no node to one and back; a second up changes nothing, and nothing is left. Upstream's
    Karpenter launches instances with the snapshot and its rate."""
    with whole_life(
        "train", tmp_path / "sandbox", configured(images_on_disk(scaler)),
        options=SandboxOptions(job_seconds=2),
    ) as rehearsal:  # fmt: skip
        if scaler:
            machines = rehearsal.sandbox.cloud.account.backend("ec2").all_instances()  # type: ignore[attr-defined]
            (launched,) = (item.launch_data for item in machines if hasattr(item, "launch_data"))
            volumes = {row["DeviceName"]: row["Ebs"] for row in launched["BlockDeviceMappings"]}
            data = volumes["/dev/xvdb"]
            assert (data["SnapshotId"], int(data["VolumeInitializationRate"])) == (SNAPSHOT, 300)
            assert "SnapshotId" not in volumes["/dev/xvda"]


MAPPINGS = 'props["block_device_mappings"]'
MISTAKES = {
    "a snapshot of the system's volume": (
        f'{MAPPINGS}[0]["ebs"]["snapshot_id"] = {SNAPSHOT!r}',
        "the snapshot of the root device /dev/xvda is fixed",
    ),
    "a rate without a snapshot": (
        f'{MAPPINGS}[1]["ebs"].pop("snapshot_id")',
        "volumeInitializationRate is supported only for volumes from snapshots",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_wrong_thing_about_snapshots_is_named(rehearse: Rehearse, mistake: str) -> None:
    """As Auto Scaling reports it."""
    code, words = MISTAKES[mistake]
    mutation = changed("aws:ec2/launchTemplate:LaunchTemplate", code, name="train-gpu")
    rehearsal = rehearse(configured(images_on_disk()), mutation, stack="train", deadline=60)
    assert any(words in line for line in said(rehearsal)), said(rehearsal)
