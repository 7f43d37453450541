"""Rules on Kubernetes RBAC: no role allows everything, or raising one's own permissions."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gpu_cluster.policy.reading import Resource, get, items

_ROLES = ("Role", "ClusterRole")
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")
_EVERYBODY = {
    "system:anonymous": "everyone who is not signed in",
    "system:unauthenticated": "everyone who is not signed in",
    "system:authenticated": "everyone who is signed in, on GKE every Google account",
}
_MASTERS = "system:masters"
_ESCALATING = (
    # Verbs, resources, and the consequence; `*` is reported separately.
    (("escalate", "bind"), ("roles", "clusterroles"), "gives its holder every permission"),
    (("impersonate",), ("*",), "lets its holder act as anybody else"),
    (("create",), ("serviceaccounts/token",), "lets its holder act as any service account"),
    (("*",), ("nodes/proxy",), "reaches every pod through the kubelet, past the audit log"),
    (
        ("approve", "update", "patch"),
        ("certificatesigningrequests/approval", "signers"),
        "signs a certificate for anybody",
    ),
)


def rbac(resource: Resource, *, roles: Sequence[str]) -> Iterator[str]:
    """No role allows everything or more than its holder has, and none is granted to everyone.

    `roles`: patterns of cluster roles that may not be bound.
    """
    if not resource.type.startswith("kubernetes:rbac.authorization.k8s.io/"):
        return
    kind = resource.type.rpartition(":")[2].removesuffix("Patch")
    if kind in _ROLES:
        for rule in items(resource.props, "rules"):
            yield from _rule(f"{kind} {resource.name}", rule)
    if kind in _BINDINGS:
        yield from _binding(f"{kind} {resource.name}", resource.props, roles)


def _rule(who: str, rule: Any) -> Iterator[str]:
    verbs, resources = items(rule, "verbs"), items(rule, "resources")
    groups = items(rule, "apiGroups")
    for field, values, what in (
        ("verbs", verbs, "verbs"),
        ("resources", resources, "resources"),
        ("apiGroups", groups, "API groups"),
    ):
        if "*" in values:
            yield f"{who} allows * in {field}; name the {what} that are needed"
    for its_verbs, its_resources, effect in _ESCALATING:
        verb = next((name for name in verbs if name in its_verbs or its_verbs == ("*",)), None)
        names = [name for name in resources if name in its_resources or its_resources == ("*",)]
        if isinstance(verb, str) and names and isinstance(names[0], str) and verb != "*":
            yield f"{who} allows {verb} of {names[0]}, which {effect}; drop it"


def _binding(who: str, props: Any, roles: Sequence[str]) -> Iterator[str]:
    role = get(props, "roleRef", "name")
    if isinstance(role, str) and any(fnmatchcase(role, pattern) for pattern in roles):
        yield (
            f"{who} gives {role}, which has all permissions; bind a role with only the "
            "permissions that are needed"
        )
    for subject in items(props, "subjects"):
        name = get(subject, "name")
        if isinstance(name, str) and name in _EVERYBODY:
            yield (
                f"{who} gives a role to {name}, which means {_EVERYBODY[name]} ; name the "
                "subjects that need it"
            )
        if name == _MASTERS:
            yield (
                f"{who} names the group {_MASTERS}, which no rule can restrict; name the "
                "subjects that need it"
            )
