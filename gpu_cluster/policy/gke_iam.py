"""Identities and roles in Google Cloud: their part of the rules."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpu_cluster.components.catalog.broad_rights import GOOGLE_PROJECT_ROLES, GOOGLE_ROLES
from gpu_cluster.components.catalog.clouds import GOOGLE
from gpu_cluster.policy.iam import granted, parsed
from gpu_cluster.policy.reading import UNKNOWN, Resource, get, is_off, items
from gpu_cluster.policy.schema import texts

_PROJECTS = ("gcp:projects/", "gcp:organizations/", "gcp:folder/")
_HOLDERS = (*_PROJECTS, "gcp:serviceaccount/")
"""Resources whose roles are checked: on a single bucket, an administrator's role may be needed."""
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

PERMISSIONS_TOO_BROAD = {
    "roles": texts(*GOOGLE_ROLES, about="Patterns of Google Cloud roles that are never granted."),
    "projectRoles": texts(
        *GOOGLE_PROJECT_ROLES,
        about="Patterns of roles that must not be granted on a project, folder or organization.",
    ),
}
"""The settings of `permissions_too_broad`."""


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


def permissions_too_broad(
    resource: Resource,
    *,
    roles: Sequence[str],
    projectRoles: Sequence[str],  # a key of config.json, in its spelling
    **of_others: Any,
) -> Iterator[str]:
    """Roles that are granted, and the permissions of custom roles."""
    if resource.type.startswith("gcp:"):
        whole = resource.type.startswith(_PROJECTS)
        yield from _grants(resource, [*roles, *(projectRoles if whole else ())])
    if resource.type.endswith(("IAMCustomRole", "OrganizationsIAMCustomRole")):
        for permission in items(resource.props, "permissions"):
            if isinstance(permission, str) and permission in _ESCALATING:
                yield (
                    f"{resource.name} has the permission {permission}, which lets its holder gain "
                    "more than the role grants; drop it"
                )


def _grants(resource: Resource, roles: Sequence[str]) -> Iterator[str]:
    """The grants of any service, and the bindings of whole policies."""
    props = resource.props
    kind = resource.type.rpartition(":")[2].lower()
    bindings: list[Any] = []
    if kind.endswith(("iammember", "iambinding")):
        bindings = [{**props, "members": [get(props, "member"), *items(props, "members")]}]
    elif kind.endswith("iampolicy"):
        bindings = items(parsed(get(props, "policyData")), "bindings")
    for binding in bindings:
        role = get(binding, "role")
        if resource.type.startswith(_HOLDERS):
            yield from granted(resource, role, roles)
        for member in items(binding, "members"):
            if member in _EVERYBODY:
                yield f"{resource.name} grants a role to {member}; name the members that need it"


def _default_account(account: Any) -> bool:
    if account is UNKNOWN:
        return False
    return account in (None, "", "default") or str(account).endswith(
        ("-compute@developer.gserviceaccount.com", "@appspot.gserviceaccount.com")
    )


def _runs_as_default(who: str, path: str) -> str:
    return (
        f"{who} runs its nodes as the project's default account, which has nearly all "
        f"permissions; set {path}"
    )


def _present(value: Any) -> Any:
    return value if value is UNKNOWN else bool(value)
