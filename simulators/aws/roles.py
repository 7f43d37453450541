"""What a role may do and who uses it, as moto and the account have it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from plugins.cloud.handler import CloudError, NotFoundError
from simulators.aws.account import NUMBER, Account, answering
from simulators.aws.evaluation import Document, allowed, trusts

POD_IDENTITY = "pods.eks.amazonaws.com"


def role_name(arn: str) -> str:
    """The name in a role's ARN, whatever its path."""
    return arn.rpartition("/")[2]


def role_of(account: Account, arn: str) -> dict[str, Any]:
    """The role as IAM has it; raises CloudError in EKS's words where there is none."""
    if ":role/" not in arn:
        raise CloudError(f"InvalidParameterException: '{arn}' is not the ARN of a role")
    try:
        with answering():
            found: dict[str, Any] = account.client("iam").get_role(RoleName=role_name(arn))["Role"]
    except NotFoundError:
        found = {}
    if found.get("Arn") != arn:
        raise CloudError(f"InvalidParameterException: The role with ARN {arn} does not exist")
    return found


def require_trust(
    account: Account,
    arn: str,
    service: str,
    *actions: str,
    context: Mapping[str, str] | None = None,
) -> None:
    """Raises CloudError where the service may not take the role."""
    trust = document(role_of(account, arn)["AssumeRolePolicyDocument"])
    if not trusts(trust, service, *actions, context=context):
        told = ", ".join(f"{key}={value}" for key, value in (context or {}).items())
        raise CloudError(
            f"InvalidParameterException: The trust policy of the role {arn} does not let "
            f"{service} take it: it needs {' and '.join(actions)}" + (f", with {told}" * bool(told))
        )


def require_pod_trust(
    account: Account, arn: str, cluster: str, namespace: str, service_account: str
) -> None:
    """Raises CloudError where pods of this service account may not take the role."""
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
    """All policy documents of a role, attached and inline; none for a role that is gone."""
    iam, name = account.client("iam"), role_name(arn)
    try:
        with answering():
            attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
            inline = iam.list_role_policies(RoleName=name)["PolicyNames"]
    except NotFoundError:
        return []
    found = []
    for each in attached:
        policy = iam.get_policy(PolicyArn=each["PolicyArn"])["Policy"]
        version = iam.get_policy_version(
            PolicyArn=each["PolicyArn"], VersionId=policy["DefaultVersionId"]
        )
        found.append(document(version["PolicyVersion"]["Document"]))
    for each in inline:
        answer = iam.get_role_policy(RoleName=name, PolicyName=each)
        found.append(document(answer["PolicyDocument"]))
    return found


def lacks(account: Account, arn: str, actions: tuple[str, ...]) -> list[str]:
    """Those of `actions` that the role may not do on all resources."""
    documents = policies(account, arn)
    return [action for action in actions if not allowed(documents, action)]


def document(value: Any) -> Document:
    """A policy document, which clients return as text or parsed."""
    parsed: Document = json.loads(value) if isinstance(value, str) else value
    return parsed


def users(account: Account, arn: str) -> Iterator[str]:
    """What in EKS works with this role, in words."""
    for name, group in account.groups.items():
        if group.inputs["nodeRoleArn"] == arn:
            yield f"node group {name}"
    for name, cluster in account.clusters.items():
        if cluster.inputs["roleArn"] == arn:
            yield f"cluster {name}"
        for addon, parts in cluster.addons.items():
            if parts.get("serviceAccountRoleArn") == arn:
                yield f"addon {addon}"
        for (namespace, service_account), parts in cluster.associations.items():
            if parts["roleArn"] == arn:
                yield f"pod identity association of {namespace}/{service_account}"
