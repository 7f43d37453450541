"""The resources that EKS's controllers create for Services and PersistentVolumeClaims.

According to kubernetes/cloud-provider-aws, a load balancer is named `a` plus the Service's UID
without hyphens; it has network interfaces in the cluster's subnets and a security group named
`k8s-elb-` plus that name. The EBS CSI driver, an addon, tags a volume with its claim; it runs as
pods in the cluster, and detaches and deletes nothing without nodes or permissions for them.
"""

import time
from collections.abc import Sequence
from typing import Any

import botocore.exceptions

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.addons import may_attach, why_degraded, works
from gpu_cluster.rehearsal.simulators.aws.eks import subnets
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster
from gpu_cluster.rehearsal.simulators.cloud import Mount, Wanted

Parts = dict[str, list[tuple[str, str]]]
"""A UID -> the resources created for it, each with its type."""
DRIVER = "ebs.csi.aws.com"
AUTO_MODE_DRIVER = "ebs.csi.eks.amazonaws.com"
DRIVERS = (DRIVER, AUTO_MODE_DRIVER)
"""EBS CSI drivers: the addon's, and the one that EKS Auto Mode runs outside of the cluster, with
the cluster's role and for its own nodes only (docs.aws.amazon.com/eks/latest/userguide/
create-storage-class.html, read 2026-11-28)."""
_ZONE = "topology.kubernetes.io/zone"
_AUTO_MODE_TAG = "eks:eks-cluster-name"
"""Tag that a volume needs: AmazonEKSBlockStoragePolicy allows no other."""
_ADDON = "aws-ebs-csi-driver"
_CLASS_DRIVERS = (DRIVER, "kubernetes.io/aws-ebs")
"""Provisioners of StorageClasses that the driver serves; the second is translated to the first."""
RELEASE_SECONDS = 10.0
"""The least time from a claim's deletion to its volume's. The disk of a pod that has just ended is
still attached; the provisioner retries after 1, 2, 4 and more seconds."""


def attach(
    account: Account, parts: Parts, wanted: Sequence[Wanted], released: dict[str, float]
) -> dict[str, str]:
    """Creates and deletes resources; returns UID -> a host name or a volume's handle, including
    volumes still to be deleted. `released`: UID of such a volume -> when its claim was deleted."""
    ec2 = account.client("ec2")
    clusters = list(account.clusters)
    if not clusters:
        return {}
    subnet = account.clusters[clusters[0]].row["resourcesVpcConfig"]["subnetIds"][0]
    # Such a cluster has no controller for an Ingress or a Gateway.
    wanted = [request for request in wanted if request.kind in ("load balancer", "disk")]
    cluster = account.clusters[clusters[0]]
    drives = {DRIVER: works(account, cluster, _ADDON), AUTO_MODE_DRIVER: cluster.automatic}
    for uid in [uid for uid in parts if uid not in {need.uid for need in wanted}]:
        if parts[uid][0][0] == "volume":
            due = released.setdefault(uid, time.monotonic()) + RELEASE_SECONDS
            if not any(drives.values()) or time.monotonic() < due:
                continue
        for kind, identity in parts.pop(uid):
            _remove(ec2, kind, identity)
    for item in wanted:
        released.pop(item.uid, None)
        if item.uid not in parts and item.kind != "disk":
            parts[item.uid] = _make(ec2, clusters[0], subnet, item)
        elif item.uid not in parts and drives.get(_driver(item)):
            parts[item.uid] = _make(ec2, clusters[0], _subnet_of(account, item) or subnet, item)
    return {uid: f"{DRIVER}:{parts[uid][0][1]}" for uid in released if uid in parts} | {
        need.uid: f"{_driver(need)}:{parts[need.uid][0][1]}"
        if need.kind == "disk"
        else f"{_name(need)}.{account.region}.elb.amazonaws.com"
        for need in wanted
        if need.uid in parts
    }


def _driver(request: Wanted) -> str:
    return DRIVER if request.driver in _CLASS_DRIVERS else request.driver


def disk_zone(account: Account, handle: str) -> str:
    """The zone of a volume; empty if it does not exist."""
    try:
        (volume,) = account.client("ec2").describe_volumes(VolumeIds=[handle])["Volumes"]
    except botocore.exceptions.ClientError:
        return ""
    return str(volume["AvailabilityZone"])


def _why_not_of_auto_mode(cluster: Cluster, volume: Any, mount: Mount) -> str:
    """Why Auto Mode's driver does not attach a volume to a node; empty if it does."""
    if mount.node_labels.get("eks.amazonaws.com/compute-type") != "auto":
        return "the driver serves nodes of EKS Auto Mode only"
    name = cluster.row["name"]
    # The cluster's role may attach any volume, by AmazonEKSClusterPolicy. Whether the driver uses
    # that is not documented, so a volume that it may not attach by its own policy is refused.
    if {"Key": _AUTO_MODE_TAG, "Value": name} in (volume.get("Tags") or []):
        return ""
    return (
        "UnauthorizedOperation: You are not authorized to perform: ec2:AttachVolume on a volume "
        f"that needs the tag {_AUTO_MODE_TAG}={name}"
    )


