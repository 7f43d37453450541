"""Run with `python -m`: shortens JobSet's, Kueue's and Karpenter's pinned resource
definitions.

Descriptions and everything deeper than `DEEPEST` are removed: the engine's messages nest three
levels for each level, and Python's protobuf refuses to read more than 100.
"""

import json
import sys
from typing import Any

import yaml

from gpu_cluster import tools
from gpu_cluster.tools.programs import HERE, ToolError, program

FOLDER = HERE.parents[1] / "components" / "crds"
PROGRAMS = ("jobset", "kueue", "karpenter-aws")
DEEPEST = 28
"""Levels of a definition, including lists and scalars: down to a variable's name in a JobSet's pod
template."""
UNUSED = ("capacitybuffers.autoscaling.x-k8s.io",)
"""Definitions that no stack declares: Karpenter ships one for a disabled feature."""

LATER = {
    "kueue": (
        "v0.16.9",
        {
            "c.status == 'True')) ? (oldSelf.spec.priorityClassSource ==": (
                "c.status == 'True') && has(oldSelf.spec.priorityClassSource) && "
                "has(self.spec.priorityClassSource)) ? (oldSelf.spec.priorityClassSource =="
            ),
            "c.status == 'True') && (self.spec.priorityClassSource !=": (
                "c.status == 'True') && has(oldSelf.spec.priorityClassSource) && "
                "has(self.spec.priorityClassSource) && (self.spec.priorityClassSource !="
            ),
        },
    ),
    "karpenter-aws": ("v1.15.2", {}),
}
"""Program -> the version that runs in clusters, if its module, or one that it needs, cannot be
downloaded, and what its definitions change: a part of a rule before and after. Kueue:
kubernetes-sigs/kueue PR 10630, in `git diff v0.16.6 v0.16.9 -- config/components/crd`, which has
nothing else but descriptions. Karpenter for AWS needs sigs.k8s.io/karpenter 1.15.1 from 1.15.1 on;
pkg/apis of 1.15.0 and 1.15.2 are equal (read 2026-11-30)."""

_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""A schema that accepts any object and keeps all of it."""


def document(name: str) -> dict[str, Any]:
    """A program's definitions, with their source."""
    built = program(name)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definitions = [yaml.load(file.read_text(), loader) for file in tools.crds(name)]
    version, changes = LATER.get(name, (built.version(), {}))
    for before, after in changes.items():
        definitions, count = _with_rule(definitions, before, after)
        if count == 0:
            raise ToolError(f"{name}: no rule of a definition has {before!r}; correct LATER")
    return {
        "source": f"{built.module} {version}, {built.copies[0][1]}",
        "license": "Apache-2.0",
        "definitions": [
            shortened(definition)
            for definition in definitions
            if definition["metadata"]["name"] not in UNUSED
        ],
    }


def _with_rule(value: Any, before: str, after: str) -> tuple[Any, int]:
    """The value with a part of its rules replaced, and how many rules have that part."""
    if isinstance(value, str):
        return value.replace(before, after), value.count(before)
    if not isinstance(value, dict | list):
        return value, 0
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    changed = [_with_rule(value[key], before, after) for key in keys]
    inner = [part for part, _ in changed]
    whole = dict(zip(keys, inner, strict=True)) if isinstance(value, dict) else inner
    return whole, sum(count for _, count in changed)


def shortened(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition without descriptions, which accepts anything below the maximum depth."""
    versions = [
        {
            **version,
            # The levels above it: the definition, its spec, versions, one of these and its schema.
            "schema": {"openAPIV3Schema": _schema(version["schema"]["openAPIV3Schema"], 6)},
        }
        for version in definition["spec"]["versions"]
    ]
    return {
        "apiVersion": definition["apiVersion"],
        "kind": definition["kind"],
        "metadata": {
            key: value for key, value in definition["metadata"].items() if key != "annotations"
        },
        "spec": {**definition["spec"], "versions": versions},
    }


def definitions_text(name: str) -> str:
    """The text of a program's file: one definition per line."""
    head = document(name)
    lines = [json.dumps(crd, separators=(",", ":")) for crd in head.pop("definitions")]
    fields = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    return f'{{{fields}"definitions": [\n' + ",\n".join(lines) + "\n]}\n"


def _schema(schema: dict[str, Any], depth: int) -> dict[str, Any]:
    """A schema at this depth; `properties` and each property in it are a level each."""
    plain: dict[str, Any] = _plain(schema)
    if _depth(plain) + depth - 1 <= DEEPEST or schema.get("type") not in ("object", "array"):
        return plain
    if schema["type"] == "array":
        return _array(plain, _schema(schema["items"], depth + 1))
    if "properties" not in schema or depth + 3 > DEEPEST:
        kept = {key: schema[key] for key in ("x-kubernetes-map-type",) if key in schema}
        return {**_OPEN, **kept}
    inside = {name: _schema(inner, depth + 2) for name, inner in schema["properties"].items()}
    return {**plain, "properties": inside}


def _array(schema: dict[str, Any], items: dict[str, Any]) -> dict[str, Any]:
    if _OPEN.items() <= items.items():
        # A list whose items accept anything has no keys to distinguish them.
        keyed = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys")
        schema = {key: value for key, value in schema.items() if key not in keyed}
    return {**schema, "items": items}


def _plain(schema: Any, *, names: bool = False) -> Any:
    """The schema without descriptions; `names`: whether the keys are names of properties."""
    if isinstance(schema, dict):
        return {
            key: _plain(value, names=key == "properties" and not names)
            for key, value in schema.items()
            if names or key != "description"
        }
    return [_plain(inner) for inner in schema] if isinstance(schema, list) else schema


def _depth(value: Any) -> int:
    """The number of levels, including lists and scalars."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def main() -> int:
    """Writes the definitions of every program; returns the command's exit code."""
    try:
        for name in PROGRAMS:
            file = FOLDER / f"{name}.json"
            file.write_text(definitions_text(name))
            print(f"{file.relative_to(HERE.parents[1])}: {document(name)['source']}")
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
