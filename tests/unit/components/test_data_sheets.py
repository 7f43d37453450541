"""The data sheets that measured GPUs are compared with."""

import pytest

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.catalog.accelerators import GPUS
from gpu_cluster.components.catalog.data_sheets import DATA_SHEETS, SOURCES, DataSheet, expected
from gpu_cluster.components.catalog.gke_accelerators import ACCELERATORS
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.existing.pool_args import ExistingGpuPoolArgs
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gke_autopilot.pool_args import GkeAutopilotPoolArgs


def test_every_card_of_the_catalog_has_a_data_sheet() -> None:
    """No pool's GPU is without a row, and no row is about another GPU."""
    assert set(DATA_SHEETS) == set(GPUS)


@pytest.mark.parametrize("sheet", DATA_SHEETS.values(), ids=lambda sheet: str(sheet.model))
def test_every_row_says_where_it_is_from(sheet: DataSheet) -> None:
    """Each row names sources that are listed, and its figures are of this world."""
    assert sheet.source
    assert set(sheet.source.split()) <= set(SOURCES)
    assert (sheet.matrix is None) <= (sheet.matrix_tflops is None)
    assert sheet.matrix_tflops is None or sheet.matrix_tflops >= (sheet.fp32_tflops or 0)
    assert sheet.host_gbps in (None, 16, 32, 64)
    assert 100 <= (sheet.memory_gbps or 0) <= 8000


def test_older_cards_are_measured_in_fp16() -> None:
    """bf16 begins with Ampere."""
    for model, sheet in DATA_SHEETS.items():
        old = GPUS[model].architecture in ("Kepler", "Maxwell", "Pascal", "Volta", "Turing")
        assert sheet.matrix in (("fp16", None) if old else ("bf16",))


def test_the_driver_s_names_are_of_one_card_each() -> None:
    """A name leads to one row at most, with `NVIDIA` and `Tesla` taken off."""
    names = [name for sheet in DATA_SHEETS.values() for name in sheet.names]
    assert len(set(names)) == len(names)
    assert not [name for name in names if name.startswith(("NVIDIA", "Tesla"))]


def test_a_pool_of_google_cloud_is_of_one_gpu() -> None:
    """GKE's name says which GPU it is, memory included."""
    standard = GkeGpuNodePoolArgs(machine_type="n1-standard-4", accelerator="nvidia-tesla-t4")
    for pool in (standard, GkeAutopilotPoolArgs(accelerator="nvidia-tesla-t4")):
        (sheet,) = expected(pool.gpu_pool("p").models)
        assert sheet.model == ACCELERATORS["nvidia-tesla-t4"].model


SOLD = [
    name
    for name, row in catalog.INSTANCE_TYPES.items()
    if not (
        row.blocks == "only" or catalog.refusal(name) or catalog.image_refusal(row, "al2023", None)
    )
]


@pytest.mark.parametrize("kind", SOLD)
def test_a_pool_of_aws_may_be_of_gpus_that_differ_in_memory_alone(kind: str) -> None:
    """Cluster Autoscaler's label does not tell those apart."""
    pool = EksGpuNodeGroupArgs(instance_types=[kind]).gpu_pool("p")
    found = [sheet.model for sheet in expected(pool.models)]
    assert catalog.INSTANCE_TYPES[kind].gpu_model in found
    assert len({name.split(" ")[0] for name in found}) == 1


def test_on_premises_every_card_may_be_meant() -> None:
    """There the accelerator is the user's own word."""
    pool = ExistingGpuPoolArgs(node_selector={"gpus": "true"}, gpus_per_node=1, accelerator="ours")
    assert len(expected(pool.gpu_pool("p").models)) == len(DATA_SHEETS)
