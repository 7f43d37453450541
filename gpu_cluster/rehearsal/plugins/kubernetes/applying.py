"""Creates and updates objects in a cluster by server-side apply, as one field manager."""

import threading
from collections.abc import Callable
from typing import Any

from gpu_cluster.rehearsal.plugins.kubernetes import differences
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.plugins.kubernetes.cluster import Cluster, NoMatch
from gpu_cluster.rehearsal.plugins.kubernetes.objects import (
    PATCH_FORCE,
    Object,
    is_patch,
    is_true,
    kind_of,
    name_of,
)
from gpu_cluster.rehearsal.plugins.kubernetes.resource import Resource

_RETRIES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between attempts while a namespace or a custom resource's definition is missing."""


def is_definition(obj: Object) -> bool:
    """Whether it defines a custom resource, and so adds a kind."""
    kind = kind_of(obj)
    return kind.group == "apiextensions.k8s.io" and kind.kind == "CustomResourceDefinition"


def exists(cluster: Cluster | None, obj: Object) -> bool:
    """Whether the API server is available and has the object's kind."""
    if cluster is None:
        return False
    try:
        cluster.kind(kind_of(obj))
    except NoMatch:
        return False
    return True


def create_object(
    cluster: Cluster, resource: Resource, inputs: Object, manager: str, cancelled: threading.Event
) -> Object:
    """Creates the object and returns it; retries while its namespace or kind is missing."""
    pauses = iter(() if resource.preview else _RETRIES)
    while True:
        try:
            return _create(cluster, resource, inputs, manager)
        except (ApiError, NoMatch) as error:
            missing = isinstance(error, NoMatch) or error.status == 404
            pause = next(pauses, None) if missing else None
            if pause is None or cancelled.wait(pause):
                raise


def _create(cluster: Cluster, resource: Resource, inputs: Object, manager: str) -> Object:
    if is_patch(resource.token, inputs):
        force = is_true(inputs, PATCH_FORCE)
        return cluster.apply(inputs, manager, force=force, dry_run=False)
    try:
        # Unlike an apply, it refuses an object that exists.
        predicted = cluster.predict(inputs)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        raise ApiError(
            error.status,
            error.reason,
            f'{cluster.kind(kind_of(inputs))[0]} "{name_of(inputs)}" already exists: import it, '
            "choose another name, or set the provider's upsertExistingObjects",
        ) from None
    if resource.preview:
        return predicted
    return cluster.apply(inputs, manager, force=False, dry_run=False)


def update_object(
    cluster: Cluster, resource: Resource, inputs: Object, live: Object, manager: str
) -> Object:
    """The object after the update, or after its dry run."""
    if is_definition(inputs):
        # Replaced in place: server-side apply cannot take a version out of a definition's list.
        version = live["metadata"]["resourceVersion"]
        whole = {**inputs, "metadata": {**inputs["metadata"], "resourceVersion": version}}
        return cluster.replace(whole, manager, dry_run=resource.preview)
    for ignored in resource.ignore_changes:
        inputs = _ignoring(inputs, live, manager, differences.parse_path(ignored))
    force = is_true(inputs, PATCH_FORCE)
    return cluster.apply(inputs, manager, force=force, dry_run=resource.preview)


def relinquish(cluster: Cluster, live: Object, manager: str) -> None:
    """Gives up every field that the manager owns; the object remains."""
    metadata = {
        name: live["metadata"][name] for name in ("name", "namespace") if name in live["metadata"]
    }
    empty = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata}
    cluster.apply(empty, manager, force=True, dry_run=False)


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
