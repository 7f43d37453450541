"""Paths of inputs: `a.b[].c`, where `[]` stands for every element of a list."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN


def within(pattern: str, ancestor: str) -> bool:
    """Whether `pattern` is `ancestor` or is inside it."""
    rest = pattern.removeprefix(ancestor)
    return pattern.startswith(ancestor) and (not rest or rest[0] in ".[")


def common_parent(paths: Sequence[str]) -> str:
    """The deepest block that contains all paths; '' for the resource itself."""
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
    """Every given value at `pattern` with its path; `a[]` is every element, `a[].b` its `b`."""
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
