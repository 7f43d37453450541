"""The labels that GPU feature discovery would write on a pool's nodes."""

from typing import Any

import pytest

from gpu_cluster.components.catalog.accelerators import GPUS, PRODUCT_SOURCES
from gpu_cluster.components.catalog.data_sheets import DATA_SHEETS
from gpu_cluster.components.cluster import Sharing
from gpu_cluster.components.discovery import discovery_labels
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gke.sharing_args import GkeSharingArgs

KEY = "nvidia.com/gpu"
SLICED = Sharing(strategy="time-slicing", replicas=4)


@pytest.mark.parametrize("model", PRODUCT_SOURCES)
def test_a_product_is_the_drivers_name(model: str) -> None:
    """Feature discovery puts hyphens for blanks; the data sheets have the driver's names too."""
    gpu = GPUS[model]
    names = [name.replace(" ", "-") for name in DATA_SHEETS[model].names]
    assert gpu.product in [f"{brand}-{name}" for brand in ("NVIDIA", "Tesla") for name in names]
    # Those of GDDR keep a sixteenth for error correction.
    assert 0.9 < (gpu.memory_mib or 0) / 1024 / gpu.memory_gb <= 1.0


def test_every_product_has_its_source() -> None:
    """And none is named without one."""
    assert {model for model, gpu in GPUS.items() if gpu.product} == PRODUCT_SOURCES.keys()
    assert not [gpu.model for gpu in GPUS.values() if bool(gpu.memory_mib) != bool(gpu.product)]


def test_labels_are_those_of_the_node() -> None:
    """As NVIDIA/k8s-device-plugin issue 1501 shows a node with eight H100."""
    assert discovery_labels("H100", 8, None) == {
        f"{KEY}.product": "NVIDIA-H100-80GB-HBM3",
        f"{KEY}.count": "8",
        f"{KEY}.memory": "81559",
    }


def test_shared_gpus_say_so() -> None:
    """Physical GPUs are counted, and the product's name ends with SHARED."""
    assert discovery_labels("A10G", 1, SLICED) == {
        f"{KEY}.product": "NVIDIA-A10G-SHARED",
        f"{KEY}.count": "1",
        f"{KEY}.memory": "23028",
        f"{KEY}.replicas": "4",
    }


@pytest.mark.parametrize(
    ("make", "given", "says"),
    [
        (EksGpuNodeGroupArgs, {"instance_types": ["g5g.xlarge"]}, "gives the T4G is not known"),
        (
            GkeGpuNodePoolArgs,
            {
                "machine_type": "a2-highgpu-1g",
                "sharing": GkeSharingArgs(strategy="mig", partition="1g.5gb"),
            },
            "labels MIG partitions by their own memory",
        ),
    ],
)
def test_what_is_not_known_is_refused(make: Any, given: dict[str, Any], says: str) -> None:
    """With the settings, before anything is declared."""
    make(**given)
    with pytest.raises(ValueError, match=f"^discoveryLabels: .*{says}"):
        make(**given, discovery_labels=True)


def test_nodes_have_them_where_the_setting_says_so() -> None:
    """The user's own label of the same key wins."""
    eks = {"instance_types": ["g4dn.xlarge"], "discovery_labels": True}
    for pool in (
        EksGpuNodeGroupArgs(**eks),  # type: ignore[arg-type]
        GkeGpuNodePoolArgs(
            machine_type="n1-standard-4", accelerator="nvidia-tesla-t4", discovery_labels=True
        ),
    ):
        assert pool.gpu_pool("p").labels[f"{KEY}.product"] == "Tesla-T4"
    own = EksGpuNodeGroupArgs(**eks, labels={f"{KEY}.product": "T4"})  # type: ignore[arg-type]
    assert own.gpu_pool("p").labels[f"{KEY}.product"] == "T4"
    plain = EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"])
    assert f"{KEY}.product" not in plain.gpu_pool("p").labels
