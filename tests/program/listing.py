"""Values as lines of text, each at most `WIDTH` characters: in full, and what differs."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

WIDTH = 120
LONGEST = 160
"""Characters of a value that is shown; a longer one is shown by its digest."""


NAMES = ("name", "alert", "title", "mountPath", "key")
"""Keys of which the first that is unique in a list of mappings names its elements."""


def named(value: Any) -> Any:
    """A value whose lists of named elements are mappings from `[NAME]`, in the list's order, so
    that an element more moves no other one."""
    if isinstance(value, Mapping):
        return {key: named(inner) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    mappings = [element for element in value if isinstance(element, Mapping)]
    for key in NAMES if value and len(mappings) == len(value) else ():
        names = {str(element[key]) for element in mappings if element.get(key)}
        if len(names) == len(value):
            return {
                f"[{element[key]}]": named({k: v for k, v in element.items() if k != key})
                for element in mappings
            }
    return [named(element) for element in value]


def _keys(value: Mapping[Any, Any]) -> list[Any]:
    """Sorted, unless they stand for a list's elements."""
    return [*value] if _in_order(value) else sorted(value)


def _in_order(value: Mapping[Any, Any]) -> bool:
    return str(next(iter(value), "")).startswith("[")


def lines(value: Any, path: str = "", *, packed: bool = False) -> Iterator[str]:
    """A line for each value with its path, for a list of plain values if it fits; packed, for as
    many neighbors as fit."""
    text = _line(path, value)
    whole = packed or (isinstance(value, list) and _scalars(value))
    short = path and len(text) <= WIDTH and whole
    if short or not value or not isinstance(value, Mapping | list):
        yield text
    elif isinstance(value, Mapping):
        # In a list the order counts; of a mapping, what does not fit can follow what does.
        wide = {key for key in value if len(_line(path, {key: value[key]})) > WIDTH or not packed}
        fitting = {key: value[key] for key in _keys(value) if key not in wide}
        yield from _packed(fitting, lambda part: _line(path, part))
        for key in (key for key in _keys(value) if key in wide):
            yield from lines(value[key], _joined(path, key), packed=packed)
    else:
        run: dict[int, Any] = {}
        for at, each in enumerate(value):
            if packed and len(_line(f"{path}[00]", each)) <= WIDTH:
                run[at] = each
                continue
            yield from _packed(run, lambda part: _run(path, part))
            run = {}
            yield from lines(each, f"{path}[{at}]", packed=packed)
        yield from _packed(run, lambda part: _run(path, part))


def _packed(items: Mapping[Any, Any], line: Callable[[Any], str]) -> Iterator[str]:
    """As many neighbors in a line as fit."""
    row: dict[Any, Any] = {}
    for key, value in items.items():
        if row and len(line({**row, key: value})) > WIDTH:
            yield line(row)
            row = {}
        row[key] = value
    if row:
        yield line(row)


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """`path old -> new`; `-` with the keys that are gone, `+` with what is new."""
    if old == new and json.dumps(old) == json.dumps(new):  # also in the same order
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping) and old and new:
        if gone := sorted({*old} - {*new}):
            yield from wrapped(f"- {path}:" if path else "-", gone)
        if added := {key: new[key] for key in new if key not in old}:
            yield from (f"+ {line}" for line in lines(added, path, packed=True))
        kept = [[key for key in a if key in b] for a, b in ((old, new), (new, old))]
        if _in_order(new) and kept[0] != kept[1]:
            yield f"{path} in another order {''.join(kept[1])}"
        for key in sorted({*old} & {*new}):
            yield from differences(old[key], new[key], _joined(path, key))
    elif isinstance(old, list) and isinstance(new, list) and old and new:
        if _scalars([*old, *new]) and len(_line(path, [*old, *new])) > WIDTH - 4:
            yield from wrapped(f"- {path}:", [_shown(value) for value in old if value not in new])
            yield from wrapped(f"+ {path}:", [_shown(value) for value in new if value not in old])
            kept = [[value for value in a if value in b] for a, b in ((old, new), (new, old))]
            yield from [] if kept[0] == kept[1] else [f"{path} in another order {_shown(new)}"]
        elif _scalars([*old, *new]):
            yield f"{path} {_shown(old)} -> {_shown(new)}"
        else:
            for at in range(min(len(old), len(new))):
                yield from differences(old[at], new[at], f"{path}[{at}]")
            if len(old) > len(new):
                yield f"- {path}: from [{len(new)}] on"
            for at in range(len(old), len(new)):
                yield from (f"+ {line}" for line in lines(new[at], f"{path}[{at}]", packed=True))
    elif len(text := f"{path} {_shown(old)} -> {_shown(new)}") <= WIDTH:
        yield text
    else:
        yield from (f"+ {line}" for line in lines(new, path, packed=True))


def wrapped(head: str, names: Iterable[str]) -> Iterator[str]:
    """Names after what they have in common, in lines that all begin with it."""
    line = head
    for name in names:
        if line != head and len(line) + len(name) + 2 > WIDTH:
            yield line
            line = head
        line += f" {name}" if line == head else f", {name}"
    if line != head:
        yield line


def beside(head: str, rows: list[str]) -> list[str]:
    """A heading and its rows; a single one is on the same line if it fits."""
    if len(rows) == 1 and len(line := f"{head} {rows[0]}") <= WIDTH:
        return [line]
    return [head, *(f"  {row}" for row in rows)]


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shown(value[key])}" for key in _keys(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    whole = isinstance(value, float) and value.is_integer()
    text = json.dumps(int(value) if whole else value)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text if len(text) <= LONGEST else f"{len(text)} characters, sha256 {digest}"


def _line(path: str, value: Any) -> str:
    if not path and isinstance(value, Mapping) and value:
        return _shown(value)[1:-1].removeprefix(": ")
    return f"{path} {_shown(value)}".strip()


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path and not str(key).startswith("[") else f"{path}{key}"


def _run(path: str, part: Mapping[int, Any]) -> str:
    """Neighbors in a list: `args[2:5] [...]`."""
    first, last = min(part), max(part)
    if first == last:
        return _line(f"{path}[{first}]", part[first])
    return _line(f"{path}[{first}:{last + 1}]", [*part.values()])


def _scalars(values: list[Any]) -> bool:
    return not any(isinstance(value, Mapping | list) for value in values)
