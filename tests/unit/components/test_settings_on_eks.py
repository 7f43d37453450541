"""The settings of GPU pools on an existing cluster are read, or refused in one line."""

import pytest

from gpu_cluster.components.eks.existing_args import EksExistingClusterArgs
from gpu_cluster.components.settings import load as settings
from gpu_cluster.components.settings.owners import owned
from tests.program.environments import values_of
from tests.unit.components.test_settings import changed

CLUSTER = "gpu-cluster:cluster"


def test_existing_names_a_cluster_of_its_platform() -> None:
    """The platform is the one that says where the cluster runs; it has no groups that it knows."""
    read = settings.from_config(changed("on-eks", []))
    assert read.platform == "eks-existing"
    assert isinstance(read.cluster, EksExistingClusterArgs)
    assert read.cluster.name == "platform"
    assert read.own.access.groups is None


def test_two_stacks_may_add_to_one_cluster() -> None:
    """Neither deletes it."""
    assert owned(values_of("on-eks")) is None


@pytest.mark.parametrize(
    ("scaler", "types", "size", "known"),
    [
        ("auto-mode", ["g4dn.xlarge"], 100, False),
        ("auto-mode", ["g4dn.xlarge"], 117, True),  # 125 GB are 116.4 GiB.
        ("auto-mode", ["g4dn.xlarge", "g4dn.2xlarge"], 200, False),
        ("karpenter", ["g4dn.xlarge"], 100, True),
    ],
)
def test_auto_mode_uses_local_disks_that_are_larger_than_the_volume(
    scaler: str, types: list[str], size: int, known: bool
) -> None:
    """Then the room for pods is not known, and the volume's settings are without effect."""
    pool = {"instanceTypes": types, "diskSizeGb": size, "diskThroughput": 600}
    changes = [
        ["gpu-cluster:cluster", "autoscaler", "absent"],
        ["gpu-cluster:cluster", "scaler", scaler],
        ["gpu-cluster:gpuPools", "train-gpu", pool],
    ]
    resolved = settings.from_config(changed("train", changes)).pools["train-gpu"]
    assert (resolved.pool.disk_mib is not None) is known
    lines = [line for line in resolved.warnings if "diskThroughput: 600 has no effect" in line]
    assert len(lines) == (not known)
    assert not [line for line in resolved.warnings if "diskIops" in line]
