"""One registry for the images of all pods, applied without changes to their declarations."""

from collections.abc import Mapping
from typing import Any

import pulumi

from .images_args import ImagesArgs

_LISTS = ("containers", "init_containers", "initContainers")


def use_registry(images: ImagesArgs) -> pulumi.ResourceTransformation:
    """A transformation that replaces the registry of the images in every Kubernetes object."""

    def moved(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        props = args.props
        if args.type_.startswith("kubernetes:") and isinstance(props, Mapping):
            props = {name: _moved(value, images) for name, value in props.items()}
        return pulumi.ResourceTransformationResult(props, args.opts)

    return moved


def _moved(value: Any, images: ImagesArgs) -> Any:
    if isinstance(value, Mapping):
        return {
            name: [_container(container, images) for container in item]
            if name in _LISTS and isinstance(item, list)
            else _moved(item, images)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_moved(item, images) for item in value]
    return value


def _container(container: Any, images: ImagesArgs) -> Any:
    if not isinstance(container, Mapping) or not isinstance(container.get("image"), str):
        return container
    policy = container.get("image_pull_policy", container.get("imagePullPolicy"))
    if policy == "Never":  # The image is preloaded on the node, and in no registry.
        return container
    return {**container, "image": images.image(container["image"])}
