"""Managed node groups, each with its Auto Scaling group."""

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from gpu_cluster.components.catalog.eks import InstanceType
from gpu_cluster.rehearsal.simulators.aws import ami_releases
from gpu_cluster.rehearsal.simulators.aws import node_group_rules as rules
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, page
from gpu_cluster.rehearsal.simulators.aws.cluster_rules import rolls_back
from gpu_cluster.rehearsal.simulators.aws.disk_keys import why_no_disks
from gpu_cluster.rehearsal.simulators.aws.disk_snapshots import disks_refusal
from gpu_cluster.rehearsal.simulators.aws.eks import (
    NODE_ENTRY,
    asg_of,
    begun,
    cluster_of,
    entry_row,
    group_of,
    issue,
    kept,
    now,
    running,
    subnets,
)
from gpu_cluster.rehearsal.simulators.aws.first_boot import why_not_joined
from gpu_cluster.rehearsal.simulators.aws.instances import check_offers, instance
from gpu_cluster.rehearsal.simulators.aws.launch_templates import template_data
from gpu_cluster.rehearsal.simulators.aws.node_join_checks import (
    why_nodes_fail,
    why_role_fails,
    why_unreachable,
)
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid
from gpu_cluster.rehearsal.simulators.aws.reservations import (
    NO_ADDRESSES,
    why_not_launched,
    zones_with_room,
)
from gpu_cluster.rehearsal.simulators.aws.roles import require_trust
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Group, Row
from gpu_cluster.rehearsal.simulators.aws.scaling import (
    drop_group,
    end_surge,
    make_group,
    resize,
    surge,
)
from gpu_cluster.rehearsal.simulators.aws.warm_pools import configure
from gpu_cluster.rehearsal.simulators.cloud import NODE_SECONDS, wait_for_nodes

_STARTING = ("CREATING", "CREATE_FAILED")
JOIN_SECONDS = 30.0
"""How long nodes try to join: in AWS half an hour, in which a NAT gateway has long become available
that a client creates beside the node group."""
_JUDGE_SECONDS = 0.5
_DEFAULT_SIZE = {"minSize": 1, "maxSize": 2, "desiredSize": 2}


@operation("eks", "CreateNodegroup")
def create_nodegroup(account: Account, params: Params) -> Row:
    """Refuses what `node_group_rules`, `instances` and `ami_releases` refuse, subnets of another
    VPC, and a role that EC2 may not assume. Nodes that could not start or join result in
    CREATE_FAILED: at once in a rehearsal, which tries the order of a stack's operations."""
    cluster, name = cluster_of(account, params["clusterName"]), params["nodegroupName"]
    if name in cluster.groups:
        raise Refusal(
            "ResourceInUseException",
            f"NodeGroup already exists with name {name} and cluster name {params['clusterName']}",
        )
    vpc = cluster.row["resourcesVpcConfig"]["vpcId"]
    for subnet in subnets(account, params["subnets"]):
        if subnet.vpc_id != vpc:
            words = f"the subnet {subnet.id} is not in the cluster's VPC {vpc}"
            raise invalid(words)
    require_trust(account, params["nodeRole"], "ec2.amazonaws.com", "sts:AssumeRole")
    given = {"scalingConfig": _DEFAULT_SIZE} | {
        key: value for key, value in params.items() if key != "clientRequestToken"
    }
    row, data = _complete(account, given, cluster)
    ami_releases.check_new(row, cluster.row["version"])
    check_offers(account, row["instanceTypes"], row["subnets"])
    scaling, template = make_group(account, cluster, row, data)
    group = Group(row=row, given=given, scaling_group=scaling, template=template, data=data)
    wanted, at = row["scalingConfig"]["desiredSize"], now()
    wrong = why_not_started(account, cluster, group, wanted)
    row |= {
        "nodegroupArn": account.arn(
            "eks", f"nodegroup/{params['clusterName']}/{name}/{uuid.uuid4()}"
        ),
        "createdAt": at,
        "modifiedAt": at,
        "status": "CREATING",
        "health": {"issues": []},
        "resources": {"autoScalingGroups": [{"name": scaling}]},
    }
    cluster.groups[name] = group
    if wrong and not account.rehearsed:
        judging = threading.Thread(target=_judge, args=(account, cluster, group), daemon=True)
        judging.start()
    else:
        _end_creation(account, group, wrong)
    role = params["nodeRole"]
    if role not in cluster.entries:  # EKS admits the nodes itself.
        cluster.entries[role] = entry_row(account, params["clusterName"], role, NODE_ENTRY)
    return {"nodegroup": _shown(account, group) | {"status": "CREATING"}}


