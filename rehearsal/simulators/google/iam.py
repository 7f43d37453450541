"""Service accounts."""

import itertools
import re
from typing import Any

from rehearsal.simulators.google import policies
from rehearsal.simulators.google.api.call import Call
from rehearsal.simulators.google.errors import ApiError, bad_request, not_found
from rehearsal.simulators.google.resource import PROJECT_NUMBER, CloudResource

TOKEN = "iam.serviceAccounts"
_numbers = itertools.count(1)
_CHANGED = ("displayName", "description")


def _create(call: Call) -> dict[str, Any]:
    name = call.body.get("accountId", "")
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) or not 6 <= len(name) <= 30:
        raise bad_request(
            "The account ID must be between 6 and 30 characters of a-z, 0-9 and hyphens, from a "
            f"letter to a letter or digit: '{name}'"
        )
    project = call.path["projectsId"]
    email = f"{name}@{project}.iam.gserviceaccount.com"
    identity = f"projects/{project}/serviceAccounts/{email}"
    if identity in call.cloud.resources:
        raise ApiError(
            409, f"Service account {name} already exists within project projects/{project}."
        )
    number = f"1{PROJECT_NUMBER}{next(_numbers):08}"
    given = call.body.get("serviceAccount", {})
    state = {
        **{field: given[field] for field in _CHANGED if field in given},
        "name": identity,
        "projectId": project,
        "uniqueId": number,
        "email": email,
        "etag": "MDEwMjE5MjA=",
        "oauth2ClientId": number,
    }
    call.cloud.resources[identity] = CloudResource(
        token=TOKEN, display_name="service account", identity=identity, state=state
    )
    return state


def _found(call: Call) -> CloudResource:
    """The account of the path, whose project may be `-` and whose name may be its number."""
    wanted = call.path["serviceAccountsId"]
    for account in call.cloud.of(TOKEN):
        if wanted in (account.state["email"], account.state["uniqueId"]):
            return account
    raise not_found(call.name)


def _get(call: Call) -> dict[str, Any]:
    return _found(call).state


def _list(call: Call) -> dict[str, Any]:
    found = [one.state for one in call.cloud.of(TOKEN) if one.identity.startswith(f"{call.name}/")]
    return call.page("accounts", found, 20)


def _patch(call: Call) -> dict[str, Any]:
    account = _found(call)
    given = call.body.get("serviceAccount", {})
    for field in filter(None, re.split("[, ]", call.body.get("updateMask", ""))):
        name = re.sub(r"_(\w)", lambda found: found[1].upper(), field)
        if name not in _CHANGED:
            raise bad_request(f"Invalid field mask: {field}")
        account.state.pop(name, None)
        if name in given:
            account.state[name] = given[name]
    return account.state


def _disable(call: Call) -> dict[str, Any]:
    _found(call).state["disabled"] = True
    return {}


def _enable(call: Call) -> dict[str, Any]:
    _found(call).state.pop("disabled", None)
    return {}


def _delete(call: Call) -> dict[str, Any]:
    account = _found(call)
    call.cloud.remove(account.identity)
    call.cloud.policies.pop(account.identity, None)
    policies.forget_account(call.cloud, account.state["email"], account.state["uniqueId"])
    return {}


def _get_policy(call: Call) -> dict[str, Any]:
    _found(call)
    return policies.get(call)


def _set_policy(call: Call) -> dict[str, Any]:
    _found(call)
    return policies.set_(call)


METHODS = {
    f"iam.projects.serviceAccounts.{verb}": answer
    for verb, answer in {
        "create": _create,
        "get": _get,
        "list": _list,
        "patch": _patch,
        "disable": _disable,
        "enable": _enable,
        "delete": _delete,
        "getIamPolicy": _get_policy,
        "setIamPolicy": _set_policy,
    }.items()
}
