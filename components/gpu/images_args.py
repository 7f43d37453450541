"""The setting for all images at once: the registry that they are pulled from."""

import re
from dataclasses import dataclass
from typing import Annotated

from ..catalog import kubernetes as names
from ..schema.effect import Sent
from ..schema.limits import Limit, pattern
from ..schema.rules import Checked


def _not_a_registry(registry: str) -> str | None:
    host, _, _ = registry.partition("/")
    if names.IMAGE.fullmatch(f"{registry}/image") and names.is_registry(host):
        return None
    return (
        f"{registry!r} is not a registry; give its name and path without a scheme, a tag or a "
        "slash at the end: registry.example.com/mirror"
    )


_REGISTRY = Limit(
    _not_a_registry,
    pattern(
        re.compile(
            r"(?:localhost|[a-zA-Z0-9-]+(?:[.][a-zA-Z0-9-]+)+|[a-zA-Z0-9-]+(?=:))(?::[0-9]+)?"
            r"(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
        )
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesArgs(Checked):
    """The images of every pod that the stack declares, its own and the user's."""

    registry: Annotated[Annotated[str, _REGISTRY] | None, Sent("PodSpec containers[].image")] = None
    """Your own registry, with a path if it has one, such as `registry.example.com/mirror`: it
    replaces the registry of each image. Images that GKE preloads on its nodes do not change.
    `gpu-cluster images` lists the images that it must contain."""

    def image(self, reference: str) -> str:
        """The reference with which a pod pulls this image."""
        if self.registry is None or reference.startswith(f"{self.registry}/"):
            return reference
        host, slash, path = reference.partition("/")
        if slash and names.is_registry(host):
            return f"{self.registry}/{path}"
        # Docker's short form: `ubuntu:24.04` is docker.io/library/ubuntu:24.04.
        return f"{self.registry}/{reference if slash else f'library/{reference}'}"
