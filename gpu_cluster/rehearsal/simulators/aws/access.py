"""Access entries and access policies, which moto lacks."""

import re
import time
from collections.abc import Iterator

from gpu_cluster.rehearsal.simulators.aws.account import NUMBER, Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, page
from gpu_cluster.rehearsal.simulators.aws.collection import Collection, Rows
from gpu_cluster.rehearsal.simulators.aws.eks import NODE_ENTRY, cluster_of, entry_row, policy_row
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid
from gpu_cluster.rehearsal.simulators.aws.rows import Row

_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::(?P<account>[0-9]{12}):((?P<kind>user|role)/.+|root)")
_POLICY = re.compile(r"arn:aws[a-z-]*:eks::aws:cluster-access-policy/(?P<name>.+)")
ACCESS_POLICIES = (
    "AmazonEKSAdminPolicy", "AmazonEKSAdminViewPolicy", "AmazonEKSClusterAdminPolicy",
    "AmazonEKSEditPolicy", "AmazonEKSSecretReaderPolicy", "AmazonEKSViewPolicy",
)  # fmt: skip
"""Policies that a STANDARD entry accepts (general knowledge; `aws eks list-access-policies`)."""
_TAKEN_BY = {"STANDARD": ACCESS_POLICIES, "EC2": ("AmazonEKSAutoNodePolicy",)}
"""Type of an entry -> the access policies that it accepts (create-node-class.html)."""


class _Entries(Collection):
    """Refused: what is not a principal, a service-linked role, a principal of this account that
    does not exist, groups that begin with system:, a cluster in the mode CONFIG_MAP, and a second
    entry for the same principal."""

    noun, nouns = "AccessEntry", "AccessEntries"
    member, members, key = "accessEntry", "accessEntries", "principalArn"
    exists = (
        "ResourceInUseException",
        "The specified access entry resource is already in use on this cluster: {principalArn}",
    )
    unknown = (
        "ResourceNotFoundException",
        "The specified principalArn could not be found: {principalArn}",
    )
    updates = ("kubernetesGroups", "username")

    def rows(self, account: Account, params: Params) -> Rows:
        return cluster_of(account, params["clusterName"]).entries

    def new(self, account: Account, params: Params) -> Row:
        cluster, principal = cluster_of(account, params["clusterName"]), params["principalArn"]
        if cluster.row["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
            raise Refusal(
                "InvalidRequestException",
                "The cluster's authentication mode must be set to one of [API, "
                "API_AND_CONFIG_MAP] to perform this operation.",
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
        names = ("kubernetesGroups", "tags", "username", "type")
        given: Params = {key: params[key] for key in names if key in params}
        if given.get("type") == "EC2_LINUX":
            given |= NODE_ENTRY
        return entry_row(account, params["clusterName"], principal, given)

    def check(self, account: Account, row: Row, params: Params) -> None:
        groups = params.get("kubernetesGroups") or []
        if row["type"] != "STANDARD" and (groups or params.get("username")):
            raise invalid("kubernetesGroups and username are only for the type STANDARD")
        if any(group.startswith("system:") for group in groups):
            raise invalid("The kubernetes group name cannot start with system:")

    def listed(self, account: Account, params: Params) -> Iterator[str]:
        """Principals; with a policy ARN, those that have the policy."""
        policy = params.get("associatedPolicyArn")
        has = cluster_of(account, params["clusterName"]).policies
        for principal in self.rows(account, params):
            if policy is None or policy in has.get(principal, {}):
                yield principal

    def deleted(self, account: Account, row: Row) -> Row:
        """The entry's policies go with it."""
        cluster_of(account, row["clusterName"]).policies.pop(row["principalArn"], None)
        return {}


ENTRIES = _Entries()
ENTRIES.serve()


def _is_there(account: Account, principal: str) -> bool:
    """Whether IAM has the role or user. Those of other accounts are unknown here."""
    iam = account.backend("iam")
    known = [*iam.get_roles(), *iam.users.values()]
    return principal in account.people() or any(role.arn == principal for role in known)


@operation("eks", "ListIdentityProviderConfigs")
def list_identity_provider_configs(account: Account, params: Params) -> Row:
    """Always empty: a simulated cluster has no OIDC identity provider for users."""
    cluster_of(account, params["clusterName"])
    return page(params, "identityProviderConfigs", [])


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
    policies = cluster.policies.setdefault(principal, {})
    row, before = policy_row(policy, scope), policies.get(policy, {})
    if before.get("accessScope") != row["accessScope"]:
        cluster.granted[principal, policy] = time.monotonic()
    row["associatedAt"] = before.get("associatedAt", row["associatedAt"])
    policies[policy] = row
    return {
        "clusterName": params["clusterName"],
        "principalArn": principal,
        "associatedAccessPolicy": row,
    }


@operation("eks", "ListAssociatedAccessPolicies")
def list_associated_access_policies(account: Account, params: Params) -> Row:
    """Lists the policies of an entry."""
    row = ENTRIES.found(account, params)
    policies = cluster_of(account, row["clusterName"]).policies
    rows = list(policies.get(row["principalArn"], {}).values())
    return {
        "clusterName": params["clusterName"],
        "principalArn": row["principalArn"],
        **page(params, "associatedAccessPolicies", rows),
    }


@operation("eks", "DisassociateAccessPolicy")
def disassociate_access_policy(account: Account, params: Params) -> Row:
    """Removes the policy from an entry."""
    row = ENTRIES.found(account, params)
    known = cluster_of(account, row["clusterName"]).policies.get(row["principalArn"], {})
    if params["policyArn"] not in known:
        raise Refusal("ResourceNotFoundException", f"{params['policyArn']} is not associated")
    del known[params["policyArn"]]
    return {}
