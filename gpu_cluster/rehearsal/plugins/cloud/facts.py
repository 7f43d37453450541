"""Rules that providers enforce beyond the SDK's types: from the SDK, then from `clouds/`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import Any, get_origin, get_type_hints

from gpu_cluster.clouds.read import names, read_facts
from gpu_cluster.rehearsal.plugins.cloud.derived import derived
from gpu_cluster.rehearsal.plugins.cloud.patterns import within

FILES = {"gcp" if name == "google" else name: name for name in names("rows")}
"""A provider's package -> the name of its files in `gpu_cluster/clouds/`."""
_CLUSTER, _NODE_POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"


@dataclass(frozen=True, slots=True)
class Facts:
    """The rules of one resource type. Paths are camelCase, with `[]` for list elements, as in
    `gpu_cluster/clouds/overrides.yaml`."""

    immutable: frozenset[str] = frozenset()
    kept_when_removed: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()
    """Inputs that are unknown in a preview if unset: `kept_when_removed` in the data."""
    foreseen: Mapping[str, Any] = field(default_factory=dict)
    foreseen_with: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    means_none: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    not_inputs: frozenset[str] = frozenset()
    same_beside: Mapping[str, str] = field(default_factory=dict)
    same_when_unknown: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    patterns: Mapping[str, str] = field(default_factory=dict)
    arns: frozenset[str] = frozenset()
    networks: frozenset[str] = frozenset()
    longest: int | None = None
    """The most characters of a generated name."""
    begins: str = ""
    """What a generated name has in front."""
    small_letters: bool = False
    """Whether a generated name is in lower case."""
    auto_named: tuple[str, ...] = ()
    delete_before_replace: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    conflicts: tuple[Sequence[str], ...] = ()
    exactly_one_of: tuple[Sequence[str], ...] = ()
    at_least_one_of: tuple[Sequence[str], ...] = ()
    required_nested: tuple[str, ...] = ()
    required_with: Mapping[str, Sequence[str]] = field(default_factory=dict)
    only_with: tuple[Mapping[str, Any], ...] = ()
    enums: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    bounds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def known_early(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The rules for properties of a new resource that the provider knows before the create."""
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


@cache
def types() -> frozenset[str]:
    """The tokens of all resource types that have rules."""
    names = FILES.values()
    tokens = {
        token for name in names for token, row in read_facts(f"rows/{name}").items() if _rules(row)
    }
    return frozenset(tokens.union(*map(_generated, names)))


@cache
def of(token: str) -> Facts:
    """The rules of a resource type; without a row, those that follow from its SDK."""
    if token.partition(":")[0] not in FILES:
        return Facts()
    return _facts(_with_node_config(token, _row(token)))


def _row(token: str) -> dict[str, Any]:
    return merged([derived(token), *rows(token)])


def rows(token: str) -> Iterator[Mapping[str, Any]]:
    """The rules of a type in `gpu_cluster/clouds/`: those of each source, then the overrides."""
    yield from _generated(FILES[token.partition(":")[0]]).get(token, {}).values()
    yield from overrides(token)


def overrides(token: str) -> Iterator[Mapping[str, Any]]:
    """The hand-written rules of a type: those shared with other types, and those in its own row."""
    name = FILES[token.partition(":")[0]]
    for group in read_facts("overrides").get(name, ()):
        yield checked(f"gpu_cluster/clouds/overrides.yaml: {token}", group["types"].get(token, {}))
    row = _rules(read_facts(f"rows/{name}").get(token, {}))
    yield checked(f"gpu_cluster/clouds/rows/{name}.yaml: {token}: provider", row)


def _rules(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The provider rules in a row, in the format of `gpu_cluster/clouds/overrides.yaml`."""
    provider: Mapping[str, Any] = row.get("provider", {})
    return {word: provider[word] for word in provider if word not in ("why", "source", "read")}


def checked(place: str, rules: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rules of a type. Raises ValueError for a word that does not exist, or whose value has
    another form than its field."""
    for word, value in rules.items():
        if (form := _forms().get(word)) is None:
            raise ValueError(f"{place}: {word}: unknown; allowed: {', '.join(sorted(_forms()))}")
        if not isinstance(value, form):
            raise ValueError(f"{place}: {word}: expected {_EXAMPLES[form]}, got {value!r}")
    for word, entries in rules.get("without", {}).items():
        if not isinstance(entries, list):
            raise ValueError(
                f"{place}: without: {word}: expected {_EXAMPLES[list]}, got {entries!r}"
            )
    return rules


@cache
def _forms() -> Mapping[str, type]:
    """Word -> the type of its value in YAML."""
    forms = {frozenset: list, tuple: list, Mapping: dict, UnionType: int}
    hints = get_type_hints(Facts).items()
    found = {word: forms.get(origin := get_origin(hint) or hint, origin) for word, hint in hints}
    del found["computed"]  # follows from `kept_when_removed`
    return {**found, "stays_when_removed": list, "without": dict}


_EXAMPLES = {
    list: "a list, such as [name, tags]",
    dict: "a map, such as {diskType: VALUE}, or {immutable: [tags]} after `without`",
    bool: "true or false",
    str: "a text",
    int: "an integer",
}


def _generated(name: str) -> Mapping[str, Mapping[str, Any]]:
    types_: Mapping[str, Mapping[str, Any]] = read_facts(f"generated/{name}")["types"]
    return types_


def merged(given: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merges rows: lists are joined, and of two values at one path the later wins.

    `without` removes entries of earlier rows: elements of a list, paths of a map.
    """
    row: dict[str, Any] = {}
    for item in given:
        for word, values in item.items():
            if word == "without":
                for removed, entries in values.items():
                    row[removed] = _less(row[removed], entries)
            elif isinstance(values, list):
                have = row.get(word, [])
                row[word] = [*have, *(entry for entry in values if entry not in have)]
            elif isinstance(values, dict):
                have = row.get(word, {})
                row[word] = {
                    **have,
                    **{path: _over(have.get(path), v) for path, v in values.items()},
                }
            else:
                row[word] = values
    return row


def _over(have: Any, value: Any) -> Any:
    """Merges two values; a bound that sets only one side keeps the other."""
    return {**have, **value} if isinstance(have, dict) and isinstance(value, dict) else value


def _less(values: Any, entries: list[Any]) -> Any:
    if isinstance(values, dict):
        return {path: value for path, value in values.items() if path not in entries}
    return [entry for entry in values if entry not in entries]


def _with_node_config(token: str, row: dict[str, Any]) -> dict[str, Any]:
    """Applies the rules of a node pool, which the data has once, to a cluster's `nodeConfig`."""
    if token != _CLUSTER:
        return row
    pool = _row(_NODE_POOL)
    inherited: dict[str, Any] = {}
    for kind in ("defaults", "enums", "bounds", "means_none", "same_beside"):
        inherited[kind] = {p: v for p, v in pool.get(kind, {}).items() if within(p, "nodeConfig")}
    for kind in ("kept_when_removed", "not_inputs", "same_when_unknown", "sets"):
        inherited[kind] = [path for path in pool.get(kind, ()) if within(path, "nodeConfig")]
    return merged([inherited, row])


def _facts(row: Mapping[str, Any]) -> Facts:
    found = {word: collect(row[word]) for word, collect in _fields().items() if word in row}
    kept = [*row.get("kept_when_removed", ()), *row.get("stays_when_removed", ())]
    found["kept_when_removed"] = frozenset(path.removesuffix("[]") for path in kept)
    found["computed"] = frozenset(row.get("kept_when_removed", ()))
    return Facts(**found)


@cache
def _fields() -> Mapping[str, Callable[[Any], Any]]:
    """Word -> what makes its value in YAML that of its field: a list is a set or a sequence."""
    hints = {word: get_origin(hint) for word, hint in get_type_hints(Facts).items()}
    collections = {frozenset: frozenset, tuple: tuple}
    return {word: collections.get(form, lambda value: value) for word, form in hints.items()}
