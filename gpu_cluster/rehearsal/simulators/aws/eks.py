"""EKS's resources, stored where moto keeps its clusters, with their tags and updates.

A row is the API's description of a resource, in the shape of botocore's model.
"""

import hashlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import SECONDS, Params, operation, page
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Group, Row

Found = TypeVar("Found")


def now() -> datetime:
    """The current time, in the form that rows use."""
    return datetime.now(UTC)


def found(rows: Mapping[str, Found], key: str, words: str) -> Found:
    """The row under the key; raises Refusal with the message `words`."""
    if key not in rows:
        raise Refusal("ResourceNotFoundException", words)
    return rows[key]


def cluster_of(account: Account, name: str) -> Cluster:
    """The cluster; raises Refusal if it does not exist."""
    return found(account.clusters, name, f"No cluster found for name: {name}.")


def group_of(account: Account, params: Params) -> Group:
    """The node group; raises Refusal if it does not exist."""
    groups, name = cluster_of(account, params["clusterName"]).groups, params["nodegroupName"]
    return found(groups, name, f"No node group found for name: {name}.")


def asg_of(account: Account, name: str) -> Any:
    """moto's Auto Scaling group; raises Refusal if it does not exist."""
    groups = account.backend("autoscaling").autoscaling_groups
    if name not in groups:
        raise Refusal("ValidationError", f"AutoScalingGroup name not found - {name}")
    return groups[name]


def group_tags(account: Account, name: str) -> dict[str, str]:
    """The group's tags, as Cluster Autoscaler reads them."""
    return {tag["Key"]: tag["Value"] for tag in asg_of(account, name).tags}


def bounds(account: Account, group: Group) -> tuple[int, int]:
    """The group's minimum and maximum number of nodes, according to the Auto Scaling API."""
    row = asg_of(account, group.scaling_group)
    return row.min_size, row.max_size


def running(account: Account, group: Group) -> list[Any]:
    """The instances of a node group."""
    return [state.instance for state in asg_of(account, group.scaling_group).instance_states]


def warm_instances(asg: Any) -> list[Any]:
    """The instances of an Auto Scaling group's warm pool, the oldest first; a list to change."""
    found: list[Any] = vars(asg).setdefault("warm_instances", [])
    return found


def warm_running(account: Account, group: Group) -> list[Any]:
    """Those of a node group's warm instances that run, and count as running ones do."""
    warm = warm_instances(asg_of(account, group.scaling_group))
    return [instance for instance in warm if instance.state not in NOT_RUNNING]


NOT_RUNNING = ("stopped", "terminated")
"""States of an instance that has no machine: it counts against no vCPU quota and holds no place in
a reservation (EC2 user guide, ri-limits.html, "Reserved Instance quotas": stopped instances do not
count; read 2026-11-24)."""


def kept(account: Account, group: Group) -> list[Any]:
    """The instances that EKS or an AWS client started; the others are the autoscaler's."""
    return [instance for instance in running(account, group) if instance.id not in group.elastic]


def issue(code: str, message: str, *ids: str) -> Row:
    """An entry of a row's `health.issues`."""
    return {"code": code, "message": message, "resourceIds": list(ids)}


def entry_row(account: Account, cluster: str, principal: str, given: Mapping[str, Any]) -> Row:
    """An access entry, with EKS's defaults."""
    digest = hashlib.sha256(principal.encode()).hexdigest()[:32]
    path, at = "/".join(principal.split(":")[4:]), now()
    return {
        "clusterName": cluster,
        "principalArn": principal,
        "kubernetesGroups": [],
        "accessEntryArn": account.arn("eks", f"access-entry/{cluster}/{path}/{digest}"),
        "createdAt": at,
        "modifiedAt": at,
        "tags": {},
        "username": principal,
        "type": "STANDARD",
        **given,
    }


NODE_ENTRY: Mapping[str, Any] = {
    "type": "EC2_LINUX",
    "kubernetesGroups": ["system:nodes"],
    "username": "system:node:{{EC2PrivateDNSName}}",
}
"""EKS's defaults for a node's entry.
https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html"""


def policy_row(policy: str, scope: Mapping[str, Any]) -> Row:
    """An access policy of an entry, associated now."""
    at = now()
    return {
        "policyArn": policy,
        "accessScope": {"namespaces": [], **scope},
        "associatedAt": at,
        "modifiedAt": at,
    }


def subnets(account: Account, ids: Sequence[str]) -> list[Any]:
    """moto's subnets; raises Refusal if one does not exist."""
    known = {subnet.id: subnet for subnet in account.backend("ec2").describe_subnets()}
    for subnet in ids:
        if subnet not in known:
            raise invalid(f"The subnet ID '{subnet}' does not exist")
    return [known[item] for item in ids]


def begun(
    cluster: Cluster,
    kind: str,
    what: Mapping[str, Any],
    *,
    seconds: float = 0,
    over: bool = True,
    **of: str,
) -> dict[str, Any]:
    """The response to a change, which has finished at once unless `over` is false. `of`: the node
    group or addon that changed; `seconds`: the real duration."""
    row: Row = {
        "id": str(uuid.uuid4()),
        "status": "InProgress",
        "type": kind,
        "params": [
            {"type": name, "value": value if isinstance(value, str) else repr(value)}
            for name, value in what.items()
        ],
        "createdAt": now(),
        "errors": [],
    }
    cluster.updates[row["id"]] = {"row": row | ({"status": "Successful"} if over else {}), **of}
    return {"update": row, SECONDS: seconds}