def _end_creation(account: Account, group: Group, wrong: Row | None) -> None:
    if wrong:
        group.row |= {"status": "CREATE_FAILED", "health": {"issues": [wrong]}}
        return
    group.row["status"] = "ACTIVE"
    resize(account, group, group.row["scalingConfig"]["desiredSize"])
    asg = asg_of(account, group.scaling_group)
    configure(account, asg, group.row.get("warmPoolConfig"))


def _judge(account: Account, cluster: Cluster, group: Group) -> None:
    """Ends a creation as soon as the nodes can join, or when they have tried for long enough."""
    began, name = time.monotonic(), group.row["nodegroupName"]
    while group.row["status"] == "CREATING":
        time.sleep(_JUDGE_SECONDS)
        with account.lock, account.asking:
            if (
                cluster.groups.get(name) is not group
                or account.clusters.get(group.cluster) is not cluster
            ):
                return  # It has been deleted, or the account ended.
            nodes = group.row["scalingConfig"]["desiredSize"]
            wrong = why_not_started(account, cluster, group, nodes)
            if wrong is None or time.monotonic() >= began + JOIN_SECONDS:
                _end_creation(account, group, wrong)
    account.changed()


def _complete(
    account: Account, given: Params, cluster: Cluster, version: str = ""
) -> tuple[Row, Row]:
    """Does all of EKS's immediate checks, and returns the complete properties, with the cluster's
    version if none is given, and the launch template's data."""
    data = template_data(account, given.get("launchTemplate"))
    template = data if given.get("launchTemplate") else None
    rows: Sequence[InstanceType] = [
        instance(account, name) for name in rules.types_of(given, template)
    ]
    row = rules.complete(dict(given), rows, template, version or cluster.row["version"])
    rules.check_node_group(row, given, rows, template, cluster.row["version"])
    if wrong := disks_refusal(account, data):
        raise Refusal("InvalidRequestException", wrong[1])
    return row, data


def why_not_started(account: Account, cluster: Cluster, group: Group, nodes: int) -> Row | None:
    """Why nodes of this group would not start or not join the cluster, as an issue, or None."""
    name = group.row["nodegroupName"]
    if reason := (
        why_nodes_fail(account, cluster, group.row)
        or why_unreachable(account, cluster, group)
        or why_not_joined(cluster, group)
    ):
        words = f"Instances failed to join the kubernetes cluster: {reason}"
        return issue("NodeCreationFailure", words, name)
    reason = why_not_launched(account, group, nodes)
    if reason := reason or (why_no_disks(account, group.data) if nodes else ""):
        code = NO_ADDRESSES if NO_ADDRESSES in reason else "AsgInstanceLaunchFailures"
        return issue(code, reason, name)
    return None


def _shown(account: Account, group: Group) -> Row:
    """The group's row in the API: its size is the Auto Scaling group's, once that has nodes."""
    row = dict(group.row)
    if row["status"] not in _STARTING:
        desired = asg_of(account, group.scaling_group).desired_capacity
        row["scalingConfig"] = row["scalingConfig"] | {"desiredSize": desired}
    if "ImageId" in group.data:
        del row["version"], row["releaseVersion"]
    return row


@operation("eks", "DescribeNodegroup")
def describe_nodegroup(account: Account, params: Params) -> Row:
    """Describes the node group."""
    return {"nodegroup": _shown(account, group_of(account, params))}


@operation("eks", "ListNodegroups")
def list_nodegroups(account: Account, params: Params) -> Row:
    """Lists the node groups' names."""
    return page(params, "nodegroups", list(cluster_of(account, params["clusterName"]).groups))


