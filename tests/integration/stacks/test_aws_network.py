"""What is found of an existing VPC before the first update; moto's EC2 answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
import yaml
from botocore.stub import Stubber
from moto import mock_aws

from gpu_cluster.components.eks.network_args import EksNetworkArgs
from gpu_cluster.components.settings.load import from_config
from gpu_cluster.rehearsal.existing import inventory_eks
from gpu_cluster.rehearsal.simulators.aws.existing_network import lay_out
from gpu_cluster.rehearsal.simulators.inventory import network
from gpu_cluster.stacks.capacity.aws_network import network_findings
from tests.unit.components.test_settings import changed
from tests.unit.components.test_settings_eks import read

CLUSTER, POOL = "gpu-cluster:cluster", ["gpu-cluster:gpuPools", "train-gpu"]
BLOCK = "10.20.0.0/16"


@dataclass
class Vpc:
    """A VPC with private subnets in two zones, and a NAT gateway that both lead to."""

    ec2: Any
    vpc: str
    subnets: list[str]
    table: str

    def found(self, *subnets: str, changes: Any = ()) -> list[tuple[str, str]]:
        """Word and reason of each finding."""
        own = settings(subnets or self.subnets, *changes)
        return [(finding.word, finding.reason) for finding in network_findings(self.ec2, own)]

    def subnet(self, block: str, zone: str, vpc: str = "") -> str:
        made = self.ec2.create_subnet(
            VpcId=vpc or self.vpc, CidrBlock=block, AvailabilityZone=f"us-east-1{zone}"
        )["Subnet"]["SubnetId"]
        self.ec2.modify_subnet_attribute(SubnetId=made, MapPublicIpOnLaunch={"Value": False})
        if not vpc:
            self.ec2.associate_route_table(RouteTableId=self.table, SubnetId=made)
        return str(made)

    def leads_to(self, **target: str) -> None:
        """Another way out."""
        route = {"RouteTableId": self.table, "DestinationCidrBlock": "0.0.0.0/0"}
        self.ec2.delete_route(**route)
        if target:
            self.ec2.create_route(**route, **target)


def settings(subnets: Any, *changes: list[Any]) -> Any:
    """`train` in these subnets."""
    return read(["gpu-cluster:cluster", "network", {"subnetIds": list(subnets)}], *changes)


@pytest.fixture
def vpc() -> Iterator[Vpc]:
    with mock_aws():
        ec2 = boto3.client("ec2", region_name="us-east-1")
        name = ec2.create_vpc(CidrBlock=BLOCK)["Vpc"]["VpcId"]
        for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
            ec2.modify_vpc_attribute(VpcId=name, **{attribute: {"Value": True}})
        table = ec2.create_route_table(VpcId=name)["RouteTable"]["RouteTableId"]
        made = Vpc(ec2, name, [], table)
        made.subnets = [made.subnet("10.20.0.0/20", "a"), made.subnet("10.20.16.0/20", "b")]
        address = ec2.allocate_address(Domain="vpc")["AllocationId"]
        nat = ec2.create_nat_gateway(SubnetId=made.subnets[0], AllocationId=address)
        route = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0"}
        ec2.create_route(**route, NatGatewayId=nat["NatGateway"]["NatGatewayId"])
        yield made


def test_a_vpc_as_it_shall_be_has_no_finding(vpc: Vpc) -> None:
    """Two zones, DNS, a NAT gateway; of a VPC that the stack makes nothing is asked."""
    assert vpc.found() == []
    assert network_findings(None, read()) == []
    assert read().cluster.network != EksNetworkArgs(subnet_ids=vpc.subnets)


def test_a_subnet_that_is_not_there(vpc: Vpc) -> None:
    """It is named, and the others are asked about."""
    nowhere = "subnet-0123456789abcdef0"
    assert vpc.found(*vpc.subnets, nowhere) == [
        ("wrong", f"us-east-1 has no subnet {nowhere} that is visible to this account")
    ]
    second = nowhere.replace("0", "1")
    assert vpc.found(*vpc.subnets, nowhere, second) == [
        ("wrong", f"us-east-1 has no subnet {nowhere} or {second} that is visible to this account")
    ]


def test_subnets_of_one_zone_or_of_two_vpcs(vpc: Vpc) -> None:
    """EKS wants two zones of one VPC."""
    second = vpc.subnet("10.20.32.0/20", "a")
    assert vpc.found(vpc.subnets[0], second) == [
        ("wrong", "all are in us-east-1a; EKS needs at least two zones")
    ]
    other = vpc.ec2.create_vpc(CidrBlock="10.30.0.0/16")["Vpc"]["VpcId"]
    foreign = vpc.subnet("10.30.0.0/20", "b", other)
    (first, *_) = vpc.found(vpc.subnets[0], foreign)
    assert first == (
        "wrong",
        f"they are in {' and '.join(sorted([vpc.vpc, other]))}; name subnets of one VPC",
    )


def test_a_subnet_without_room_or_in_a_zone_without_control_planes(vpc: Vpc) -> None:
    """Addresses are counted as EC2 does; the zone is known by its ID, whatever its name."""
    small = vpc.subnet("10.20.48.0/28", "c")
    for number in range(6):
        vpc.ec2.create_network_interface(SubnetId=small, Description=str(number))
    zones = vpc.ec2.describe_availability_zones()["AvailabilityZones"]
    (excluded,) = [zone["ZoneName"] for zone in zones if zone["ZoneId"] == "use1-az3"]
    wrong = vpc.subnet("10.20.64.0/20", excluded[-1])
    assert vpc.found(*vpc.subnets, small, wrong) == [
        ("wrong", f"{small} has 5 free addresses; EKS needs 6 for the control plane"),
        ("wrong", f"{wrong} is in use1-az3, which cannot host an EKS control plane"),
    ]  # fmt: skip


@pytest.mark.parametrize("tag", ["eks:cluster-name", "eks:eks-cluster-name"])
def test_nodes_hold_more_addresses_than_one(vpc: Vpc, tag: str) -> None:
    """A g4dn.xlarge holds 15 for pods and one for each of two interfaces, and the three system
    nodes as many; what the cluster's nodes hold already is theirs."""
    small = [vpc.subnet("10.20.48.0/27", "a"), vpc.subnet("10.20.48.32/27", "b")]
    assert vpc.found(*small) == [
        ("wrong", f"{small[0]}, {small[1]} have 54 addresses for all pools, whose nodes reserve "
                  "68 at maxNodes (15 for pods on each node, and one for each interface); lower "
                  "maxNodes, or name larger subnets"),
    ]  # fmt: skip
    (tiny,) = [vpc.subnet("10.20.49.0/28", "b")]
    assert vpc.found(small[0], tiny)[0][1].startswith(
        f"{small[0]}, {tiny} have 38 addresses for systemPool, whose nodes reserve 51 at maxNodes"
    )
    vpc.ec2.run_instances(
        MinCount=1, MaxCount=1, ImageId="ami-12c6146b", InstanceType="m5.large",
        NetworkInterfaces=[
            {"DeviceIndex": 0, "SubnetId": small[0], "SecondaryPrivateIpAddressCount": 14}
        ],
        TagSpecifications=[{"ResourceType": "instance",
                            "Tags": [{"Key": tag, "Value": "k8s-ml"}]}],
    )  # fmt: skip
    assert [reason for _, reason in vpc.found(*small)] == [
        f"{small[0]}, {small[1]} have 54 addresses for all pools, whose nodes reserve 68 at "
        "maxNodes (15 for pods on each node, and one for each interface); lower maxNodes, or "
        "name larger subnets"
    ]