def check_no_update(cluster: Cluster, kind: str) -> None:
    """Refuses a change of the cluster itself while another one is in progress, with the message in
    https://github.com/rancher/eks-operator/issues/547."""
    for name, update in cluster.updates.items():
        if update["row"]["status"] == "InProgress" and not update.get("nodegroupName"):
            raise Refusal(
                "ResourceInUseException",
                f"Cannot {kind} because cluster {cluster.row['name']} currently has update {name} "
                "in progress",
            )


def _updates(account: Account, params: Params) -> dict[str, Row]:
    keys = ("nodegroupName", "addonName")
    return {
        name: update["row"]
        for name, update in cluster_of(account, params["name"]).updates.items()
        if all(update.get(key) == params.get(key) for key in keys)
    }


@operation("eks", "ListUpdates")
def list_updates(account: Account, params: Params) -> Row:
    """Lists the updates of a cluster, a node group or an addon."""
    return page(params, "updateIds", list(_updates(account, params)))


@operation("eks", "DescribeUpdate")
def describe_update(account: Account, params: Params) -> Row:
    """Describes the result of an update."""
    words = f"No update found for ID: {params['updateId']}"
    return {"update": found(_updates(account, params), params["updateId"], words)}


def _rows(account: Account) -> Iterator[tuple[str, Row]]:
    """All resources that can be tagged, by ARN."""
    for cluster in account.clusters.values():
        yield cluster.row["arn"], cluster.row
        for group in cluster.groups.values():
            yield group.row["nodegroupArn"], group.row
        for row in cluster.associations.values():
            yield row["associationArn"], row
        for (_, arn), rows in list(cluster.tagged.items()):
            for row in rows.values():
                yield row[arn], row


def _tagged(account: Account, arn: str) -> dict[str, str]:
    for known, row in _rows(account):
        if known == arn:
            tags: dict[str, str] = row.setdefault("tags", {})
            return tags
    raise Refusal("NotFoundException", f"Resource was not found: {arn}")


@operation("eks", "TagResource")
def tag_resource(account: Account, params: Params) -> Row:
    """Adds tags to any EKS resource."""
    _tagged(account, params["resourceArn"]).update(params["tags"])
    return {}


@operation("eks", "UntagResource")
def untag_resource(account: Account, params: Params) -> Row:
    """Removes tags from any EKS resource."""
    tags = _tagged(account, params["resourceArn"])
    for key in params["tagKeys"]:
        tags.pop(key, None)
    return {}


@operation("eks", "ListTagsForResource")
def list_tags(account: Account, params: Params) -> Row:
    """Lists the tags of any EKS resource."""
    return {"tags": _tagged(account, params["resourceArn"])}


def access_admins(cluster: Cluster) -> list[tuple[str, str]]:
    """The cluster's administrators: principals, each with the policy that grants the access."""
    return [
        (principal, policy)
        for principal, entry in cluster.entries.items()
        for policy, row in cluster.policies.get(principal, {}).items()
        if entry["type"] == "STANDARD"
        and row["accessScope"]["type"] == "cluster"
        and policy.endswith("/AmazonEKSClusterAdminPolicy")
    ]


IDENTITY_SECONDS = 10.0
"""Seconds until a pod identity association reaches the webhook that gives pods their credentials:
aws/eks-pod-identity-agent issue 52, aws/containers-roadmap issue 2507."""
NODE_GROUP_SECONDS = 20.0
"""Access that is granted up to this many seconds after a node group was created works at once, as
it would by the time the group exists: that takes minutes in AWS and no time here."""


def identified_at(cluster: Cluster, account: tuple[str, str]) -> float | None:
    """The time, in seconds since 1970, from which pods of a service account get credentials; None
    without an association."""
    if account not in cluster.identified or cluster.association(*account) is None:
        return None
    at = cluster.identified[account]
    grew = time.time() - (time.monotonic() - cluster.grew)
    return at if at <= grew + NODE_GROUP_SECONDS else at + IDENTITY_SECONDS


LATE_SECONDS = 10.0
"""Seconds until an access policy takes effect, unless a node group is created meanwhile."""


def access_granted(cluster: Cluster) -> bool:
    """Whether anyone may use the cluster as an administrator: before that, the API server refuses
    the tokens of `aws eks get-token`. The user who rehearses is assumed to be one."""
    return any(_seconds_left(cluster, admin) <= 0 for admin in access_admins(cluster))


def access_due(cluster: Cluster) -> float | None:
    """Seconds until the next pending access takes effect; None if none is pending."""
    left = (_seconds_left(cluster, admin) for admin in access_admins(cluster))
    return min((seconds for seconds in left if seconds > 0), default=None)


def _seconds_left(cluster: Cluster, admin: tuple[str, str]) -> float:
    """Seconds until an access policy takes effect; 0 or less if it has. EKS needs several seconds:
    less than for a node group, which takes minutes in AWS and no time here."""
    granted = cluster.granted.get(admin, float("-inf"))
    if granted <= cluster.grew + NODE_GROUP_SECONDS:
        return 0.0
    return granted + LATE_SECONDS - time.monotonic()
