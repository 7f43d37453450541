"""Compares a resource with its new inputs: what changed, and which changes replace it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.facts import Facts
from gpu_cluster.rehearsal.plugins.cloud.inputs import is_left_out
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Block, block, element_of, key_path

Kind = Literal["add", "delete", "update"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, at a property path such as `nodeConfig.guestAccelerators[0].count`."""

    path: str
    kind: Kind
    replace: bool

    @property
    def property(self) -> str:
        """The top-level property that contains it."""
        return self.path.partition(".")[0].partition("[")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How one resource type is compared. Old values are those last reported by the cloud, so
    changes made outside the program are found; values that were never inputs do not count."""

    shape: Block
    facts: Facts
    same: Callable[[str, Any, Any], bool]
    """(path, old, new): whether two values with different spellings mean the same."""
    replaces: Callable[[str, Any, Any], bool]
    """(path, old, new): whether a change replaces although the property is not immutable. `new` is
    None if it was removed."""
    foreseen: Mapping[str, Any] = field(default_factory=dict)
    """Values that the provider itself fills in for missing properties."""

    def changes(
        self,
        old_inputs: Mapping[str, Any],
        old: Mapping[str, Any],
        new: Mapping[str, Any],
        ignored: Sequence[str] = (),
    ) -> list[Change]:
        """All changes, ordered by property name."""
        found = self._blocks(old_inputs, old, new, self.shape, "", "")
        return [change for change in found if not _ignored(change.path, ignored)]

    def _blocks(
        self,
        old_inputs: Mapping[str, Any],
        old: Mapping[str, Any],
        new: Mapping[str, Any],
        shape: Block | None,
        path: str,
        pattern: str,
    ) -> Iterator[Change]:
        """Compares blocks (with `shape`) and maps (without, where entries share the map's
        pattern)."""
        for name in sorted({*new, *old_inputs}):
            if name.startswith("__"):
                continue
            inner = key_path(path, name) if path else name
            inner_pattern = pattern if shape is None else f"{pattern}.{name}" if pattern else name
            if (beside := self.facts.same_beside.get(inner_pattern)) and new.get(beside):
                continue
            kind = shape.properties.get(name, Any) if shape else Any
            was_input = old_inputs.get(name)
            current = old.get(name, was_input)
            if new.get(name) is not None:
                yield from self._values(was_input, current, new[name], kind, inner, inner_pattern)
            elif _is_nothing(was_input) or current is None:
                continue  # not requested, or the cloud never had it
            elif shape is None or inner_pattern not in self.facts.kept_when_removed:
                yield from self._removed(was_input, kind, inner, inner_pattern)

    def _values(
        self, was_input: Any, old: Any, new: Any, kind: Any, path: str, pattern: str
    ) -> Iterator[Change]:
        kept = pattern in self.facts.kept_when_removed
        kept_when_empty = kept and pattern not in self.facts.defaults
        if new == "" and kept_when_empty and self.foreseen.get(pattern, old) == old:
            return  # equivalent to none
        if self._means_none(pattern, old) and self._means_none(pattern, new):
            return
        if new == UNKNOWN and pattern in self.facts.same_when_unknown:
            return
        if old is None:
            # An empty block is a block; any other empty value is equivalent to none.
            if not _is_nothing(new) or _block_of(kind):
                replace = any(map(self.facts.replaces, patterns_beneath(new, kind, pattern)))
                yield Change(path, "add", replace)
        elif isinstance(new, dict) and isinstance(old, dict):
            block_inputs = was_input if isinstance(was_input, dict) else {}
            yield from self._blocks(block_inputs, old, new, _block_of(kind), path, pattern)
        elif isinstance(new, list) and isinstance(old, list):
            list_inputs = was_input if isinstance(was_input, list) else []
            yield from self._lists(list_inputs, old, new, kind, path, pattern)
        elif old != new and not self.same(path, old, new):
            # The content of an unknown block is unknown as well.
            whole = new == UNKNOWN and not _block_of(kind)
            beneath = patterns_beneath(old, kind, pattern) if whole else [pattern]
            replace = any(map(self.facts.replaces, beneath)) or self.replaces(path, old, new)
            yield Change(path, "update", replace)

    def _lists(
        self, inputs: list[Any], old: list[Any], new: list[Any], kind: Any, path: str, pattern: str
    ) -> Iterator[Change]:
        element = element_of(kind) or Any
        item = f"{pattern}[]" if not _is_plain_list(self.facts, pattern) else pattern
        left_out = is_left_out(new, old) and pattern not in self.facts.attributes
        if left_out and pattern in self.facts.kept_when_removed:
            return
        if pattern in self.facts.sets:
            old, new = self._unmatched(old, new, element, path, item)
            inputs = old
        if old and not new and not any(isinstance(element, dict) for element in old):
            # A list of plain values is one attribute; blocks are removed one by one.
            yield from self._removed(old, kind, path, item)
            return
        for index, value in enumerate(new):
            was = inputs[index] if index < len(inputs) else None
            current = old[index] if index < len(old) else None
            yield from self._values(was, current, value, element, f"{path}[{index}]", item)
        for index in range(len(new), len(old)):
            yield from self._removed(old[index], element, f"{path}[{index}]", item)

    def _unmatched(
        self, old: list[Any], new: list[Any], element: Any, path: str, pattern: str
    ) -> tuple[list[Any], list[Any]]:
        """Two sets without their common elements."""
        rest, more = list(old), []
        for value in new:
            for other in rest:
                if not any(self._values(other, other, value, element, f"{path}[0]", pattern)):
                    rest.remove(other)
                    break
            else:
                more.append(value)
        return rest, more

    def _means_none(self, pattern: str, value: Any) -> bool:
        values = self.facts.means_none.get(pattern)
        return values is not None and (not value or value in values)

    def _removed(self, old: Any, kind: Any, path: str, pattern: str) -> Iterator[Change]:
        if self._means_none(pattern, old):
            return
        beneath = set(patterns_beneath(old, kind, pattern)) - self.facts.kept_when_removed
        beneath.add(pattern)
        replace = any(map(self.facts.replaces, beneath)) or self.replaces(path, old, None)
        yield Change(path, "delete", replace)


def _is_nothing(value: Any) -> bool:
    """None, "", false, 0 or empty, which the provider's SDK treats as not given."""
    return not value


def _is_plain_list(facts: Facts, pattern: str) -> bool:
    """Whether the data names the list itself, as for AWS's lists of strings."""
    return pattern in facts.immutable and f"{pattern}[]" not in facts.immutable


def patterns_beneath(value: Any, kind: Any, pattern: str) -> Iterator[str]:
    """The patterns of `value` and of everything in it."""
    yield pattern
    if isinstance(value, list):
        for element in value:
            yield from patterns_beneath(element, element_of(kind) or Any, f"{pattern}[]")
    elif isinstance(value, dict) and (shape := _block_of(kind)):
        for name, inner in value.items():
            if inner is not None:
                yield from patterns_beneath(
                    inner, shape.properties.get(name, Any), f"{pattern}.{name}"
                )


def _block_of(kind: Any) -> Block | None:
    return block(kind) if sdk.is_input_type(kind) else None


def _ignored(path: str, ignored: Sequence[str]) -> bool:
    return any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in ignored)
