"""The data sheets that measured GPUs are compared with."""

import pytest

from components.catalog.accelerators import GPUS
from components.catalog.data_sheets import DATA_SHEETS, SOURCES, DataSheet, expected
from components.catalog.eks import accelerator_label
from components.catalog.gke_accelerators import ACCELERATORS


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


@pytest.mark.parametrize("name", ACCELERATORS)
@pytest.mark.parametrize("platform", ["gke", "gke-autopilot"])
def test_every_accelerator_of_google_cloud_is_one_card(name: str, platform: str) -> None:
    """GKE's name says which GPU it is, memory included."""
    (sheet,) = expected(name, platform)
    assert sheet.model == ACCELERATORS[name].model


@pytest.mark.parametrize("model", GPUS)
def test_every_label_of_aws_may_be_its_card(model: str) -> None:
    """Cluster Autoscaler's label does not tell GPUs apart that differ in memory alone."""
    found = [sheet.model for sheet in expected(accelerator_label(model), "eks")]
    assert model in found
    assert len({name.split(" ")[0] for name in found}) == 1


def test_on_premises_every_card_may_be_meant() -> None:
    """There the accelerator is the user's own word."""
    assert len(expected("our GPUs", "existing")) == len(DATA_SHEETS)