@operation("eks", "UpdateNodegroupConfig")
def update_nodegroup_config(account: Account, params: Params) -> Row:
    """Changes labels, taints, sizes and the warm pool; no node is recycled."""
    group = _idle(account, params)
    cluster, row = cluster_of(account, params["clusterName"]), group.row
    changes: Params = {key: params[key] for key in ("updateConfig", "nodeRepairConfig")
                       if key in params}  # fmt: skip
    if labels := params.get("labels"):
        gone = labels.get("removeLabels") or []
        known = {key: value for key, value in row["labels"].items() if key not in gone}
        changes["labels"] = known | (labels.get("addOrUpdateLabels") or {})
    if taints := params.get("taints"):
        new = taints.get("addOrUpdateTaints") or []
        left = [(t["key"], t["effect"]) for t in (*new, *(taints.get("removeTaints") or []))]
        stay = [t for t in row.get("taints") or [] if (t["key"], t["effect"]) not in left]
        changes["taints"] = stay + new
    if "warmPoolConfig" in params:
        # What is not given of it stays.
        before = group.given.get("warmPoolConfig") or {}
        changes["warmPoolConfig"] = before | params["warmPoolConfig"]
    scaling = row["scalingConfig"] | (params.get("scalingConfig") or {})
    count = len(running(account, group))
    nodes = scaling["desiredSize"] if "scalingConfig" in params else count
    given = group.given | changes | {"scalingConfig": scaling}
    new, data = _complete(account, given, cluster, row["version"])
    if nodes > count and (wrong := why_not_started(account, cluster, group, nodes)):
        raise Refusal("InvalidRequestException", f"{wrong['code']}: {wrong['message']}")
    group.given, group.data = given, data
    row |= changes | {"scalingConfig": scaling, "modifiedAt": now()}
    row.pop("warmPoolConfig", None)
    row |= {key: new[key] for key in ("warmPoolConfig",) if key in new}
    if "scalingConfig" in params:
        asg = asg_of(account, group.scaling_group)
        asg.min_size, asg.max_size = scaling["minSize"], scaling["maxSize"]
        resize(account, group, nodes)
    if "warmPoolConfig" in params:
        configure(account, asg_of(account, group.scaling_group), row.get("warmPoolConfig"))
    name = params["nodegroupName"]
    return begun(cluster, "ConfigUpdate", {}, nodegroupName=name)


