"""Google's discovery documents: an API's methods, and their requests and responses.

The documents are in the wheel of google-api-python-client. Requests and responses are validated
against them, so unknown fields, wrong types and unknown enum values are found from Google's own
data.
"""

import importlib.util
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

WIDER = {("compute", "v1"): "beta", ("container", "v1"): "v1beta1"}
"""An API's version -> the one with more fields, in which a resource's state is kept."""
UNDOCUMENTED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("compute", "NetworkRoutingConfig"): {"deleteBgpAlwaysCompareMed": {"type": "boolean"}},
    ("compute", "RouterNat"): {"initialNatIps": {"type": "array", "items": {"type": "string"}}},
}
"""(API, schema) -> fields that the API accepts although its document lacks them: the official
provider sends them (google-beta 7.45.0)."""
_INTEGERS = ("int32", "uint32", "int64", "uint64")
_ANYWHERE = frozenset({"$alt", "$.xgafv", "access_token", "alt", "callback", "fields", "key",
                       "oauth_token", "prettyPrint", "quotaUser", "uploadType", "upload_protocol",
                       "userIp"})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method of an API."""

    id: str
    """For example `container.projects.locations.clusters.create`; the same in all versions."""
    verb: str
    segments: tuple[tuple[str, str, str], ...]
    """The segments of the path below the version: prefix, name of the parameter (or none) and
    suffix, such as `("", "projectsId", ":getIamPolicy")`."""
    query: Mapping[str, Mapping[str, Any]]
    request: str | None
    """The name of the body's schema."""
    response: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One version of one API."""

    service: str
    version: str
    schemas: Mapping[str, Mapping[str, Any]]
    methods: Mapping[str, Method]
    """ID -> method."""
    by_shape: Mapping[tuple[str, int], list[Method]] = field(repr=False)
    """(HTTP verb, number of path segments) -> the candidate methods."""

    def method(self, verb: str, path: str) -> tuple[Method, dict[str, str]] | None:
        """The method for a request to `path`, without leading and trailing slashes, and the path's
        parameters."""
        given = path.split("/")
        for method in self.by_shape.get((verb, len(given)), ()):
            if (found := _matched(method.segments, given)) is not None:
                return method, found
        return None

    def problems(self, schema: str, value: Any, at: str) -> Iterator[str]:
        """The errors in a value of this schema, with the messages of Google's front end."""
        yield from self._problems({"$ref": schema}, value, at)

    def _problems(self, kind: Mapping[str, Any], value: Any, at: str) -> Iterator[str]:
        kind = self.schemas[kind["$ref"]] if "$ref" in kind else kind
        form = kind.get("type")
        if form == "object":
            yield from self._object(kind, value, at)
        elif form == "array":
            if not isinstance(value, list):
                yield f"Invalid value at '{at}': expected a list, got {value!r}"
                return
            for index, inner in enumerate(value):
                yield from self._problems(kind["items"], inner, f"{at}[{index}]")
        elif not _is(kind, value):
            words = f" ({kind['format']})" if "format" in kind else ""
            yield f"Invalid value at '{at}': expected {form}{words}, got {value!r}"
        elif "enum" in kind and value not in kind["enum"]:
            yield f"Invalid value at '{at}': {value!r} is not one of {', '.join(kind['enum'])}"

    def _object(self, kind: Mapping[str, Any], value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield f"Invalid value at '{at}': expected an object, got {value!r}"
            return
        for name, item in value.items():
            inner = f"{at}.{name}" if at else name
            if name in kind.get("properties", ()):
                if item is not None:
                    yield from self._problems(kind["properties"][name], item, inner)
            elif "additionalProperties" in kind:
                yield from self._problems(kind["additionalProperties"], item, inner)
            else:
                yield (
                    f"Invalid JSON payload received. Unknown name \"{name}\" at '{at}': Cannot "
                    "find field."
                )

    def known(self, schema: str, value: Any) -> Any:
        """The value without fields that this version lacks."""
        return self._known({"$ref": schema}, value)

    def _known(self, kind: Mapping[str, Any], value: Any) -> Any:
        kind = self.schemas[kind["$ref"]] if "$ref" in kind else kind
        if isinstance(value, list) and "items" in kind:
            return [self._known(kind["items"], inner) for inner in value]
        if not isinstance(value, Mapping) or "properties" not in kind:
            return value
        return {
            name: self._known(kind["properties"][name], item)
            for name, item in value.items()
            if name in kind["properties"]
        }


def unknown_query(method: Method, query: Mapping[str, Any]) -> list[str]:
    """The query parameters that neither this method nor all methods have."""
    return [name for name in query if name not in method.query and name not in _ANYWHERE]


@cache
def document(service: str, version: str) -> Document | None:
    """The document, read once; None if Google publishes none of this name."""
    file = _folder() / f"{service}.{version}.json"
    if not re.fullmatch(r"[a-z0-9]+\.[a-z0-9]+\.json", file.name) or not file.is_file():
        return None
    raw = json.loads(file.read_text())
    for (api, schema), fields in UNDOCUMENTED.items():
        if api == service:
            raw["schemas"][schema]["properties"] |= fields
    methods = {method.id: method for method in map(_method, _all_methods(raw))}
    shapes: dict[tuple[str, int], list[Method]] = defaultdict(list)
    for method in methods.values():
        shapes[method.verb, len(method.segments)].append(method)
    return Document(
        service=service,
        version=version,
        schemas=raw["schemas"],
        methods=methods,
        by_shape=dict(shapes),
    )


def _folder() -> Path:
    found = importlib.util.find_spec("googleapiclient.discovery_cache")
    assert found is not None  # requirements-dev.txt
    assert found.origin is not None
    return Path(found.origin).with_name("documents")


def _all_methods(resource: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from resource.get("methods", {}).values()
    for inner in resource.get("resources", {}).values():
        yield from _all_methods(inner)


def _method(raw: Mapping[str, Any]) -> Method:
    path = re.sub(r"^v[0-9]\w*/", "", raw.get("flatPath", raw["path"]))
    return Method(
        id=raw["id"],
        verb=raw["httpMethod"],
        segments=tuple(map(_segment, path.split("/"))),
        query={
            name: kind
            for name, kind in raw.get("parameters", {}).items()
            if kind["location"] == "query"
        },
        request=raw.get("request", {}).get("$ref"),
        response=raw.get("response", {}).get("$ref"),
    )


def _segment(template: str) -> tuple[str, str, str]:
    before, _, rest = template.partition("{")
    name, _, after = rest.partition("}")
    return before, name.lstrip("+"), after


def _matched(segments: tuple[tuple[str, str, str], ...], given: list[str]) -> dict[str, str] | None:
    found = {}
    for (before, name, after), value in zip(segments, given, strict=True):
        if not name:
            if value != before:
                return None
            continue
        inner = value.removeprefix(before).removesuffix(after)
        if not inner or f"{before}{inner}{after}" != value or (":" in inner and not after):
            return None
        found[name] = inner
    return found


def _is(kind: Mapping[str, Any], value: Any) -> bool:
    """Whether a value has a simple type. 64-bit integers are sent as strings."""
    match kind.get("type"):
        case "string":
            if kind.get("format") in _INTEGERS:
                return (
                    isinstance(value, str | int) and re.fullmatch(r"-?\d+", str(value)) is not None
                )
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
    return True  # `any`
