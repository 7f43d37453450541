"""Dashboards and alert policies of Cloud Monitoring, which gives them their names."""

import itertools
from typing import Any

from rehearsal.simulators.google.api.call import Call
from rehearsal.simulators.google.compute.resources import fingerprint
from rehearsal.simulators.google.errors import ApiError, bad_request, not_found
from rehearsal.simulators.google.resource import PROJECT_NUMBER, CloudResource

_numbers = itertools.count(1)
_LAYOUTS = ("gridLayout", "mosaicLayout", "rowLayout", "columnLayout")


def _create_dashboard(call: Call) -> dict[str, Any]:
    _check_dashboard(call.body)
    return _add(call, "dashboards", "dashboard", call.body)


def _check_dashboard(dashboard: dict[str, Any]) -> None:
    layouts = [name for name in _LAYOUTS if name in dashboard]
    if not dashboard.get("displayName") or len(layouts) > 1:
        raise bad_request(
            "a dashboard needs a displayName and at most one of gridLayout, mosaicLayout, "
            "rowLayout, columnLayout"
        )


def _patch_dashboard(call: Call) -> dict[str, Any]:
    resource = _found(call)
    given = call.body.get("etag")
    if given and given != resource.state["etag"]:
        raise ApiError(409, "The dashboard was changed since it was read", status="ABORTED")
    _check_dashboard(call.body)
    return _changed(resource, call.body)


def _create_alert(call: Call) -> dict[str, Any]:
    _check_alert(call.body)
    record = {"mutateTime": "2026-01-01T00:00:00Z"}
    body = {"enabled": True, **call.body, "creationRecord": record, "mutationRecord": record}
    added = _add(call, "alertPolicies", "alert policy", body)
    for number, condition in enumerate(added["conditions"], 1):
        condition["name"] = f"{added['name']}/conditions/{number:08}"
    return added


def _check_alert(policy: dict[str, Any]) -> None:
    for name in ("displayName", "combiner", "conditions"):
        if not policy.get(name):
            raise bad_request(f"Field alert_policy.{name} is required")
    for index, condition in enumerate(policy["conditions"]):
        kinds = [name for name in condition if name.startswith("condition")]
        if len(kinds) != 1:
            raise bad_request(
                f"Field alert_policy.conditions[{index}] needs exactly one kind of condition, got "
                f"{len(kinds)}"
            )


def _patch_alert(call: Call) -> dict[str, Any]:
    resource = _found(call)
    mask = [one for one in call.query.get("updateMask", "").split(",") if one]
    state = dict(resource.state)
    for field in mask or list(call.body):
        first = field.partition(".")[0]
        state.pop(first, None)
        if first in call.body:
            state[first] = call.body[first]
    _check_alert(state)
    for number, condition in enumerate(state["conditions"], 1):
        condition.setdefault("name", f"{state['name']}/conditions/{number:08}")
    resource.state = state
    return state


def _add(call: Call, collection: str, word: str, body: dict[str, Any]) -> dict[str, Any]:
    # A dashboard's name has the project's number, as the API answers.
    identity = f"projects/{PROJECT_NUMBER}/{collection}/{next(_numbers):08}"
    resource = CloudResource(
        token=f"monitoring.{collection}", display_name=word, identity=identity, state={}
    )
    call.cloud.resources[identity] = resource
    resource.state = {**body, "name": identity}
    if collection == "dashboards":
        resource.state["etag"] = fingerprint(resource.state | {"etag": ""})
    return resource.state


def _changed(resource: CloudResource, body: dict[str, Any]) -> dict[str, Any]:
    state = {**body, "name": resource.identity}
    state["etag"] = fingerprint(state | {"etag": ""})
    resource.state = state
    return state


def _found(call: Call) -> CloudResource:
    """By the project's name or its number."""
    parts = call.name.split("/")
    identity = "/".join(["projects", PROJECT_NUMBER, *parts[2:]])
    if identity not in call.cloud.resources:
        raise not_found(call.name)
    return call.cloud.resources[identity]


def _get(call: Call) -> dict[str, Any]:
    return _found(call).state


def _list(call: Call) -> dict[str, Any]:
    collection = call.name.rpartition("/")[2]
    found = [one.state for one in call.cloud.of(f"monitoring.{collection}")]
    return call.page(collection, found, 100)


def _delete(call: Call) -> dict[str, Any]:
    call.cloud.remove(_found(call).identity)
    return {}


METHODS = {
    f"monitoring.projects.{collection}.{verb}": answer
    for collection, create, patch in (
        ("dashboards", _create_dashboard, _patch_dashboard),
        ("alertPolicies", _create_alert, _patch_alert),
    )
    for verb, answer in {
        "create": create,
        "get": _get,
        "list": _list,
        "patch": patch,
        "delete": _delete,
    }.items()
}
