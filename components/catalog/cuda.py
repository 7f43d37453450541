"""NVIDIA's CUDA: the version in an image's tag, and the drivers and GPUs on which it runs.

docs.nvidia.com/deploy/cuda-compatibility, "Minor Version Compatibility" (v590) and "Forward
Compatibility"; docs.nvidia.com/cuda/cuda-toolkit-release-notes, drivers of each toolkit (13.3).
Both read on 2026-11-29.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from .accelerators import GPUS, Architecture

MIN_DRIVER: Final = {11: 450, 12: 525, 13: 580}
"""Major version -> the oldest driver branch on which its programs run without cuda-compat."""
DRIVER_CUDA: Final = {
    525: (12, 0), 535: (12, 2), 550: (12, 4), 570: (12, 8), 580: (13, 0), 595: (13, 2),
}  # fmt: skip
"""Driver branch -> its own CUDA: the newest whose PTX it compiles."""
DROPPED: Final[dict[int, Collection[Architecture]]] = {13: ("Kepler", "Maxwell", "Pascal", "Volta")}
"""Major version -> architectures for which its compiler and libraries have no code (release notes
of 12.9, "Deprecated Architectures", as pytorch issue 157517 quotes them; NVIDIA/cuDecomp 97)."""

_TAG = re.compile(r"(?:^|[^a-z0-9])cu(?:da(1[1-9])(?:\.([0-9]+))?|(1[1-9])([0-9]))(?![0-9])")
_OWN_TAG = re.compile(r"(1[1-9])\.([0-9]+)(?:[.-]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Why an image does not run, or runs with limits, on the nodes of a pool."""

    refused: bool
    reason: str
    """Completes "`<image>` ..."."""
    remedy: str


def image_cuda(image: str) -> tuple[int, int] | None:
    """The CUDA version, major and minor, that an image's tag names; None if it names none, or two.

    Read are the tags of `nvidia/cuda`, and `cuda12.8` and `cu128` in those of other images.
    """
    repository, tag = _split(image)
    if repository.endswith("nvidia/cuda") and (own := _OWN_TAG.match(tag)):
        return int(own[1]), int(own[2])
    found = {(int(a or c), int(b or d or 0)) for a, b, c, d in _TAG.findall(tag.lower())}
    return found.pop() if len(found) == 1 else None


def mismatch(image: str, pool: str, driver: int | None, models: Collection[str]) -> Mismatch | None:
    """What NVIDIA's rules say of an image on a pool's nodes; None if they say nothing.

    `driver`: the nodes' branch, None if it is not known; `models`: keys of `GPUS`, empty for any.
    """
    cuda = image_cuda(image)
    if cuda is None:
        return None
    major, version = cuda[0], f"CUDA {cuda[0]}.{cuda[1]}"
    chips = {GPUS[model].architecture for model in models}
    if chips and chips <= {*DROPPED.get(major, ())} and not _only_runtime(image):
        return Mismatch(
            refused=True,
            reason=f"has {version}, whose libraries have no code for {'/'.join(sorted(chips))} "
            f"GPUs such as those of pool {pool}",
            remedy=f"use one with CUDA {major - 1}, or, if it needs none of them, name the image "
            "by its digest only",
        )
    least = MIN_DRIVER.get(major)
    if driver is None or least is None:
        return None
    if driver < least:
        lacks = _lacks_compat(image)
        return Mismatch(
            refused=lacks,
            reason=f"has {version}, which needs driver {least} or later, and the nodes of pool "
            f"{pool} have {driver}" + ("" if lacks else ": it runs only through cuda-compat in it"),
            remedy=f"use one with CUDA {major - 1}, or newer nodes",
        )
    own = DRIVER_CUDA.get(driver)
    if own is None or cuda <= own:
        return None
    return Mismatch(
        refused=False,
        reason=f"has {version}, and driver {driver} of pool {pool} has {own[0]}.{own[1]}: it runs "
        "with minor version compatibility, in which PTX is not compiled",
        remedy=f"use one with CUDA {own[0]}.{own[1]} if a program reports an unsupported PTX "
        "version",
    )


def _lacks_compat(image: str) -> bool:
    """Whether it is known to lack cuda-compat. Images on top of `nvidia/cuda` contain it
    (dist/*/base/Dockerfile in gitlab.com/nvidia/container-images/cuda), such as vLLM's, which even
    enables it (docker/Dockerfile); these are on top of Ubuntu (pytorch docker.Makefile,
    BASE_RUNTIME)."""
    repository, tag = _split(image)
    return repository.endswith("pytorch/pytorch") and tag.endswith("-runtime")


def _only_runtime(image: str) -> bool:
    """Whether it has no libraries with code for GPUs: in `nvidia/cuda:*-base-*`, `nvidia-smi` runs
    on every GPU that the driver supports."""
    repository, tag = _split(image)
    return repository.endswith("nvidia/cuda") and "-base" in tag


def _split(image: str) -> tuple[str, str]:
    """Repository and tag; the tag is empty without one."""
    folder, slash, name = image.partition("@")[0].rpartition("/")
    name, _, tag = name.partition(":")
    return f"{folder}{slash}{name}", tag
