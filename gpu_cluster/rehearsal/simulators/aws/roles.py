"""A role's permissions and users, from moto and the account."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import NUMBER, Account
from gpu_cluster.rehearsal.simulators.aws.evaluation import Document, allowed, trusts
from gpu_cluster.rehearsal.simulators.aws.refusal import invalid

POD_IDENTITY = "pods.eks.amazonaws.com"


def role_name(arn: str) -> str:
    """The name in a role's ARN, whatever its path."""
    return arn.rpartition("/")[2]


def _role(account: Account, arn: str) -> Any:
    """moto's role; None if it does not exist."""
    return next((r for r in account.backend("iam").get_roles() if r.arn == arn), None)


def role_of(account: Account, arn: str) -> Any:
    """IAM's role; raises Refusal with EKS's message if it does not exist."""
    if ":role/" not in arn:
        raise invalid(f"'{arn}' is not the ARN of a role")
    found = _role(account, arn)
    if found is None:
        raise invalid(f"The role with ARN {arn} does not exist")
    return found


def require_trust(
    account: Account,
    arn: str,
    service: str,
    *actions: str,
    context: Mapping[str, str] | None = None,
) -> None:
    """Raises Refusal if the service may not assume the role."""
    trust = document(role_of(account, arn).assume_role_policy_document)
    if not trusts(trust, service, *actions, context=context):
        given = ", ".join(f"{key}={value}" for key, value in (context or {}).items())
        raise invalid(
            f"The trust policy of the role {arn} does not let {service} take it: it needs "
            f"{' and '.join(actions)}" + (f", with {given}" * bool(given))
        )


def require_pod_trust(
    account: Account, arn: str, cluster: str, namespace: str, service_account: str
) -> None:
    """Raises Refusal if pods of this service account may not assume the role."""
    require_trust(
        account,
        arn,
        POD_IDENTITY,
        "sts:AssumeRole",
        "sts:TagSession",
        context={
            "aws:RequestTag/eks-cluster-name": cluster,
            "aws:RequestTag/eks-cluster-arn": account.arn("eks", f"cluster/{cluster}"),
            "aws:RequestTag/kubernetes-namespace": namespace,
            "aws:RequestTag/kubernetes-service-account": service_account,
            "aws:SourceAccount": NUMBER,
            "aws:SourceArn": account.arn("eks", f"cluster/{cluster}"),
        },
    )


def policies(account: Account, arn: str) -> list[Document]:
    """All policy documents of a role, attached and inline; none for a deleted role."""
    role = _role(account, arn)
    if role is None:
        return []
    attached = [
        next(v.document for v in policy.versions if v.version_id == policy.default_version_id)
        for policy in role.managed_policies.values()
    ]
    return [document(text) for text in (*attached, *role.policies.values())]


def lacks(account: Account, arn: str, actions: tuple[str, ...]) -> list[str]:
    """Those of `actions` that the role may not do on all resources."""
    documents = policies(account, arn)
    return [action for action in actions if not allowed(documents, action)]


@cache
def document(text: str) -> Document:
    """A parsed policy document; the text never changes."""
    parsed: Document = json.loads(text)
    return parsed


def users(account: Account, arn: str) -> Iterator[str]:
    """The EKS resources that use this role, as text."""
    for name, group in account.groups.items():
        if group.row["nodeRole"] == arn:
            yield f"node group {name}"
    for name, cluster in account.clusters.items():
        if cluster.row["roleArn"] == arn and cluster.row["status"] != "DELETING":
            yield f"cluster {name}"
        for addon, row in cluster.addons.items():
            if row.get("serviceAccountRoleArn") == arn:
                yield f"addon {addon}"
        for row in cluster.associations.values():
            if row["roleArn"] == arn:
                yield f"pod identity association of {row['namespace']}/{row['serviceAccount']}"
