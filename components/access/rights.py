"""The permissions of a controller's service account: in the whole cluster, and in its namespace."""

from collections.abc import Mapping, Sequence

import pulumi
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
from pulumi_kubernetes.rbac import v1 as rbac

READ = ("get", "list", "watch")


def rule(
    group: str, resources: Sequence[str], *verbs: str, only: Sequence[str] = ()
) -> rbac.PolicyRuleArgsDict:
    """Allows the verbs on some resources of an API group; `only`: on the objects of these names."""
    allowed: rbac.PolicyRuleArgsDict = {
        "api_groups": [group], "resources": list(resources), "verbs": list(verbs),
    }  # fmt: skip
    if only:
        allowed["resource_names"] = list(only)
    return allowed


def declare(
    name: str,
    *,
    account: str,
    namespace: str,
    labels: Mapping[str, str],
    cluster_rules: Sequence[rbac.PolicyRuleArgsDict],
    own_rules: Sequence[rbac.PolicyRuleArgsDict],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """`account`: the service account's name, which its roles and bindings share."""
    everywhere: ObjectMetaArgsDict = {"name": account, "labels": dict(labels)}
    inside: ObjectMetaArgsDict = {**everywhere, "namespace": namespace}
    subject: rbac.SubjectArgsDict = {
        "kind": "ServiceAccount", "name": account, "namespace": namespace,
    }  # fmt: skip

    def role(kind: str) -> rbac.RoleRefArgsDict:
        return {"api_group": "rbac.authorization.k8s.io", "kind": kind, "name": account}

    granted: list[pulumi.Resource] = [
        rbac.ClusterRole(name, metadata=everywhere, rules=cluster_rules, opts=opts),
        rbac.ClusterRoleBinding(
            name, metadata=everywhere, role_ref=role("ClusterRole"), subjects=[subject], opts=opts
        ),
    ]
    if not own_rules:
        return granted
    return [
        *granted,
        rbac.Role(name, metadata=inside, rules=own_rules, opts=opts),
        rbac.RoleBinding(
            name, metadata=inside, role_ref=role("Role"), subjects=[subject], opts=opts
        ),
    ]
