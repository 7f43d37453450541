"""The Auto Scaling group behind a managed node group, which moto names and does not make; tags."""

import time
import uuid
from collections.abc import Mapping
from typing import Any

from simulators.aws.account import Account, GroupParts
from simulators.aws.kind import CloudError, Kind, NotFoundError

_KIND = "auto-scaling-group"
_MOST_TAGS = 50


def make_group(account: Account, group: Mapping[str, Any]) -> tuple[str, str]:
    """Makes the group, at zero, with the tags that EKS puts on it; returns its name and that of
    its launch template."""
    cluster, name = group["clusterName"], group["nodeGroupName"]
    identity = str(uuid.uuid4())
    template, scaling = f"eks-{identity}", f"eks-{name}-{identity}"
    ec2, autoscaling = account.client("ec2"), account.client("autoscaling")
    ec2.create_launch_template(
        LaunchTemplateName=template,
        LaunchTemplateData={"InstanceType": group["instanceTypes"][0]},
    )
    tags = {
        "eks:cluster-name": cluster,
        "eks:nodegroup-name": name,
        f"kubernetes.io/cluster/{cluster}": "owned",
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"k8s.io/cluster-autoscaler/{cluster}": "owned",
    }
    autoscaling.create_auto_scaling_group(
        AutoScalingGroupName=scaling,
        MinSize=group["scalingConfig"]["minSize"],
        MaxSize=group["scalingConfig"]["maxSize"],
        # moto would start instances: the nodes are the rehearsal's own.
        DesiredCapacity=0,
        LaunchTemplate={"LaunchTemplateName": template, "Version": "1"},
        VPCZoneIdentifier=",".join(group["subnetIds"]),
        Tags=[_tag(scaling, key, value, propagate=True) for key, value in tags.items()],
    )
    account.clusters[cluster].grew = time.monotonic()
    return scaling, template


def resize(account: Account, parts: GroupParts, nodes: int) -> None:
    """Makes the group's desired capacity `nodes`; a network interface in the group's subnets stands
    for each node."""
    # moto's API would start instances: the nodes are the rehearsal's own.
    account.backend("autoscaling").autoscaling_groups[parts.scaling_group].desired_capacity = nodes
    ec2, subnets = account.client("ec2"), parts.inputs["subnetIds"]
    while len(parts.interfaces) > nodes:
        ec2.delete_network_interface(NetworkInterfaceId=parts.interfaces.pop())
    while len(parts.interfaces) < nodes:
        answer = ec2.create_network_interface(
            SubnetId=subnets[len(parts.interfaces) % len(subnets)],
            Groups=[account.clusters[parts.cluster].security_group],
            Description=f"aws-K8S-{parts.inputs['nodeGroupName']}",
        )
        parts.interfaces.append(answer["NetworkInterface"]["NetworkInterfaceId"])


def rescale(account: Account, parts: GroupParts) -> None:
    """Makes the group's bounds those that the node group declares."""
    scaling = parts.inputs["scalingConfig"]
    held = account.backend("autoscaling").autoscaling_groups[parts.scaling_group]
    held.min_size, held.max_size = scaling["minSize"], scaling["maxSize"]


def bounds(account: Account, parts: GroupParts) -> tuple[int, int]:
    """The least and the most nodes that the group may have, as the Auto Scaling API has them."""
    row = describe(account, parts.scaling_group)
    return row["MinSize"], row["MaxSize"]


def drop_group(account: Account, parts: GroupParts) -> None:
    """Deletes the group with its tags, nodes and launch template."""
    resize(account, parts, 0)
    account.client("autoscaling").delete_auto_scaling_group(
        AutoScalingGroupName=parts.scaling_group, ForceDelete=True
    )
    account.client("ec2").delete_launch_template(LaunchTemplateName=parts.template)


def describe(account: Account, name: str) -> dict[str, Any]:
    """The group as the Auto Scaling API has it; raises NotFoundError."""
    answer = account.client("autoscaling").describe_auto_scaling_groups(
        AutoScalingGroupNames=[name]
    )
    if not answer["AutoScalingGroups"]:
        raise NotFoundError(f"ValidationError: AutoScalingGroup name not found - {name}")
    found: dict[str, Any] = answer["AutoScalingGroups"][0]
    return found


def group_tags(account: Account, name: str) -> dict[str, str]:
    """The group's tags, as Cluster Autoscaler reads them."""
    return {tag["Key"]: tag["Value"] for tag in describe(account, name)["Tags"]}


def _tag(group: str, key: str, value: str, *, propagate: bool) -> dict[str, Any]:
    return {
        "ResourceId": group,
        "ResourceType": _KIND,
        "Key": key,
        "Value": value,
        "PropagateAtLaunch": propagate,
    }


class Tag(Kind):
    """A tag of an Auto Scaling group. Refused: keys and values that are too long, the prefix aws:,
    more than 50 tags."""

    token = "aws:autoscaling/tag:Tag"
    supported_inputs = ("autoscalingGroupName", "tag")

    def create(self, inputs: dict[str, Any]) -> str:
        tags = describe(self.account, inputs["autoscalingGroupName"])["Tags"]
        if inputs["tag"]["key"] not in [tag["Key"] for tag in tags] and len(tags) >= _MOST_TAGS:
            raise CloudError(
                f"LimitExceeded: an Auto Scaling group takes {_MOST_TAGS} tags, "
                f"{inputs['autoscalingGroupName']} has them"
            )
        self._put(inputs)
        return f"{inputs['autoscalingGroupName']},{inputs['tag']['key']}"

    def _put(self, inputs: Mapping[str, Any]) -> None:
        tag = inputs["tag"]
        if len(tag["key"]) > 128 or len(tag["value"]) > 256:
            raise CloudError(
                f"ValidationError: tag '{tag['key']}': a key has at most 128 characters, a value "
                "256"
            )
        if tag["key"].startswith("aws:"):
            raise CloudError(f"ValidationError: tag key '{tag['key']}': aws: is reserved")
        group = inputs["autoscalingGroupName"]
        wanted = _tag(group, tag["key"], tag["value"], propagate=tag["propagateAtLaunch"])
        self.account.client("autoscaling").create_or_update_tags(Tags=[wanted])

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        group, _, key = identity.partition(",")
        for tag in describe(self.account, group)["Tags"]:
            if tag["Key"] == key:
                return {
                    "autoscalingGroupName": group,
                    "tag": {
                        "key": key,
                        "value": tag["Value"],
                        "propagateAtLaunch": tag["PropagateAtLaunch"],
                    },
                }
        raise NotFoundError(f"no tag {key} on the Auto Scaling group {group}")

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._put(new)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        group, tag = state["autoscalingGroupName"], state["tag"]
        wanted = _tag(group, tag["key"], tag["value"], propagate=tag["propagateAtLaunch"])
        self.account.client("autoscaling").delete_tags(Tags=[wanted])
