"""Pulumi's inputs as an AWS API wants them, by the API's own model."""

from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.cloud.handler import CloudError


def request(
    shape: Any, inputs: Mapping[str, Any], renamed: Mapping[str, str] | None = None, path: str = ""
) -> dict[str, Any]:
    """`inputs` as members of `shape` (a botocore structure): names by their spelling without the
    case of the first letter, or by `renamed` (path -> member); truth values and numbers from text.

    Raises CloudError for a property that the API does not have.
    """
    answer = {}
    for name, value in inputs.items():
        inner = f"{path}.{name}" if path else name
        member = (renamed or {}).get(inner) or _member(shape, name)
        if member is None or member not in shape.members:
            raise CloudError(f"a rehearsal does not simulate '{inner}': the API has no such member")
        if value is not None:
            answer[member] = _value(shape.members[member], value, renamed, inner)
    return answer


def _member(shape: Any, name: str) -> str | None:
    for candidate in (name, name[:1].upper() + name[1:], name[:1].lower() + name[1:]):
        if candidate in shape.members:
            return str(candidate)
    return None


def _value(shape: Any, value: Any, renamed: Mapping[str, str] | None, path: str) -> Any:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, Mapping):
        return request(shape, value, renamed, path)
    if kind == "list" and isinstance(value, Mapping):  # tags
        return [{"Key": key, "Value": str(each)} for key, each in value.items()]
    if kind == "list" and isinstance(value, list):
        return [_value(shape.member, each, renamed, f"{path}[]") for each in value]
    if kind == "boolean" and isinstance(value, str):
        return value.lower() == "true"
    if kind in ("integer", "long") and isinstance(value, str | float):
        return int(value)
    if kind == "string" and isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value
