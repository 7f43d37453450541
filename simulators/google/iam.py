"""Service accounts and who may do what."""

import re
from collections.abc import Mapping
from typing import Any

from plugins.cloud.handler import Config
from plugins.cloud.schema import UNKNOWN, Problem
from simulators.google.kind import Kind
from simulators.google.resource import PROJECT_NUMBER, CloudResource, project_of

_MEMBER = re.compile(
    r"(user|group|serviceAccount|domain|projectOwner|projectEditor|projectViewer|deleted:\w+):.+"
    r"|principal(Set)?://.+|allUsers|allAuthenticatedUsers"
)
_ROLE = re.compile(r"(roles/|(projects|organizations)/[^/]+/roles/)[A-Za-z0-9_.]+")
_ACCOUNT_ID = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class Account(Kind):
    """A service account."""

    token = "gcp:serviceaccount/account:Account"
    display_name = "service account"
    computed = ("project",)

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        name = str(inputs.get("accountId", UNKNOWN))
        if name == UNKNOWN or _ACCOUNT_ID.fullmatch(name):
            return []
        return [
            Problem(
                "accountId",
                f"'accountId' ('{name}') must be a-z, 0-9 and hyphens, from a letter to a letter "
                "or digit",
            )
        ]

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        return f"projects/{inputs['project']}/serviceAccounts/{_email(inputs)}"

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        email = _email(state)
        state |= {
            "email": email,
            "member": f"serviceAccount:{email}",
            "name": self.identity(config, state),
            "uniqueId": "1" + PROJECT_NUMBER + "00000000",
        }


def _email(state: Mapping[str, Any]) -> str:
    return f"{state['accountId']}@{state['project']}.iam.gserviceaccount.com"


class _Member(Kind):
    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        problems = []
        member, role = (str(inputs.get(name, UNKNOWN)) for name in ("member", "role"))
        if member != UNKNOWN and not _MEMBER.fullmatch(member):
            problems.append(
                Problem(
                    "member",
                    f"invalid value for \"member\" ('{member}'): it starts with user:, group:, "
                    "serviceAccount:, domain:, principal:// or principalSet://",
                )
            )
        if role != UNKNOWN and not _ROLE.fullmatch(role):
            problems.append(Problem("role", f"'{role}' is no role: expected e.g. roles/viewer"))
        return problems

    def same(self, path: str, old: Any, new: Any) -> bool:
        # As the provider does: IAM writes an account's address in small letters.
        return path == "member" and str(old).lower() == str(new).lower()

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        self.cloud.check_member(state["member"], project_of(config, state))
        state["etag"] = "BwY"


class ProjectMember(_Member):
    """A role of an IAM member in the project. Refused: a member that does not exist."""

    token = "gcp:projects/iAMMember:IAMMember"
    display_name = "IAM binding"

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        return f"{inputs['project']}/{inputs['role']}/{inputs['member']}{_condition(inputs)}"


class AccountMember(_Member):
    """A role of an IAM member on a service account, which takes it along when it is deleted."""

    token = "gcp:serviceaccount/iAMMember:IAMMember"
    display_name = "IAM binding of a service account"
    in_project = False

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        account = inputs["serviceAccountId"]
        return f"{account}/{inputs['role']}/{inputs['member']}{_condition(inputs)}"

    def parent(self, config: Config, state: Mapping[str, Any]) -> str:
        return str(state["serviceAccountId"])

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


def _condition(inputs: Mapping[str, Any]) -> str:
    condition = inputs.get("condition")
    return f"/{condition['title']}" if condition else ""
