"""What EKS' controllers make in an account for Services and PersistentVolumeClaims.

kubernetes/cloud-provider-aws: a load balancer is called `a` and the Service's uid without hyphens;
it has network interfaces in the cluster's subnets and a security group `k8s-elb-` and that. The EBS
CSI driver, an addon, tags a volume with its claim.
"""

from collections.abc import Sequence
from typing import Any

from simulators.aws.account import Account
from simulators.aws.addons import works
from simulators.cloud import Wanted

Parts = dict[str, list[tuple[str, str]]]
"""A uid -> what stands for it, each with what it is."""


def attach(account: Account, there: Parts, wanted: Sequence[Wanted]) -> dict[str, str]:
    """Makes and takes away; returns the uid -> a host name, or a volume's handle."""
    ec2 = account.client("ec2")
    clusters = list(account.clusters)
    if not clusters:
        return {}
    subnet = account.clusters[clusters[0]].row["resourcesVpcConfig"]["subnetIds"][0]
    # Nothing in such a cluster answers an Ingress or a Gateway.
    wanted = [one for one in wanted if one.kind in ("load balancer", "disk")]
    for uid in [uid for uid in there if uid not in {one.uid for one in wanted}]:
        for kind, identity in there.pop(uid):
            _remove(ec2, kind, identity)
    drives = works(account, account.clusters[clusters[0]], "aws-ebs-csi-driver")
    for one in wanted:
        if one.uid not in there and (drives or one.kind != "disk"):
            there[one.uid] = _make(ec2, clusters[0], subnet, one)
    return {
        one.uid: f"ebs.csi.aws.com:{there[one.uid][0][1]}"
        if one.kind == "disk"
        else f"{_name(one)}.{account.region}.elb.amazonaws.com"
        for one in wanted
        if one.uid in there
    }


def _name(one: Wanted) -> str:
    return f"a{one.uid.replace('-', '')}"[:32]


def _make(ec2: Any, cluster: str, subnet: str, one: Wanted) -> list[tuple[str, str]]:
    place = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]
    if one.kind == "disk":
        tags = [{"Key": "kubernetes.io/created-for/pvc/name", "Value": one.name.partition("/")[2]}]
        volume = ec2.create_volume(
            AvailabilityZone=place["AvailabilityZone"],
            Size=one.gib or 1,
            TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
        )
        return [("volume", volume["VolumeId"])]
    group = ec2.create_security_group(
        GroupName=f"k8s-elb-{_name(one)}",
        Description=f"Security group for Kubernetes ELB {_name(one)} ({one.name})",
        VpcId=place["VpcId"],
        TagSpecifications=[{
            "ResourceType": "security-group",
            "Tags": [{"Key": f"kubernetes.io/cluster/{cluster}", "Value": "owned"}],
        }],
    )["GroupId"]  # fmt: skip
    interface = ec2.create_network_interface(
        SubnetId=subnet, Groups=[group], Description=f"ELB {_name(one)}"
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
