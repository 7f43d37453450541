"""Access entries and access policies, which moto lacks."""

import re
import time
from collections.abc import Mapping
from typing import Any

from rehearsal.simulators.aws.account import NUMBER, Account
from rehearsal.simulators.aws.api import Params, operation, page
from rehearsal.simulators.aws.eks import NODE_ENTRY, cluster_of, entry_row, found, now, policy_row
from rehearsal.simulators.aws.refusal import Refusal, invalid
from rehearsal.simulators.aws.rows import Cluster, Row

_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::(?P<account>[0-9]{12}):((?P<kind>user|role)/.+|root)")
_POLICY = re.compile(r"arn:aws[a-z-]*:eks::aws:cluster-access-policy/(?P<name>.+)")
ACCESS_POLICIES = (
    "AmazonEKSAdminPolicy", "AmazonEKSAdminViewPolicy", "AmazonEKSClusterAdminPolicy",
    "AmazonEKSEditPolicy", "AmazonEKSSecretReaderPolicy", "AmazonEKSViewPolicy",
)  # fmt: skip
"""Policies that a STANDARD entry accepts (general knowledge; `aws eks list-access-policies`)."""
_TAKEN_BY = {"STANDARD": ACCESS_POLICIES, "EC2": ("AmazonEKSAutoNodePolicy",)}
"""Type of an entry -> the access policies that it accepts (create-node-class.html)."""


