"""An exported state without its secrets: each is replaced by a placeholder of the same type.

The type is that of the property in the SDK, because a provider refuses a state with text instead of
a map. Parts of a secret that the program declared in plain text are kept.
"""

import base64
import importlib
import json
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pulumi import _types

from gpu_cluster.stacks.definition.files import PLACEHOLDER

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
"""The key that marks a secret among the values of a state."""
NOWHERE = '{"apiVersion": "v1", "kind": "Config"}'
"""Replaces a kubeconfig: it has no cluster. With that of another cluster, everything in the cluster
would be replaced; an invalid one is refused by the Kubernetes provider."""
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
"""Replaces a cluster's CA: it has signed nothing, and its key was deleted. The Kubernetes provider
parses it before it connects to the cluster."""
_ATTRIBUTION = {"goog-pulumi-provisioned": "true"}
"""The default label that Pulumi's Google provider adds to everything."""
_LABELS = ("effectiveLabels", "pulumiLabels")
_RAW_DELTA = "__pulumi_raw_state_delta"


def opened(state: Any) -> Any:
    """An export of a stack, or a part of it, without secrets and the reference to their key."""
    if isinstance(state, dict):
        if "urn" in state and "type" in state:
            return _resource(state)
        if _is_secret(state):
            return _placeholder(Any, None, "")
        return {k: opened(v) for k, v in state.items() if k != "secrets_providers"}
    return [opened(item) for item in state] if isinstance(state, list) else state


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
    """`kind` is the SDK's type, or a map of them; `declared`: the corresponding inputs."""
    if _is_secret(value):
        return _placeholder(kind, declared, key)
    if isinstance(value, dict):
        plain = declared if isinstance(declared, Mapping) else {}
        return {
            name: _open(item, _kind_of(kind, name), plain.get(name), name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_open(item, _kind_of(kind, ""), None, key) for item in value]
    return value


def _placeholder(kind: Any, declared: Any, key: str) -> Any:
    """A meaningless value of this kind, with the parts of it that are declared in plain text."""
    if properties := _members(kind):
        plain = declared if isinstance(declared, Mapping) else {}
        return {
            name: plain[name] if plain.get(name) is not None else _placeholder(member, None, name)
            for name, member in properties.items()
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
    """Removes the bridge's record of format differences, which contains some of the original
    values. A state without it is like one of older versions of the bridge."""
    rest = {name: value for name, value in outputs.items() if name != _RAW_DELTA}
    if isinstance(meta := rest.get("__meta"), str) and _RAW_DELTA in meta:
        notes = {name: value for name, value in json.loads(meta).items() if name != _RAW_DELTA}
        rest["__meta"] = json.dumps(notes)
    return rest


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
