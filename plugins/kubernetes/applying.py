"""Objects put onto a cluster and taken off again, by server-side apply as one field manager."""

import secrets
import threading
from collections.abc import Callable
from typing import Any

from plugins.kubernetes import differences
from plugins.kubernetes.api_error import ApiError
from plugins.kubernetes.cluster import Cluster, NoMatch
from plugins.kubernetes.objects import (
    PATCH_FORCE,
    Object,
    is_patch,
    is_true,
    kind_of,
    name_of,
    namespace_of,
)
from plugins.kubernetes.provider_args import Settings
from plugins.kubernetes.resource import Resource

_RETRIES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between attempts while a namespace or a custom resource's definition is not there yet."""
_CONFLICT_HELP = (
    "https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/"
    "managing-resources-with-server-side-apply/#handle-field-conflicts-on-existing-resources"
)


def is_definition(obj: Object) -> bool:
    """Whether it defines a custom resource, i.e. changes what kinds there are."""
    return (
        kind_of(obj).group == "apiextensions.k8s.io" and obj["kind"] == "CustomResourceDefinition"
    )


def exists(cluster: Cluster | None, obj: Object) -> bool:
    """Whether the API server is there and knows the object's kind."""
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
    """The new object; tried again while its namespace or its kind may still be on the way."""
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
    force = settings.patch_force or is_true(inputs, PATCH_FORCE)
    may_exist = force or preview or settings.upsert or is_patch(resource.token, inputs)
    if not may_exist and _found(cluster, inputs):
        raise ApiError(
            409,
            "AlreadyExists",
            f'{cluster.kind(kind)[0]} "{name_of(inputs)}" already exists: import it, choose '
            "another name, or set the provider's upsertExistingObjects",
        )
    try:
        return _apply(cluster, inputs, manager, force=force or preview, preview=preview)
    except ApiError as error:
        if not (preview and "field is immutable" in str(error)):
            raise
        # A replacement under the same name: the old object is still there and would be compared.
        metadata = {**inputs["metadata"], "name": f"{name_of(inputs)}{secrets.token_hex(3)}"}
        return _apply(cluster, {**inputs, "metadata": metadata}, manager, force=True, preview=True)


def _found(cluster: Cluster, obj: Object) -> bool:
    try:
        cluster.get(kind_of(obj), namespace_of(obj), name_of(obj))
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


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
    wanted = inputs
    for ignored in resource.ignore_changes:
        wanted = _ignoring(wanted, live, manager, differences.parse(ignored))
    force = settings.patch_force or is_true(inputs, PATCH_FORCE)
    return _apply(cluster, wanted, manager, force=force, preview=resource.preview)


def relinquish(cluster: Cluster, live: Object, manager: str) -> None:
    """Gives up every field that the manager holds; the object stays."""
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
    """The inputs without a field that others own, or with the live value of one that we own."""
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
    """Who manages the field at a path without lists."""
    managers = set()
    for entry in live["metadata"].get("managedFields") or []:
        fields = entry.get("fieldsV1") or {}
        for part in path:
            fields = fields.get(f"f:{part}") if isinstance(fields, dict) else None
        if fields is not None:
            managers.add(entry["manager"])
    return managers


def _with(obj: Object, path: list[str], change: Callable[[Object, str], object]) -> Object:
    """A copy in which `change` was made to the parent of the field at `path`, if there is one."""
    copied = dict(obj)
    if len(path) == 1:
        change(copied, path[0])
    elif isinstance(obj.get(path[0]), dict):
        copied[path[0]] = _with(obj[path[0]], path[1:], change)
    return copied
