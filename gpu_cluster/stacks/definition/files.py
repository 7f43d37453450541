"""A stack's file: its location, and its contents as the engine reads them."""

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import yaml

from gpu_cluster.components.catalog.spelling import nearest
from gpu_cluster.components.schema.refusal import Refusal, refuse
from gpu_cluster.components.settings.config_keys import project_name as project_name
from gpu_cluster.stacks.definition.names import ROOT as ROOT
from gpu_cluster.stacks.definition.names import StackError, stack_name

EXAMPLES = ROOT / "examples" / "stacks"
SAMPLES = tuple(sorted(file.name.split(".")[1] for file in EXAMPLES.glob("Pulumi.*.yaml")))
"""The environments that come with the program. Its own tests, faults and measurements use these,
from `examples/stacks`: the files at the root belong to users, who can edit them without an effect
on these."""
INSTEAD = "GPU_CLUSTER_STACKS"
"""Names a folder whose stack files replace those at the root."""
KEYS = ("config", "environment", "encryptionsalt", "encryptedkey", "secretsprovider")
"""The keys that the engine reads in a stack's file: `ProjectStack` in
sdk/go/common/workspace/project.go of pulumi v3.259.0, read on 2026-11-21. It ignores all others."""
NO_CONFIG = "has no config: see Pulumi.dev.yaml for an example"
IN_ESC = (
    "environment: its values are in Pulumi ESC, which this command does not read; write "
    "gpu-cluster's blocks into the file, or check the stack with pulumi preview"
)
"""The refusal of a file whose blocks are missing because an ESC environment has them."""
PLACEHOLDER = "rehearsal-placeholder"
"""Replaces every encrypted value, because no passphrase or key is available here."""


_TAG = "tag:yaml.org,2002:"
_TAGS = {"str", "int", "float", "bool", "null", "seq", "map", "merge", "timestamp", "binary"}
_DEEPEST = 60
_MOST_VALUES = 100_000
"""Maximum number of values after aliases are expanded: the largest files have some hundreds."""
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_LONGEST_NUMBER = 400
_REMEDIES = {
    "character '\\t'": "indent with spaces",
    "found another document": "a stack file has only one document; remove the one that begins here",
    "but found '?'": (
        "a key follows list items on one level; write each entry as NAME: without '-' in front"
    ),
    "mapping values are not allowed": "check the indentation; quote a text that has ': ' in it",
    "found undefined alias": "set its anchor, &NAME, above it",
}
"""Part of PyYAML's message -> what to do."""


class NotYaml(StackError):
    """A stack file's text is invalid."""

    def __init__(self, line: int, column: int, words: str) -> None:
        super().__init__(f"is not YAML: line {line}, column {column}: {words}")
        self.line, self.column = line, column
        """Both start at 1."""
        self.words = words


class _Problem(yaml.MarkedYAMLError):
    def __init__(self, node: yaml.Node, words: str) -> None:
        super().__init__(problem=words, problem_mark=node.start_mark)


