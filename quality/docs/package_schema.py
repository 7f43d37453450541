"""The schema of the component package, which `make docs` writes from the classes of the settings.

Pulumi generates the SDKs of other languages from it. Only fields that accept another resource's
output (`OUTPUT`) are inputs there; everything else is a plain value, so that a compiler refuses
what the program would refuse.
"""

import dataclasses
import json
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gpu_cluster.components import plugin
from gpu_cluster.components.cluster import Toleration
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.decode import camel
from gpu_cluster.components.schema.limits import unwrapped, words
from gpu_cluster.components.schema.outputs import NAMED, OUTPUT
from gpu_cluster.components.settings.blocks import BLOCKS
from gpu_cluster.components.stack import GpuStack, GpuStackArgs
from gpu_cluster.tools.sections import ROOT
from quality.docs import outputs
from quality.keys import TYPES, meanings

FILE: Final = Path(plugin.__file__).with_name(plugin.SCHEMA)
_LANGUAGES = ("csharp", "go", "java", "nodejs", "python")

Spec = dict[str, Any]


class _Types:
    """The named types of the package, by token."""

    def __init__(self) -> None:
        self.found: dict[str, Spec] = {}

    def refer(self, name: str) -> Spec:
        return {"$ref": f"#/types/{_token(name)}"}

    def record(self, kind: type, name: str = "", **fixed: Spec) -> Spec:
        """A reference to the type of a class of args; `fixed`: properties in front of the class's
        own. The SDK itself adds `Args` to the name."""
        name = name or kind.__name__.removesuffix("Args")
        if _token(name) in self.found:
            return self.refer(name)
        properties: Spec = dict(fixed)
        self.found[_token(name)] = spec = {
            "type": "object",
            "description": _description(kind),
            "properties": properties,
        }
        hints, texts = typing.get_type_hints(kind, include_extras=True), meanings(kind)
        required = list(fixed)
        for field in (field for field in dataclasses.fields(kind) if field.init):
            key = camel(field.name)
            value = self._value(hints[field.name], f"{name}{key[0].upper()}{key[1:]}")
            if meaning := texts.get(field.name):
                value["description"] = meaning
            properties[key] = value
            if field.default is field.default_factory is dataclasses.MISSING:
                required.append(key)
        spec["required"] = sorted(required)
        return self.refer(name)

    def _value(self, hint: Any, name: str) -> Spec:
        """The type of a key's values; `name`: the enum's, if it is one."""
        if short := words(hint):
            both = [self._value(part, name) for part in short]
            return _plain({"oneOf": both})
        hint, marks = unwrapped(hint)
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Literal:
            values = [{"name": _member(value), "value": value} for value in inner]
            self.found[_token(name)] = {"type": "string", "enum": values}
            return _plain(self.refer(name))
        if origin is Mapping:
            return _plain({"type": "object", "additionalProperties": self._value(inner[1], name)})
        if origin is Sequence:
            items = self._value(inner[0], name)
            if NAMED in marks:
                plain = _plain({"type": "array", "items": _plain(items)})
                by_name = _plain({"type": "object", "additionalProperties": items})
                return _plain({"oneOf": [plain, by_name]})
            return _plain({"type": "array", "items": items})
        if dataclasses.is_dataclass(hint):
            return _plain(self.record(typing.cast("type", hint)))
        spec = {"type": TYPES[hint]}
        return spec if OUTPUT in marks else _plain(spec)

    def inferred(self, value: Any) -> Spec:
        """The type of an output's value."""
        if isinstance(value, dict):
            kind = TYPES[type(next(iter(value.values())))]
            return {"type": "object", "additionalProperties": {"type": kind}}
        if isinstance(value, list):
            item = value[0]
            toleration = isinstance(item, dict)
            return {
                "type": "array",
                "items": self.record(Toleration) if toleration else {"type": TYPES[type(item)]},
            }
        return {"type": TYPES[type(value)]}


def schema() -> Spec:
    """The complete schema."""
    types = _Types()
    clusters, pools = [], []
    for name, platform in PLATFORMS.items():
        written = {"type": "string", "const": name.removesuffix("-existing"), "plain": True}
        module = platform.settings
        clusters.append(_plain(types.record(module.CLUSTER, platform=written)))
        pool = _plain(types.record(module.POOL))
        pools += [pool] if pool not in pools else []
    inputs: Spec = {
        "cluster": {"oneOf": clusters, "description": "The cluster, by its platform."},
        "gpuPools": {
            "type": "object",
            "additionalProperties": {"oneOf": pools, "plain": True},
            "description": "GPU pools by name, of the cluster's platform.",
        },
    }
    for key, block in BLOCKS.items():
        value = _plain(types.record(block.args))
        if block.names is not None:
            value = {"type": "object", "additionalProperties": value}
        inputs[key] = value | {"description": _description(block.args)}
    inputs["prefix"] = {"type": "string", "description": meanings(GpuStackArgs)["prefix"]}
    results = _outputs(types)
    component = {
        "isComponent": True,
        "description": _description(GpuStack),
        "inputProperties": {key: _plain(value) for key, value in inputs.items()},
        "requiredInputs": ["cluster"],
        "properties": results,
        "required": sorted(results.keys() - {"certificateAuthority"}),
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "name": project["name"],
        "version": project["version"],
        "displayName": project["name"],
        "description": project["description"],
        "license": project["license"],
        "language": {name: {"respectSchemaVersion": True} for name in _LANGUAGES},
        "resources": {GpuStack.TOKEN: component},
        "types": dict(sorted(types.found.items())),
    }


def _outputs(types: _Types) -> Spec:
    pools = [pool for pools in outputs.contracts().values() for pool in pools]
    known = {key: value for pool in pools for key, value in pool.items() if value is not None}
    types.found[_token("GpuPool")] = {
        "type": "object",
        "description": "What a pod on a GPU pool needs.",
        "properties": {
            key: types.inferred(value) | {"description": outputs.meaning(key)}
            for key, value in known.items()
        },
        "required": sorted(key for key in known if all(pool[key] is not None for pool in pools)),
    }
    texts = meanings(GpuStack)
    results: Spec = {}
    for name in plugin.OUTPUTS:
        key = camel(name)
        results[key] = {"type": "string", "description": texts[name]}
    results["kubeconfig"]["secret"] = True
    del results["gpuPools"]["type"]
    results["gpuPools"] |= {"type": "object", "additionalProperties": types.refer("GpuPool")}
    return results


def _token(name: str) -> str:
    return f"{GpuStack.TOKEN.rpartition(':')[0]}:{name}"


def _plain(spec: Spec) -> Spec:
    return spec | {"plain": True}


def _description(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split())


def _member(value: str) -> str:
    """`time-slicing` -> `TimeSlicing`."""
    return "".join(part[:1].upper() + part[1:] for part in re.split("[^a-zA-Z0-9]", value))


def package_schema_text() -> str:
    """The schema in the file's format: a line for each property."""
    return f"{_lines(schema(), depth=4)}\n"


def _lines(value: Any, depth: int, indent: str = "\n") -> str:
    """JSON with a line for each entry, down to `depth`."""
    if not depth or not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    inner = f"{indent} "
    entries = (
        f"{json.dumps(key)}: {_lines(item, depth - 1, inner)}" for key, item in value.items()
    )
    return "{" + inner + f",{inner}".join(entries) + indent + "}"
