"""A pod that needs more than the volume has, on the local disks of its node."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.sandbox import SandboxOptions
from tests.program.effects import set_scaler
from tests.rehearsal.conftest import Rehearse, changed, configured, said, whole_life

pytestmark = pytest.mark.prove(
    reason="rehearsals; test_aws_first_boot.py and test_google_node_pool.py have what nodes do"
)


def a_large_pod(scaler: str = "", os: str = "al2023") -> Callable[[dict[str, Any]], None]:
    """A job that asks for 500 GiB of disk, on a machine with a volume of 100 and disks of 838."""

    def configure(config: dict[str, Any]) -> None:
        pool = {"instanceTypes": ["g5.8xlarge"], "maxNodes": 1, "os": os, "localStorage": "raid0"}
        config["gpu-cluster:gpuPools"] = {"train-gpu": pool}
        job = {"kind": "job", "pool": "train-gpu", "gpus": 1, "wait": True}
        job |= {
            "image": "docker.io/library/busybox:1.37",
            "requests": {"ephemeralStorage": "500Gi"},
        }
        config["gpu-cluster:workloads"] = {"large": job}
        for key in ("batch", "trainingJobs"):
            config.pop(f"gpu-cluster:{key}", None)
        if scaler:
            set_scaler(config, scaler)

    return configure


@pytest.mark.parametrize(
    ("scaler", "os"), [("", "al2023"), ("", "bottlerocket"), ("karpenter", "al2023")]
)
def test_a_large_pod_starts_a_node_with_local_disks(
    rehearse: Rehearse, scaler: str, os: str
) -> None:
    """From zero."""
    rehearsal = rehearse(configured(a_large_pod(scaler, os)), stack="train", deadline=180)
    assert rehearsal.failures == []


def test_a_node_that_does_not_use_its_disks_is_too_small(rehearse: Rehearse) -> None:
    """The tags promise the disks, and the launch template does not use them."""
    forgotten = changed("aws:ec2/launchTemplate:LaunchTemplate", 'props["user_data"] = None',
                        name="train-gpu")  # fmt: skip
    rehearsal = rehearse(configured(a_large_pod()), forgotten, stack="train", deadline=60)
    assert any("ephemeral-storage" in line for line in said(rehearsal)), said(rehearsal)


def on_gke(scaler: str = "node-pools") -> Callable[[dict[str, Any]], None]:
    """The same on a machine with a boot disk of 200 GB and two local SSDs."""

    def configure(config: dict[str, Any]) -> None:
        pool = config["gpu-cluster:gpuPools"]["train-gpu"]
        pool |= {"diskSizeGb": 200, "localStorage": "ephemeral", "localSsdCount": 2}
        set_scaler(config, scaler)
        job = config["gpu-cluster:workloads"]["train"]
        job |= {"requests": {"ephemeralStorage": "500Gi"}, "wait": True}

    return configure


@pytest.mark.parametrize("scaler", ["node-pools", "compute-classes"])
def test_local_ssds_hold_a_large_pod(tmp_path: Path, scaler: str) -> None:
    """From zero and back; a second up changes nothing."""
    change, options = configured(on_gke(scaler)), SandboxOptions(job_seconds=2)
    with whole_life("train-gke", tmp_path, change, options=options):
        pass


def cached(config: dict[str, Any]) -> None:
    """A job with a disk, and local SSDs as its cache."""
    on_gke()(config)
    config["gpu-cluster:gpuPools"]["train-gpu"] |= {"localSsdCount": 4, "dataCacheCount": 2}
    config["gpu-cluster:cluster"]["dataCache"] = {"size": "700Gi"}
    claim = {"size": "1Ti", "storageClass": "gpu-cluster-data-cache"}
    config["gpu-cluster:volumeClaims"] = {"data": claim}
    config["gpu-cluster:batch"] = {"deletionProtection": False}
    job = config["gpu-cluster:workloads"]["train"]
    job["volumes"] = {"data": {"claim": "data", "mountPath": "/data"}}


def test_a_disk_has_a_cache_on_local_ssds(rehearse: Rehearse) -> None:
    """Two of four, from no node; the job still has more disk than the boot disk. The disk cannot
    grow."""
    rehearsal = rehearse(configured(cached), stack="train-gke", deadline=180)
    assert rehearsal.failures == []
    sandbox = rehearsal.sandbox
    larger = configured(
        lambda config: config["gpu-cluster:volumeClaims"]["data"].update(size="2Ti")
    )
    larger(sandbox.folder / "program")
    outcome = sandbox.engine.up()
    assert any("must support resize" in line for line in outcome.errors), outcome.errors


def test_a_disk_without_a_cache_on_its_node_is_not_mounted(rehearse: Rehearse) -> None:
    """The settings promise two local SSDs for it, and the node pool has none."""
    forgotten = changed(
        "gcp:container/nodePool:NodePool",
        'ssds = props["node_config"]["ephemeral_storage_local_ssd_config"]; '
        'ssds["data_cache_count"] = None; ssds["local_ssd_count"] = 4',
        name="train-gpu",
    )
    rehearsal = rehearse(configured(cached), forgotten, stack="train-gke", deadline=60)
    assert any("Error setting up cache" in line for line in said(rehearsal)), said(rehearsal)


def test_a_boot_disk_does_not_hold_it(rehearse: Rehearse) -> None:
    """The settings promise the local SSDs, and the node pool requests none."""
    moved = (
        'config = props["node_config"]; '
        'ssds = config.pop("ephemeral_storage_local_ssd_config")["local_ssd_count"]; '
        'config["local_nvme_ssd_block_config"] = {"local_ssd_count": ssds}'
    )
    block = changed("gcp:container/nodePool:NodePool", moved, name="train-gpu")
    rehearsal = rehearse(configured(on_gke()), block, stack="train-gke", deadline=60)
    assert any("ephemeral-storage" in line for line in said(rehearsal)), said(rehearsal)
