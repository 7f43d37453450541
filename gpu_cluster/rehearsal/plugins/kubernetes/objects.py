"""Kubernetes objects as the provider sees them: kinds, names, annotations, form of the state."""

from dataclasses import dataclass
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.wire import secret
from gpu_cluster.rehearsal.plugins.kubernetes.properties import (
    UNKNOWN,
    Properties,
    mark_secrets,
    plain,
    rename_keys,
)

Object = dict[str, Any]

AUTONAMED = "pulumi.com/autonamed"
SKIP_AWAIT = "pulumi.com/skipAwait"
TIMEOUT_SECONDS = "pulumi.com/timeoutSeconds"
PATCH_FORCE = "pulumi.com/patchForce"

READ_ONLY_METADATA = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
)

CLUSTER_SCOPED = frozenset({
    "APIService", "CSIDriver", "CSINode", "CertificateSigningRequest", "ClusterRole",
    "ClusterRoleBinding", "ComponentStatus", "CustomResourceDefinition", "DeviceClass",
    "FlowSchema", "IngressClass", "MutatingWebhookConfiguration", "Namespace", "Node",
    "PersistentVolume", "PriorityClass", "PriorityLevelConfiguration", "ResourceSlice",
    "RuntimeClass", "StorageClass", "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttachment",
})  # fmt: skip
"""Built-in kinds without a namespace, used when no API server is available."""

_DASHED = {
    name.replace("-", "_"): name
    for name in (
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    )
}
_UNDERSCORED = {dashed: name for name, dashed in _DASHED.items()}


@dataclass(frozen=True, slots=True)
class Kind:
    """A group, version and kind; the core group is empty."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"


SECRET = Kind("", "v1", "Secret")


def kind_of(obj: Object) -> Kind:
    """The kind in an object's apiVersion and kind."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return Kind("" if group == "core" else group, version, str(obj.get("kind", "")))


def kind_of_token(token: str) -> Kind:
    """The kind of a type token such as `kubernetes:apps/v1:DaemonSet`."""
    _, module, kind = token.split(":")
    group, _, version = module.rpartition("/")
    return Kind("" if group == "core" else group, version, kind)


def is_patch(token: str, obj: Object) -> bool:
    """Whether the resource patches another owner's object, as a ConfigMapPatch does."""
    return token.rpartition(":")[2] == f"{obj.get('kind')}Patch"


def from_properties(properties: Properties) -> Object:
    """The object that a resource's inputs describe; unknown values are kept."""
    obj: Object = rename_keys(plain(properties), lambda name: _DASHED.get(name, name))
    return obj


def to_properties(obj: Object) -> Properties:
    """An object as resource properties."""
    properties: Properties = rename_keys(obj, lambda name: _UNDERSCORED.get(name, name))
    return properties


def metadata_of(obj: Object) -> Object:
    """The object's metadata; empty if there is none, or if it is still unknown in a preview."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def name_of(obj: Object) -> Any:
    """The name; None if there is none, and `UNKNOWN` if it is not known yet."""
    return metadata_of(obj).get("name")


def namespace_of(obj: Object) -> str:
    """The namespace; empty if there is none or it is not known yet."""
    namespace = metadata_of(obj).get("namespace")
    return namespace if isinstance(namespace, str) and namespace != UNKNOWN else ""


def object_id(obj: Object) -> str:
    """`namespace/name`, or only the name for objects without a namespace."""
    namespace = namespace_of(obj)
    return f"{namespace}/{name_of(obj)}" if namespace else str(name_of(obj))


def split_id(identifier: str) -> tuple[str, str]:
    """The namespace and the name in an ID."""
    namespace, _, name = identifier.rpartition("/")
    return namespace, name


def annotation(obj: Object, name: str) -> str:
    """An annotation's value; empty if it is absent or not known yet."""
    annotations = metadata_of(obj).get("annotations")
    value = annotations.get(name) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) and value != UNKNOWN else ""


def is_true(obj: Object, name: str) -> bool:
    """Whether the annotation is `true`."""
    return annotation(obj, name) == "true"


def autonamed(obj: Object, name: str) -> Object:
    """The object with a generated name."""
    metadata = metadata_of(obj)
    annotations = metadata.get("annotations")
    if annotations != UNKNOWN:
        annotations = {**(annotations or {}), AUTONAMED: "true"}
    return {**obj, "metadata": {**metadata, "annotations": annotations, "name": name}}


def timeout_seconds(obj: Object, custom: float) -> float | None:
    """Seconds to wait: customTimeouts (0: none), else the annotation; None: the kind's default."""
    if custom:
        return custom
    seconds = annotation(obj, TIMEOUT_SECONDS)
    return float(seconds) if seconds.isdecimal() else None


def without_read_only(obj: Object) -> Object:
    """The object without metadata that only the API server writes."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return obj
    kept = {name: value for name, value in metadata.items() if name not in READ_ONLY_METADATA}
    return {**obj, "metadata": kept}


def prune(live: Any, inputs: Any) -> Any:
    """The part of a live object that the inputs cover; list items are matched by position."""
    if isinstance(live, dict) and isinstance(inputs, dict):
        return {name: prune(live[name], value) for name, value in inputs.items() if name in live}
    if isinstance(live, list) and isinstance(inputs, list):
        return [prune(item, like) for item, like in zip(live, inputs, strict=False)]
    return live


def checkpoint(
    inputs: Object, live: Object, given: Properties, initial_api_version: str, manager: str
) -> Properties:
    """A resource's state: the live object and its inputs; secrets stay secret."""
    state = marked(live, given)
    state["__inputs"] = marked(inputs, given)
    state["__initialApiVersion"] = initial_api_version
    state["__fieldManager"] = manager
    return state


def marked(obj: Object, given: Properties) -> Properties:
    """An object as properties, secret where its inputs are.

    A Secret's `stringData` is moved to `data`, and stays secret there.
    """
    marks = given
    if kind_of(obj) == SECRET and "stringData" in given:
        data, text = given.get("data") or {}, given["stringData"]
        both = {**data, **text} if isinstance(data, dict) and isinstance(text, dict) else secret(0)
        marks = {**given, "data": both}
    properties: Properties = mark_secrets(to_properties(obj), marks)
    return properties


def parse_checkpoint(state: Properties) -> tuple[Object, Object]:
    """The inputs and the live object that `checkpoint` stored in the state."""
    everything = from_properties(state)
    inputs: Object = everything.pop("__inputs", {})
    return inputs, {name: item for name, item in everything.items() if not name.startswith("__")}
