"""Models of GPUs, images and prices, and what importing a module of the catalogue loads."""

import re
from dataclasses import FrozenInstanceError
from datetime import date
from importlib import import_module

import pytest

from gpu_cluster.components.catalog import accelerators, cuda, eks, gke, images
from gpu_cluster.components.catalog.bad_releases import BAD_RELEASES, BadRelease, harm
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


@pytest.mark.parametrize("bad", BAD_RELEASES, ids=lambda bad: f"{bad.of}-{bad.since}")
def test_a_bad_release_has_a_range_a_source_and_what_to_do(bad: BadRelease) -> None:
    """The first release of the range is found, and the first good one is not; the levels that a key
    does not apply are not used."""
    assert harm(bad.of, bad.since) == bad
    assert harm(bad.of, bad.until) != bad
    assert re.fullmatch(r"https://(github\.com/[\w.-]+/[\w.-]+|docs\.\S+)/\S+", bad.source)
    assert date(2026, 11, 28) <= date.fromisoformat(bad.read) <= date.today()
    assert bad.level == "warning" or bad.of in ("al2023", "bottlerocket")
    assert bad.symptom
    assert bad.remedy
    assert bad.line("1.2.3").startswith(f"1.2.3 {bad.symptom} (https://")


@pytest.mark.parametrize(
    ("of", "release", "since"),
    [
        ("al2023", "1.34.9-20260818", "20260818"),
        ("al2023", "1.34.9-20260810", None),
        ("al2023", "1.34.9-20260707", "20260625"),
        ("bottlerocket", "1.26.2-360b7a38", "1.25.0"),
        ("bottlerocket", "1.9.0", None),
        ("eks-node-monitoring-agent", "v1.7.0-eksbuild.1", "v1.7.0"),
        ("coredns", "v1.7.0-eksbuild.1", None),
        ("gke", "1.33.5-gke.2392000", "1.33.0-gke.0"),
        ("gke", "1.33.5", None),
        ("gke", "1.33", None),
        ("gke", "latest", None),
        ("al2023", None, None),
    ],
)
def test_a_release_is_found_by_its_numbers(of: str, release: str | None, since: str | None) -> None:
    """As the cloud writes it, with a build; a release that is not exact is in no range."""
    bad = harm(of, release)
    assert (bad and bad.since) == since


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvidia/cuda:12.8.1-base-ubuntu24.04", (12, 8)),
        ("docker.io/nvidia/cuda:13.1.0-base", (13, 1)),
        ("registry:5000/mirror/nvidia/cuda:13.0.2", (13, 0)),
        ("pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime", (12, 8)),
        ("nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04", (12, 5)),
        ("rapidsai/base:25.12-cuda13-py3.13", (13, 0)),
        ("vllm/vllm-openai:v0.12.0-cu129@sha256:" + "0" * 64, (12, 9)),
        ("example.com/a:CUDA12.4", (12, 4)),
        # The tag says nothing, or not one thing.
        ("nvcr.io/nvidia/pytorch:26.03-py3", None),
        ("nvidia/cuda@sha256:" + "0" * 64, None),
        ("nvidia/cuda:latest", None),
        ("example.com/cuda12.8/a:v1", None),
        ("example.com/cuda:12.8.1", None),
        ("example.com/a:cuda128", None),
        ("example.com/a:accu128", None),
        ("example.com/a:cu12810", None),
        ("example.com/a:cuda12.8-to-cuda13.0", None),
        ("registry:5000/a", None),
    ],
)
def test_the_cuda_version_of_an_image_is_read_strictly(
    image: str, version: tuple[int, int] | None
) -> None:
    """From the tag only; two versions in it are none."""
    assert cuda.image_cuda(image) == version


@pytest.mark.parametrize(
    ("image", "driver", "models", "refused"),
    [
        # Known to lack cuda-compat; others may contain it, such as those on top of nvidia/cuda.
        ("pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime", 570, [], True),
        ("pytorch/pytorch:2.9.1-cuda13.0-cudnn9-devel", 570, [], False),
        ("vllm/vllm-openai:v0.12.0-cu130", 570, [], False),
        ("a:cuda12.0", 470, [], False),
        ("a:cuda13.0", 580, [], None),
        ("a:cuda12.9", 580, [], None),
        ("a:cuda13.1", 580, [], False),
        ("a:cuda12.8", 525, [], False),
        ("a:cuda14.0", 580, [], None),
        ("a:cuda13.0", None, [], None),
        ("nvidia/cuda:13.0.2-base", 570, [], False),
        ("nvcr.io/nvidia/tritonserver:x-cuda13.0", 570, [], False),
        ("a:cuda13.0", 580, ["V100 16GB", "V100 32GB"], True),
        ("nvidia/cuda:13.0.2-runtime-ubuntu24.04", None, ["P4"], True),
        # It has no libraries, and nvidia-smi needs none.
        ("nvidia/cuda:13.0.2-base-ubuntu24.04", 580, ["P4"], None),
        ("a:cuda13.0", None, ["V100 16GB", "T4"], None),
        ("a:cuda12.8", None, ["V100 16GB"], None),
    ],
)
def test_cuda_is_compared_with_driver_and_gpu(
    image: str, driver: int | None, models: list[str], refused: bool | None
) -> None:
    """None: nothing is said; an unknown driver or GPU is never held against an image."""
    found = cuda.mismatch(image, "pool", driver, models)
    assert (found.refused if found else None) is refused


@pytest.mark.parametrize(
    ("release", "driver"),
    [
        (None, 595),
        ("1.35.7-20260917", 595),
        ("1.35.6-20260714", 580),
        ("1.34.1-20251023", 580),
        ("1.33.5-20251023", 570),
        ("1.33.5-20251029", 580),
        ("1.30.14-20251112", 570),
        ("1.33.5-20250715", None),
    ],
)
def test_the_driver_of_an_eks_image_follows_from_its_release(
    release: str | None, driver: int | None
) -> None:
    """As the changelog's rows of kmod-nvidia-latest-dkms have it."""
    assert eks.al2023_driver(release) == driver
