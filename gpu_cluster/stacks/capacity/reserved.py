"""Whether the reservations that pools name exist, and have enough machines; pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from gpu_cluster.stacks.capacity import advice
from gpu_cluster.stacks.capacity.verdict import Unknown
from gpu_cluster.stacks.table import table

Word = Literal["enough", "later", "too little", "wrong", "unknown"]
State = Literal["active", "later", "over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A pool and the reservation that its nodes use."""

    pool: str
    reservation: str
    """The name in the settings."""
    types: tuple[str, ...]
    """The cloud's names of possible machines, with what is attached to them."""
    places: str
    """The setting with the pool's zones or subnets."""
    zones: tuple[str, ...]
    each_zone: bool = False
    """Whether each of the zones must have it, rather than one."""
    nodes: int
    """The pool's `maxNodes`."""
    kind: str = "reservation"
    """The pool's `capacityType`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudReservation:
    """A reservation as the cloud describes it."""

    name: str
    type: str
    zone: str
    zone_id: str = ""
    """The zone's ID, the same in every account, if the cloud has such IDs."""
    total: int
    free: int
    own: int = 0
    """The number of its machines that are this stack's nodes."""
    state: State
    state_name: str
    """The cloud's own name for the state."""
    kind: str = "reservation"
    """The `capacityType` for which it can be used."""
    start: datetime | None = None
    end: datetime | None = None
    refusal: str = ""
    """Why this project or account may not use it; empty if it may."""

    @property
    def window(self) -> str:
        """Its start and end for people; empty if it has no end."""
        if self.start is not None and self.state == "later":
            end = f" to {advice.time_text(self.end)}" if self.end else ""
            return f"from {advice.time_text(self.start)}{end}"
        return f"until {advice.time_text(self.end)}" if self.end else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """The reservation that a pool needs, and the cloud's answer."""

    wanted: Wanted
    reservations: tuple[CloudReservation, ...] | Unknown
    """Empty if none has this name; several for a group, or for one name in many zones."""
    hint: str = ""
    """The command that lists reservations."""

    @property
    def word(self) -> Word:
        return self._judged[0]

    @property
    def reason(self) -> str:
        """Why the pool does not get its nodes, and what to do."""
        return self._judged[1]

    @property
    def free(self) -> int:
        """The number of machines that the pool could get now."""
        found = () if isinstance(self.reservations, Unknown) else self.reservations
        return sum(row.free for row in found if row.state == "active" and not self._unfit(row))

    @property
    def _judged(self) -> tuple[Word, str]:
        if isinstance(self.reservations, Unknown):
            return "unknown", self.reservations.reason
        need = self.wanted
        if not self.reservations:
            hint = f"; {self.hint}" if self.hint else ""
            return "wrong", (
                f"{need.reservation} does not exist, or is not visible to this account{hint}"
            )
        fitting = [reservation for reservation in self.reservations if not self._unfit(reservation)]
        if not fitting:
            return "wrong", "; ".join(self._unfit(reservation) for reservation in self.reservations)
        here = [reservation.zone for reservation in fitting]
        if lacking := [zone for zone in need.zones if need.each_zone and zone not in here]:
            return "wrong", (
                f"{need.reservation} is not in {', '.join(lacking)}, and must be in each zone of "
                f"the pool; set {need.places} to {', '.join(here)}"
            )
        return self._counted(fitting)

    def _counted(self, fitting: Sequence[CloudReservation]) -> tuple[Word, str]:
        total, nodes = sum(reservation.total for reservation in fitting), self.wanted.nodes
        if total < nodes:
            return "too little", (
                f"maxNodes is {nodes}, and {self.wanted.reservation} has {total}; lower maxNodes "
                "to that, or extend the reservation"
            )
        if waiting := [reservation for reservation in fitting if reservation.state == "later"]:
            return "later", f"{waiting[0].name} is {waiting[0].state_name}: {waiting[0].window}"
        free = sum(reservation.free + reservation.own for reservation in fitting)
        if free < nodes:
            return "too little", (
                f"maxNodes is {nodes}, and others use {total - free} of the {total} in "
                f"{self.wanted.reservation}"
            )
        return "enough", ""

    def _unfit(self, row: CloudReservation) -> str:
        """Why the pool cannot use it."""
        need = self.wanted
        if row.refusal:
            return row.refusal
        if row.kind != need.kind:
            return f"{row.name} is for capacityType {row.kind}, and the pool has {need.kind}"
        if row.type not in need.types:
            return f"{row.name} is of {row.type}, and the pool has {' or '.join(need.types)}"
        if row.zone not in need.zones and row.zone_id not in need.zones:
            zone = f"{row.zone} ({row.zone_id})" if row.zone_id else row.zone
            return (
                f"{row.name} is in {zone}, and the pool in {', '.join(need.zones)}; set "
                f"{need.places} to the reservation's zone"
            )
        if row.state == "over":
            when = f" since {advice.time_text(row.end)}" if row.end else ""
            return f"{row.name} is {row.state_name}{when}; " + (self.hint or "name an active one")
        return ""

    def document(self) -> dict[str, Any]:
        found = () if isinstance(self.reservations, Unknown) else self.reservations
        return {
            "pool": self.wanted.pool,
            "reservation": self.wanted.reservation,
            "need": self.wanted.nodes,
            "found": None
            if isinstance(self.reservations, Unknown)
            else [_document(row) for row in found],
            "verdict": self.word,
            "reason": self.reason,
        }


def _document(reservation: CloudReservation) -> dict[str, Any]:
    return {
        "name": reservation.name,
        "capacityType": reservation.kind,
        "type": reservation.type,
        "zone": reservation.zone,
        "zoneId": reservation.zone_id or None,
        "total": reservation.total,
        "free": reservation.free,
        "ownUse": reservation.own,
        "state": reservation.state_name,
        "start": reservation.start and reservation.start.isoformat(),
        "end": reservation.end and reservation.end.isoformat(),
    }


def missing(reserved: Sequence[Reserved]) -> list[advice.Wanted]:
    """The machines of reservations that do not exist, or no longer."""
    return [
        advice.Wanted(
            pool=result.wanted.pool,
            way=result.wanted.kind,
            types=result.wanted.types,
            zones=result.wanted.zones,
            nodes=max(result.wanted.nodes, 1),
        )
        for result in reserved
        if not isinstance(result.reservations, Unknown)
        and all(reservation.state == "over" for reservation in result.reservations)
    ]


def reserved_text(reserved: Sequence[Reserved], once: str = "") -> str:
    """The table, then a line for each that is not just enough; empty if there are none. What is not
    known because of `once` has no line."""
    if not reserved:
        return ""
    rows = [cells for result in reserved for cells in _rows(result)]
    head = ["POOL", "RESERVATION", "TYPE", "ZONE", "NEED", "FREE", "WINDOW", "VERDICT"]
    parts = [table(head, rows)]
    parts += [
        f"pool {result.wanted.pool}: {result.word}: {result.reason}"
        for result in reserved
        if result.reason
        and not (once and result.reason == once)
        and not (isinstance(result.reservations, Unknown) and result.reservations.explained)
    ]
    return "\n".join(parts)


def _rows(result: Reserved) -> list[list[Any]]:
    need = result.wanted
    if isinstance(result.reservations, Unknown) or not result.reservations:
        return [[need.pool, need.reservation, "-", "-", need.nodes, "-", "-", result.word]]
    return [
        [need.pool, row.name, row.type, row.zone, need.nodes,
         f"{row.free} of {row.total}", row.window or row.state_name, result.word]
        for row in result.reservations
    ]  # fmt: skip
