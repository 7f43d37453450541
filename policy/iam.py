"""Rules on permissions: the identities of nodes and pods, and the limits of roles."""

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from components.catalog import broad_rights
from components.catalog.clouds import GOOGLE
from policy.reading import UNKNOWN, Resource, each, get, is_off

_PROJECTS = ("gcp:projects/", "gcp:organizations/", "gcp:folder/")
_HOLDERS = (*_PROJECTS, "gcp:serviceaccount/")
"""Resources whose roles are checked: on a single bucket, an administrator's role may be needed."""
_POLICIES = {
    "aws:iam/rolePolicy:RolePolicy": "policy",
    "aws:iam/policy:Policy": "policy",
    "aws:iam/userPolicy:UserPolicy": "policy",
    "aws:iam/groupPolicy:GroupPolicy": "policy",
    "aws:iam/role:Role": "assumeRolePolicy",
}
_ATTACHMENTS = (
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    "aws:iam/policyAttachment:PolicyAttachment",
    "aws:iam/userPolicyAttachment:UserPolicyAttachment",
    "aws:iam/groupPolicyAttachment:GroupPolicyAttachment",
    "aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive",
)
_ESCALATING = (
    "iam.serviceAccounts.actAs", "iam.serviceAccounts.getAccessToken",
    "iam.serviceAccounts.getOpenIdToken", "iam.serviceAccounts.implicitDelegation",
    "iam.serviceAccounts.setIamPolicy", "iam.serviceAccounts.signBlob",
    "iam.serviceAccounts.signJwt", "iam.serviceAccountKeys.create", "iam.roles.create",
    "iam.roles.update", "resourcemanager.projects.setIamPolicy",
    "resourcemanager.folders.setIamPolicy", "resourcemanager.organizations.setIamPolicy",
)  # fmt: skip
"""Google Cloud permissions for impersonating others or for granting oneself more."""
_EVERYBODY = ("allUsers", "allAuthenticatedUsers")


def node_identity(resource: Resource) -> Iterator[str]:
    """GKE nodes use their own service account, and pods can have separate ones."""
    props = resource.props
    if resource.type == GOOGLE.node_pool:
        account = get(props, "nodeConfig", "serviceAccount")
        if _default_account(account):
            yield _runs_as_default(f"pool {resource.name}", "nodeConfig.serviceAccount")
    if resource.type != GOOGLE.cluster:
        return
    if get(props, "enableAutopilot") is UNKNOWN:
        return
    scaling = get(props, "clusterAutoscaling")
    if get(props, "enableAutopilot") is True or get(scaling, "enabled") is True:
        defaults = get(scaling, "autoProvisioningDefaults")
        if _default_account(get(defaults, "serviceAccount")):
            yield _runs_as_default(
                f"cluster {resource.name}",
                "clusterAutoscaling.autoProvisioningDefaults.serviceAccount",
            )
    if get(props, "enableAutopilot") is True:
        return
    if _default_account(get(props, "nodeConfig", "serviceAccount")):
        yield _runs_as_default(f"cluster {resource.name}", "nodeConfig.serviceAccount")
    if is_off(_present(get(props, "workloadIdentityConfig", "workloadPool"))):
        yield (
            f"cluster {resource.name} has no workload identity, so pods would use the node's "
            "service account; set workloadIdentityConfig.workloadPool"
        )


