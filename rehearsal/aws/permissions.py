"""Whether some Cluster Autoscaler could change a node group's Auto Scaling group."""

from collections.abc import Mapping

from components.catalog.eks import autoscaler_discovery_tags
from rehearsal.aws.account import Account, GroupParts
from rehearsal.aws.evaluation import UnplayedConditionError, allowed
from rehearsal.aws.roles import policies, role_name
from rehearsal.aws.scaling_group import describe
from rehearsal.handler import CloudError

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


def why_not_scaled(account: Account, parts: GroupParts) -> list[str]:
    """Why no Cluster Autoscaler of this stack can grow and shrink the group; empty where one can.

    It has its role by pod identity: roles that it has in other ways are not looked at. Discovery
    goes by the tags' keys alone.
    """
    row = describe(account, parts.scaling_group)
    tags = {tag["Key"]: tag["Value"] for tag in row["Tags"]}
    reasons = [
        f"the Auto Scaling group has no tag {key}, so that nothing discovers it"
        for key in autoscaler_discovery_tags(parts.cluster)
        if key not in tags
    ]
    cluster = account.clusters[parts.cluster]
    if "eks-pod-identity-agent" not in cluster.addons:
        return [*reasons, "no role reaches a pod: the cluster has no eks-pod-identity-agent addon"]
    denials = []
    for (namespace, service_account), association in cluster.associations.items():
        context = {
            "aws:RequestedRegion": account.region,
            "aws:PrincipalTag/eks-cluster-name": parts.cluster,
            "aws:PrincipalTag/kubernetes-namespace": namespace,
            "aws:PrincipalTag/kubernetes-service-account": service_account,
        }
        denied = _denied(account, association["roleArn"], row["AutoScalingGroupARN"], context, tags)
        if not denied:
            return reasons
        denials.append((len(denied), namespace, service_account, association["roleArn"], denied))
    if not denials:
        return [*reasons, "no pod identity association gives a Cluster Autoscaler a role"]
    _, namespace, service_account, role, denied = min(denials)
    return [
        *reasons,
        f"the role {role_name(role)} of {namespace}/{service_account}, the nearest to a Cluster "
        f"Autoscaler's, may not do {', '.join(denied)} on {parts.scaling_group}",
    ]


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
