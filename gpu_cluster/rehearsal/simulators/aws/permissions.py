"""A Cluster Autoscaler's permissions to read and change a node group's Auto Scaling group."""

from collections.abc import Mapping, Sequence

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.eks import asg_of, group_tags, identified_at
from gpu_cluster.rehearsal.simulators.aws.evaluation import UnsimulatedConditionError, allowed
from gpu_cluster.rehearsal.simulators.aws.roles import policies, role_name
from gpu_cluster.rehearsal.simulators.aws.rows import Group
from gpu_cluster.rehearsal.simulators.cloud import RefusedError, Scaler

_LOOK = (
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeAutoScalingInstances",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplateVersions",
)
_CHANGE = ("autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup")
_LEARN = ("autoscaling:DescribeScalingActivities",)


def why_not_scaled(account: Account, group: Group, scaler: Scaler) -> str:
    """Why this autoscaler cannot grow and shrink the group; empty if it can.

    It must have its role through pod identity: other ways are ignored.
    """
    tags = group_tags(account, group.scaling_group)
    if not any(all(_has(tags, tag) for tag in wanted) for wanted in scaler.discovers):
        wanted = " or ".join(", ".join(tags) for tags in scaler.discovers) or "nothing"
        return f"the {scaler} discovers groups by {wanted}, and this one has no such tag"
    cluster, pod = account.clusters[group.cluster], (scaler.namespace, scaler.service_account)
    if cluster.association(*pod) is None:
        return f"the {scaler} has no role: there is no pod identity association for it"
    if not cluster.identity_agent:
        return f"the {scaler} gets no role: the cluster has no eks-pod-identity-agent addon"
    # A pod's credentials are set when it is created, a time known to the second.
    effective = identified_at(cluster, pod)
    if scaler.made is not None and effective is not None and scaler.made + 1 <= effective:
        return (
            f"the {scaler} gets no role: its pod was made before its pod identity association took "
            "effect, and only a pod that is created afterwards gets one"
        )
    return _may_not(account, group, scaler, _LOOK, _CHANGE)


def why_late(account: Account, group: Group, scaler: Scaler) -> str:
    """The information that this autoscaler, which scales the group, gets too late; empty if none.

    Without this permission it treats a node that EC2 refuses as one that is starting (its
    auto_scaling_groups.go, isNodeGroupAvailable), which only its log shows.
    """
    if missing := _may_not(account, group, scaler, _LEARN):
        return (
            f"{missing}: where EC2 has no such instance left, it goes on waiting for one and tries "
            "no other pool for --max-node-provision-time, 15 minutes by default"
        )
    return ""


def _has(tags: Mapping[str, str], wanted: str) -> bool:
    key, equals, value = wanted.partition("=")
    return key in tags and (not equals or tags[key] == value)


def _may_not(
    account: Account,
    group: Group,
    scaler: Scaler,
    everywhere: Sequence[str],
    scoped: Sequence[str] = (),
) -> str:
    """Those of the actions, on all resources and on the group, that its role does not allow."""
    asg = asg_of(account, group.scaling_group)
    pod = scaler.namespace, scaler.service_account
    association = account.clusters[group.cluster].association(*pod)
    assert association is not None
    role = association["roleArn"]
    documents = policies(account, role)
    context = {
        "aws:RequestedRegion": account.region,
        "aws:PrincipalTag/eks-cluster-name": group.cluster,
        "aws:PrincipalTag/kubernetes-namespace": scaler.namespace,
        "aws:PrincipalTag/kubernetes-service-account": scaler.service_account,
    }
    tagged = context | {
        f"{prefix}:ResourceTag/{tag['Key']}": tag["Value"]
        for tag in asg.tags
        for prefix in ("aws", "autoscaling")
    }
    try:
        denied = [
            *(action for action in everywhere if not allowed(documents, action, "*", context)),
            *(name for name in scoped if not allowed(documents, name, asg.arn, tagged)),
        ]
    except UnsimulatedConditionError as error:
        raise RefusedError(f"role {role_name(role)}: {error}") from error
    if not denied:
        return ""
    return (
        f"the {scaler} with its role {role_name(role)} may not do {', '.join(denied)} on "
        f"{group.scaling_group}"
    )
