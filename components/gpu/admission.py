"""Policies with which the API server refuses what RBAC cannot tell apart."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.admissionregistration.v1 import (
    MatchResourcesArgsDict,
    NamedRuleWithOperationsArgsDict,
    ValidatingAdmissionPolicySpecArgsDict,
    ValidationArgsDict,
    VariableArgsDict,
)
from pulumi_kubernetes.meta.v1 import LabelSelectorRequirementArgsDict

from ..cluster import Cluster


def admission_policy(
    name: str,
    *,
    rule: NamedRuleWithOperationsArgsDict,
    validations: Sequence[ValidationArgsDict],
    variables: Sequence[VariableArgsDict] = (),
    namespaces: Sequence[str] = (),
    account: str | None = None,
    cluster: Cluster,
    parent: pulumi.Resource,
) -> list[pulumi.Resource]:
    """Declares a policy with its binding. `rule`: the objects and operations that it judges, if
    given only in `namespaces`, and only of the user `account`; `variables`: expressions that
    validations name."""
    match: MatchResourcesArgsDict = {"resource_rules": [rule]}
    if namespaces:
        within: LabelSelectorRequirementArgsDict = {
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": list(namespaces),
        }
        match["namespace_selector"] = {"match_expressions": [within]}
    spec: ValidatingAdmissionPolicySpecArgsDict = {
        "failure_policy": "Fail",
        "match_constraints": match,
        "validations": list(validations),
    }
    if account is not None:
        expression = f"request.userInfo.username == '{account}'"
        spec["match_conditions"] = [{"name": "its-account", "expression": expression}]
    if variables:
        spec["variables"] = list(variables)
    declared = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy(
        name, metadata={"name": name}, spec=spec, opts=cluster.options(parent)
    )
    binding = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
        name,
        metadata={"name": name},
        spec={"policy_name": name, "validation_actions": ["Deny"]},
        opts=cluster.options(parent, depends_on=[declared]),
    )
    return [declared, binding]
