"""What EKS refuses of a cluster, new or changed, and in which words."""

import datetime
import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

from components.addresses import is_example
from components.catalog import eks as catalog
from plugins.cloud.handler import CloudError
from plugins.cloud.schema import UNKNOWN, Problem
from simulators.aws.account import Account

_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
"""A cluster's authentication mode moves to the right only."""


def name_problems(name: Any) -> list[Problem]:
    """What is wrong with a cluster's name, if it is known."""
    if not isinstance(name, str) or name == UNKNOWN:
        return []
    if catalog.CLUSTER_NAME.fullmatch(name) and len(name) <= catalog.CLUSTER_NAME_MAX:
        return []
    words = f"'name' ('{name}') must be 1 to 100 letters, digits, '-' and '_', no sign first"
    return [Problem("name", words)]


def check_version(inputs: Mapping[str, Any]) -> None:
    """Raises CloudError for a Kubernetes version that EKS does not have, or not on these terms."""
    version = inputs.get("version")
    if version is None:
        return
    known = ", ".join(catalog.KUBERNETES_VERSIONS)
    if version not in catalog.KUBERNETES_VERSIONS:
        raise CloudError(
            f"InvalidParameterException: unsupported Kubernetes version {version}: EKS has {known}"
        )
    support = catalog.support(version, datetime.date.today())
    policy = (inputs.get("upgradePolicy") or {}).get("supportType", "EXTENDED")
    if support == "ended" or (support == "extended" and policy == "STANDARD"):
        words = "has ended" if support == "ended" else "is extended, supportType is STANDARD"
        raise CloudError(
            f"InvalidParameterException: unsupported Kubernetes version {version}: its support "
            f"{words}"
        )


def check_update(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raises CloudError for a version or an authentication mode that cannot follow the old one."""
    if (before := old["version"]) != (after := new.get("version", old["version"])):
        check_version(new)
        if minor(after) != (minor(before)[0], minor(before)[1] + 1):
            raise CloudError(
                "InvalidParameterException: Unsupported Kubernetes minor version update from "
                f"{before} to {after}"
            )
    was, becomes = (
        (inputs.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
        for inputs in (old, new)
    )
    if _MODES.index(becomes) < _MODES.index(was):
        raise CloudError(
            f"InvalidParameterException: Unsupported authentication mode update from {was} to "
            f"{becomes}"
        )


def check_groups(
    account: Account, name: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    """Raises CloudError for a new version while a node group is not at the one that the cluster
    has: "all of your node groups' Kubernetes versions must match" (API_UpdateClusterVersion)."""
    version = old["version"]
    if new.get("version", version) == version:
        return
    behind = [
        f"{group} ({parts.inputs['version']})"
        for group, parts in account.groups.items()
        if parts.cluster == name and parts.inputs["version"] != version
    ]
    if behind:
        raise CloudError(
            f"InvalidRequestException: Nodegroups {', '.join(behind)} must be updated to match the "
            f"cluster's Kubernetes version {version} before the cluster is updated"
        )


def vpc_of(account: Account, name: str, config: Mapping[str, Any]) -> str:
    """The VPC of the subnets, in which EKS must be able to put a control plane."""
    ec2 = account.client("ec2")
    subnets = ec2.describe_subnets(SubnetIds=config["subnetIds"])["Subnets"]
    vpcs = {subnet["VpcId"] for subnet in subnets}
    if len(vpcs) > 1:
        raise CloudError(
            "InvalidParameterException: Subnets specified must be in the same VPC, got "
            f"{', '.join(sorted(vpcs))}"
        )
    zones = {subnet["AvailabilityZone"] for subnet in subnets}
    if len(zones) < catalog.MIN_SUBNETS:
        raise CloudError(
            "InvalidParameterException: Subnets specified must be in at least two different AZs"
        )
    excluded = catalog.CONTROL_PLANE_EXCLUDED_ZONES.get(account.region)
    for subnet in subnets:
        if subnet["AvailabilityZoneId"] == excluded:
            good = [
                zone["ZoneName"]
                for zone in ec2.describe_availability_zones()["AvailabilityZones"]
                if zone["ZoneId"] != excluded
            ]
            raise CloudError(
                f"UnsupportedAvailabilityZoneException: Cannot create cluster '{name}' because "
                f"{subnet['AvailabilityZone']}, the targeted availability zone, does not "
                "currently have sufficient capacity to support the cluster. Retry and choose "
                f"from these availability zones: {', '.join(good)}"
            )
    if not (config.get("endpointPublicAccess", True) or config.get("endpointPrivateAccess")):
        raise CloudError(
            "InvalidParameterException: Private and public endpoint access cannot be false"
        )
    if groups := config.get("securityGroupIds"):
        ec2.describe_security_groups(GroupIds=groups)
    return str(vpcs.pop())


def check_zones(account: Account, stands: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises CloudError for subnets in other zones than those in which the control plane stands:
    it may have more subnets there, or others, and never another zone or one zone less."""
    rows = account.client("ec2").describe_subnets(SubnetIds=sorted({*stands, *wanted}))["Subnets"]
    zone = {row["SubnetId"]: row["AvailabilityZone"] for row in rows}
    first, other = (sorted({zone[each] for each in subnets}) for subnets in (stands, wanted))
    if first != other:
        raise CloudError(
            f"InvalidParameterException: Provided subnets belong to the AZs '{','.join(other)}'. "
            f"But they should belong to the exact set of AZs '{','.join(first)}' in which subnets "
            "were provided during cluster creation."
        )


def check_public_networks(config: Mapping[str, Any]) -> None:
    """Raises CloudError for networks from which nothing ever comes to a public endpoint."""
    given = {text: _network(text) for text in config.get("publicAccessCidrs") or []}
    invalid = [text for text, block in given.items() if block is None]
    private = [text for text, block in given.items() if block and not _is_public(block)]
    for words, found in (("invalid", invalid), ("not allowed", private)):
        if found:
            raise CloudError(
                f"InvalidParameterException: The following CIDRs are {words} in "
                f"publicAccessCidrs: [{', '.join(found)}]"
            )


def _network(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def _is_public(block: IPv4Network) -> bool:
    # EKS refuses the addresses of documentation as well. In a rehearsal, where no traffic comes
    # from anywhere, they stand for real ones.
    return (block.is_global and not block.is_multicast) or is_example(block)


def check_key(account: Account, inputs: Mapping[str, Any]) -> None:
    """Raises CloudError where the key for the cluster's secrets is of no use."""
    if config := inputs.get("encryptionConfig"):
        key = config["provider"]["keyArn"]
        state = account.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"]
        if state != "Enabled":
            raise CloudError(f"InvalidParameterException: the KMS key {key} is {state}")


def minor(version: str) -> tuple[int, int]:
    """`1.35` as numbers, which can be compared."""
    match = re.fullmatch(r"([0-9]+)\.([0-9]+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
