"""What a change of a setting means on EKS, where it depends on the values.

Every other rule stands with its field, as `OnChange`. `make inject-faults` makes a change of every
setting; a replacement for which there is no rule fails it.
"""

import json
import re

from ..on_change import Refusal, Verdict, kept
from .reservation import CAPACITY_TYPES

_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)-(\d{8})")


def bought(old: str, new: str) -> Verdict:
    """EKS keeps the `capacityType` of a node group; a reservation stands in its launch template,
    and another one recycles the nodes."""
    return None if CAPACITY_TYPES[old] == CAPACITY_TYPES[new] else "GPU pool"


def choices_kept(old: str, new: str) -> Verdict:
    """Each choice of `fallback` is a node group; without one, the pool is another group."""
    before, after = json.loads(old), json.loads(new)
    return None if before and {*before} <= {*after} else "GPU pool"


def another_scaler(old: str, new: str) -> Verdict:
    """A cluster becomes Auto Mode's, or stops being it, in steps of its own: addons and system
    nodes that run would go before their successors are there."""
    return Refusal() if "auto-mode" in (old, new) else "node pools"


def never_back(old: str, new: str) -> Verdict:
    """The Kubernetes minor of node groups: EKS takes none back to an earlier one."""
    before, after = (int(version.split(".")[1]) for version in (old, new))
    return None if after > before else Refusal("take a later one, ", of="GPU pool")


_release_taken_away = kept("the release follows the next Kubernetes version, or name a newer one")


def never_lower(old: str, new: str) -> Verdict:
    """An image's release: EKS takes no node group back to an earlier one.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
    """
    before, after = _RELEASE.fullmatch(old), _RELEASE.fullmatch(new)
    if before and after and tuple(map(int, after.groups())) < tuple(map(int, before.groups())):
        return Refusal("take a newer release, ", of="GPU pool")
    return _release_taken_away(old, new)
