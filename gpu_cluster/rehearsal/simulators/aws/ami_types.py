"""EKS's images for GPU nodes: the newest release of each minor, and the drivers in them.

The date is from amazon-eks-ami issue 2768; the patch releases are from the changelog of v20260714,
the newest one read: the newest release may contain later ones.
"""

import re
from collections.abc import Mapping
from typing import Any

PATCHES = {"1.30": 14, "1.31": 14, "1.32": 13, "1.33": 13, "1.34": 9, "1.35": 6, "1.36": 2}
READ = "20260714"
"""The release that `PATCHES` belongs to."""
_NEWEST, _BOTH_DRIVERS = "20260917", "20260917"
_BOTTLEROCKET = re.compile(r"-?1[.]([0-9]+)[.][0-9]+(?:-(?!20[0-9]{6}$)[0-9a-f]{8})?")
"""A release of Bottlerocket; the simulator gives a group without one AL2023's, with a date."""
_ONLY_NEW = ("g7.",)
"""Families that driver 580 does not support (amazon-eks-ami doc/usage/g7-ami.md)."""


def newest_release(minor: str) -> str:
    """The release that EKS uses if a node group names none."""
    return f"{minor}.{PATCHES.get(minor, 0)}-{_NEWEST}"


def has_driver(ami_type: str) -> bool:
    """Whether the image contains NVIDIA's driver; assumed for a custom GPU image."""
    return ami_type == "CUSTOM" or "NVIDIA" in ami_type or ami_type == "AL2_x86_64_GPU"


def toolkit(group: Mapping[str, Any]) -> str:
    """The version of NVIDIA's toolkit in an old release of EKS's AL2023 images (rows of
    nvidia-container-toolkit in amazon-eks-ami's CHANGELOG, read 2026-11-28); empty if it is 1.18 or
    later, or not known."""
    day = str(group.get("releaseVersion") or "").rpartition("-")[2]
    if not group["amiType"].startswith("AL2023") or not day.isdigit() or day > "20251016":
        return ""
    return "1.17.8" if day >= "20250620" else "1.17.7 or older"


def drives(group: Mapping[str, Any]) -> bool:
    """Whether the image of this node group has a driver for the GPUs of its instance type.

    AL2023's images contain branches 595 and 580 since `_BOTH_DRIVERS`. Of Bottlerocket's, those for
    1.37 do since 1.66.0, and those with kernel 6.1 or 6.12 since 1.68.0; 1.36 has kernel 6.18
    (release notes, read 2026-11-28).
    """
    if not has_driver(group["amiType"]):
        return False
    if not group["instanceTypes"][0].startswith(_ONLY_NEW) or group["amiType"] == "CUSTOM":
        return True
    release = str(group.get("releaseVersion") or "")
    if group["amiType"].startswith("AL2023"):
        return release.rpartition("-")[2] >= _BOTH_DRIVERS
    if group["version"] == "1.36":
        return False
    found = _BOTTLEROCKET.fullmatch(release)
    return found is None or int(found[1]) >= (66 if group["version"] == "1.37" else 68)