def too_broad(
    resource: Resource,
    *,
    roles: Sequence[str],
    projectRoles: Sequence[str],  # a key of config.json, in its spelling
    policies: Sequence[str],
    unscoped: Sequence[str],
) -> Iterator[str]:
    """No role or policy grants more than its holder needs.

    Patterns: `roles` of Google Cloud and `policies` managed by AWS that are never granted;
    `projectRoles`, which are never granted on a whole project, folder or organization; `unscoped`,
    the AWS actions that may have resource `*` because they support no other.
    """
    props = resource.props
    if resource.type.startswith("gcp:"):
        whole = resource.type.startswith(_PROJECTS)
        yield from _grants(resource, [*roles, *(projectRoles if whole else ())])
    if resource.type.endswith(("IAMCustomRole", "OrganizationsIAMCustomRole")):
        for permission in each(props, "permissions"):
            if isinstance(permission, str) and permission in _ESCALATING:
                yield (
                    f"{resource.name} has the permission {permission}, which lets its holder gain "
                    "more than the role grants; drop it"
                )
    if resource.type in _ATTACHMENTS:
        for arn in [get(props, "policyArn"), *each(props, "policyArns")]:
            yield from _too_broad(resource, arn, policies)
    if resource.type == "aws:iam/role:Role":
        for arn in each(props, "managedPolicyArns"):
            yield from _too_broad(resource, arn, policies)
        for inline in each(props, "inlinePolicies"):
            for statement in _statements(get(inline, "policy")):
                yield from _statement(resource.name, statement, unscoped)
    if resource.type in _POLICIES:
        trust = resource.type == "aws:iam/role:Role"
        for statement in _statements(get(props, _POLICIES[resource.type])):
            if trust:
                yield from _trust(resource.name, statement)
            else:
                yield from _statement(resource.name, statement, unscoped)


def _grants(resource: Resource, roles: Sequence[str]) -> Iterator[str]:
    """The grants of any service, and the bindings of whole policies."""
    props = resource.props
    kind = resource.type.rpartition(":")[2].lower()
    bindings: list[Any] = []
    if kind.endswith(("iammember", "iambinding")):
        bindings = [{**props, "members": [get(props, "member"), *each(props, "members")]}]
    elif kind.endswith("iampolicy"):
        bindings = each(_document(get(props, "policyData")), "bindings")
    for binding in bindings:
        role = get(binding, "role")
        if resource.type.startswith(_HOLDERS):
            yield from _too_broad(resource, role, roles)
        for member in each(binding, "members"):
            if member in _EVERYBODY:
                yield f"{resource.name} grants a role to {member}; name the members that need it"


def _too_broad(resource: Resource, right: Any, patterns: Sequence[str]) -> Iterator[str]:
    if isinstance(right, str) and (reason := broad_rights.too_broad(right, patterns)):
        yield f"{resource.name}: {reason}"


def _statement(name: str, statement: Any, unscoped: Sequence[str]) -> Iterator[str]:
    if get(statement, "Effect") != "Allow":
        return
    if get(statement, "NotAction") is not None or get(statement, "NotResource") is not None:
        yield f"{name} allows everything except what it lists; list what is allowed instead"
        return
    actions = [action for action in _texts(get(statement, "Action")) if action]
    for action in actions:
        if action == "*" or action.endswith(":*"):
            yield f"{name} allows {action}; name the actions that are needed"
    if "*" not in _texts(get(statement, "Resource")) or get(statement, "Condition"):
        return
    for action in actions:
        whole = action == "*" or action.endswith(":*")
        if not whole and not any(fnmatchcase(action, pattern) for pattern in unscoped):
            yield (
                f"{name} allows {action} on every resource without a condition; name the "
                "resources, or add a condition"
            )


def _trust(name: str, statement: Any) -> Iterator[str]:
    principal = get(statement, "Principal")
    anybody = principal == "*" or "*" in _texts(get(principal, "AWS"))
    if get(statement, "Effect") == "Allow" and anybody and not get(statement, "Condition"):
        yield f"role {name} can be assumed by anybody; name the principals"


def _statements(document: Any) -> list[Any]:
    """The statements of a policy document in JSON; empty if it is not known."""
    statements = get(_document(document), "Statement")
    return statements if isinstance(statements, list) else [statements]


def _document(text: Any) -> Any:
    """The contents of a policy document in JSON; None if they are not known."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str)]


def _default_account(account: Any) -> bool:
    if account is UNKNOWN:
        return False
    return account in (None, "", "default") or str(account).endswith(
        "-compute@developer.gserviceaccount.com"
    )


def _runs_as_default(who: str, path: str) -> str:
    return (
        f"{who} runs its nodes as the project's default account, which has nearly all "
        f"permissions; set {path}"
    )


def _present(value: Any) -> Any:
    return value if value is UNKNOWN else bool(value)
