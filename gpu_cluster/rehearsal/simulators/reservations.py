"""Reservations bought before the stack: EC2's Capacity Reservations and Capacity Blocks, Compute
Engine's reservations.

They are in `inventories/<stack>.yaml` under `reservations`. Without that key they are derived from
the stack's pools, and the report says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpu_cluster.components.catalog.gke import largest_with, zones_with
from gpu_cluster.components.eks.reservation import ID, is_group
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.gke.reservation import parse_reservation
from gpu_cluster.components.gke.settings import GkeSettings
from gpu_cluster.components.gke_autopilot.settings import GkeAutopilotSettings
from gpu_cluster.components.schema.outputs import text
from gpu_cluster.components.schema.refusal import shown as written
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.rehearsal.simulators.inventory import (
    INVENTORIES,
    Network,
    file_of,
    inventory,
    wrong,
)

_KEYS = (
    "type", "zone", "count", "used", "accelerator", "gpus", "block", "group", "start", "end",
    "sharedWith", "blocks", "ssds",
)  # fmt: skip
_EXAMPLE = "{ type: p5.48xlarge, zone: us-east-1a, count: 2 }"
_EARLIER, _LONG = timedelta(hours=1), timedelta(days=7)
_ID = "cr-0{:016x}"
_AUTOPILOT_COUNT = 8
"""The number of machines, if nothing limits the pods that request them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Machines of one type in one zone, kept free for users that name the reservation."""

    name: str
    """`cr-...` on AWS; on Google Cloud its name, or `projects/OWNER/reservations/NAME`."""
    type: str
    """The instance type, or machine type."""
    zone: str
    count: int
    used: int = 0
    """The number of machines that others use."""
    accelerator: str = ""
    """Google Cloud: the accelerator of each N1 machine, and its count."""
    gpus: int = 0
    ssds: int = 0
    """Google Cloud: the local SSDs that were added to each machine."""
    block: bool = False
    """AWS: whether it is a Capacity Block."""
    group: str = ""
    """AWS: the ARN of its resource group."""
    start: datetime | None = None
    """When a Capacity Block begins and ends; None without an end."""
    end: datetime | None = None
    shared_with: tuple[str, ...] = ()
    """Google Cloud: the projects that may use it, in addition to the owner's."""
    blocks: tuple[str, ...] = ()
    """Google Cloud: its blocks, if it has any."""


def reservations(
    stack: str,
    settings: Settings[Any] | None,
    network: Network | None = None,
    folder: Path = INVENTORIES,
) -> tuple[list[Reservation], list[str]]:
    """The reservations of the account or project, and notes for the report. Raises StackError, one
    line, for an invalid inventory."""
    found = inventory(stack, folder)
    if isinstance(found, dict) and "reservations" in found:
        return list(_checked(stack, found["reservations"])), []
    derived = _derived(settings, network)
    if not derived:
        return [], []
    named = ", ".join(reservation.group or reservation.name for reservation in derived)
    return derived, [
        f"these reservations are simulated: {named}; no inventory describes them, so they are as "
        f"the pools want them: {file_of(stack)} says type, zone and count of "
        "each"
    ]


def window(block: bool, start: datetime | None, end: datetime | None) -> dict[str, Any]:
    """A Capacity Block's start and end; by default it began an hour ago."""
    if not block:
        return {"start": start, "end": end}
    now = datetime.now(UTC).replace(microsecond=0)
    start = start or (min(now, end) if end else now) - _EARLIER
    return {"start": start, "end": end or start + _LONG}


def _derived(settings: Settings[Any] | None, network: Network | None) -> list[Reservation]:
    own = settings.own if settings else None
    if isinstance(own, EksSettings):
        rows = _of_eks(own, network)
    elif isinstance(own, GkeSettings):
        rows = _of_gke(own)
    elif isinstance(own, GkeAutopilotSettings):
        rows = _of_autopilot(own)
    else:
        return []
    found: dict[tuple[str, str], Reservation] = {}
    for row in rows:
        key = (row.name, row.zone)
        before = found.get(key)
        found[key] = replace(row, count=row.count + before.count) if before else row
    return list(found.values())