class EngineLoader(yaml.SafeLoader):
    """Parses a file like the engine: `yes`, `12:30` and dates are strings, and a key of `config`
    without a namespace gets the project's (`stackConfigNamespacedWithProject` in
    sdk/go/common/workspace of pulumi v3.259.0).

    Raises yaml.YAMLError, also for tags, and for aliases that contain themselves or expand to more
    than a limit.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _DEEPEST:
            event = cast("Any", self).peek_event()
            raise yaml.MarkedYAMLError(
                problem=f"values are nested more than {_DEEPEST} levels deep here; flatten them",
                problem_mark=event.start_mark,
            )
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_document(self) -> yaml.Node | None:
        node = super().compose_document()
        if node is not None:
            _check(node, {})
            _name_namespaces(node)
        return node

    def date(self, node: yaml.ScalarNode) -> str:
        try:
            return f"{self.construct_yaml_timestamp(node):%Y-%m-%d %H:%M:%S} +0000 UTC"
        except ValueError:
            return self.text(node)

    def text(self, node: yaml.ScalarNode) -> str:
        return str(node.value)


EngineLoader.yaml_implicit_resolvers = {
    letter: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.removeprefix(_TAG) not in ("bool", "int", "float", "value")
    ]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", "[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
):
    EngineLoader.add_implicit_resolver(
        f"{_TAG}{_kind}", re.compile(f"^(?:{_pattern})$"), list(_first)
    )
EngineLoader.add_constructor(f"{_TAG}timestamp", EngineLoader.date)
EngineLoader.add_constructor(f"{_TAG}binary", EngineLoader.text)


def _check(node: yaml.Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """The number of values in a node and its depth, after aliases are expanded. `known`: nodes that
    were counted; zeros for a node that is being counted.

    An alias refers to an anchor above it, so the recursion is no deeper than the text.
    """
    if (counted := known.get(id(node))) is not None:
        if not counted[0]:
            raise _Problem(node, "this anchor contains an alias of itself; remove the alias")
        return counted
    known[id(node)] = 0, 0
    tag = node.tag.removeprefix(_TAG)
    if tag not in _TAGS:
        shown = tag if tag.startswith("!") else f"!!{tag}"
        raise _Problem(node, f"the tag {shown} is not supported; write a plain value")
    nested: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        nested = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        nested = node.value
    elif isinstance(node, yaml.ScalarNode) and node.style is None:
        _check_number(node)
    sizes, depths = zip((0, 0), *(_check(part, known) for part in nested), strict=True)
    size, depth = 1 + sum(sizes), 1 + max(depths)
    if size > _MOST_VALUES or depth > _DEEPEST:
        much = f"{_MOST_VALUES:,} values" if size > _MOST_VALUES else f"{_DEEPEST} levels"
        raise _Problem(node, f"the aliases from here on expand to more than {much}; use fewer")
    known[id(node)] = size, depth
    return size, depth


def _check_number(node: yaml.ScalarNode) -> None:
    """Refuses numbers that are not what they look like, or that are too long."""
    text = node.value
    if _LEADING_ZERO.fullmatch(text):
        digits = text.lstrip("-+0_").replace("_", "") or "0"
        raise _Problem(
            node,
            f"{text[:40]} begins with 0, which YAML may read as an octal number; write "
            f'{digits[:40]}, or "{text[:40]}" in quotes if it is text',
        )
    if node.tag in (f"{_TAG}int", f"{_TAG}float") and len(text) > _LONGEST_NUMBER:
        raise _Problem(node, f"a number has {len(text)} digits, which is too large for any value")


def _name_namespaces(root: yaml.Node) -> None:
    """Adds to keys of `config` the namespace that the engine adds."""
    project = project_name(ROOT)
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == "config" and isinstance(value, yaml.MappingNode):
            for name, _ in value.value:
                if isinstance(name, yaml.ScalarNode) and name.tag == f"{_TAG}str":
                    name.value = name.value if ":" in name.value else f"{project}:{name.value}"


def parsed(text: bytes) -> tuple[yaml.Node | None, Any]:
    """The nodes of a stack file, and their values; raises NotYaml."""
    try:
        plain = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotYaml(1, 1, "it is not text in UTF-8") from None
    if bad := yaml.reader.Reader.NON_PRINTABLE.search(plain):
        before = plain[: bad.start()]
        column = bad.start() - before.rfind("\n")
        words = f"the character U+{ord(bad[0]):04X} is not allowed in YAML; remove it"
        raise NotYaml(before.count("\n") + 1, column, words)
    try:
        # Constructing a value changes its node if keys are merged with `<<`.
        return yaml.compose(plain, EngineLoader), yaml.load(plain, EngineLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        assert mark is not None
        raise NotYaml(mark.line + 1, mark.column + 1, _words(error, mark.line, plain)) from None


def _words(error: yaml.MarkedYAMLError, line: int, text: str) -> str:
    """PyYAML's message, and what to do."""
    problem = str(error.problem).removeprefix("but ")
    for number, text_line in enumerate(text.split("\n")[: line + 1], 1):
        if space := _strange_space(text_line.partition("#")[0]):
            return f"{problem}: line {number} has {space}"
    remedy = next((what for part, what in _REMEDIES.items() if part in problem), None)
    return f"{problem}; {remedy}" if remedy else problem


