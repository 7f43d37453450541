"""Compares an object's last known form with its new inputs: the changes, and how to apply them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml

from gpu_cluster.components.kube.quantity import or_none
from gpu_cluster.rehearsal.plugins.kubernetes.objects import Object, kind_of
from gpu_cluster.rehearsal.plugins.kubernetes.properties import UNKNOWN, has_unknown

Change = Literal["add", "delete", "update"]
Steps = tuple[str | int, ...]

_REPLACING: dict[tuple[str, ...], tuple[str, ...]] = {
    tuple(kind.rpartition("/")[::2]): tuple(
        f"{path}.{name}".lstrip(".") for path, names in below.items() for name in names.split()
    )
    for kind, below in yaml.safe_load(
        Path(__file__).with_name("replacing.yaml").read_text(encoding="utf-8")
    ).items()
}
_IDENTITY = ("metadata.name", "metadata.namespace")
"""Without apiVersion: a new one is a new type token, and the engine itself replaces the resource
unless an alias names the old token."""

QUANTITIES = {"limits", "requests", "capacity", "hard", "overhead", "sizeLimit", "divisor",
              "default", "defaultRequest", "max", "min", "maxLimitRequestRatio"}  # fmt: skip
"""Properties whose text, or whose map's texts, the API server normalises."""


def replacing(obj: Object, *, patch: bool = False) -> tuple[str, ...]:
    """Paths whose change replaces the object; `*` stands for any item of a list. `patch`: whether
    the resource patches another owner's object, which it never replaces."""
    kind = kind_of(obj)
    return _IDENTITY if patch else (*_IDENTITY, *_REPLACING.get((kind.group, kind.kind), ()))


def changes(old: Any, new: Any) -> Iterator[tuple[Steps, Change, Any]]:
    """Every path that differs, the kind of change, and the new value.

    `old` has the live values of the last inputs. If anything is unknown, quantities are compared as
    text, since the official provider knows no types then.
    """
    yield from _changes((), old, new, known=not has_unknown(new))


def _changes(path: Steps, old: Any, new: Any, known: bool) -> Iterator[tuple[Steps, Change, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in new.items():
            if name in old:
                yield from _changes((*path, name), old[name], value, known)
            else:
                yield (*path, name), "add", value
        for name in old:
            if name not in new:
                yield (*path, name), "delete", None
    elif isinstance(old, list) and isinstance(new, list):
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from _changes((*path, index), before, after, known)
        for index in range(len(old), len(new)):
            yield (*path, index), "add", new[index]
        for index in range(len(new), len(old)):
            yield (*path, index), "delete", None
    elif new == UNKNOWN and isinstance(old, dict):
        # The official provider treats it as an object without these properties.
        for name in old:
            yield (*path, name), "delete", None
    elif new == UNKNOWN or not _same(path, old, new, known):
        yield path, "update", new


def _same(path: Steps, old: Any, new: Any, known: bool) -> bool:
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if old == new:
        return True
    if not known or QUANTITIES.isdisjoint(str(part) for part in path):
        return False
    before, after = or_none(old), or_none(new)
    return before is not None and before == after


def replaces(path: Steps, new: Any, paths: tuple[str, ...]) -> bool:
    """Whether a change at `path` to `new` affects one of the replacing `paths`."""
    for pattern in paths:
        parts = pattern.split(".")
        if not all(part in ("*", step) for part, step in zip(parts, path, strict=False)):
            continue
        # A change above the pattern counts if the new value contains its path.
        if len(path) >= len(parts) or _reaches(new, parts[len(path) :]):
            return True
    return False


def _reaches(value: Any, parts: list[str]) -> bool:
    if not parts:
        return True
    if parts[0] == "*":
        # Go's JSONPath finds every path in a list that is empty, missing or unknown.
        if not isinstance(value, list) or not value:
            return True
        return any(_reaches(item, parts[1:]) for item in value)
    return isinstance(value, dict) and parts[0] in value and _reaches(value[parts[0]], parts[1:])


def path_text(path: Steps) -> str:
    """A path in the engine's notation: `spec.containers[0].image`, `metadata.labels["a.b/c"]`."""
    written = ""
    for part in path:
        if isinstance(part, int):
            written += f"[{part}]"
        elif re.search(r'[."\[\]]', part):
            escaped = part.replace('"', '\\"')
            written += f'["{escaped}"]'
        else:
            written += f".{part}" if written else part
    return written


def covers(ignored: str, path: Steps) -> bool:
    """Whether an ignoreChanges path such as `spec.replicas` or `spec["a.b"]` contains `path`."""
    parts = parse_path(ignored)
    return len(parts) <= len(path) and all(
        part in ("*", str(step)) for part, step in zip(parts, path, strict=False)
    )


def parse_path(written: str) -> list[str]:
    """The parts of a path written by `text` or a user."""
    found = re.findall(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+|\*)\]|([^.\[\]]+)', written)
    return [quoted.replace('\\"', '"') or index or name for quoted, index, name in found]
