"""Models of GPUs, images and prices, and what importing a module of the catalogue loads."""

import re
from dataclasses import FrozenInstanceError
from datetime import date
from importlib import import_module

import pytest

from gpu_cluster.components.catalog import accelerators, eks, gke, images
from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.catalog.dates import DATED, Dated


def test_every_gpu_of_a_cloud_is_a_known_model() -> None:
    """Each model that a cloud's row names has a row."""
    on_aws = {row.gpu_model for row in eks.INSTANCE_TYPES.values() if row.vendor == "NVIDIA"}
    on_gcp = {row.model for row in gke.ACCELERATORS.values()}
    assert on_aws | on_gcp | {"A30"} == set(accelerators.GPUS)


def test_mps_begins_with_volta_and_drivers_end_before_turing() -> None:
    """T4 and V100 do MPS, P100 does not; K80's last driver is 470 and T4 has no last."""
    gpus = accelerators.GPUS
    assert gpus["V100 16GB"].supports_mps
    assert gpus["T4"].supports_mps
    assert not gpus["P100"].supports_mps
    assert (gpus["K80"].last_driver, gpus["T4"].last_driver) == (470, None)


IMAGES = {name: image for name, image in vars(images).items() if isinstance(image, images.Image)}


@pytest.mark.parametrize("name", [*IMAGES, *images.CLUSTER_AUTOSCALER_VERSIONS])
def test_every_image_is_pinned(name: str) -> None:
    """An image has a tag that does not move or a whole digest, a source and a date."""
    image = IMAGES.get(name) or images.cluster_autoscaler(name)
    assert image is not None
    assert image.tag or image.digest
    assert image.tag != "latest"
    assert image.digest is None or re.fullmatch(r"sha256:[0-9a-f]{64}", image.digest)
    assert image.source
    assert date.fromisoformat(image.read) <= date.today()
    assert image.preloaded == ("/" not in image.repository)
    assert image.reference.startswith(image.repository)


def test_references_join_tag_and_digest() -> None:
    """A reference has the tag, the digest, or both in Docker's order."""
    assert images.COS_INSTALLER.reference == "cos-nvidia-installer:fixed"
    assert images.UBUNTU_INSTALLER.reference == "gke-nvidia-installer:fixed"
    assert images.PAUSE.reference.startswith("gke.gcr.io/pause:3.8@sha256:880e63f9")
    assert ":" not in images.PARTITION_GPUS.reference.partition("@")[0]
    plugin = images.DEVICE_PLUGIN
    assert plugin.reference == f"nvcr.io/nvidia/k8s-device-plugin:{plugin.tag}@{plugin.digest}"


def test_cluster_autoscaler_is_had_per_minor() -> None:
    """A minor takes its last release, by digest if one is known; one without has no image."""
    taken = {
        minor: image.reference.partition("cluster-autoscaler:")[2]
        for minor in ("1.34", "1.35")
        if (image := images.cluster_autoscaler(minor))
    }
    digest = "sha256:aac369dc283927a623deb1af54696efcc722ae79255aa07788422e495bab887d"
    assert taken == {"1.34": "v1.34.5", "1.35": f"v1.35.2@{digest}"}
    assert images.cluster_autoscaler("1.29") is None


def test_every_price_is_positive_and_sourced() -> None:
    """Each item of a bill costs something, says per what and from where."""
    for cloud in CLOUDS:
        prices = import_module(f"gpu_cluster.components.catalog.{cloud}_prices").PRICES
        assert prices
        for name, row in prices.items():
            assert row.dollars > 0
            assert row.source
            assert row.uncertain == ("generally known" in row.source), name


def test_rows_and_tables_cannot_be_changed() -> None:
    """A row refuses assignment and a table refuses a new key."""
    with pytest.raises(FrozenInstanceError):
        gke.ACCELERATORS["nvidia-l4"].spot = 0.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        eks.INSTANCE_TYPES["x"] = eks.INSTANCE_TYPES["g5.xlarge"]  # type: ignore[index]


@pytest.mark.parametrize("dated", DATED.values(), ids=lambda dated: dated.table)
def test_a_dated_table_exists_and_says_what_is_read_again(dated: Dated) -> None:
    """The nightly run names the source."""
    module, name = dated.table.split(".")
    assert getattr(import_module(f"gpu_cluster.components.catalog.{module}"), name)
    assert dated.source


@pytest.mark.prove
@pytest.mark.parametrize("dated", DATED.values(), ids=lambda dated: dated.table)
def test_a_dated_table_still_holds(dated: Dated) -> None:
    """Only the nightly run fails when a date has passed: nothing of the program has changed."""
    assert date.today() <= dated.until, f"read again: {dated.source}"
