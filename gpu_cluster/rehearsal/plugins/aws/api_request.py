"""Translates Pulumi's inputs to an AWS API's requests, and its responses to Pulumi's properties,
using the API's model and the SDK's classes."""

import typing
from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.plugins.cloud.schema import plain


def request(
    shape: Any, inputs: Mapping[str, Any], renamed: Mapping[str, str] | None = None, path: str = ""
) -> dict[str, Any]:
    """Translates `inputs` to members of `shape` (a botocore structure): by name, ignoring the case
    of the first letter, or by `renamed` (path -> member). Converts text to booleans and numbers.

    Raises CloudError for a property that the API does not have.
    """
    answer = {}
    for name, value in inputs.items():
        inner = f"{path}.{name}" if path else name
        found = (renamed or {}).get(inner) or spelled(shape.members, name)
        if found is None or found not in shape.members:
            raise CloudError(f"a rehearsal does not simulate '{inner}': the API has no such member")
        if value is not None:
            answer[found] = _value(shape.members[found], value, renamed, inner)
    return answer


def spelled(members: Container[str], name: str) -> str | None:
    """The member of this name, ignoring the case of its first letter; None if there is none."""
    for candidate in (name, name[:1].upper() + name[1:], name[:1].lower() + name[1:]):
        if candidate in members:
            return candidate
    return None


def pascal(name: str) -> str:
    """`cidrBlock` in the spelling of the EC2 and IAM APIs: `CidrBlock`."""
    return name[:1].upper() + name[1:]


def spelled_or_plural(members: Container[str], name: str) -> str | None:
    """Like `spelled`, but also matches a plural name in Pulumi with AWS's singular."""
    for candidate in (name, f"{name}s", name.removesuffix("s")):
        if found := spelled(members, candidate):
            return found
    return None


def place(
    shape: Any,
    request: dict[str, Any],
    path: Sequence[str],
    value: Any,
    name: str,
    renamed: Mapping[str, str] | None = None,
) -> None:
    """Puts the input `name` into a request of `shape` at `path`, the member names from the
    outermost in; a list on the path has one element, and the rest of the path is a map's key."""
    first, *rest = path
    inner = shape.members[first]
    if rest and inner.type_name == "map":
        request.setdefault(first, {})[".".join(rest)] = _value(inner.value, value, renamed, name)
        return
    if not rest:
        request[first] = _value(inner, value, renamed, name)
    elif inner.type_name == "list":
        place(inner.member, request.setdefault(first, [{}])[0], rest, value, name, renamed)
    else:
        place(inner, request.setdefault(first, {}), rest, value, name, renamed)


def shown(value: Any, kind: Any) -> Any:
    """Converts part of a response to a property of the SDK's type `kind`."""
    kind = plain(kind)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, Mapping) and sdk.is_output_type(kind):
        found = {name: spelled_or_plural(value, name) for name in sdk.output_types(kind)}
        return {
            name: shown(value[member], sdk.output_types(kind)[name])
            for name, member in found.items()
            if member
        }
    if isinstance(value, list) and typing.get_args(kind):
        return [shown(element, typing.get_args(kind)[0]) for element in value]
    if isinstance(value, list) and kind is str:  # a single value in Pulumi, a list in the API
        return next(iter(value), None)
    return value


def _value(shape: Any, value: Any, renamed: Mapping[str, str] | None, path: str) -> Any:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, Mapping):
        return request(shape, value, renamed, path)
    if kind == "structure" and "Value" in shape.members:  # an attribute in EC2's modify requests
        return {"Value": value}
    if kind == "list" and isinstance(value, str):
        return [value]
    if kind == "list" and isinstance(value, Mapping):  # tags
        return [{"Key": key, "Value": str(item)} for key, item in value.items()]
    if kind == "list" and isinstance(value, list):
        return [_value(shape.member, element, renamed, f"{path}[]") for element in value]
    if kind == "boolean" and isinstance(value, str):
        return value.lower() == "true"
    if kind in ("integer", "long") and isinstance(value, str | float):
        return int(value)
    if kind == "string" and isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value
