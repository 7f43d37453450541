"""The effect of changing a setting on EKS, if it depends on the values.

All other rules are next to their fields, as `OnChange`. `make inject-faults` changes every setting;
it fails if a replacement has no rule.
"""

import json
import re

from ..schema.on_change import Refusal, Verdict, kept
from .reservation import CAPACITY_TYPES

_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)-(\d{8})")


def bought(old: str, new: str) -> Verdict:
    """EKS cannot change the `capacityType` of a node group; a reservation is part of its launch
    template, and another reservation recycles the nodes."""
    return None if CAPACITY_TYPES[old] == CAPACITY_TYPES[new] else "GPU pool"


def choices_kept(old: str, new: str) -> Verdict:
    """Each choice of `fallback` is its own node group; a pool without it has a different one."""
    before, after = ([*map(json.dumps, json.loads(text))] for text in (old, new))
    return None if before and {*before} <= {*after} else "GPU pool"


def another_scaler(old: str, new: str) -> Verdict:
    """Switching a cluster to or from Auto Mode takes separate steps: running addons and system
    nodes would be removed before their successors exist."""
    return Refusal() if "auto-mode" in (old, new) else "node pools"


_release_taken_away = kept("the release follows the next Kubernetes version, or name a newer one")


def never_lower(old: str, new: str) -> Verdict:
    """EKS cannot return a node group to an earlier release of its image.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
    """
    before, after = _RELEASE.fullmatch(old), _RELEASE.fullmatch(new)
    if before and after and tuple(map(int, after.groups())) < tuple(map(int, before.groups())):
        return Refusal("take a newer release, ", of="GPU pool")
    return _release_taken_away(old, new)
