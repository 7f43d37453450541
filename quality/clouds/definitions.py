"""The resource types of Google's provider in its own definitions: magic-modules' `mmv1/products`.

GKE's clusters and node pools are defined in Go there; IAM policy members are not read.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.schema import Block, block, element_of, resource_schema
from gpu_cluster.stacks.outcome import CheckError
from quality.clouds import go_schema

WORDS = frozenset({
    "immutable", "kept_when_removed", "not_inputs", "sets", "defaults", "enums", "bounds",
    "patterns", "conflicts", "exactly_one_of", "at_least_one_of",
})  # fmt: skip
"""The kinds of facts that the definitions contain for every input."""
_GKE = ("node_config", "resource_container_node_pool", "resource_container_cluster")
_IN_GO = {
    "gcp:container/cluster:Cluster": ("ResourceContainerCluster", _GKE),
    "gcp:container/nodePool:NodePool": ("ResourceContainerNodePool", _GKE),
}
"""Type -> the function that returns its schema, and the files that contain it."""
_ELSEWHERE = {"gcp:container/cluster:Cluster": ("nodeConfig.", "nodePools[].")}
"""Prefixes of paths of which only immutable ones are this type's: a node pool has the rest."""
_BETWEEN = re.compile(r"validation\.(?:Int|Float)Between\((\d+), (\d+)\)")
_AT_LEAST = re.compile(r"validation\.IntAtLeast\((\d+)\)")

Node = Mapping[str, Any]


