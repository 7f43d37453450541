"""Machines in limited number, from `stock` in an inventory, and their return after they ran out."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

from gpu_cluster.components.schema.decode import camel
from gpu_cluster.components.schema.refusal import shown, unknown
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES, inventory, wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Machines in limited number, for the whole project or account."""

    machine_type: str
    """The machine type; on EKS the `instanceType`."""
    nodes: int = 0
    zone: str = ""
    """Empty for all zones."""
    capacity_type: str = ""
    """A pool's `capacityType`; empty for any."""
    returns: float | None = None
    """Seconds from the last refusal until there are enough again; None for never."""


def machine_types(own: object) -> set[str]:
    """The machine types in a platform's settings, of GPU pools and others."""
    if is_dataclass(own):
        found = set[str]()
        for field in fields(own):
            value = getattr(own, field.name)
            if field.name in ("machine_type", "instance_types"):
                found |= {value} if isinstance(value, str) else {*(value or ())}
            else:
                found |= machine_types(value)
        return found
    values = own.values() if isinstance(own, Mapping) else own
    if isinstance(values, Iterable) and not isinstance(values, str):
        return {name for value in values for name in machine_types(value)}
    return set()


def stock(
    stack: str,
    folder: Path = INVENTORIES,
    *,
    ways: Sequence[str],
    machines: Collection[str],
    machine: str = "machineType",
) -> list[Stock]:
    """The rows of `stock` in a stack's inventory. `ways`: valid values of `capacityType`;
    `machines`: valid machine types, empty if any is valid; `machine`: the key of the machine type.
    Raises StackError for an invalid row."""
    found = inventory(stack, folder)
    rows = found.get("stock", []) if isinstance(found, dict) else []
    keys = {camel(item.name): item.name for item in fields(Stock) if item.name != "machine_type"}
    keys = {machine: "machine_type", **keys}
    result = []
    for number, row in enumerate(rows if isinstance(rows, list) else [rows]):
        at = f".stock[{number}]"
        if not isinstance(row, dict) or not isinstance(row.get(machine), str):
            raise wrong(
                stack, at, f"has no {machine}; write it as {{ {machine}: TYPE, capacityType: spot, "
                "nodes: 0 }"
            )  # fmt: skip
        for key, value in row.items():
            kinds = (int, float) if key in ("nodes", "returns") else (str,)
            if key not in keys or not isinstance(value, kinds):
                raise wrong(stack, at, f"{key}: {shown(value)}; allowed: {', '.join(keys)}")
            if not isinstance(value, str) and value < 0:
                raise wrong(stack, f"{at}.{key}", f"{value} is too small; allowed: 0 or more")
        if machines and row[machine] not in machines:
            no_type = unknown(row[machine], machines)
            raise wrong(stack, f"{at}.{machine}", f"{shown(row[machine])} is of no pool; {no_type}")
        if (way := row.get("capacityType", "")) not in ("", *ways):
            raise wrong(
                stack, at, f"capacityType: {shown(way)} is not known; allowed: {', '.join(ways)}"
            )  # fmt: skip
        result.append(Stock(**{keys[key]: value for key, value in row.items()}))
    return result


class Stocks:
    """Rows of stock, some of which are removed some time after they refused a machine."""

    def __init__(self, rows: Sequence[Stock]) -> None:
        self._rows = list(rows)
        self._callbacks: list[Callable[[], None]] = []
        self._returning: dict[Stock, threading.Timer] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Stock]:
        with self._lock:
            return iter([*self._rows])

    def on_return(self, callback: Callable[[], None]) -> None:
        """The callback runs after something came back, on its own thread."""
        with self._lock:
            self._callbacks.append(callback)

    def refused(self, row: Stock) -> None:
        """Makes refused machines available again after `returns` seconds, counted from the last
        refusal, since the time until all zones of a choice have been tried varies."""
        with self._lock:
            if row.returns is None or row not in self._rows:
                return
            if (earlier := self._returning.get(row)) is not None:
                earlier.cancel()
            timer = threading.Timer(row.returns, self._return, [row])
            timer.daemon = True
            self._returning[row] = timer
            timer.start()

    def _return(self, row: Stock) -> None:
        with self._lock:
            # One that was cancelled too late is not the last.
            if self._returning.get(row) is not threading.current_thread():
                return
            self._rows.remove(row)
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    @property
    def restocks(self) -> bool:
        """Whether machines that run out become available again during the rehearsal."""
        with self._lock:
            return bool(self._returning) or any(row.returns is not None for row in self._rows)

    @property
    def restocking(self) -> bool:
        """Whether some machines that ran out are about to become available again."""
        with self._lock:
            return bool(self._returning.keys() & {*self._rows})