def _of_eks(own: EksSettings, network: Network | None) -> Iterator[Reservation]:
    choices = (choice for pool in own.pools.values() for choice in pool.choices)
    for number, choice in enumerate(choices):
        args = choice.args
        if args.reservation is None:
            continue
        place = choice.places[0]
        zone = network.subnets[place].zone if network else place
        reservation = text(args.reservation)
        group = is_group(reservation)
        block = args.capacity_type == "capacity-block"
        yield Reservation(
            name=_ID.format(number) if group else reservation,
            type=args.instance_types[0],
            zone=zone,
            count=args.max_nodes,
            block=block,
            group=reservation if group else "",
            **window(block, None, None),
        )


def _of_gke(own: GkeSettings) -> Iterator[Reservation]:
    for choice in (choice for pool in own.pools.values() for choice in pool.choices):
        args = choice.args
        if args.reservation is None:
            continue
        reservation = text(args.reservation)
        path = parse_reservation(reservation)
        for zone in choice.places:
            yield Reservation(
                name=reservation.partition("/reservationBlocks/")[0],
                type=args.machine_type,
                zone=zone,
                count=args.max_nodes,
                accelerator="" if args.machine.accelerator else args.gpu_model.name,
                gpus=0 if args.machine.accelerator else args.gpus,
                ssds=args.ssds - args.machine.local_ssds,
                shared_with=(own.project,) if path.owner else (),
                blocks=(path.block,) if path.block else (),
            )


def _of_autopilot(own: GkeAutopilotSettings) -> Iterator[Reservation]:
    region = own.cluster.region
    for pool in own.pools.values():
        args = pool.args
        if args.reservation is None:
            continue
        path, (accelerator, count) = parse_reservation(args.reservation), args.node_gpus
        machine = largest_with(accelerator.name, count)
        attached = machine is not None and not machine.accelerator
        for zone in zones_with(accelerator.name, region)[:1] if machine else ():
            yield Reservation(
                name=args.reservation.partition("/reservationBlocks/")[0],
                type=machine.name if machine else "",
                zone=zone,
                count=_AUTOPILOT_COUNT,
                accelerator=accelerator.name if attached else "",
                gpus=count if attached else 0,
                shared_with=(own.project,) if path.owner else (),
                blocks=(path.block,) if path.block else (),
            )


def _checked(stack: str, found: Any) -> Iterator[Reservation]:
    if not isinstance(found, dict):
        raise wrong(
            stack, ".reservations", f"is not a map of reservations; write one as mine: {_EXAMPLE}"
        )
    for name, row in found.items():
        at = f".reservations.{name}"
        if not isinstance(row, dict):
            raise wrong(stack, at, f"{written(row)} is not a reservation; write it as {_EXAMPLE}")
        for key in row:
            if key not in _KEYS:
                raise wrong(stack, f"{at}.{key}", f"there is no such key; allowed: "
                             f"{', '.join(_KEYS)}")  # fmt: skip
        for key in ("type", "zone"):
            if not isinstance(row.get(key), str):
                raise wrong(
                    stack, f"{at}.{key}", f"{written(row.get(key))} is not the name of a {key}"
                )
        block = row.get("block", False)
        counts = {key: row.get(key, 0) for key in ("count", "used", "gpus", "ssds")}
        for key, value in counts.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise wrong(stack, f"{at}.{key}", f"{written(value)} is not a number of {key}")
        if not isinstance(block, bool):
            raise wrong(stack, f"{at}.block", f"{written(block)} is not a boolean (true or false)")
        on_aws = ID.fullmatch(str(name)) is not None
        if not on_aws and (block or "group" in row):
            raise wrong(stack, at, "is not the ID of a Capacity Reservation, such as "
                         "cr-0123456789abcdef0")  # fmt: skip
        times = {key: _time(stack, f"{at}.{key}", row.get(key)) for key in ("start", "end")}
        yield Reservation(
            name=str(name), type=row["type"], zone=row["zone"], **counts,
            accelerator=str(row.get("accelerator", "")), block=block,
            group=str(row.get("group", "")), **window(block, times["start"], times["end"]),
            shared_with=_words(stack, f"{at}.sharedWith", row.get("sharedWith", [])),
            blocks=_words(stack, f"{at}.blocks", row.get("blocks", [])),
        )  # fmt: skip


def _time(stack: str, at: str, value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):  # YAML parses 2026-11-22T11:30:00Z as one
        raise wrong(stack, at, f"{written(value)} is not a time such as 2026-11-22T11:30:00Z")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _words(stack: str, at: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise wrong(stack, at, f"{written(value)} is not a list")
    return tuple(map(str, value))
