"""The list of a stack's images is what its pods run, and one registry can serve them all."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpu_cluster.components.gpu.images_args import ImagesArgs
from gpu_cluster.components.settings import load as settings
from gpu_cluster.stacks.images import references
from tests.program import effects
from tests.program.environments import as_engine_config, recorded

REGISTRY = "registry.example.com/mirror"


def images(value: Any) -> Iterator[str]:
    """Every image of a container that a node pulls, at any depth."""
    if isinstance(value, Mapping):
        pulled = value.get("imagePullPolicy") != "Never"
        if isinstance(value.get("image"), str) and "name" in value and pulled:
            yield value["image"]
        for each in value.values():
            yield from images(each)
    elif isinstance(value, list):
        for each in value:
            yield from images(each)


def pulled(config: Mapping[str, Any]) -> set[str]:
    """The images of all pods that the program declares with this config."""
    found = recorded(config).resources
    kubernetes = [each for each in found if each.type.startswith("kubernetes:")]
    return {image for each in kubernetes for image in images(dict(each.inputs))}


def chosen(platform: str) -> list[dict[str, Any]]:
    """The sample, and configs that bring further pods: one for each kind of block."""
    sample, *others = effects.starts(platform)
    rooms = ("gpu-cluster:monitoring", "gpu-cluster:gpuTest", "gpu-cluster:batch")
    brought = []
    for room in rooms:
        brought += [each for each in others if room in each and room not in sample][:1]
    return [sample, *brought, *[each for each in others if "installerImage" in str(each)][:1]]


@pytest.mark.parametrize("platform", effects.STACK_OF)
def test_the_list_is_what_the_pods_run(platform: str) -> None:
    """No pod of the program is missing from it, and nothing in it is not run."""
    for config in chosen(platform):
        read = settings.from_config(as_engine_config(config))
        assert set(references(read)) == pulled(config)


@pytest.mark.parametrize("platform", effects.STACK_OF)
def test_one_registry_serves_every_image(platform: str) -> None:
    """Also those of components that know nothing of it."""
    for config in chosen(platform):
        moved = copy.deepcopy(config)
        moved["gpu-cluster:images"] = {"registry": REGISTRY}
        args = ImagesArgs(registry=REGISTRY)
        assert pulled(moved) == {args.image(each) for each in pulled(config)}
        assert all(each.startswith(f"{REGISTRY}/") for each in pulled(moved))


@pytest.mark.parametrize(
    ("image", "there"),
    [
        ("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "nvidia/k8s-device-plugin:v0.20.0"),
        ("docker.io/nvidia/cuda:12", "nvidia/cuda:12"),
        ("pytorch/pytorch:2", "pytorch/pytorch:2"),
        ("ubuntu:24.04", "library/ubuntu:24.04"),
        ("localhost:5000/a@sha256:" + "0" * 64, "a@sha256:" + "0" * 64),
        (f"{REGISTRY}/team/train:1", "team/train:1"),
    ],
)
def test_a_registry_takes_the_place_of_the_images_own(image: str, there: str) -> None:
    """The path, tag and digest stay; what is there already stays as it is."""
    assert ImagesArgs(registry=REGISTRY).image(image) == f"{REGISTRY}/{there}"
