"""Managed node groups, each with its Auto Scaling group."""

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from components.catalog.eks import InstanceType
from plugins.faults import Faults
from simulators.aws import ami_releases
from simulators.aws import node_group_rules as rules
from simulators.aws.access import cluster_of, now
from simulators.aws.account import Account, GroupParts
from simulators.aws.api_request import request
from simulators.aws.instances import check_offers, check_quota, instance
from simulators.aws.kind import CloudError, Kind
from simulators.aws.launch_template import LaunchTemplate
from simulators.aws.node_join_checks import why_nodes_fail
from simulators.aws.roles import require_trust
from simulators.aws.scaling_group import drop_group, make_group, rescale, resize
from simulators.cloud import NODE_SECONDS

_RENAMED = {"nodeGroupName": "nodegroupName", "subnetIds": "subnets", "nodeRoleArn": "nodeRole"}
_UNSENT = ("tags", "tagsAll", "nodeGroupNamePrefix", "forceUpdateVersion", "region")
_LONGEST_PREFIX = 37


class NodeGroup(Kind):
    """A managed node group, with its Auto Scaling group. Refused: what `node_group_rules`,
    `instances` and `releases` refuse, subnets of another VPC, a role that EC2 may not take; nodes
    that could not start or join (`node_join_checks`) end in CREATE_FAILED."""

    token = "aws:eks/nodeGroup:NodeGroup"
    supported_inputs = (
        "clusterName", "nodeGroupName", "nodeGroupNamePrefix", "nodeRoleArn", "subnetIds",
        "scalingConfig", "amiType", "capacityType", "diskSize", "instanceTypes", "labels",
        "launchTemplate", "nodeRepairConfig", "releaseVersion", "taints", "updateConfig",
        "version", "forceUpdateVersion", "tags",
    )  # fmt: skip
    computed = (
        "nodeGroupName", "nodeGroupNamePrefix", "amiType", "capacityType", "diskSize",
        "instanceTypes", "releaseVersion", "updateConfig", "nodeRepairConfig", "version",
    )  # fmt: skip

    def __init__(self, account: Account, faults: Faults) -> None:
        super().__init__(account)
        self._faults = faults

    def create(self, inputs: dict[str, Any]) -> str:
        cluster = cluster_of(self.account, inputs["clusterName"])
        given = dict(inputs)
        given.setdefault("nodeGroupName", _generated(inputs.get("nodeGroupNamePrefix")))
        name: str = given["nodeGroupName"]
        if name in self.account.groups:
            raise CloudError(
                f"ResourceInUseException: NodeGroup already exists with name {name} and cluster "
                f"name {inputs['clusterName']}"
            )
        self._check_subnets(given)
        require_trust(self.account, given["nodeRoleArn"], "ec2.amazonaws.com", "sts:AssumeRole")
        group = self._complete(given, cluster.inputs["version"])
        ami_releases.check_new(group, cluster.inputs["version"])
        check_offers(self.account, group["instanceTypes"], given["subnetIds"])
        wanted = group["scalingConfig"]["desiredSize"]
        check_start(self.account, self._faults, name, group, wanted)
        self.account.client("eks").create_nodegroup(**self._request(group))
        scaling, template = make_group(self.account, group)
        parts = GroupParts(
            cluster=inputs["clusterName"],
            inputs=group,
            scaling_group=scaling,
            kept=wanted,
            template=template,
        )
        self.account.groups[name] = parts
        held = self._held(name)
        held.resources = {"autoScalingGroups": [{"name": scaling}]}
        resize(self.account, parts, wanted)
        # EKS lets the nodes in by itself.
        if given["nodeRoleArn"] not in cluster.entries:
            cluster.entries[given["nodeRoleArn"]] = {
                "type": "EC2_LINUX", "policies": {}, "createdAt": now(), "tagsAll": {},
            }  # fmt: skip
        return f"{inputs['clusterName']}:{name}"

    def _check_subnets(self, given: Mapping[str, Any]) -> None:
        ec2 = self.account.client("ec2")
        vpc = (
            self.account.backend("eks").clusters[given["clusterName"]].resources_vpc_config["vpcId"]
        )
        for subnet in ec2.describe_subnets(SubnetIds=given["subnetIds"])["Subnets"]:
            if subnet["VpcId"] != vpc:
                raise CloudError(
                    f"InvalidParameterException: the subnet {subnet['SubnetId']} is not in the "
                    f"cluster's VPC {vpc}"
                )

    def _complete(self, given: dict[str, Any], version: str) -> dict[str, Any]:
        """Checks everything that EKS checks at once, and returns the complete properties."""
        template = self._template(given)
        rows: Sequence[InstanceType] = [
            instance(self.account, name) for name in rules.types_of(given, template)
        ]
        group = rules.complete(given, rows, template, version)
        rules.check(group, given, rows, template, version)
        return group

    def _template(self, given: Mapping[str, Any]) -> dict[str, Any] | None:
        reference = given.get("launchTemplate")
        if not reference:
            return None
        data = LaunchTemplate(self.account).data(reference)
        if groups := data.get("SecurityGroupIds"):
            self.account.client("ec2").describe_security_groups(GroupIds=groups)
        return data

    def _request(self, group: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in group.items() if name not in _UNSENT}
        given.pop("updateConfig", None)
        given.pop("nodeRepairConfig", None)
        if "launchTemplate" in given:
            # The types may be the template's; moto wants them here, to tell them.
            given.pop("diskSize", None)
        model = self.account.client("eks").meta.service_model.operation_model("CreateNodegroup")
        return request(model.input_shape, given, _RENAMED) | {"tags": group["tagsAll"]}

    def _held(self, name: str) -> Any:
        cluster = self.account.groups[name].cluster
        return self.account.backend("eks").clusters[cluster].nodegroups[name]

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        cluster, _, name = identity.partition(":")
        row = self.account.client("eks").describe_nodegroup(
            clusterName=cluster, nodegroupName=name
        )["nodegroup"]
        parts = self.account.groups[name]
        group = parts.inputs
        now = {
            "arn": row["nodegroupArn"],
            "status": row["status"],
            "resources": [
                {
                    "autoscalingGroups": [{"name": parts.scaling_group}],
                    "remoteAccessSecurityGroupId": "",
                }
            ],
            "nodeGroupName": name,
            "nodeGroupNamePrefix": group.get("nodeGroupNamePrefix", ""),
            "scalingConfig": group["scalingConfig"] | {"desiredSize": len(parts.interfaces)},
            "labels": row.get("labels") or {},
            "tagsAll": row.get("tags") or {},
        }
        for name_ in (
            "amiType", "capacityType", "diskSize", "instanceTypes", "releaseVersion", "version",
            "updateConfig", "nodeRepairConfig", "taints", "launchTemplate", "subnetIds",
        ):  # fmt: skip
            now[name_] = group.get(name_)
        if "ImageId" in (self._template(group) or {}):
            now["version"] = now["releaseVersion"] = None
        return now

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        name = identity.partition(":")[2]
        parts = self.account.groups[name]
        cluster = cluster_of(self.account, parts.cluster)
        given = {
            key: value for key, value in new.items() if key in (*self.supported_inputs, "tagsAll")
        }
        # What EKS filled in follows where it was not given, e.g. the release the version.
        if given.get("version") != old.get("version") and new.get("releaseVersion") == old.get(
            "releaseVersion"
        ):
            given.pop("releaseVersion", None)
        if given.get("launchTemplate"):
            given.pop("diskSize", None)
            if "InstanceType" in (self._template(given) or {}):
                given.pop("instanceTypes", None)
        group = self._complete(given, cluster.inputs["version"])
        scaling = group["scalingConfig"]
        rescaled = old.get("scalingConfig") != scaling
        nodes = scaling["desiredSize"] if rescaled else len(parts.interfaces)
        if nodes > len(parts.interfaces):
            check_start(self.account, self._faults, name, group, nodes)
        ami_releases.check_update(parts.inputs, group)
        if recycled(parts.inputs, group):
            parts.revision += 1
        parts.inputs = group
        held = self._held(name)
        held.labels, held.taints = dict(group["labels"]), list(group.get("taints") or [])
        held.scaling_config, held.version = dict(scaling), group["version"]
        held.release_version = group["releaseVersion"]
        held.update_config, held.node_repair_config = (
            group["updateConfig"], group["nodeRepairConfig"],
        )  # fmt: skip
        if rescaled:
            # What the autoscaler added stays its own.
            parts.kept = max(parts.kept + nodes - len(parts.interfaces), 0)
            rescale(self.account, parts)
            resize(self.account, parts, nodes)

    def lasts(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
        if not recycled(old, new):
            return 0.0
        with self.account.lock:
            running = len(self.account.groups[identity.partition(":")[2]].interfaces)
        update = new.get("updateConfig") or {}
        share = running * update.get("maxUnavailablePercentage", 0) // 100
        at_once = int(update.get("maxUnavailable") or share) or 1
        return NODE_SECONDS * -(-running // at_once)

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        self._held(identity.partition(":")[2]).tags = dict(tags)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        name = identity.partition(":")[2]
        parts = self.account.groups[name]
        cluster = self.account.clusters[parts.cluster]
        if reason := why_nodes_fail(self.account, cluster, parts.inputs):
            raise CloudError(
                f"unexpected state 'DELETE_FAILED', wanted target 'DELETED'. last error: "
                f"Ec2SubnetInvalidConfiguration or AccessDenied: {reason}"
            )
        self.account.client("eks").delete_nodegroup(clusterName=parts.cluster, nodegroupName=name)
        drop_group(self.account, parts)
        del self.account.groups[name]


def recycled(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether EKS recycles all nodes of the group for this change: another version of its launch
    template, of Kubernetes or of the image (eks/latest/userguide/launch-templates.html)."""
    versions = [
        (one["version"], one["releaseVersion"], (one.get("launchTemplate") or {}).get("version"))
        for one in (old, new)
    ]
    return versions[0] != versions[1]


def check_start(
    account: Account, faults: Faults, name: str, group: dict[str, Any], nodes: int
) -> None:
    """Raises CloudError where nodes of this group would not start, or not join the cluster."""
    cluster = cluster_of(account, group["clusterName"])
    if reason := why_nodes_fail(account, cluster, group):
        raise CloudError(
            f"waiting for EKS Node Group ({group['clusterName']}:{name}) create: unexpected state "
            "'CREATE_FAILED', wanted target 'ACTIVE'. last error: NodeCreationFailure: Instances "
            f"failed to join the kubernetes cluster: {reason}"
        )
    spot = group["capacityType"] == "SPOT"
    check_quota(account, faults.quota, name, group["instanceTypes"], spot, nodes)


def _generated(prefix: str | None) -> str:
    """A name as the official provider makes them: its own or the given prefix, time and digits."""
    if prefix and len(prefix) > _LONGEST_PREFIX:
        raise CloudError(
            f"nodeGroupNamePrefix: expected at most {_LONGEST_PREFIX} characters, got {len(prefix)}"
        )
    return f"{prefix or 'terraform-'}{time.strftime('%Y%m%d%H%M%S')}{secrets.token_hex(6)}"
