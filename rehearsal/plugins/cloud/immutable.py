"""What providers enforce beyond the SDK's types, per resource type, from `immutable.yaml`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rehearsal.plugins.cloud.schema import UNKNOWN

_DATA = Path(__file__).with_name("immutable.yaml")
_CLUSTER, _NODE_POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"


@dataclass(frozen=True, slots=True)
class Facts:
    """One resource type. Paths are camelCase; `[]` marks list elements; see `immutable.yaml`."""

    immutable: frozenset[str] = frozenset()
    kept_when_removed: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()
    """What a plan does not know where it is unset: `kept_when_removed`, as the file has it."""
    foreseen: Mapping[str, Any] = field(default_factory=dict)
    foreseen_with: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    means_none: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    not_inputs: frozenset[str] = frozenset()
    same_beside: Mapping[str, str] = field(default_factory=dict)
    same_when_unknown: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    patterns: Mapping[str, str] = field(default_factory=dict)
    longest: int | None = None
    """Characters of a generated name."""
    small_letters: bool = False
    """Whether a generated name has no capitals."""
    auto_named: tuple[str, ...] = ()
    delete_before_replace: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    conflicts: tuple[tuple[str, ...], ...] = ()
    exactly_one_of: tuple[tuple[str, ...], ...] = ()
    at_least_one_of: tuple[tuple[str, ...], ...] = ()
    required_nested: tuple[str, ...] = ()
    required_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    enums: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    bounds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def known_early(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The rules of what the provider knows of a new resource before the cloud says it."""
        more = [rules for name, rules in self.foreseen_with.items() if inputs.get(name) is True]
        return {**self.foreseen, **{name: rule for rules in more for name, rule in rules.items()}}

    def replaces(self, pattern: str) -> bool:
        """Whether a change at `pattern` (a path with `[]` for elements) forces a replacement."""
        if pattern in self.immutable:
            return True
        return any(
            entry.endswith(".*") and within(pattern, entry.removesuffix(".*"))
            for entry in self.immutable
        )


def within(pattern: str, ancestor: str) -> bool:
    """Whether `pattern` is `ancestor` or lies beneath it."""
    rest = pattern.removeprefix(ancestor)
    return pattern.startswith(ancestor) and (not rest or rest[0] in ".[")


@cache
def facts() -> Mapping[str, Facts]:
    """Resource type token -> what is known of it."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml: 15 ms instead of 400
    rows = yaml.load(_DATA.read_text(encoding="utf-8"), Loader=loader)["types"]
    return {token: _facts(_with_node_config(token, row, rows)) for token, row in rows.items()}


def _with_node_config(token: str, row: dict[str, Any], rows: dict[str, Any]) -> dict[str, Any]:
    """A cluster's `nodeConfig` keeps the rules of a node pool's, which the file has once."""
    if token != _CLUSTER:
        return row
    pool = rows[_NODE_POOL]
    merged = dict(row)
    for kind in ("defaults", "enums", "bounds", "means_none", "same_beside"):
        rules = {p: v for p, v in pool.get(kind, {}).items() if within(p, "nodeConfig")}
        merged[kind] = rules | row.get(kind, {})
    for kind in ("kept_when_removed", "not_inputs", "same_when_unknown", "sets"):
        inherited = [path for path in pool.get(kind, ()) if within(path, "nodeConfig")]
        merged[kind] = [*row.get(kind, ()), *inherited]
    return merged


def _facts(row: Mapping[str, Any]) -> Facts:
    def groups(kind: str) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(group) for group in row.get(kind, ()))

    return Facts(
        immutable=frozenset(row["immutable"]),
        kept_when_removed=frozenset(
            path.removesuffix("[]")
            for kind in ("kept_when_removed", "stays_when_removed")
            for path in row.get(kind, ())
        ),
        computed=frozenset(row.get("kept_when_removed", ())),
        foreseen=row.get("foreseen", {}),
        foreseen_with=row.get("foreseen_with", {}),
        means_none={path: tuple(each) for path, each in row.get("means_none", {}).items()},
        same_beside=row.get("same_beside", {}),
        same_when_unknown=frozenset(row.get("same_when_unknown", ())),
        not_inputs=frozenset(row.get("not_inputs", ())),
        sets=frozenset(row.get("sets", ())),
        patterns=row.get("patterns", {}),
        longest=row.get("longest"),
        small_letters=row.get("small_letters", False),
        auto_named=tuple(row.get("auto_named", ())),
        delete_before_replace=row.get("delete_before_replace", False),
        defaults=row.get("defaults", {}),
        conflicts=groups("conflicts"),
        exactly_one_of=groups("exactly_one_of"),
        at_least_one_of=groups("at_least_one_of"),
        required_nested=tuple(row.get("required_nested", ())),
        required_with={path: tuple(with_) for path, with_ in row.get("required_with", {}).items()},
        enums={path: tuple(values) for path, values in row.get("enums", {}).items()},
        bounds=row.get("bounds", {}),
    )


def common_parent(paths: tuple[str, ...]) -> str:
    """The deepest block that all paths lie in, '' for the resource itself."""
    parents = [path.split(".")[:-1] for path in paths]
    shared = []
    for steps in zip(*parents, strict=False):
        if len(set(steps)) > 1:
            break
        shared.append(steps[0])
    return ".".join(shared)


def blocks(tree: Any, pattern: str, shown: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every given block at `pattern`, with its path: ('rules[0]', {...}) for `rules[]`."""
    if not pattern:
        if isinstance(tree, dict):
            yield shown, tree
        return
    for path, value in values(tree, pattern, shown):
        if isinstance(value, dict):
            yield path, value


def values(tree: Any, pattern: str, shown: str = "") -> Iterator[tuple[str, Any]]:
    """Every given value at `pattern` with its path; `a[]` is every element, `a[].b` goes on."""
    step, _, rest = pattern.partition(".")
    name = step.removesuffix("[]")
    if not isinstance(tree, dict) or tree.get(name) is None:
        return
    path = f"{shown}.{name}" if shown else name
    found = [(path, tree[name])]
    if step.endswith("[]") and tree[name] != UNKNOWN:
        elements = tree[name] if isinstance(tree[name], list) else []
        found = [(f"{path}[{index}]", element) for index, element in enumerate(elements)]
    for path, value in found:
        if rest:
            yield from values(value, rest, path)
        else:
            yield path, value


def given(block: Mapping[str, Any], pattern: str) -> bool:
    """Whether anything is set at `pattern`; an explicit false counts, an empty list does not."""
    return any(True for _ in values(block, pattern))
