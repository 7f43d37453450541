"""EKS's rules for a new or changed cluster, with its messages."""

import datetime
import re
import time
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

from gpu_cluster.components.access.addresses import is_example
from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.eks import subnets
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster

_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
"""A cluster's authentication mode can only change from left to right."""


def check_name(name: str) -> None:
    """Raises Refusal for an invalid cluster name."""
    if not catalog.CLUSTER_NAME.fullmatch(name) or len(name) > catalog.CLUSTER_NAME_MAX:
        words = f"'name' ('{name}') must be 1 to 100 letters, digits, '-' and '_', no sign first"
        raise invalid(words)


def check_tags(tags: Mapping[str, str]) -> None:
    """Raises Refusal for tags that EKS does not accept (eks-using-tags.html)."""
    for key, value in tags.items():
        if not 1 <= len(key) <= 128 or len(value) > 256:
            raise invalid(f"the tag '{key}' is longer than 128 characters, or its value than 256")
        if any(text.lower().startswith("aws:") for text in (key, value)):
            raise invalid(f"the tag '{key}' or its value begins with aws:, which is AWS's")


def check_version(inputs: Mapping[str, Any]) -> None:
    """Raises Refusal for a Kubernetes version that EKS does not have, or not on these terms."""
    version = inputs.get("version")
    if version is None:
        return
    known = ", ".join(catalog.KUBERNETES_VERSIONS)
    if version not in catalog.KUBERNETES_VERSIONS:
        raise invalid(f"unsupported Kubernetes version {version}: EKS has {known}")
    support = catalog.support(version, datetime.date.today())
    policy = (inputs.get("upgradePolicy") or {}).get("supportType", "EXTENDED")
    if support == "ended" or (support == "extended" and policy == "STANDARD"):
        words = "has ended" if support == "ended" else "is extended, supportType is STANDARD"
        raise invalid(f"unsupported Kubernetes version {version}: its support {words}")


ROLLBACK_SECONDS = 7 * 24 * 3600.0
"""How long EKS can return a control plane to the version before its last upgrade."""


def check_update(cluster: Cluster, version: str) -> None:
    """Raises Refusal for a version that the cluster cannot be updated to: neither the next one nor,
    for seven days, the one before the last upgrade
    (https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html)."""
    row = cluster.row
    check_version({**row, "version": version})
    if rolls_back(cluster, version):
        return
    before = minor(row["version"])
    if minor(version) != (before[0], before[1] + 1):
        raise invalid(
            f"Unsupported Kubernetes minor version update from {row['version']} to {version}"
        )


def rolls_back(cluster: Cluster, version: str) -> bool:
    """Whether the version is the one before an upgrade of the last seven days."""
    before, when = cluster.upgraded
    return version == before and time.monotonic() - when < ROLLBACK_SECONDS


def check_mode(was: str, becomes: str) -> None:
    """Raises Refusal for an authentication mode that the cluster cannot change to."""
    if _MODES.index(becomes) < _MODES.index(was):
        raise invalid(f"Unsupported authentication mode update from {was} to {becomes}")


def check_groups(cluster: Cluster, target: str) -> None:
    """Raises Refusal for a new version while a node group does not have the cluster's current
    version: "all of your node groups' Kubernetes versions must match"
    (API_UpdateClusterVersion). Before a rollback, they must have the version before."""
    version = target if rolls_back(cluster, target) else cluster.row["version"]
    behind = [
        f"{name} ({group.row['version']})"
        for name, group in cluster.groups.items()
        if group.row["version"] != version
    ]
    if behind:
        raise Refusal(
            "InvalidRequestException",
            f"Nodegroups {', '.join(behind)} must be updated to match the cluster's Kubernetes "
            f"version {version} before the cluster is updated",
        )


def check_network(account: Account, name: str, config: Mapping[str, Any]) -> str:
    """The VPC of the subnets; raises Refusal if EKS could not put a control plane in them."""
    found = subnets(account, config["subnetIds"])
    vpcs = {subnet.vpc_id for subnet in found}
    if len(vpcs) > 1:
        raise invalid(f"Subnets specified must be in the same VPC, got {', '.join(sorted(vpcs))}")
    if len({subnet.availability_zone for subnet in found}) < catalog.MIN_SUBNETS:
        raise invalid("Subnets specified must be in at least two different AZs")
    excluded = catalog.CONTROL_PLANE_EXCLUDED_ZONES.get(account.region)
    for subnet in found:
        if subnet.availability_zone_id == excluded:
            zones = account.client("ec2").describe_availability_zones()["AvailabilityZones"]
            good = [zone["ZoneName"] for zone in zones if zone["ZoneId"] != excluded]
            raise Refusal(
                "UnsupportedAvailabilityZoneException",
                f"Cannot create cluster '{name}' because {subnet.availability_zone}, the targeted "
                "availability zone, does not currently have sufficient capacity to support the "
                f"cluster. Retry and choose from these availability zones: {', '.join(good)}",
            )
    if not (config.get("endpointPublicAccess", True) or config.get("endpointPrivateAccess")):
        raise invalid("Private and public endpoint access cannot be false")
    for group in config.get("securityGroupIds") or []:
        if account.backend("ec2").get_security_group_from_id(group) is None:
            raise invalid(f"The security group '{group}' does not exist")
    return str(vpcs.pop())


def check_zones(account: Account, current: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises Refusal for subnets in zones other than the control plane's: it may get more or
    different subnets there, but the set of zones must stay the same."""
    rows = subnets(account, sorted({*current, *wanted}))
    zone = {row.id: row.availability_zone for row in rows}
    first, other = (sorted({zone[subnet] for subnet in subnets}) for subnets in (current, wanted))
    if first != other:
        raise invalid(
            f"Provided subnets belong to the AZs '{','.join(other)}'. "
            f"But they should belong to the exact set of AZs '{','.join(first)}' in which subnets "
            "were provided during cluster creation."
        )


def check_public_networks(config: Mapping[str, Any]) -> None:
    """Raises Refusal for networks from which no request can ever reach a public endpoint."""
    given = {text: _network(text) for text in config.get("publicAccessCidrs") or []}
    if len(given) > 40:  # Quota L-93A74D60.
        raise invalid(f"publicAccessCidrs has {len(given)} CIDRs; the maximum is 40")
    broken = [text for text, block in given.items() if block is None]
    private = [text for text, block in given.items() if block and not _is_public(block)]
    for words, found in (("invalid", broken), ("not allowed", private)):
        if found:
            raise invalid(
                f"The following CIDRs are {words} in publicAccessCidrs: [{', '.join(found)}]"
            )


def _network(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def _is_public(block: IPv4Network) -> bool:
    # EKS also refuses documentation addresses. In a rehearsal they stand for real ones.
    return (block.is_global and not block.is_multicast) or is_example(block)


def check_key(account: Account, config: Mapping[str, Any]) -> None:
    """Raises Refusal if the key cannot be used for the cluster's secrets."""
    key = config["provider"]["keyArn"]
    state = account.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"]
    if state != "Enabled":
        raise invalid(f"the KMS key {key} is {state}")


def minor(version: str) -> tuple[int, int]:
    """`1.35` as a pair of numbers, for comparisons."""
    match = re.fullmatch(r"([0-9]+)\.([0-9]+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
