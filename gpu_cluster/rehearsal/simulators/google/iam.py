"""Service accounts."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

from gpu_cluster.rehearsal.simulators.google import policies
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.collection import Collection
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request, not_found
from gpu_cluster.rehearsal.simulators.google.resource import PROJECT_NUMBER, CloudResource

_numbers = itertools.count(1)
_CHANGED = ("displayName", "description")


class _Accounts(Collection):
    method = "iam.projects.serviceAccounts"
    word = "service account"
    rows = "accounts"
    most = 20

    def identity(self, call: Call) -> str:
        name, project = call.body.get("accountId", ""), call.path["projectsId"]
        if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) or not 6 <= len(name) <= 30:
            raise bad_request(
                "The account ID must be between 6 and 30 characters of a-z, 0-9 and hyphens, from "
                f"a letter to a letter or digit: '{name}'"
            )
        identity = f"projects/{project}/serviceAccounts/{name}@{project}.iam.gserviceaccount.com"
        if identity in call.cloud.resources:
            raise ApiError(
                409, f"Service account {name} already exists within project projects/{project}."
            )
        return identity

    def body(self, call: Call) -> dict[str, Any]:
        account = call.body.get("serviceAccount", {})
        return {field: account[field] for field in _CHANGED if field in account}

    def mask(self, call: Call, state: dict[str, Any]) -> Sequence[str]:
        fields = [field for field in re.split("[, ]", call.body.get("updateMask", "")) if field]
        names = [re.sub(r"_(\w)", lambda found: found[1].upper(), field) for field in fields]
        for field, name in zip(fields, names, strict=True):
            if name not in _CHANGED:
                raise bad_request(f"Invalid field mask: {field}")
        return names

    def complete(self, state: dict[str, Any]) -> None:
        if "uniqueId" not in state:
            _, project, _, email = state["name"].split("/")
            number = f"1{PROJECT_NUMBER}{next(_numbers):08}"
            state |= {"projectId": project, "email": email, "etag": "MDEwMjE5MjA="}
            state |= {"uniqueId": number, "oauth2ClientId": number}

    def found(self, call: Call) -> CloudResource:
        """The account in the path, whose project may be `-` and whose name may be its number."""
        wanted = call.path["serviceAccountsId"]
        for account in call.cloud.of(self.token):
            if wanted in (account.state["email"], account.state["uniqueId"]):
                return account
        raise not_found(call.name)

    def delete(self, call: Call) -> dict[str, Any]:
        account = self.found(call)
        call.cloud.policies.pop(account.identity, None)
        policies.forget_account(call.cloud, account.state["email"], account.state["uniqueId"])
        return super().delete(call)


_ACCOUNTS = _Accounts()


def _disable(call: Call) -> dict[str, Any]:
    _ACCOUNTS.found(call).state["disabled"] = True
    return {}


def _enable(call: Call) -> dict[str, Any]:
    _ACCOUNTS.found(call).state.pop("disabled", None)
    return {}


def _get_policy(call: Call) -> dict[str, Any]:
    _ACCOUNTS.found(call)
    return policies.get(call)


def _set_policy(call: Call) -> dict[str, Any]:
    _ACCOUNTS.found(call)
    return policies.set_(call)


ENDPOINTS = {"IAM": "iam/v1/", "IAM_BETA": "iam/v1/"}
METHODS = {
    **_ACCOUNTS.methods,
    f"{_ACCOUNTS.method}.disable": _disable,
    f"{_ACCOUNTS.method}.enable": _enable,
    f"{_ACCOUNTS.method}.getIamPolicy": _get_policy,
    f"{_ACCOUNTS.method}.setIamPolicy": _set_policy,
}
