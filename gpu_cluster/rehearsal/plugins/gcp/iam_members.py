"""One member of one role in an IAM policy, as the provider adds and removes it."""

import re
import threading
from collections.abc import Mapping
from typing import Any, ClassVar

from gpu_cluster.clouds.rows.google import Row
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, Config, NotFoundError
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Problem
from gpu_cluster.rehearsal.plugins.gcp.client import Client
from gpu_cluster.rehearsal.plugins.gcp.resource import Resource

_MEMBER = re.compile(
    r"(user|group|serviceAccount|domain|projectOwner|projectEditor|projectViewer|deleted:\w+):.+"
    r"|principal(Set)?://.+|allUsers|allAuthenticatedUsers"
)
_IDENTITY = re.compile(
    r"(?P<target>.+?)/(?P<role>(?:roles|(?:projects|organizations)/[^/]+/roles)/[^/]+)/"
    r"(?P<member>[^:/]+:.+|all\w+)"
)
_TRIES = 5


class Member(Resource):
    """One member of one role in a policy, which the provider reads and writes as a whole."""

    computed = ("etag",)
    target_key: ClassVar[str]
    """The property that identifies the policy's resource."""

    def __init__(self, client: Client, row: Row) -> None:
        super().__init__(client, row)
        self._policy = threading.Lock()

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        member = str(inputs.get("member", UNKNOWN))
        if member == UNKNOWN or _MEMBER.fullmatch(member):
            return []
        return [
            Problem(
                "member",
                f"invalid value for \"member\" ('{member}'): it starts with user:, group:, "
                "serviceAccount:, domain:, principal:// or principalSet://",
            )
        ]

    def same(self, path: str, old: Any, new: Any) -> bool:
        # IAM writes an account's address in lower case.
        return path == "member" and str(old).lower() == str(new).lower()

    def completed(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(inputs)

    def identity(self, inputs: Mapping[str, Any]) -> str:
        condition = inputs.get("condition")
        title = f"/{condition['title']}" if condition else ""
        return f"{inputs[self.target_key]}/{inputs['role']}/{inputs['member']}{title}"

    def read_policy(self, target: str) -> dict[str, Any]:
        """Reads the current policy."""
        raise NotImplementedError

    def write_policy(self, target: str, policy: dict[str, Any]) -> None:
        """Replaces the policy."""
        raise NotImplementedError

    def insert(self, inputs: Mapping[str, Any]) -> str:
        def with_member(bindings: list[dict[str, Any]]) -> list[dict[str, Any]]:
            for binding in bindings:
                if _is(binding, inputs):
                    binding["members"] = sorted({*binding["members"], inputs["member"]})
                    return bindings
            condition = {"condition": inputs["condition"]} if inputs.get("condition") else {}
            added = {"role": inputs["role"], "members": [inputs["member"]], **condition}
            return sorted([*bindings, added], key=lambda binding: str(binding["role"]))

        self._change(inputs[self.target_key], with_member, version=3)
        return self.identity(inputs)

    def _change(self, target: str, change: Any, version: int | None = None) -> None:
        with self._policy:
            for turn in range(_TRIES):
                policy = self.read_policy(target)
                bindings = change([dict(binding) for binding in policy.get("bindings", ())])
                wanted = {"etag": policy["etag"], "version": version or policy.get("version", 1)}
                try:
                    self.write_policy(target, wanted | ({"bindings": bindings} if bindings else {}))
                    return
                except CloudError as error:
                    stale = any(f"Error {code}" in str(error) for code in (409, 412))
                    if not stale or turn == _TRIES - 1:
                        raise

    def fetch(self, identity: str, known: Mapping[str, Any]) -> dict[str, Any]:
        wanted = self._wanted(identity, known)
        policy = self.read_policy(wanted[self.target_key])
        member = wanted["member"].lower()
        for binding in policy.get("bindings", ()):
            if _is(binding, wanted) and member in [name.lower() for name in binding["members"]]:
                names = (self.target_key, "role", "member", "condition")
                found = {name: wanted[name] for name in names if wanted.get(name)}
                return found | {"etag": policy["etag"]}
        raise NotFoundError(f"the policy of {wanted[self.target_key]} has no {identity}")

    def remove(self, identity: str, state: Mapping[str, Any]) -> None:
        wanted = self._wanted(identity, state)
        self.fetch(identity, state)

        def without(bindings: list[dict[str, Any]]) -> list[dict[str, Any]]:
            member = wanted["member"].lower()
            for row in bindings:
                if _is(row, wanted):
                    row["members"] = [name for name in row["members"] if name.lower() != member]
            return [binding for binding in bindings if binding["members"]]

        self._change(wanted[self.target_key], without)

    def _wanted(self, identity: str, known: Mapping[str, Any]) -> Mapping[str, Any]:
        if known.get("member"):
            return known
        found = _IDENTITY.fullmatch(identity)
        if found is None:
            raise NotFoundError(f"'{identity}' is not of the form TARGET/ROLE/MEMBER")
        return {self.target_key: found["target"], "role": found["role"], "member": found["member"]}


def _is(binding: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    condition, other = wanted.get("condition") or {}, binding.get("condition") or {}
    return binding["role"] == wanted["role"] and all(
        condition.get(name, "") == other.get(name, "")
        for name in ("title", "expression", "description")
    )


class ProjectMember(Member):
    """A role of an IAM member in the project."""

    token = "gcp:projects/iAMMember:IAMMember"
    target_key = "project"

    def read_policy(self, target: str) -> dict[str, Any]:
        body = {"options": {"requestedPolicyVersion": 3}}
        return self.client.call(self.row.service, "POST", f"projects/{target}:getIamPolicy", body)

    def write_policy(self, target: str, policy: dict[str, Any]) -> None:
        body = {"policy": policy, "updateMask": "bindings,etag,auditConfigs"}
        self.client.call(self.row.service, "POST", f"projects/{target}:setIamPolicy", body)


class AccountMember(Member):
    """A role of an IAM member on a service account."""

    token = "gcp:serviceaccount/iAMMember:IAMMember"
    target_key = "serviceAccountId"

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        problems = super().validate_preview(config, inputs)
        account = str(inputs.get("serviceAccountId", UNKNOWN))
        if account != UNKNOWN and not re.fullmatch(r"projects/[^/]+/serviceAccounts/.+", account):
            problems.append(
                Problem(
                    "serviceAccountId",
                    f"'{account}' is not of the form projects/<project>/serviceAccounts/<email>",
                )
            )
        return problems

    def read_policy(self, target: str) -> dict[str, Any]:
        query = {"options.requestedPolicyVersion": "3"}
        return self.client.call(self.row.service, "POST", f"{target}:getIamPolicy", None, query)

    def write_policy(self, target: str, policy: dict[str, Any]) -> None:
        self.client.call(self.row.service, "POST", f"{target}:setIamPolicy", {"policy": policy})


class BucketMember(Member):
    """A role of an IAM member on a bucket."""

    token = "gcp:storage/bucketIAMMember:BucketIAMMember"
    target_key = "bucket"

    def same(self, path: str, old: Any, new: Any) -> bool:
        return super().same(path, old, new) or (path == "bucket" and _bucket(old) == _bucket(new))

    def completed(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {**inputs, "bucket": _bucket(inputs["bucket"])}

    def read_policy(self, target: str) -> dict[str, Any]:
        query = {"optionsRequestedPolicyVersion": "3"}
        return self.client.call(self.row.service, "GET", f"{target}/iam", None, query)

    def write_policy(self, target: str, policy: dict[str, Any]) -> None:
        if not policy.get("bindings"):  # the provider sends no etag with an empty policy
            del policy["etag"]
        self.client.call(self.row.service, "PUT", f"{target}/iam", policy)


def _bucket(name: Any) -> str:
    """The bucket's name in the provider's form: `b/NAME`."""
    return f"b/{str(name).removeprefix('b/')}"