@operation("eks", "CreateAccessEntry")
def create_access_entry(account: Account, params: Params) -> Row:
    """Refuses what is not a principal, a service-linked role, a principal of this account that does
    not exist, groups that begin with system:, a cluster in the mode CONFIG_MAP, and a second entry
    for the same principal."""
    cluster, principal = cluster_of(account, params["clusterName"]), params["principalArn"]
    if cluster.row["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
        raise Refusal(
            "InvalidRequestException",
            "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to "
            "perform this operation.",
        )
    parts = _PRINCIPAL.fullmatch(principal)
    if not parts:  # aws-samples/appmod-blueprints 319
        raise invalid("The principalArn parameter format is not valid")
    if ":role/aws-service-role/" in principal:  # hashicorp/terraform-provider-aws 36447
        raise invalid(
            "The caller is not allowed to modify access entries with a principalArn value of a "
            "Service Linked Role"
        )
    if parts["account"] == NUMBER and parts["kind"] and not _is_there(account, principal):
        # terraform-aws-modules/terraform-aws-eks 2969
        raise invalid("The specified principalArn is invalid: invalid principal.")
    if principal in cluster.entries:
        raise Refusal(
            "ResourceInUseException",
            f"The specified access entry resource is already in use on this cluster: {principal}",
        )
    names = ("kubernetesGroups", "tags", "username", "type")
    given: Params = {key: params[key] for key in names if key in params}
    _check(given)
    if given.get("type", "STANDARD") == "EC2_LINUX":
        given |= NODE_ENTRY
    row = entry_row(account, params["clusterName"], principal, given)
    cluster.entries[principal] = row
    return {"accessEntry": row}


def _is_there(account: Account, principal: str) -> bool:
    """Whether IAM has the role or user. Those of other accounts are unknown here."""
    iam = account.backend("iam")
    known = [*iam.get_roles(), *iam.users.values()]
    return principal in account.people() or any(each.arn == principal for each in known)


def _check(given: Mapping[str, Any]) -> None:
    if given.get("type", "STANDARD") == "STANDARD":
        if any(group.startswith("system:") for group in given.get("kubernetesGroups") or []):
            raise invalid("The kubernetes group name cannot start with system:")
    elif given.get("kubernetesGroups") or given.get("username"):
        raise invalid("kubernetesGroups and username are only for the type STANDARD")


def _entry(account: Account, params: Params) -> tuple[Cluster, Row]:
    cluster, principal = cluster_of(account, params["clusterName"]), params["principalArn"]
    words = f"The specified principalArn could not be found: {principal}"
    return cluster, found(cluster.entries, principal, words)


@operation("eks", "DescribeAccessEntry")
def describe_access_entry(account: Account, params: Params) -> Row:
    """Describes an entry."""
    return {"accessEntry": _entry(account, params)[1]}


@operation("eks", "ListAccessEntries")
def list_access_entries(account: Account, params: Params) -> Row:
    """Lists principals; with a policy ARN, those that have the policy."""
    cluster, policy = cluster_of(account, params["clusterName"]), params.get("associatedPolicyArn")
    listed = [
        principal
        for principal in cluster.entries
        if policy is None or policy in cluster.policies.get(principal, {})
    ]
    return page(params, "accessEntries", listed)


@operation("eks", "ListIdentityProviderConfigs")
def list_identity_provider_configs(account: Account, params: Params) -> Row:
    """Always empty: a simulated cluster has no OIDC identity provider for users."""
    cluster_of(account, params["clusterName"])
    return page(params, "identityProviderConfigs", [])


@operation("eks", "UpdateAccessEntry")
def update_access_entry(account: Account, params: Params) -> Row:
    """Updates the entry's groups and user name."""
    _, row = _entry(account, params)
    changes = {key: params[key] for key in ("kubernetesGroups", "username") if key in params}
    _check({"type": row["type"]} | changes)
    row |= changes | {"modifiedAt": now()}
    return {"accessEntry": row}


@operation("eks", "DeleteAccessEntry")
def delete_access_entry(account: Account, params: Params) -> Row:
    """Deletes the entry and its policies."""
    cluster, row = _entry(account, params)
    del cluster.entries[row["principalArn"]]
    cluster.policies.pop(row["principalArn"], None)
    return {}


@operation("eks", "AssociateAccessPolicy")
def associate_access_policy(account: Account, params: Params) -> Row:
    """Refuses a policy that EKS does not have, an entry that does not exist or whose type is not
    STANDARD, and namespaces in the scope of the cluster."""
    cluster, principal = cluster_of(account, params["clusterName"]), params["principalArn"]
    policy, scope = params["policyArn"], params["accessScope"]
    if principal not in cluster.entries:
        raise Refusal(
            "ResourceNotFoundException",
            "The specified principalArn could not be found. You need an access entry for it first: "
            f"{principal}",
        )
    kind = cluster.entries[principal]["type"]
    known = _TAKEN_BY.get(kind)
    if known is None:
        raise Refusal(
            "InvalidRequestException",
            "Access policies can only be associated with entries of the type "
            f"{' or '.join(_TAKEN_BY)}, {principal} has {kind}",
        )
    named = _POLICY.fullmatch(policy)
    if not named or named["name"] not in known:
        raise invalid(
            f"The policyArn parameter format is not valid: {policy}: there are "
            f"{', '.join(known)} under arn:aws:eks::aws:cluster-access-policy/"
        )
    if (scope["type"] == "namespace") != bool(scope.get("namespaces")):
        raise invalid("accessScope.namespaces is for the type namespace, which needs it")
    held = cluster.policies.setdefault(principal, {})
    row, before = policy_row(policy, scope), held.get(policy, {})
    if before.get("accessScope") != row["accessScope"]:
        cluster.granted[principal, policy] = time.monotonic()
    row["associatedAt"] = before.get("associatedAt", row["associatedAt"])
    held[policy] = row
    return {
        "clusterName": params["clusterName"],
        "principalArn": principal,
        "associatedAccessPolicy": row,
    }


@operation("eks", "ListAssociatedAccessPolicies")
def list_associated_access_policies(account: Account, params: Params) -> Row:
    """Lists the policies of an entry."""
    cluster, row = _entry(account, params)
    rows = list(cluster.policies.get(row["principalArn"], {}).values())
    return {
        "clusterName": params["clusterName"],
        "principalArn": row["principalArn"],
        **page(params, "associatedAccessPolicies", rows),
    }


@operation("eks", "DisassociateAccessPolicy")
def disassociate_access_policy(account: Account, params: Params) -> Row:
    """Removes the policy from an entry."""
    cluster, row = _entry(account, params)
    known = cluster.policies.get(row["principalArn"], {})
    if params["policyArn"] not in known:
        raise Refusal("ResourceNotFoundException", f"{params['policyArn']} is not associated")
    del known[params["policyArn"]]
    return {}
