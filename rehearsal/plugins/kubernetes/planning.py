"""Completes inputs and compares them with the state; pure, except for the scope of a kind."""

from collections.abc import Callable

from rehearsal.plugins.kubernetes import differences, schema
from rehearsal.plugins.kubernetes.normalising import normalise
from rehearsal.plugins.kubernetes.objects import (
    AUTONAMED,
    CLUSTER_SCOPED,
    SECRET,
    Kind,
    Object,
    autonamed,
    from_properties,
    is_patch,
    is_true,
    kind_of,
    kind_of_token,
    marked,
    metadata_of,
    name_of,
    namespace_of,
    parse_checkpoint,
    prune,
    random_suffix,
    without_read_only,
)
from rehearsal.plugins.kubernetes.provider_args import Settings
from rehearsal.plugins.kubernetes.readiness import rule_for
from rehearsal.plugins.kubernetes.resource import Autonaming, Difference, ProviderError, Resource
from rehearsal.plugins.kubernetes.wire import Properties, Unknown

Scope = Callable[[Kind], bool]
"""Whether a custom resource's kind is namespaced."""


def namespaced(kind: Kind, scope: Scope) -> bool:
    """Whether a kind is namespaced."""
    if schema.is_builtin(kind):
        return kind.kind not in CLUSTER_SCOPED
    return scope(kind)


def supported_kind(token: str) -> Kind:
    """The kind of a type token; raises ProviderError if it is not simulated here."""
    try:
        kind = kind_of_token(token)
    except ValueError as error:
        raise ProviderError(f"{error}; use the plain resources instead") from None
    if kind.group == "helm.sh":
        raise ProviderError(f"{token}: the offline plugin has no Helm; use plain resources instead")
    if kind.kind.endswith("List") and schema.input_class(token) is not None:
        raise ProviderError(
            "list resources exist for compatibility with YAML manifests and Helm charts, and "
            "cannot be created directly. Use the underlying resource type instead"
        )
    return kind


def checked(
    resource: Resource,
    old: Properties,
    new: Properties,
    *,
    namespace: str,
    scope: Scope,
    seed: bytes,
    autonaming: Autonaming | None,
) -> tuple[Properties, list[tuple[str, str]]]:
    """The inputs with name and namespace filled in, and each error's path and reason.

    `namespace`: the default namespace; empty if it is unknown.
    """
    kind = supported_kind(resource.token)
    found = list(schema.faults(resource.token, without_read_only(new)))
    obj, before = from_properties(new), from_properties(old)
    # A Secret's text stays in the input it was given in, so that it does not become less secret.
    obj = without_read_only(obj) if kind_of(obj) == SECRET else normalise(obj)
    patch = is_patch(resource.token, obj)
    if not name_of(obj) and metadata_of(obj).get("generateName"):
        raise ProviderError(
            "the `.metadata.generateName` field is not supported in Server-Side Apply mode"
        )
    if patch:
        if not name_of(obj):
            raise ProviderError("patch resources require the `.metadata.name` field to be set")
        kind = Kind(kind.group, kind.version, str(obj["kind"]))
    if not isinstance(obj.get("metadata"), Unknown):
        if not name_of(obj):
            kept = before and is_true(before, AUTONAMED)
            name = name_of(before) if kept else _new_name(resource, seed, autonaming)
            obj = autonamed(obj, name)
        # To the official provider an unknown namespace is none: provider.go, Check and Diff.
        if namespace and not namespace_of(obj) and namespaced(kind, scope):
            obj["metadata"] = {**obj["metadata"], "namespace": namespace}
    if kind_of(obj) != kind:
        found.append(("kind", f"{kind_of(obj)} is given in a resource of type {resource.token}"))
    try:
        rule_for(obj)
    except ValueError as error:
        found.append(("metadata.annotations", str(error)))
    return marked(obj, new), found


def _new_name(resource: Resource, seed: bytes, autonaming: Autonaming | None) -> str:
    if autonaming is None:
        return f"{resource.name}-{random_suffix(seed)}"
    if autonaming.mode == "disable":
        raise ProviderError(
            "autonaming is disabled, resource requires the .metadata.name field to be set"
        )
    return autonaming.name


def difference(
    resource: Resource, state: Properties, new: Properties, *, settings: Settings, scope: Scope
) -> Difference:
    """How the new inputs differ from the live values of the old ones."""
    old_inputs, live = parse_checkpoint(state)
    inputs = normalise(from_properties(new))
    kind = kind_of(inputs)
    old = prune(live, normalise(old_inputs))
    old = {**old, "apiVersion": live.get("apiVersion"), "kind": live.get("kind")}
    old = _placed(old, kind, scope)
    inputs = _placed(inputs, kind, scope)
    if name_of(inputs):
        old["metadata"]["name"] = name_of(live)
    patch = is_patch(resource.token, inputs)
    paths = differences.replacing(
        inputs,
        config_map_mutable=settings.config_map_mutable,
        secret_mutable=settings.secret_mutable,
    )
    if patch:
        paths = ("metadata.name", "metadata.namespace")
    found = {
        differences.text(path): (change, differences.replaces(path, value, paths))
        for path, change, value in differences.changes(old, inputs)
        if not any(differences.covers(each, path) for each in resource.ignore_changes)
    }
    replaces = [path for path, (_, replace) in found.items() if replace]
    return Difference(
        changes=found,
        replaces=replaces,
        delete_before_replace=bool(replaces) and keeps_its_name(inputs, live),
    )


def keeps_its_name(inputs: Object, live: Object) -> bool:
    """Whether a replacement would collide: the same namespace, and the user's own, same name."""
    places = [(name_of(each), namespace_of(each) or "default") for each in (inputs, live)]
    return places[0] == places[1] and not is_true(inputs, AUTONAMED)


def _placed(obj: Object, kind: Kind, scope: Scope) -> Object:
    """The object with its effective namespace: omitting it is not a change."""
    if isinstance(obj.get("metadata"), Unknown):
        return obj
    metadata = {name: item for name, item in metadata_of(obj).items() if name != "namespace"}
    if namespaced(kind, scope):
        metadata["namespace"] = namespace_of(obj) or "default"
    return {**obj, "metadata": metadata}
