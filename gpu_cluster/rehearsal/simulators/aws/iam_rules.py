"""Rules that IAM enforces and moto does not."""

import json
from collections.abc import Iterator
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, rule
from gpu_cluster.rehearsal.simulators.aws.evaluation import statements
from gpu_cluster.rehearsal.simulators.aws.node_join_checks import guarded
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.roles import users

_MOST_ATTACHED = 10
_NEEDED = {
    "AssumeRolePolicyDocument": ("Effect", "Action", "Principal"),
    "PolicyDocument": ("Effect", "Action", "Resource"),
}


@rule("iam", "CreateRole", "UpdateAssumeRolePolicy", "CreatePolicy", "CreatePolicyVersion",
      "PutRolePolicy")  # fmt: skip
def check_document(account: Account, params: Params) -> None:
    """Refuses a malformed policy document."""
    name = next(key for key in _NEEDED if key in params)
    # UpdateAssumeRolePolicy names a trust policy like the other kind.
    trust = not {"PolicyName", "PolicyArn"} & params.keys()
    needed = _NEEDED["AssumeRolePolicyDocument" if trust else name]
    try:
        parsed = json.loads(params[name])
    except ValueError as error:
        raise _malformed(f"'{name}' contains an invalid JSON: {error}") from None
    found = statements(parsed) if isinstance(parsed, dict) else []
    if not found:
        raise _malformed(f"'{name}' has no Statement")
    for number, statement in enumerate(found):
        for key in needed:
            if key not in statement and f"Not{key}" not in statement:
                raise _malformed(f"statement {number} of '{name}' has no {key}")


def _malformed(words: str) -> Refusal:
    return Refusal("MalformedPolicyDocument", words)


def _role(account: Account, params: Params) -> Any:
    return account.backend("iam").get_role(params["RoleName"])


@rule("iam", "DeleteRole")
def delete_role(account: Account, params: Params) -> None:
    """Refuses to delete a role that an existing cluster or node group uses."""
    role = _role(account, params)
    if used := sorted(users(account, role.arn)):
        raise Refusal(
            "DeleteConflict",
            f"IAM would delete the role '{role.name}', but {', '.join(used)} works with it and "
            "could no longer be changed or deleted cleanly: delete that first",
        )


@rule("iam", "DeletePolicy")
def delete_policy(account: Account, params: Params) -> None:
    """Refuses to delete an attached policy."""
    policy = account.backend("iam").get_policy(params["PolicyArn"])
    if policy.attachment_count:
        words = f"Cannot delete a policy attached to entities: {params['PolicyArn']}"
        raise Refusal("DeleteConflict", words)


@rule("iam", "AttachRolePolicy")
def attach_role_policy(account: Account, params: Params) -> None:
    """Refuses more policies than the quota per role."""
    attached = _role(account, params).managed_policies
    if len(attached) >= _MOST_ATTACHED and params["PolicyArn"] not in attached:
        words = f"Cannot exceed quota for PoliciesPerRole: {_MOST_ATTACHED}"
        raise Refusal("LimitExceeded", words)


@rule("iam", "DetachRolePolicy")
def detach_role_policy(account: Account, params: Params) -> Iterator[None]:
    """Refuses to detach a policy that nodes or a cluster need."""
    iam = account.backend("iam")

    def undo() -> None:
        iam.attach_role_policy(params["PolicyArn"], params["RoleName"])

    with guarded(account, undo=undo):
        yield


@rule("iam", "DeleteRolePolicy", "PutRolePolicy")
def change_role_policy(account: Account, params: Params) -> Iterator[None]:
    """Refuses a change that removes a permission needed by nodes or a cluster."""
    role = _role(account, params)
    before = dict(role.policies)

    def undo() -> None:
        role.policies.clear()
        role.policies.update(before)

    with guarded(account, undo=undo):
        yield