def source(folder: Path) -> str:
    """The source of the rows; raises CheckError if it is not a checkout."""
    asked = subprocess.run(
        ["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        raise CheckError(f"{folder} is not a checkout of magic-modules: {asked.stderr.strip()}")
    return f"GoogleCloudPlatform/magic-modules@{asked.stdout.strip()}, mmv1"


def row(folder: Path, token: str) -> dict[str, Any] | None:
    """The facts about a type's inputs in its definition; None without a definition."""
    given = _definition(folder, token)
    if given is None:
        return None
    fields = list(_fields(given, resource_schema(token).inputs))
    elsewhere = _ELSEWHERE.get(token, ())
    own = [field for field in fields if not field.path.startswith(elsewhere)]
    found = _facts(own) | {"immutable": list(_immutable(fields))}
    return {word: values for word, values in found.items() if values}


def _definition(folder: Path, token: str) -> Node | None:
    _, module, name = token.split(":")
    if token in _IN_GO:
        function, files = _IN_GO[token]
        at = folder / "mmv1" / "third_party" / "terraform" / "services" / "container"
        go = go_schema.Source([at / f"{file}.go.tmpl" for file in files])
        return {"properties": go.fields(function)}
    file = folder / "mmv1" / "products" / module.partition("/")[0] / f"{name}.yaml"
    if not file.is_file():
        return None
    given: Node = yaml.safe_load(file.read_text(encoding="utf-8"))
    return None if given.get("exclude_resource") else given


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """An input of the SDK, and its description in the definitions."""

    path: str
    """The path in the SDK, `a[].b`."""
    element: str
    """The path, or for a list that of its elements."""
    theirs: str
    """The path in the definitions' references, in lower case without word separators, `a.0.b`."""
    node: Node
    replaces: bool


def _fields(given: Node, shape: Block) -> Iterator[_Field]:
    own = given.get("virtual_fields") or ()  # which no request contains
    yield from _beneath(own, shape, ("", ""), whole=False, above=False)
    sent = [*(given.get("parameters") or ()), *(given.get("properties") or ())]
    whole = bool(given.get("immutable"))
    yield from _beneath(sent, shape, ("", ""), whole=whole, above=whole)


def _beneath(
    nodes: Sequence[Node], shape: Block, at: tuple[str, str], *, whole: bool, above: bool
) -> Iterator[_Field]:
    """`whole`: whether the resource is immutable; `above`: whether the fields' parent is."""
    for node in nodes:
        if node.get("exclude"):
            continue
        replaces = not node.get("output") and bool(
            node.get("immutable") or (whole and above and not node.get("update_url"))
        )
        inner = node.get("properties") or node.get("item_type", {}).get("properties") or ()
        inner = inner or node.get("value_type", {}).get("properties") or ()
        if node.get("flatten_object"):
            yield from _beneath(inner, shape, at, whole=whole, above=replaces)
            continue
        if (name := _same(shape.properties, node["name"])) is None:
            continue
        kind = shape.properties[name]
        element = element_of(kind)
        path, theirs = f"{at[0]}{name}", f"{at[1]}{_letters(node['name'])}"
        item = path if element is None else f"{path}[]"
        yield _Field(path=path, element=item, theirs=theirs, node=node, replaces=replaces)
        if sdk.is_input_type(kind_ := element or kind) and not node.get("output"):
            beneath = (f"{item}.", f"{theirs}.0.")
            yield from _beneath(inner, block(kind_), beneath, whole=whole, above=replaces)


def _facts(fields: Sequence[_Field]) -> dict[str, Any]:
    elements = {field.theirs: field.element for field in fields}
    found: dict[str, Any] = {
        "kept_when_removed": [f.path for f in fields if f.node.get("default_from_api")],
        "not_inputs": [field.path for field in fields if field.node.get("output")],
        "sets": [field.path for field in fields if field.node.get("is_set")],
        "defaults": {f.path: f.node["default_value"] for f in fields if "default_value" in f.node},
        "enums": dict(_enums(fields)),
        "bounds": {field.path: bound for field in fields if (bound := _bound(field.node))},
        "patterns": {f.path: regex for f in fields
                     if (regex := f.node.get("validation", {}).get("regex"))},
    }  # fmt: skip
    for word in ("conflicts", "exactly_one_of", "at_least_one_of"):
        groups = set()
        for field in fields:
            others = [elements[name] for name in map(_reference, field.node.get(word) or ())
                      if elements.get(name, field.element) != field.element]  # fmt: skip
            pairs = [{other} for other in others] if word == "conflicts" else [set(others)]
            groups |= {tuple(sorted({field.element, *group})) for group in pairs if group}
        found[word] = [list(group) for group in sorted(groups)]
    return found


def _immutable(fields: Sequence[_Field]) -> Iterator[str]:
    """A block that is completely immutable is one entry."""
    whole: list[str] = []
    for field in fields:
        if not field.replaces or field.path.startswith(tuple(whole)):
            continue
        beneath = [inner for inner in fields if inner.path.startswith(f"{field.element}.")]
        if beneath and all(item.replaces for item in beneath):
            whole.append(f"{field.element}.")
            yield f"{field.element}.*"
        else:
            yield field.element


def _enums(fields: Sequence[_Field]) -> Iterator[tuple[str, list[Any]]]:
    """The allowed values of fields; the provider treats an empty text as none, if it may."""
    for field in fields:
        item = field.node.get("item_type", {})
        if field.node.get("type") == "Enum" and not field.node.get("output"):
            none = [] if field.node.get("required") else [""]
            yield field.path, [*field.node["enum_values"], *none]
        elif item.get("type") == "Enum":
            yield f"{field.path}[]", list(item["enum_values"])


def _bound(node: Node) -> dict[str, int]:
    """The limits of a number, from the function that checks it, or of a list, from its sizes."""
    checked = node.get("validation", {}).get("function", "")
    if least := _AT_LEAST.fullmatch(checked):
        return {"min": int(least[1])}
    between = _BETWEEN.fullmatch(checked)
    words = {"min": "min_size", "max": "max_size"}
    sizes = {f"{word}_length": node[size] for word, size in words.items() if node.get(size, 1) > 1}
    if node.get("min_size") == 1:
        sizes["min_length"] = 1
    return {"min": int(between[1]), "max": int(between[2])} if between else sizes


def _reference(path: str) -> str:
    return ".".join(map(_letters, path.split(".")))


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def _same(names: Mapping[str, Any], wanted: str) -> str | None:
    """The SDK's name for a field: the bridge uses plurals for lists."""
    word = _letters(wanted)
    plurals = (word, f"{word}s", f"{word}es", f"{word.removesuffix('y')}ies")
    return next((name for plural in plurals for name in names if name.lower() == plural), None)