def _strange_space(text: str) -> str | None:
    """The message about a character that only looks like a space; None if there is none."""
    for column, letter in enumerate(text, 1):
        if letter.isspace() and letter not in " \t\r":
            name = unicodedata.name(letter, "control character").lower()
            return f"a {name} (U+{ord(letter):04X}) in column {column}; replace it with a space"
    return None


def use_examples() -> None:
    """Makes this process and its children read the samples instead of a user's files."""
    use_instead(EXAMPLES)


def use_instead(folder: Path) -> None:
    """Makes this process and its children read the stack files in that folder."""
    os.environ[INSTEAD] = str(folder)


@contextmanager
def as_rehearsed(stack: str, rehearsal: bool = True) -> Iterator[None]:
    """With `rehearsal`, reads the stack's file in its kept rehearsal, where a user may have edited
    it; the checkout's if none is kept there."""
    folder, before = ROOT / ".rehearsal" / stack / "program", os.environ.get(INSTEAD)
    if not rehearsal or not (folder / f"Pulumi.{stack}.yaml").is_file():
        yield
        return
    try:
        use_instead(folder)
        yield
    finally:
        if before is None:
            del os.environ[INSTEAD]
        else:
            os.environ[INSTEAD] = before


def folder_of(source: Path) -> Path:
    """The folder with the stack files of a program."""
    return Path(os.environ.get(INSTEAD) or source) if source == ROOT else source


def stacks(source: Path) -> list[str]:
    """The stacks that have a file in the program's folder."""
    files = folder_of(source).glob("Pulumi.*.yaml")
    return sorted(file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files)


def stack_file(source: Path, stack: str) -> Path:
    """The stack's own file; raises StackError if there is none, or if the name is invalid."""
    file = folder_of(source) / f"Pulumi.{stack_name(stack)}.yaml"
    if not file.is_file():
        known_stacks = ", ".join(stacks(source)) or "none"
        project = (source / "Pulumi.yaml").is_file()
        where = "here" if project else f"in {source}, which has no Pulumi.yaml,"
        raise StackError(f"there is no {file.name}: the stacks {where} are {known_stacks}")
    return file


def read_stack(source: Path, stack: str) -> dict[str, Any]:
    """The stack's file as the engine parses it.

    Raises StackError if there is none, if it is not YAML, or if it has a key next to `config` that
    the engine would silently ignore.
    """
    file = stack_file(source, stack)
    try:
        document = document_in(file.read_bytes(), file.name)
    except OSError as error:
        raise StackError(f"{file.name}: cannot be read: {error.strerror}") from None
    for refusal in misplaced(document):
        raise StackError(f"{file.name}: {refusal}")
    if not isinstance(document.get("config") or {}, dict):
        raise StackError(f"{file.name} {NO_CONFIG}")
    return document


def document_in(text: bytes, name: str) -> dict[str, Any]:
    """The contents of a stack file's text, with any keys; raises StackError if it is not YAML."""
    try:
        _, document = parsed(text)
    except NotYaml as error:
        raise StackError(f"{name} {error}") from None
    if not isinstance(document, dict):
        raise StackError(f"{name} {NO_CONFIG}")
    return document


def misplaced(document: Mapping[Any, Any]) -> Iterator[Refusal]:
    """The refusals of keys next to `config`."""
    for key in map(str, (key for key in document if key not in KEYS)):
        if space := _strange_space(key):
            yield refuse(key)(f"has {space}")
        elif ":" in key:
            reason = "is next to config, where the engine ignores it"
            yield refuse(key)(reason, remedy="indent it below config")
        else:
            near = nearest(key, KEYS, 0.6)
            reason = "there is no such key, and the engine ignores it"
            remedy = f"did you mean {near}? " if near else ""
            yield refuse(key)(reason, remedy=f"{remedy}allowed: {', '.join(KEYS)}")


def without_secrets(document: Any) -> Any:
    """A stack file's content with placeholders for encrypted values, and without their key."""
    if isinstance(document, dict):
        if set(document) == {"secure"}:
            return PLACEHOLDER
        keys = ("encryptionsalt", "encryptedkey", "secretsprovider")
        return {key: without_secrets(value) for key, value in document.items() if key not in keys}
    if isinstance(document, list):
        return [without_secrets(value) for value in document]
    return document
