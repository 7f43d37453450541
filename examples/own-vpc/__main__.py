"""A VPC of one's own, and an EKS cluster with two GPU pools in it."""

import pulumi
import pulumi_aws as aws

from gpu_cluster import (
    EksClusterArgs,
    EksGpuNodeGroupArgs,
    EksNetworkArgs,
    GpuStack,
    GpuStackArgs,
    WorkloadArgs,
)

config = pulumi.Config()
region = pulumi.Config("aws").require("region")


def subnet(name: str, zone: str, block: str) -> aws.ec2.Subnet:
    """A subnet of the VPC in a zone of the region."""
    return aws.ec2.Subnet(
        name, vpc_id=vpc.id, availability_zone=f"{region}{zone}", cidr_block=block
    )


vpc = aws.ec2.Vpc(
    "own", cidr_block="10.0.0.0/16", enable_dns_support=True, enable_dns_hostnames=True
)
gateway = aws.ec2.InternetGateway("own", vpc_id=vpc.id)
outside = subnet("public", "a", "10.0.255.0/24")
to_internet = aws.ec2.Route(
    "public",
    route_table_id=aws.ec2.RouteTable("public", vpc_id=vpc.id).id,
    destination_cidr_block="0.0.0.0/0",
    gateway_id=gateway.id,
)
public = aws.ec2.RouteTableAssociation(
    "public", subnet_id=outside.id, route_table_id=to_internet.route_table_id
)
address = aws.ec2.Eip("own", domain="vpc", opts=pulumi.ResourceOptions(depends_on=[gateway]))
nat = aws.ec2.NatGateway(
    "own",
    subnet_id=outside.id,
    allocation_id=address.id,
    opts=pulumi.ResourceOptions(depends_on=[public]),
)
way_out = aws.ec2.Route(
    "private",
    route_table_id=aws.ec2.RouteTable("private", vpc_id=vpc.id).id,
    destination_cidr_block="0.0.0.0/0",
    nat_gateway_id=nat.id,
)
# The associations' outputs, not the subnets' IDs: no node starts before it reaches the internet.
first, second = (
    aws.ec2.RouteTableAssociation(
        f"private-{zone}",
        subnet_id=subnet(f"private-{zone}", zone, block).id,
        route_table_id=way_out.route_table_id,
    ).subnet_id
    for zone, block in (("a", "10.0.0.0/18"), ("b", "10.0.64.0/18"))
)
stack = GpuStack(
    "gpus",
    GpuStackArgs(
        cluster=EksClusterArgs(
            name="own-vpc",
            network=EksNetworkArgs(subnet_ids=[first, second]),
            admins=[config.require("admin")],
            authorized_networks={"office": config.require("office")},
            deletion_protection=False,  # an environment to try things in
        ),
        gpu_pools={
            "train": EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"], subnet_ids=[first]),
            "serve": EksGpuNodeGroupArgs(instance_types=["g6.xlarge"], subnet_ids=[second]),
        },
        workloads={
            "vectoradd": WorkloadArgs(
                kind="job",
                pool="train",
                image="nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0",
            )
        },
    ),
)
pulumi.export("kubeconfig", stack.kubeconfig)
pulumi.export("gpuPools", stack.gpu_pools)
