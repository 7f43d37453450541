"""Whether a Cluster Autoscaler can change a node group's Auto Scaling group."""

from collections.abc import Mapping

from rehearsal.aws.account import Account, GroupParts
from rehearsal.aws.evaluation import UnplayedConditionError, allowed
from rehearsal.aws.roles import policies, role_name
from rehearsal.aws.scaling_group import describe
from rehearsal.cloud import Scaler
from rehearsal.provider.handler import CloudError

_LOOK = (
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeTags",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplateVersions",
)
_CHANGE = (
    "autoscaling:SetDesiredCapacity",
    "autoscaling:TerminateInstanceInAutoScalingGroup",
)


def why_not_scaled(account: Account, parts: GroupParts, scaler: Scaler) -> str:
    """Why this autoscaler cannot grow and shrink the group; empty where it can.

    It has its role by pod identity: roles that it has in other ways are not looked at.
    """
    row = describe(account, parts.scaling_group)
    tags = {tag["Key"]: tag["Value"] for tag in row["Tags"]}
    if not any(all(_has(tags, tag) for tag in wanted) for wanted in scaler.discovers):
        wanted = " or ".join(", ".join(tags) for tags in scaler.discovers) or "nothing"
        return f"the {scaler} discovers groups by {wanted}, and this one has no such tag"
    cluster = account.clusters[parts.cluster]
    association = cluster.associations.get((scaler.namespace, scaler.service_account))
    if association is None:
        return f"the {scaler} has no role: there is no pod identity association for it"
    if "eks-pod-identity-agent" not in cluster.addons:
        return f"the {scaler} gets no role: the cluster has no eks-pod-identity-agent addon"
    context = {
        "aws:RequestedRegion": account.region,
        "aws:PrincipalTag/eks-cluster-name": parts.cluster,
        "aws:PrincipalTag/kubernetes-namespace": scaler.namespace,
        "aws:PrincipalTag/kubernetes-service-account": scaler.service_account,
    }
    role = association["roleArn"]
    if denied := _denied(account, role, row["AutoScalingGroupARN"], context, tags):
        return (
            f"the {scaler} with its role {role_name(role)} may not do {', '.join(denied)} on "
            f"{parts.scaling_group}"
        )
    return ""


def _has(tags: Mapping[str, str], wanted: str) -> bool:
    key, equals, value = wanted.partition("=")
    return key in tags and (not equals or tags[key] == value)


def _denied(
    account: Account, role: str, group: str, context: dict[str, str], tags: Mapping[str, str]
) -> list[str]:
    documents = policies(account, role)
    tagged = {
        f"{prefix}:ResourceTag/{key}": value
        for key, value in tags.items()
        for prefix in ("aws", "autoscaling")
    }
    try:
        return [
            *(each for each in _LOOK if not allowed(documents, each, "*", context)),
            *(each for each in _CHANGE if not allowed(documents, each, group, context | tagged)),
        ]
    except UnplayedConditionError as error:
        raise CloudError(f"role {role_name(role)}: {error}") from error
