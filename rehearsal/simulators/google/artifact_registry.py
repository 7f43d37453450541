"""Repositories of Artifact Registry."""

import re
from datetime import UTC, datetime
from typing import Any

from rehearsal.simulators.google.api.call import Call, get_operation
from rehearsal.simulators.google.errors import ApiError, bad_request
from rehearsal.simulators.google.resource import CloudResource

TOKEN = "artifactregistry.repositories"
_FIXED = ("name", "format", "mode", "kmsKeyName")


def _create(call: Call) -> dict[str, Any]:
    name = call.query.get("repositoryId", "")
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name):
        raise bad_request(f"invalid repository ID: '{name}'")
    if call.body.get("format", "FORMAT_UNSPECIFIED") == "FORMAT_UNSPECIFIED":
        raise bad_request("the format of a repository must be given")
    identity = f"{call.name}/{name}"
    if identity in call.cloud.resources:
        raise ApiError(409, "the repository already exists")
    project, location = identity.split("/")[1], identity.split("/")[3]
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    state = {
        "mode": "STANDARD_REPOSITORY",
        **call.body,
        "name": identity,
        "createTime": now,
        "updateTime": now,
        "registryUri": f"{location}-{call.body['format'].lower()}.pkg.dev/{project}/{name}",
    }
    call.cloud.resources[identity] = CloudResource(
        token=TOKEN, display_name="repository", identity=identity, state=state
    )
    return _done(call, "devtools.artifactregistry.v1.Repository", state)


def _get(call: Call) -> dict[str, Any]:
    return call.cloud.found(call.name).state


def _list(call: Call) -> dict[str, Any]:
    found = [one.state for one in call.cloud.of(TOKEN) if one.identity.startswith(f"{call.name}/")]
    return call.page("repositories", found, 100)


def _patch(call: Call) -> dict[str, Any]:
    resource = call.cloud.found(call.name)
    mask = [one for one in call.query.get("updateMask", "").split(",") if one]
    for field in mask or list(call.body):
        first = field.partition(".")[0]
        if first in _FIXED and call.body.get(first) != resource.state.get(first):
            raise bad_request(f"{first} is immutable")
        resource.state.pop(first, None)
        if first in call.body:
            resource.state[first] = call.body[first]
    resource.state["updateTime"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return resource.state


def _delete(call: Call) -> dict[str, Any]:
    call.cloud.found(call.name)
    call.cloud.remove(call.name)
    return _done(call, "protobuf.Empty", {})


def _done(call: Call, form: str, result: dict[str, Any]) -> dict[str, Any]:
    scope = "/".join(call.name.split("/")[:4])
    answer = {"@type": f"type.googleapis.com/google.{form}", **result}
    begun = call.cloud.operations.begin("longrunning", scope, call.method, call.name, result=answer)
    return begun.body(call.base)


_START = "artifactregistry.projects.locations"
METHODS = {
    f"{_START}.repositories.create": _create,
    f"{_START}.repositories.get": _get,
    f"{_START}.repositories.list": _list,
    f"{_START}.repositories.patch": _patch,
    f"{_START}.repositories.delete": _delete,
    f"{_START}.operations.get": get_operation,
}
