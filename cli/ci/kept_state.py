"""An exported state without its secrets: each is a placeholder of its own shape.

The shape is what the SDK says of the property, since a provider that finds text where its resource
has a map refuses the state. What the program declared beside it in plain text is taken over.
"""

import base64
import importlib
import json
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pulumi import _types

from stacks.definition.files import PLACEHOLDER

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
"""By which the engine knows a secret among the values of a state."""
NOWHERE = '{"apiVersion": "v1", "kind": "Config"}'
"""In place of a kubeconfig: one of no cluster. Of another cluster's, all that is in the cluster
would be replaced; what is none at all, the Kubernetes provider refuses."""
NOBODY = """-----BEGIN CERTIFICATE-----
MIIBJjCBzKADAgECAgEBMAoGCCqGSM49BAMCMBExDzANBgNVBAMMBm5vYm9keTAg
Fw0yNjAxMDEwMDAwMDBaGA8yMTI2MDEwMTAwMDAwMFowETEPMA0GA1UEAwwGbm9i
b2R5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEpznzhqoBiPYzbJgfixK67hQo
8kxIoqDOiSBZNDwGn31GpvKdwTGnj3Z56MN2NItJ0129aPtjHyQbJY/aXiw4kqMT
MBEwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEA+dwl3wuu8BVz
+k3G79EBRylSd6BNP8VMfN42k73N/iYCIQDpoBlNThZPji9Ljs8MsyeamrUtvMMm
UBu13J+AXqNIrg==
-----END CERTIFICATE-----
"""
"""In place of a cluster's CA: one that signed nothing, whose key nobody has. The Kubernetes
provider reads it before it looks for the cluster."""
_ATTRIBUTION = {"goog-pulumi-provisioned": "true"}
"""What Pulumi's Google provider adds to the labels of everything (its default label)."""
_LABELS = ("effectiveLabels", "pulumiLabels")
_RAW_DELTA = "__pulumi_raw_state_delta"


def opened(state: Any) -> Any:
    """An export of a stack, or a part of it, without secrets and without the way to their key."""
    if isinstance(state, dict):
        if "urn" in state and "type" in state:
            return _resource(state)
        if _is_secret(state):
            return _placeholder(Any, None, "")
        return {k: opened(v) for k, v in state.items() if k != "secrets_providers"}
    return [opened(each) for each in state] if isinstance(state, list) else state


def _resource(row: Mapping[str, Any]) -> dict[str, Any]:
    inputs, outputs = row.get("inputs") or {}, row.get("outputs") or {}
    kinds = _property_kinds(row["type"])
    declared = _open(inputs, kinds, {})
    made = _open(outputs, kinds, declared)
    labels = declared.get("resourceLabels") or declared.get("labels")
    for name in _LABELS:
        if _is_secret(outputs.get(name)):
            made[name] = {**(labels if isinstance(labels, Mapping) else {}), **_ATTRIBUTION}
    if _has_secret(outputs):
        made = _without_raw_delta(made)
    rest = {name: opened(v) for name, v in row.items() if name not in ("inputs", "outputs")}
    parts = {"inputs": declared, "outputs": made}
    return rest | {name: part for name, part in parts.items() if name in row}


def _open(value: Any, kind: Any, declared: Any, key: str = "") -> Any:
    """`kind` is the SDK's type, or a map of them; `declared` what the inputs have there."""
    if _is_secret(value):
        return _placeholder(kind, declared, key)
    if isinstance(value, dict):
        given = declared if isinstance(declared, Mapping) else {}
        return {
            name: _open(each, _kind_of(kind, name), given.get(name), name)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_open(each, _kind_of(kind, ""), None, key) for each in value]
    return value


def _placeholder(kind: Any, declared: Any, key: str) -> Any:
    """A value of this kind that says nothing; with what is declared in it in plain text."""
    if properties := _members(kind):
        given = declared if isinstance(declared, Mapping) else {}
        return {
            name: given[name] if given.get(name) is not None else _placeholder(each, None, name)
            for name, each in properties.items()
        }
    origin = typing.get_origin(kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict(declared) if isinstance(declared, Mapping) else {}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return declared if isinstance(declared, list) else []
    if kind is bool:
        return declared if isinstance(declared, bool) else False
    if kind in (int, float):
        return declared if isinstance(declared, int | float) else 0
    if key == "kubeconfig":
        return NOWHERE
    if key == "clusterCaCertificate":
        return base64.b64encode(NOBODY.encode()).decode()
    return PLACEHOLDER


def _is_secret(value: Any) -> bool:
    return isinstance(value, dict) and value.get(_SIGNATURE) == _SECRET


def _has_secret(value: Any) -> bool:
    if isinstance(value, dict):
        return _is_secret(value) or any(map(_has_secret, value.values()))
    return isinstance(value, list) and any(map(_has_secret, value))


def _without_raw_delta(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Without the bridge's note of how its own format differs: that is of the values as they were,
    and holds some of them. A state without it is as older versions of the bridge wrote it."""
    kept = {name: each for name, each in outputs.items() if name != _RAW_DELTA}
    if isinstance(meta := kept.get("__meta"), str) and _RAW_DELTA in meta:
        notes = {name: each for name, each in json.loads(meta).items() if name != _RAW_DELTA}
        kept["__meta"] = json.dumps(notes)
    return kept


@cache
def _property_kinds(token: str) -> Mapping[str, Any]:
    """Property of a resource type -> its type in the SDK; empty if there is no such SDK."""
    package, _, rest = token.partition(":")
    module, _, name = rest.rpartition(":")
    path = module.partition("/")[0] if package != "kubernetes" else module.replace("/", ".")
    try:
        sdk = importlib.import_module(f"pulumi_{package}.{path.lower()}")
        return dict(_types.resource_types(getattr(sdk, name)))
    except (ImportError, AttributeError):
        return {}


def _members(kind: Any) -> Mapping[str, Any]:
    """The properties of a nested object type."""
    if isinstance(kind, type) and _types.is_output_type(kind):
        return _types.output_type_types(kind)
    return {}


def _kind_of(kind: Any, name: str) -> Any:
    """The type of a property, a map's value or a list's element."""
    if isinstance(kind, Mapping):
        return kind.get(name, Any)
    if properties := _members(kind):
        return properties.get(name, Any)
    arguments = typing.get_args(kind)
    return arguments[-1] if arguments else Any
