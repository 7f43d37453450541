"""Lists an account's resources of the types that moto itself has, and of EKS. A module that adds a
type to moto also lists it."""

from collections.abc import Iterator
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import listed

_GONE = ("deleting", "deleted", "Deleted")
"""EC2 lists deleted NAT gateways and endpoints for a while, moto forever."""


def _of_auto_mode(account: Account) -> set[str]:
    """The roles of Auto Mode's built-in node pools, for which EKS itself creates what it needs, and
    removes it with the cluster."""
    rows = [cluster.row for cluster in account.clusters.values() if cluster.automatic]
    return {row["computeConfig"].get("nodeRoleArn") for row in rows} - {None}


@listed
def _services(account: Account) -> Iterator[str]:
    iam, kms, logs = (account.client(name) for name in ("iam", "kms", "logs"))
    for role in iam.list_roles()["Roles"]:
        if not role["Path"].startswith("/aws-service-role/"):
            yield f"role {role['RoleName']}"
    for policy in iam.list_policies(Scope="Local")["Policies"]:
        yield f"policy {policy['Arn']}"
    for profile in iam.list_instance_profiles()["InstanceProfiles"]:
        if {role["Arn"] for role in profile["Roles"]} & _of_auto_mode(account):
            continue
        yield f"instance profile {profile['InstanceProfileName']}"
    for provider in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]:
        yield f"OIDC provider {provider['Arn']}"
    # AWS creates its own keys, such as EBS's, when they first encrypt something.
    aliases = kms.list_aliases()["Aliases"]
    going = {
        alias["TargetKeyId"]
        for alias in aliases
        if alias["AliasName"].startswith("alias/aws/") and "TargetKeyId" in alias
    }
    for row in kms.list_keys()["Keys"]:
        key = kms.describe_key(KeyId=row["KeyId"])["KeyMetadata"]
        if key["KeyState"] == "PendingDeletion":
            going.add(row["KeyId"])
        elif key["KeyManager"] == "CUSTOMER" and row["KeyId"] not in going:
            yield f"key {row['KeyId']}"
    for alias in aliases:
        if (
            not alias["AliasName"].startswith("alias/aws/")
            and alias.get("TargetKeyId") not in going
        ):
            yield f"alias {alias['AliasName']}"
    for group in logs.describe_log_groups()["logGroups"]:
        yield f"log group {group['logGroupName']}"


@listed
def _events(account: Account) -> Iterator[str]:
    for queue in account.backend("sqs").queues.values():
        yield f"queue {queue.name}"
    for bus in account.backend("events").event_buses.values():
        for rule in bus.rules.values():
            yield f"event rule {rule.name}"


@listed
def _network(account: Account) -> Iterator[str]:
    ec2 = account.client("ec2")
    usual = {vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"] if vpc["IsDefault"]}

    def rows(call: str, key: str) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = getattr(ec2, call)()[key]
        return [
            row for row in answer if row.get("VpcId") not in usual and row.get("State") not in _GONE
        ]

    for vpc in rows("describe_vpcs", "Vpcs"):
        yield f"VPC {vpc['VpcId']}"
    for subnet in rows("describe_subnets", "Subnets"):
        yield f"subnet {subnet['SubnetId']}"
    for table in rows("describe_route_tables", "RouteTables"):
        if not any(association.get("Main") for association in table["Associations"]):
            yield f"route table {table['RouteTableId']}"
    for gateway in ec2.describe_internet_gateways()["InternetGateways"]:
        if not any(attachment["VpcId"] in usual for attachment in gateway["Attachments"]):
            yield f"internet gateway {gateway['InternetGatewayId']}"
    for gateway in rows("describe_nat_gateways", "NatGateways"):
        yield f"NAT gateway {gateway['NatGatewayId']}"
    for address in ec2.describe_addresses()["Addresses"]:
        yield f"elastic IP {address['AllocationId']}"
    for endpoint in rows("describe_vpc_endpoints", "VpcEndpoints"):
        yield f"VPC endpoint {endpoint['VpcEndpointId']}"
    for group in rows("describe_security_groups", "SecurityGroups"):
        if group["GroupName"] != "default":
            yield f"security group {group['GroupId']} ({group['GroupName']})"
    for interface in rows("describe_network_interfaces", "NetworkInterfaces"):
        yield f"network interface {interface['NetworkInterfaceId']} ({interface['Description']})"
    for template in ec2.describe_launch_templates()["LaunchTemplates"]:
        tags = {tag["Key"]: tag["Value"] for tag in template.get("Tags") or []}
        if tags.get("karpenter.k8s.aws/ec2nodeclass") == "default" and _of_auto_mode(account):
            continue
        yield f"launch template {template['LaunchTemplateName']}"
    for volume in ec2.describe_volumes()["Volumes"]:
        tags = {tag["Key"]: tag["Value"] for tag in volume.get("Tags") or []}
        if claim := tags.get("kubernetes.io/created-for/pvc/name"):
            yield f"EBS volume {volume['VolumeId']} (of the claim {claim})"
        elif name := tags.get("Name") if "ebs.csi.aws.com/cluster" in tags else None:
            yield f"EBS volume {volume['VolumeId']} ({name})"
    for reservation in ec2.describe_instances()["Reservations"]:
        for instance in reservation["Instances"]:
            if instance["State"]["Name"] != "terminated":
                yield f"instance {instance['InstanceId']}"


_TAGGED = frozenset(
    (
        "vpc", "subnet", "route-table", "internet-gateway", "natgateway", "vpc-elastic-ip",
        "vpc-endpoint", "security-group", "security-group-rule", "network-interface",
        "launch-template", "volume", "instance", "spot-instances-request", "network-acl",
        "dhcp-options", "snapshot", "image", "capacity-reservation", "fleet",
    )
)  # fmt: skip
"""EC2's resource types that other functions list, or that AWS itself creates."""


@listed
def _other_tagged(account: Account) -> Iterator[str]:
    """The stack's tagged EC2 resources that no other function lists, so that a new type needs no
    line here. moto keeps the tags of many deleted resources."""
    tags = account.client("ec2").describe_tags()["Tags"]
    found = {(tag["ResourceType"], tag["ResourceId"]) for tag in tags}
    for kind, name in sorted(found):
        if kind not in _TAGGED and name not in account.deleted:
            yield f"{kind} {name}"


@listed
def _eks(account: Account) -> Iterator[str]:
    for name in account.backend("autoscaling").autoscaling_groups:
        yield f"Auto Scaling group {name}"
    for name, cluster in account.clusters.items():
        yield f"cluster {name}"
        yield from (f"node group {name}:{group}" for group in cluster.groups)
        yield from (
            f"pod identity association {name}:{row['namespace']}/{row['serviceAccount']}"
            for row in cluster.associations.values()
        )
        for (words, _), rows in list(cluster.tagged.items()):
            yield from (f"{words} {name}:{row}" for row in rows)
