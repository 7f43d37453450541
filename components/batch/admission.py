"""Policies with which the API server refuses objects in namespaces, no matter who creates them."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.admissionregistration.v1 import (
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
    namespaces: Sequence[str],
    rule: NamedRuleWithOperationsArgsDict,
    validations: Sequence[ValidationArgsDict],
    variables: Sequence[VariableArgsDict] = (),
    cluster: Cluster,
    parent: pulumi.Resource,
) -> None:
    """Declares a policy with its binding. `rule`: the objects and operations that it judges;
    `variables`: expressions that validations name."""
    within: LabelSelectorRequirementArgsDict = {
        "key": "kubernetes.io/metadata.name",
        "operator": "In",
        "values": list(namespaces),
    }
    spec: ValidatingAdmissionPolicySpecArgsDict = {
        "failure_policy": "Fail",
        "match_constraints": {
            "namespace_selector": {"match_expressions": [within]},
            "resource_rules": [rule],
        },
        "validations": list(validations),
    }
    if variables:
        spec["variables"] = list(variables)
    declared = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy(
        name, metadata={"name": name}, spec=spec, opts=cluster.options(parent)
    )
    kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
        name,
        metadata={"name": name},
        spec={"policy_name": name, "validation_actions": ["Deny"]},
        opts=cluster.options(parent, depends_on=[declared]),
    )
