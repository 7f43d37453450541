"""The position of a key in a stack's file: paths as in messages, lines as in editors."""

from collections.abc import Iterator

import yaml

Position = tuple[int, int]
"""Line and column; both start at 1."""
_MERGE = "tag:yaml.org,2002:merge"


def position(root: yaml.Node | None, path: str) -> Position:
    """The position of the key at `path`, such as `config.aws:region` or `config.a.taints[0].key`.

    A missing key has the position of the last existing one on its path. Keys may contain periods,
    so the longest match is used.
    """
    if root is None:
        return 1, 1
    node, mark, rest = root, root.start_mark, path
    while rest:
        step = _index(node, rest) if rest.startswith("[") else _key(node, rest)
        if step is None:
            break
        node, mark, rest = step
    return mark.line + 1, mark.column + 1


def _key(node: yaml.Node, rest: str) -> tuple[yaml.Node, yaml.Mark, str] | None:
    best: tuple[yaml.Node, yaml.Mark, str] | None = None
    longest = -1
    for key, value in _pairs(node):
        if rest.startswith(key.value) and len(key.value) > longest:
            after = rest[len(key.value) :]
            if not after or after[0] in ".[":
                longest, best = len(key.value), (value, key.start_mark, after.removeprefix("."))
    return best


def _index(node: yaml.Node, rest: str) -> tuple[yaml.Node, yaml.Mark, str] | None:
    number, _, after = rest[1:].partition("]")
    if not isinstance(node, yaml.SequenceNode) or not number.isdigit():
        return None
    if int(number) >= len(node.value):
        return None
    item = node.value[int(number)]
    return item, item.start_mark, after.removeprefix(".")


def _pairs(node: yaml.Node) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """The keys of a map with their values, including those merged with `<<`."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.tag == _MERGE:
            for mapping in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                yield from _pairs(mapping)
        elif isinstance(key, yaml.ScalarNode):
            yield key, value


def duplicates(root: yaml.Node | None, path: str = "") -> Iterator[tuple[str, Position, int]]:
    """Every duplicate key of a map: its path, the position of the second, and the line of the
    first.

    The engine refuses such a file; PyYAML silently uses the last one.
    """
    if isinstance(root, yaml.SequenceNode):
        for number, item in enumerate(root.value):
            yield from duplicates(item, f"{path}[{number}]")
    if not isinstance(root, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    for key, value in root.value:
        name = f"{path}.{key.value}".removeprefix(".")
        if key.value in seen:
            mark = key.start_mark
            yield name, (mark.line + 1, mark.column + 1), seen[key.value]
        seen.setdefault(key.value, key.start_mark.line + 1)
        yield from duplicates(value, name)
