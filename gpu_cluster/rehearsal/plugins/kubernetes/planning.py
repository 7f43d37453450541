"""Completes inputs and compares them with the state; pure, except for the scope of a kind."""

import os
from collections.abc import Callable

from gpu_cluster.rehearsal.plugins.kubernetes import differences
from gpu_cluster.rehearsal.plugins.kubernetes.normalising import normalise
from gpu_cluster.rehearsal.plugins.kubernetes.objects import (
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
    marked,
    metadata_of,
    name_of,
    namespace_of,
    parse_checkpoint,
    prune,
    without_read_only,
)
from gpu_cluster.rehearsal.plugins.kubernetes.properties import UNKNOWN, Properties
from gpu_cluster.rehearsal.plugins.kubernetes.resource import Difference, ProviderError, Resource
from gpu_cluster.rehearsal.plugins.kubernetes.schema import class_of

Scope = Callable[[Kind], bool]
"""Whether a custom resource's kind is namespaced."""


def namespaced(kind: Kind, scope: Scope) -> bool:
    """Whether a kind is namespaced."""
    return kind.kind not in CLUSTER_SCOPED if class_of(kind) is not None else scope(kind)


def checked(
    resource: Resource,
    old: Properties,
    new: Properties,
    *,
    namespace: str,
    scope: Scope,
    seed: bytes,
) -> Properties:
    """The inputs with name and namespace filled in.

    `namespace`: the default namespace; empty if it is unknown.
    """
    obj, before = from_properties(new), from_properties(old)
    # A Secret's text stays in the input it was given in, so that it does not become less secret.
    obj = without_read_only(obj) if kind_of(obj) == SECRET else normalise(obj)
    if obj.get("metadata") == UNKNOWN:
        return marked(obj, new)
    if not name_of(obj):
        if is_patch(resource.token, obj):
            raise ProviderError("patch resources require the `.metadata.name` field to be set")
        kept = name_of(before) if is_true(before, AUTONAMED) else ""
        obj = autonamed(obj, kept or f"{resource.name}-{(seed or os.urandom(4)).hex()[:8]}")
    # To the official provider an unknown namespace is none: provider.go, Check and Diff.
    if namespace and not namespace_of(obj) and namespaced(kind_of(obj), scope):
        obj["metadata"] = {**obj["metadata"], "namespace": namespace}
    return marked(obj, new)


def difference(
    resource: Resource, state: Properties, new: Properties, *, scope: Scope
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
    paths = differences.replacing(inputs, patch=is_patch(resource.token, inputs))
    found = {
        differences.path_text(path): (change, differences.replaces(path, value, paths))
        for path, change, value in differences.changes(old, inputs)
        if not any(differences.covers(at, path) for at in resource.ignore_changes)
    }
    replaces = [path for path, (_, replace) in found.items() if replace]
    same_place = [(name_of(obj), namespace_of(obj) or "default") for obj in (inputs, live)]
    collides = same_place[0] == same_place[1] and not is_true(inputs, AUTONAMED)
    return Difference(
        changes=found, replaces=replaces, delete_before_replace=bool(replaces) and collides
    )


def _placed(obj: Object, kind: Kind, scope: Scope) -> Object:
    """The object with its effective namespace: omitting it is not a change."""
    if obj.get("metadata") == UNKNOWN:
        return obj
    metadata = {name: item for name, item in metadata_of(obj).items() if name != "namespace"}
    if namespaced(kind, scope):
        metadata["namespace"] = namespace_of(obj) or "default"
    return {**obj, "metadata": metadata}