def test_each_node_group_of_an_order_holds_addresses(vpc: Vpc) -> None:
    """Each may have maxNodes nodes; a NodePool has them together. Auto Mode has no system pool.
    A warm instance that waits in addition to all nodes has one too."""
    small = [vpc.subnet("10.20.48.0/27", "a"), vpc.subnet("10.20.48.32/27", "b")]
    order = [*POOL, "fallback", ["spot", "on-demand"]]
    ((_, reason),) = vpc.found(*small, changes=[order])
    assert "whose nodes reserve 85 at maxNodes" in reason
    warm = [*POOL, "warmPool", {"maxGroupPreparedCapacity": 1, "minSize": 1}]
    ((_, reason),) = vpc.found(*small, changes=[warm])
    assert "whose nodes reserve 69 at maxNodes" in reason
    loaders = [CLUSTER, "cpuPools", {"loaders": {"instanceTypes": ["m7i.xlarge"], "maxNodes": 1}}]
    ((_, reason),) = vpc.found(*small, changes=[loaders])
    assert "whose nodes reserve 85 at maxNodes" in reason
    automatic = [[CLUSTER, "scaler", "auto-mode"], [CLUSTER, "autoscaler", "absent"], order]
    assert vpc.found(*small, changes=automatic) == []


def test_a_disk_is_in_the_zone_of_each_pool_that_mounts_it(vpc: Vpc) -> None:
    """A pool of one subnet passes the settings, which do not know that subnet's zone."""
    first, second = vpc.subnets

    def found(zone: str) -> list[tuple[str, str, str]]:
        whole = from_config(changed("train", [
            ["gpu-cluster:cluster", "network", {"subnetIds": vpc.subnets}],
            ["gpu-cluster:gpuPools", "train-gpu", "subnetIds", [second]],
            ["gpu-cluster:volumeClaims", {"a": {"size": "1Gi", "zone": zone}}],
            ["gpu-cluster:workloads", "sample-gpu-job", "volumes",
             {"a": {"mountPath": "/a", "claim": "a"}}],
        ]))  # fmt: skip
        return [
            (one.about, one.word, one.reason)
            for one in network_findings(vpc.ec2, whole.own, whole.mounted)
        ]

    assert found("us-east-1b") == []
    assert found("us-east-1a") == [
        ("volumeClaims.a", "wrong",
         f"its disk is in us-east-1a, and nodes of pool train-gpu start in {second} in us-east-1b, "
         "where they cannot attach it; set gpuPools.train-gpu.subnetIds to the subnet in "
         "us-east-1a, or volumeClaims.a.zone to us-east-1b"),
    ]  # fmt: skip
    assert first != second


