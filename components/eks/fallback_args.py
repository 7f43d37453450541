"""The entries of an order of fallback on EKS that are more than a way of buying nodes."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import MaxLen

from ..catalog import eks as catalog
from ..schema.effect import Sent
from ..schema.fallback import way
from ..schema.limits import UNIQUE, Limit
from ..schema.refusal import shown
from ..schema.rules import Checked
from .reservation import CapacityType, is_karpenters

LONGEST_PART = 32
"""The most characters of the name of a node group of an order: the provider adds 26 and a dash,
this stack `ami-`, and EKS accepts 63."""
_REGION = re.compile(r"[a-z]+(-[a-z]+)+-[0-9]-?")


def _not_an_instance_type(name: str) -> str | None:
    reason = catalog.refusal(name)
    return reason and f"{shown(name)} {reason}"


INSTANCE_TYPE = Limit(
    _not_an_instance_type,
    {"enum": [name for name in catalog.INSTANCE_TYPES if catalog.refusal(name) is None]},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EksFallbackArgs(Checked):
    """An entry of `fallback`: what nodes have instead of the pool's settings."""

    capacity_type: Annotated[CapacityType, Sent("NodeGroup capacityType")] = "on-demand"
    """How the nodes are bought."""
    zones: Annotated[Sequence[str], UNIQUE, Sent("NodeGroup subnetIds")] = ()
    """Some of the network's zones; by default, those of the pool."""
    instance_types: Annotated[
        Sequence[Annotated[str, INSTANCE_TYPE]],
        MaxLen(catalog.MAX_INSTANCE_TYPES),
        UNIQUE,
        Sent("NodeGroup instanceTypes"),
    ] = ()
    """Instance types with the same GPUs, the smallest first; by default, the pool's."""

    @property
    def machines(self) -> Sequence[str]:
        """The instance types, if they are not the pool's."""
        return self.instance_types


def part_names(
    pool: str, fallback: Sequence[CapacityType | EksFallbackArgs], *, groups: bool
) -> Sequence[str]:
    """The names of the node groups, or with `groups` false of the NodePools, of an order: only the
    pool's own if one has all entries."""
    if not fallback or (not groups and is_karpenters(fallback)):
        return [pool]
    names = [part_name(pool, entry) for entry in fallback]
    if not groups:
        return [name.replace("_", ".") for name in names]
    return [
        name if len(name) <= LONGEST_PART else f"{name[:25].rstrip('-_')}_{_digest(name)}"
        for name in names
    ]


def _digest(name: str) -> str:
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:6]


def part_name(pool: str, entry: CapacityType | EksFallbackArgs) -> str:
    """The name of an entry, whatever its place in the order: `l4_spot`, or
    `l4_on-demand_a_g6-xlarge` for one with a zone and a type of its own. Names of pools contain no
    underscore."""
    own = EksFallbackArgs() if isinstance(entry, str) else entry
    zones = [_REGION.sub("", zone, count=1) for zone in own.zones]
    types = [name.replace(".", "-") for name in own.instance_types]
    name = "_".join([pool, way(entry), *zones, *types])
    if len(name) <= LONGEST_PART:
        return name
    return f"{pool}_{way(entry)}_{_digest(name)}" if own.zones or own.instance_types else name
