"""Creates, applies (as one field manager) and deletes objects in a cluster."""

import threading
from collections.abc import Callable
from typing import Any

from rehearsal.plugins.kubernetes import differences
from rehearsal.plugins.kubernetes.api_error import ApiError
from rehearsal.plugins.kubernetes.cluster import Cluster, NoMatch
from rehearsal.plugins.kubernetes.objects import (
    PATCH_FORCE,
    Object,
    is_patch,
    is_true,
    kind_of,
    name_of,
    namespace_of,
)
from rehearsal.plugins.kubernetes.provider_args import Settings
from rehearsal.plugins.kubernetes.resource import Resource

_RETRIES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between attempts while a namespace or a custom resource's definition is missing."""
CREATOR = "pulumi-kubernetes"
"""The field manager of a new object, as in the official provider."""
_CONFLICT_HELP = (
    "https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/"
    "managing-resources-with-server-side-apply/#handle-field-conflicts-on-existing-resources"
)


def is_definition(obj: Object) -> bool:
    """Whether it defines a custom resource, and so adds a kind."""
    return (
        kind_of(obj).group == "apiextensions.k8s.io" and obj["kind"] == "CustomResourceDefinition"
    )


def exists(cluster: Cluster | None, obj: Object) -> bool:
    """Whether the API server is available and has the object's kind."""
    if cluster is None:
        return False
    try:
        cluster.kind(kind_of(obj))
    except NoMatch:
        return False
    return True


def create(
    cluster: Cluster,
    resource: Resource,
    inputs: Object,
    manager: str,
    settings: Settings,
    cancelled: threading.Event,
) -> Object:
    """Creates the object and returns it; retries while its namespace or kind is missing."""
    pauses = iter(() if resource.preview else _RETRIES)
    while True:
        try:
            return _create(cluster, resource, inputs, manager, settings)
        except (ApiError, NoMatch) as error:
            missing = isinstance(error, NoMatch) or error.status == 404
            pause = next(pauses, None) if missing else None
            if pause is None or cancelled.wait(pause):
                raise


def _create(
    cluster: Cluster, resource: Resource, inputs: Object, manager: str, settings: Settings
) -> Object:
    kind, preview = kind_of(inputs), resource.preview
    if settings.upsert or is_patch(resource.token, inputs):
        force = preview or settings.patch_force or is_true(inputs, PATCH_FORCE)
        return _apply(cluster, inputs, manager, force=force, preview=preview)
    try:
        return cluster.create(kind, inputs, CREATOR, dry_run=preview)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        raise ApiError(
            error.status,
            error.reason,
            f'{cluster.kind(kind)[0]} "{name_of(inputs)}" already exists: import it, choose '
            "another name, or set the provider's upsertExistingObjects",
        ) from None


def update(
    cluster: Cluster,
    resource: Resource,
    inputs: Object,
    live: Object,
    manager: str,
    settings: Settings,
) -> Object:
    """The object after the update, or after its dry run."""
    if is_definition(inputs):
        # Replaced in place: server-side apply cannot take a version out of a definition's list.
        version = live["metadata"]["resourceVersion"]
        whole = {**inputs, "metadata": {**inputs["metadata"], "resourceVersion": version}}
        return cluster.replace(kind_of(inputs), whole, manager, dry_run=resource.preview)
    wanted, preview, created = inputs, resource.preview, _created(live)
    if created and not preview and not is_patch(resource.token, inputs):
        live = _take_over(cluster, live, manager)
    for ignored in resource.ignore_changes:
        wanted = _ignoring(wanted, live, manager, differences.parse(ignored))
    force = settings.patch_force or is_true(inputs, PATCH_FORCE) or bool(preview and created)
    return _apply(cluster, wanted, manager, force=force, preview=preview)


def _take_over(cluster: Cluster, live: Object, manager: str) -> Object:
    """Gives the field manager ownership of the fields set on creation, before the next apply."""
    kind = kind_of(live)
    for _ in _RETRIES:
        created = _created(live)
        if not created:
            break
        try:
            return cluster.own(kind, live, _taken_over(live, created, manager))
        except ApiError as error:
            if error.status != 409:
                raise
            # A controller has changed the object meanwhile.
            live = cluster.get(kind, namespace_of(live), name_of(live))
    return live


def _created(live: Object) -> list[Object]:
    """The managed fields from the object's creation, which was not an apply."""
    managed = live["metadata"].get("managedFields") or []
    ours = (entry for entry in managed if entry["manager"] == CREATOR)
    return [entry for entry in ours if entry["operation"] == "Update"]


def _taken_over(live: Object, created: list[Object], manager: str) -> list[Object]:
    """The managed fields, with those set on creation moved to the field manager."""
    own: Object = {}
    others = []
    for entry in live["metadata"]["managedFields"]:
        ours = entry["manager"] == manager and entry["operation"] == "Apply"
        if not ours and entry not in created:
            others.append(entry)
            continue
        fields = _union(own.get("fieldsV1") or {}, entry.get("fieldsV1") or {})
        own = {**entry, "manager": manager, "operation": "Apply", "fieldsV1": fields}
    return [*others, own]


def _union(one: Object, other: Object) -> Object:
    """The union of two field sets."""
    return {**one, **{name: _union(one.get(name, {}), inside) for name, inside in other.items()}}


def relinquish(cluster: Cluster, live: Object, manager: str) -> None:
    """Gives up every field that the manager owns; the object remains."""
    metadata = {
        name: live["metadata"][name] for name in ("name", "namespace") if name in live["metadata"]
    }
    empty = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata}
    cluster.apply(kind_of(live), empty, manager, force=True, dry_run=False)


def _apply(cluster: Cluster, obj: Object, manager: str, *, force: bool, preview: bool) -> Object:
    try:
        return cluster.apply(kind_of(obj), obj, manager, force=force, dry_run=preview)
    except ApiError as error:
        if error.status != 409:
            raise
        raise ApiError(
            error.status,
            error.reason,
            f"Server-Side Apply field conflict detected. See {_CONFLICT_HELP} for troubleshooting "
            f"help\n: {error}",
        ) from None


def _ignoring(inputs: Object, live: Object, manager: str, path: list[str]) -> Object:
    """The inputs without a field that others own, or with the live value of this manager's."""
    managers = _managers(live, path)
    if managers and manager not in managers:
        return _with(inputs, path, lambda parent, name: parent.pop(name, None))
    found: Any = live
    for part in path:
        if not isinstance(found, dict) or part not in found:
            return inputs
        found = found[part]
    return _with(inputs, path, lambda parent, name: parent.__setitem__(name, found))


def _managers(live: Object, path: list[str]) -> set[str]:
    """The managers of the field at a path without lists."""
    managers = set()
    for entry in live["metadata"].get("managedFields") or []:
        fields = entry.get("fieldsV1") or {}
        for part in path:
            fields = fields.get(f"f:{part}") if isinstance(fields, dict) else None
        if fields is not None:
            managers.add(entry["manager"])
    return managers


def _with(obj: Object, path: list[str], change: Callable[[Object, str], object]) -> Object:
    """A copy with `change` applied to the parent of the field at `path`, if there is one."""
    copied = dict(obj)
    if len(path) == 1:
        change(copied, path[0])
    elif isinstance(obj.get(path[0]), dict):
        copied[path[0]] = _with(obj[path[0]], path[1:], change)
    return copied
