"""The effect of changing a setting on EKS, if it depends on the values.

All other rules are next to their fields, as `OnChange`. `make inject-faults` changes every setting;
it fails if a replacement has no rule.
"""

import json
import re
from functools import partial
from types import SimpleNamespace

from ..scalers import SCALERS
from ..schema.on_change import Refusal, Verdict, kept
from .fallback_args import part_names
from .reservation import CAPACITY_TYPES

_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)-(\d{8})")


def bought(old: str, new: str) -> Verdict:
    """EKS cannot change the `capacityType` of a node group; a reservation is part of its launch
    template, and another reservation recycles the nodes."""
    return None if CAPACITY_TYPES[old] == CAPACITY_TYPES[new] else "GPU pool"


def _parts_kept(old: str, new: str, *, groups: bool) -> Verdict:
    """Whether the new order of `fallback` has all node groups or NodePools of the old one."""
    # Not decoded: the state may name what is refused by now.
    orders = (
        json.loads(text, object_hook=lambda entry: SimpleNamespace(**entry)) for text in (old, new)
    )
    before, after = ({*part_names("pool", order, groups=groups)} for order in orders)
    return None if before <= after else "GPU pool"


node_groups_kept = partial(_parts_kept, groups=True)
node_pools_kept = partial(_parts_kept, groups=False)


def another_scaler(old: str, new: str) -> Verdict:
    """Switching a cluster to or from Auto Mode takes separate steps: running addons and system
    nodes would be removed before their successors exist."""
    serving = {name for name, row in SCALERS.items() if row.serves_system}
    return Refusal() if serving & {old, new} else "node pools"


_release_taken_away = kept("the release follows the next Kubernetes version, or name a newer one")


def never_lower(old: str, new: str) -> Verdict:
    """EKS cannot return a node group to an earlier release of its image.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
    """
    before, after = _RELEASE.fullmatch(old), _RELEASE.fullmatch(new)
    if before and after and tuple(map(int, after.groups())) < tuple(map(int, before.groups())):
        return Refusal("take a newer release, ", of="GPU pool")
    return _release_taken_away(old, new)
