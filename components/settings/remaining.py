"""What is left of a stack's blocks without what is refused, for the checks that come after.

A misspelt key gets the name that it most likely means. A refused entry is removed with what
names it: what it would have is not known.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..catalog import kubernetes as names
from ..schema.decode import NAMESPACE
from ..schema.refusal import EXCLUDED_KEY, UNKNOWN_KEY, UNKNOWN_NAMESPACE, Keys, Refusal
from .blocks import BLOCKS, RUNNING

_EXISTING = {"existing": True}
_NAMED = [key for key, block in RUNNING.items() if block.names is not None]
"""Blocks whose entries run pods."""
_DEPENDED_ON = ("batch", "serviceAccounts", "volumeClaims", "namespaces", "teams")
"""Blocks that others need as a whole."""
_USED_BY: Mapping[str, Callable[[Any, str], bool]] = {
    "serviceAccounts": lambda pods, name: pods["serviceAccount"] == name,
    "volumeClaims": lambda pods, name: any(
        volume.get("claim") == name for volume in pods["volumes"].values()
    ),
}
"""Block -> whether pods name one of its entries."""


class Remaining:
    """The blocks of a stack, of which `remove` takes what is refused."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values: dict[str, Any] | None = _copy(values)
        """Key of a block -> its value; None if nothing can be checked without what is refused."""
        self._guessed: list[list[str | int]] = []

    def guessed(self, refusal: Refusal) -> bool:
        """Whether the value belongs to a guessed key, so that an error in it means nothing."""
        return any(steps(refusal.path)[: len(path)] == path for path in self._guessed)

    def remove(self, refusals: Sequence[Refusal]) -> bool:
        """Removes what the refusals of one reading are about; returns whether that is anything."""
        before, gone = _copy(self.values), list[list[str | int]]()
        for refusal in refusals:
            path = steps(refusal.path)
            if self.values is not None and path[:2] not in gone:
                gone += [path[:2]] if self._remove(refusal, path) else []
        return bool(self.values != before)

    def _remove(self, refusal: Refusal, path: list[str | int]) -> bool:
        """Removes what a refusal is about; returns whether that is a whole entry or block. Settings
        of a cluster, and of a block that others need, stay: readers leave them out."""
        values: dict[str, Any] = self.values or {}
        block, name = str(path[0]), str(path[1]) if path[1:] else ""
        created = values.get("namespaces")
        if block not in values:
            return False
        if refusal.code == UNKNOWN_NAMESPACE:
            values["namespaces"] = {**(created or {}), refusal.given: _EXISTING}
        elif refusal.code in (UNKNOWN_KEY, EXCLUDED_KEY):
            self._rename(refusal, path)
        elif block == "namespaces" and isinstance(created, dict) and name in created:
            # What names it means a declared namespace. Nothing names one with a wrong name, unless
            # it is the name of a namespace that may exist.
            reserved = names.RESERVED_NAMESPACE.fullmatch(name)
            wrong_name = len(path) == 2 and isinstance(created.pop(name), dict) and not reserved
            created |= {} if wrong_name else {name: _EXISTING}
        elif block in ("gpuPools", *_NAMED) and name in (values.get(block) or ()):
            _without(values, block, name)
            return True
        elif path[:2] == ["batch", "queues"] and path[2:]:
            _without(values, "queues", str(path[2]))
        elif block in _USED_BY and name in (values.get(block) or ()):
            del values[block][name]
            for kind in RUNNING:
                users = values[kind] if kind in _NAMED else {kind: values[kind]}
                lost = _drop(users, lambda pods: _USED_BY[block](pods, name))
                values |= {kind: {}} if lost and kind not in _NAMED else {}
            return True
        elif block in BLOCKS and block not in _DEPENDED_ON:
            values[block] = {}
            return True
        elif not path[1:]:
            self.values = None
        return False

    def _rename(self, refusal: Refusal, path: list[str | int]) -> None:
        *outer, key = path
        holder: Any = self.values
        for step in outer:
            try:
                holder = holder[step]
            except (LookupError, TypeError):
                return
        if not isinstance(holder, dict) or key not in holder:
            return
        value, meant = holder.pop(key), refusal.likely
        if meant and meant not in holder:
            holder[meant] = value
            self._guessed.append([*outer, meant])
        elif isinstance(outer[-1], int):  # Without the key, it may be the same as another.
            self._guessed.append(outer[:-1])


def steps(path: Keys) -> list[str | int]:
    """The keys and positions from the blocks down."""
    first, *others = path
    return [*f"{first}".removeprefix(f"{NAMESPACE}:").split("."), *others]


def _copy(value: Any) -> Any:
    """A copy of maps and lists; args of a program stay as they are."""
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [*map(_copy, value)] if isinstance(value, list) else value


def _without(values: dict[str, Any], block: str, name: str) -> None:
    """Removes an entry and its users, which can no longer be checked."""
    batch = values.get("batch")
    queues = batch.get("queues") if isinstance(batch, dict) else None
    queues = queues if isinstance(queues, dict) else {}
    (queues if block == "queues" else values[block]).pop(name, None)
    if block not in ("gpuPools", "queues"):
        return
    lost = {name} if block == "queues" else _drop(queues, lambda queue: name in queue["pools"])
    if block == "gpuPools":
        lost |= _without_share(values, name)
        values |= {key: {} for key in _drop(dict(values), lambda value: name in value["pools"])}
    if isinstance(batch, dict) and not queues and not values.get("teams"):
        batch.pop("priorities", None)  # Those of the lost queues.
    for kind in _NAMED:
        _drop(values.get(kind), lambda entry: entry.get("queue") in lost)
        if block == "gpuPools":
            _drop(values.get(kind), lambda entry: entry["pool"] == name)


def _without_share(values: dict[str, Any], pool: str) -> set[str]:
    """Removes teams' shares of a pool, and teams with no other share; returns their names. Their
    namespaces stay, for what else is in them."""
    teams = values.get("teams")
    before = dict(teams) if isinstance(teams, dict) else {}

    def only(team: Any) -> bool:
        return bool(team["gpus"].pop(pool, None) is not None and not team["gpus"])

    lost = _drop(teams, only)
    created: dict[str, Any] = {
        f"{namespace}": {}
        for team in lost
        for namespace in _names(before[team].get("namespaces")) or [team]
    }
    values["namespaces"] = {**created, **(values.get("namespaces") or {})}
    return lost


def _names(value: Any) -> list[str]:
    """The names in a list, which may have been refused."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _drop(entries: Any, names_it: Callable[[Any], bool]) -> set[str]:
    """Removes the entries that name something, and returns their names; others are checked when
    they are read, whatever their form."""
    gone = set()
    for key, entry in list(entries.items()) if isinstance(entries, dict) else ():
        try:
            named = names_it(entry)
        except (AttributeError, KeyError, TypeError):
            continue
        if named:
            gone.add(key)
            del entries[key]
    return gone