def test_names_are_not_resolved(vpc: Vpc) -> None:
    """Both attributes are needed."""
    vpc.ec2.modify_vpc_attribute(VpcId=vpc.vpc, EnableDnsHostnames={"Value": False})
    assert vpc.found() == [
        (
            "wrong",
            f"{vpc.vpc} has enableDnsHostnames off, and nodes resolve the endpoint by its name",
        )
    ]


def test_ways_out(vpc: Vpc) -> None:
    """A NAT or transit gateway takes private addresses out, an internet gateway does not."""
    first = vpc.subnets[0]
    transit = vpc.ec2.create_transit_gateway()["TransitGateway"]["TransitGatewayId"]
    vpc.leads_to(TransitGatewayId=transit)
    assert vpc.found() == []
    vpc.leads_to()
    none = (
        f"{first} has no route to the internet: its route table {vpc.table} has no route to "
        "0.0.0.0/0"
    )
    assert vpc.found()[0] == ("wrong", f"{none}, so its nodes could not join")
    gateway = vpc.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    vpc.ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc.vpc)
    vpc.ec2.create_route(
        RouteTableId=vpc.table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway
    )
    assert vpc.found()[0] == (
        "wrong",
        f"{first} has no route to the internet: {vpc.table} leads to the internet gateway, but "
        "its nodes have no public addresses, so its nodes could not join",
    )
    for subnet in vpc.subnets:
        vpc.ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    assert vpc.found() == []


def test_endpoints_may_do_instead(vpc: Vpc) -> None:
    """Then nobody here knows."""
    vpc.leads_to()
    vpc.ec2.create_vpc_endpoint(
        VpcId=vpc.vpc,
        ServiceName="com.amazonaws.us-east-1.eks",
        VpcEndpointType="Interface",
        SubnetIds=vpc.subnets,
    )
    assert {word for word, _ in vpc.found()} == {"unknown"}


def test_aws_refuses(vpc: Vpc) -> None:
    """Whoever may not look gets one line."""
    with Stubber(vpc.ec2) as stub:
        stub.add_client_error("describe_subnets", "UnauthorizedOperation", "no")
        assert vpc.found() == [("unknown", "not allowed to look: UnauthorizedOperation no")]


def test_an_inventory_has_every_block_of_a_vpc(vpc: Vpc, tmp_path: Path) -> None:
    """Subnets of pods often are in a second one, and the simulated VPC has them."""
    vpc.ec2.associate_vpc_cidr_block(VpcId=vpc.vpc, CidrBlock="100.64.0.0/16")
    made = [vpc.subnets[0], vpc.subnet("100.64.0.0/24", "b")]
    own = from_config(changed("on-eks", [
        [CLUSTER, "network", "subnetIds", made], [*POOL, "subnetIds", None],
    ]))  # fmt: skip
    config = {"resourcesVpcConfig": {"vpcId": vpc.vpc, "subnetIds": made}}
    found = inventory_eks._network(vpc.ec2, config, own.own)
    assert found["vpc"] == [BLOCK, "100.64.0.0/16"]
    (tmp_path / "on-eks.yaml").write_text(yaml.safe_dump(found))
    network_, _ = network("on-eks", own, tmp_path)
    assert network_ is not None
    for subnet in made:
        vpc.ec2.delete_subnet(SubnetId=subnet)
    account: Any = SimpleNamespace(client=lambda _: vpc.ec2, region="us-east-1")
    lay_out(account, network_)
    again = vpc.ec2.describe_subnets(SubnetIds=made)["Subnets"]
    assert {one["CidrBlock"] for one in again} == {"10.20.0.0/20", "100.64.0.0/24"}
    assert vpc.vpc not in {one["VpcId"] for one in again}


def test_a_launch_template_says_the_type_of_a_node_group(vpc: Vpc) -> None:
    """EKS then lists no types of the group."""
    template = vpc.ec2.create_launch_template(
        LaunchTemplateName="a", LaunchTemplateData={"InstanceType": "c7i.large"}
    )["LaunchTemplate"]
    by = {"id": template["LaunchTemplateId"], "version": "1"}
    found = inventory_eks._type(vpc.ec2, {"launchTemplate": by, "instanceTypes": None})
    assert found == "c7i.large"
    assert inventory_eks._type(vpc.ec2, {"instanceTypes": ["m7i.large"]}) == "m7i.large"
