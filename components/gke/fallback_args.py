"""The entries of an order of fallback on GKE that are more than a way of buying nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from ..schema.effect import Sent
from ..schema.limits import UNIQUE
from ..schema.rules import Checked
from .cluster_args import ZONE
from .machine_args import MACHINE

Capacity = Literal["on-demand", "spot", "flex-start", "reservation"]
_ZONES = Annotated[
    Sequence[Annotated[str, ZONE]], UNIQUE, Sent("ComputeClass spec.priorities[].location.zones")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeFallbackArgs(Checked):
    """An entry of `fallback`: what nodes have instead of the pool's settings."""

    capacity_type: Annotated[Capacity, Sent("ComputeClass spec.priorities[]")] = "on-demand"
    """How the nodes are bought."""
    zones: _ZONES = ()
    """The zones of the nodes; by default, those of the pool."""
    machine_type: Annotated[
        str | None, MACHINE, Sent("ComputeClass spec.priorities[].machineType")
    ] = None
    """A machine type with the same GPUs; by default, the pool's."""

    @property
    def machines(self) -> Sequence[str]:
        """The machine type, if it is not the pool's."""
        return [self.machine_type] if self.machine_type else []


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeAutopilotFallbackArgs(Checked):
    """An entry of `fallback`: how nodes are bought, and where."""

    capacity_type: Annotated[Capacity, Sent("ComputeClass spec.priorities[]")] = "on-demand"
    """How the nodes are bought."""
    zones: _ZONES = ()
    """The zones of the nodes; by default, GKE chooses them."""

    @property
    def machines(self) -> Sequence[str]:
        """None: GKE chooses the machine type."""
        return []