@operation("eks", "UpdateNodegroupVersion")
def update_nodegroup_version(account: Account, params: Params) -> Row:
    """Recycles all nodes for another version of the launch template, of Kubernetes or of the image
    (eks/latest/userguide/launch-templates.html). Refuses a return to an earlier version.

    If a node does not leave, because a PodDisruptionBudget keeps its pods, the update fails unless
    it is forced, and the group is what it was before. It fails too if new nodes do not start or do
    not join: at first one in each zone that has nodes, which only the strategy MINIMAL does without
    (managed-node-update-behavior.html)."""
    group = _idle(account, params)
    cluster, old, before = cluster_of(account, params["clusterName"]), group.row, copy(group)
    changes = {
        key: params[key] for key in ("version", "releaseVersion", "launchTemplate") if key in params
    }
    given, image = group.given | changes, ("version", "releaseVersion")
    if renewed := not changes or any(key in changes for key in image):
        if "releaseVersion" not in changes:
            given.pop("releaseVersion", None)
        if not changes:
            given["version"] = cluster.row["version"]
    new, data = _complete(account, given, cluster, given.get("version") or old["version"])
    if not renewed:
        new |= {key: old[key] for key in image}
    back = old["version"] != new["version"] and rolls_back(cluster, new["version"])
    ami_releases.check_update(old, new, back=back)
    recycled = _versions(old) != _versions(new)
    if recycled:
        group.updates += 1
        group.revision = group.updates
        # The warm ones booted what was there before.
        asg = asg_of(account, group.scaling_group)
        configure(account, asg, None)
        configure(account, asg, old.get("warmPoolConfig"))
    group.given, group.data, group.forced = given, data, bool(params.get("force"))
    group.row = old | new | {"tags": old["tags"], "modifiedAt": now()}
    nodes = len(running(account, group))
    update = old.get("updateConfig") or {}
    share = nodes * update.get("maxUnavailablePercentage", 0) // 100
    at_once = int(update.get("maxUnavailable") or share) or 1
    recycles = bool(recycled and nodes)
    minimal = update.get("updateStrategy") == "MINIMAL"
    more = 0 if minimal else min(nodes, zones_with_room(account, group))
    wrong = why_not_started(account, cluster, group, nodes + more) if recycles else None
    answer = begun(
        cluster,
        "VersionUpdate",
        {"Version": group.row["version"], "ReleaseVersion": group.row["releaseVersion"]},
        seconds=NODE_SECONDS * -(-nodes // at_once) if recycled else 0,
        over=not recycles,
        nodegroupName=(name := params["nodegroupName"]),
    )
    update, revision = cluster.updates[answer["update"]["id"]]["row"], group.revision

    def end() -> None:
        far = (
            "starting"
            if wrong
            else wait_for_nodes(account.recycled, name, revision, nodes=nodes + more)
        )
        with account.lock:
            update["status"] = "Successful" if far == "done" else "Failed"
            if cluster.groups.get(name) is not group:
                return  # It has been deleted meanwhile.
            end_surge(account, group, [machine.id for machine in reversed(kept(account, group))])
            if group.row["status"] != "UPDATING":
                return  # It could not be deleted.
            group.row["status"] = "ACTIVE"
            if far != "done":
                update["errors"] = [
                    _not_evicted(account, group) if far == "held" else _not_joined(name, wrong)
                ]
                group.row = old | {"tags": group.row["tags"]}
                group.given, group.data = before.given, before.data
                group.revision = before.revision

    if recycles:
        group.row["status"] = "UPDATING"
        if wrong:
            end()
        else:
            surge(account, group, min(more, len(kept(account, group))))
            threading.Thread(target=end, daemon=True).start()
    return answer


def _idle(account: Account, params: Params) -> Group:
    """The group to be updated; refuses one that is being updated, with the message in
    https://github.com/aws/karpenter-provider-aws/issues/133."""
    group = group_of(account, params)
    if group.row["status"] == "UPDATING":
        words = "Nodegroup cannot be updated as it is currently not in Active State"
        raise Refusal("ResourceInUseException", words)
    return group


def _not_joined(name: str, wrong: Row | None) -> Row:
    """Why an update failed for want of new nodes, with the message in
    https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3283 and the reason, or None
    if a new node only never got ready."""
    words = "Couldn't proceed with upgrade process as new nodes are not joining node group"
    reason = wrong["message"] if wrong else "a new node is not Ready"
    return _failed("NodeCreationFailure", f"{words} {name}: {reason}", name)


def _not_evicted(account: Account, group: Group) -> Row:
    """Why an update failed, with the message in
    https://github.com/aws/containers-roadmap/issues/1282; that the group goes back to what it was
    is from https://github.com/crossplane-contrib/provider-aws/issues/1475."""
    words = "Reached max retries while trying to evict pods from nodes in node group"
    nodes = [machine.private_dns_name for machine in running(account, group)[:1]]
    return _failed("PodEvictionFailure", f"{words} {group.row['nodegroupName']}", *nodes)


def _failed(code: str, message: str, *ids: str) -> Row:
    return {"errorCode": code, "errorMessage": message, "resourceIds": [*ids]}


def _versions(row: Mapping[str, Any]) -> tuple[Any, ...]:
    template = (row.get("launchTemplate") or {}).get("version")
    return row["version"], row["releaseVersion"], template


@operation("eks", "DeleteNodegroup")
def delete_nodegroup(account: Account, params: Params) -> Row:
    """Deletes the group; nodes that cannot leave cleanly result in DELETE_FAILED. Without a
    rehearsal only for want of permissions: that nodes have lost their way out does not keep EC2
    from terminating them."""
    group = group_of(account, params)
    cluster = cluster_of(account, params["clusterName"])
    why = why_nodes_fail if account.rehearsed else why_role_fails
    if group.row["status"] not in _STARTING and (reason := why(account, cluster, group.row)):
        group.row["status"] = "DELETE_FAILED"
        group.row["health"] = {"issues": [issue("AccessDenied", reason)]}
    else:
        drop_group(account, group)
        del cluster.groups[params["nodegroupName"]]
        for identity, update in [*cluster.updates.items()]:
            if update.get("nodegroupName") == params["nodegroupName"]:
                del cluster.updates[identity]
    return {"nodegroup": group.row | {"status": "DELETING"}}