def _subnet_of(account: Account, request: Wanted) -> str | None:
    """The subnet of the nodes among which the scheduler chose one for the claim's pod."""
    named = sorted(account.groups, key=len, reverse=True)
    group = next((name for name in named if request.node.startswith(name)), None)
    return str(account.groups[group].row["subnets"][0]) if group else None


def why_not_mounted(account: Account, cluster: Cluster, mount: Mount) -> str:
    """Why the driver attaches no disk to the pod's node, or the container cannot write to it; empty
    if it works. The messages are EC2's refusals: its error codes, and kubernetes-sigs/
    aws-ebs-csi-driver issues 1302 and 2211."""
    failed = f'AttachVolume.Attach failed for volume "{mount.volume}" : rpc error: code = '
    automatic = mount.driver == AUTO_MODE_DRIVER
    if automatic and not cluster.automatic:
        return f"{failed}Internal desc = the cluster has no driver {mount.driver}"
    if not automatic and (degraded := why_degraded(account, cluster, _ADDON)):
        return f"{failed}Internal desc = the {_ADDON} addon does not work: {degraded}"
    try:
        (volume,) = account.client("ec2").describe_volumes(VolumeIds=[mount.handle])["Volumes"]
    except botocore.exceptions.ClientError:
        return (
            f"{failed}NotFound desc = InvalidVolume.NotFound: The volume '{mount.handle}' does not "
            "exist."
        )
    if automatic and (reason := _why_not_of_auto_mode(cluster, volume, mount)):
        return f"{failed}Internal desc = Could not attach volume {mount.handle!r}: {reason}"
    if not automatic and not may_attach(account, cluster, volume):
        return (
            f"{failed}Internal desc = Could not attach volume {mount.handle!r}: "
            "UnauthorizedOperation: You are not authorized to perform: ec2:AttachVolume on a "
            "volume with these tags"
        )
    zone, place = volume["AvailabilityZone"], mount.node_labels.get(_ZONE)
    if place and place != zone:
        return (
            f"{failed}Internal desc = Could not attach volume {mount.handle!r}: "
            f"InvalidVolume.ZoneMismatch: The volume is in {zone}, and the node in {place}"
        )
    group = account.groups.get(mount.node_labels.get("eks.amazonaws.com/nodegroup", ""))
    # The group's next node may start in any of its subnets, where the volume cannot follow.
    others = [subnet.availability_zone for subnet in subnets(account, group.row["subnets"])
              if subnet.availability_zone != zone] if group else []  # fmt: skip
    if others:
        return (
            f"{failed}Internal desc = Could not attach volume {mount.handle!r}: "
            f"InvalidVolume.ZoneMismatch: The volume is in {zone}, and nodes of the node group can "
            f"start in {', '.join(others)}"
        )
    if mount.writes and mount.user and mount.group is None:
        return (
            f"volume {mount.volume}: Permission denied: the file system is root's, the container "
            f"runs as user {mount.user}, and the pod has no fsGroup"
        )
    return ""


def _name(request: Wanted) -> str:
    return f"a{request.uid.replace('-', '')}"[:32]


def _make(ec2: Any, cluster: str, subnet: str, request: Wanted) -> list[tuple[str, str]]:
    place = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]
    if request.kind == "disk":
        automatic = request.driver == AUTO_MODE_DRIVER
        key, value = (_AUTO_MODE_TAG, cluster) if automatic else ("ebs.csi.aws.com/cluster", "true")
        tags = [
            {"Key": "kubernetes.io/created-for/pvc/name", "Value": request.name.partition("/")[2]},
            {"Key": key, "Value": value},
        ]
        volume = ec2.create_volume(
            AvailabilityZone=request.zone or place["AvailabilityZone"],
            Size=request.gib or 1,
            TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
        )
        return [("volume", volume["VolumeId"])]
    group = ec2.create_security_group(
        GroupName=f"k8s-elb-{_name(request)}",
        Description=f"Security group for Kubernetes ELB {_name(request)} ({request.name})",
        VpcId=place["VpcId"],
        TagSpecifications=[{
            "ResourceType": "security-group",
            "Tags": [{"Key": f"kubernetes.io/cluster/{cluster}", "Value": "owned"}],
        }],
    )["GroupId"]  # fmt: skip
    interface = ec2.create_network_interface(
        SubnetId=subnet, Groups=[group], Description=f"ELB {_name(request)}"
    )["NetworkInterface"]["NetworkInterfaceId"]
    return [("interface", interface), ("group", group)]


def _remove(ec2: Any, kind: str, identity: str) -> None:
    match kind:
        case "volume":
            ec2.delete_volume(VolumeId=identity)
        case "interface":
            ec2.delete_network_interface(NetworkInterfaceId=identity)
        case "group":
            ec2.delete_security_group(GroupId=identity)
