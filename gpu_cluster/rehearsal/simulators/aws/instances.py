"""Instance types as EC2 describes them, the zones that have them, and the vCPU quotas.

Types and zones come from moto's copy of EC2's own responses (5.2.5 describes P6-B300 and G7, but no
P3), never from the program's catalog: types that only the catalog has are refused, as in AWS.
"""

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any, Literal

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.catalog.eks import InstanceType
from gpu_cluster.components.catalog.eks_instances import Quota
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, rule
from gpu_cluster.rehearsal.simulators.aws.eks import NOT_RUNNING, running, subnets, warm_running
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid
from gpu_cluster.rehearsal.simulators.cloud import exhausted
from gpu_cluster.rehearsal.simulators.stock import Stock

DEFAULT_VCPUS = 2048
"""The limit of every quota that `Faults.quota` does not set. New accounts often have 0 for GPUs."""
_ULTRA_SERVERS = ("p6e-gb200.36xlarge", "p6e-gb300.36xlarge")
"""EC2 has them only in Capacity Blocks of a Local Zone, which moto's copy omits."""


def instance(account: Account, name: str) -> InstanceType:
    """The instance type; raises Refusal with EKS's message if EC2 does not have it."""
    # moto's API returns the same rows, but needs one request for each.
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    priced = catalog.instance_type(name)
    if name in _ULTRA_SERVERS and priced:
        return priced
    row = INSTANCE_TYPES.get(name)
    if row is None:
        raise invalid(
            f"The following supplied instance types do not exist: [{name}]",
        )
    gpus = row.get("GpuInfo", {}).get("Gpus", [])
    vendor = gpus[0]["Manufacturer"] if gpus else None
    network = row["NetworkInfo"]
    card = network["NetworkCards"][network.get("DefaultNetworkCardIndex", 0)]
    return InstanceType(
        name=name,
        gpus=sum(gpu["Count"] for gpu in gpus),
        gpu_model=gpus[0]["Name"] if gpus else None,
        gpu_memory_mib=gpus[0].get("MemoryInfo", {}).get("SizeInMiB") if gpus else None,
        vendor=vendor if vendor in ("NVIDIA", "AMD") else None,
        vcpu=row["VCpuInfo"]["DefaultVCpus"],
        memory_gib=row["MemoryInfo"]["SizeInMiB"] / 1024,
        interfaces=(card["MaximumNetworkInterfaces"], network["Ipv4AddressesPerInterface"]),
        arch="arm64" if "arm64" in row["ProcessorInfo"]["SupportedArchitectures"] else "amd64",
        on_demand=priced.on_demand if priced else None,
        quota=_quota(name),
        local_nvme_gb=row.get("InstanceStorageInfo", {}).get("TotalSizeInGB"),
        source="moto",
    )


@rule("ec2", "DescribeInstances")
def check_instances(account: Account, params: Params) -> None:
    """Describes an instance once, however often it is named: Karpenter's batches name one for each
    of its callers (karpenter-provider-aws 1.15.0, pkg/batcher/describeinstances.go), on which moto
    5.2.5 fails."""
    named = account.asking.response.params
    if ids := named.get("InstanceIds"):
        named["InstanceIds"] = list(dict.fromkeys(ids))


def check_offers(account: Account, types: Sequence[str], ids: Sequence[str]) -> None:
    """Raises Refusal, with EKS's message, if a subnet's zone lacks one of the types."""
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    wanted = {subnet.availability_zone for subnet in subnets(account, ids)}
    offered = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(account.region, [])
    for name in types:
        if name in _ULTRA_SERVERS:
            continue  # A Capacity Block determines its zone itself.
        has = sorted(row["Location"] for row in offered if row["InstanceType"] == name)
        if lacking := sorted(wanted - set(has)):
            raise Refusal(
                "InvalidRequestException",
                f"Your requested instance type ({name}) is not supported in your requested "
                f"Availability Zone ({', '.join(lacking)}). Please retry your request by not "
                "specifying an Availability Zone or choosing "
                f"{', '.join(has) or 'another instance type'}.",
            )


def is_offered(account: Account, name: str, zone: str) -> bool:
    """Whether a zone offers the instance type."""
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    offered = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(account.region, [])
    return name in _ULTRA_SERVERS or any(
        row["InstanceType"] == name and row["Location"] == zone for row in offered
    )


def bought_as(made: Any) -> str:
    """How an instance was bought, as a `capacityType`."""
    market: str | None = getattr(made, "instance_lifecycle", None)
    reserved = getattr(made, "capacity_reservation_id", None)
    return market or ("reservation" if reserved else "on-demand")


def sold_out(account: Account, name: str, zone: str, market: str, wanted: int = 1) -> bool:
    """Whether EC2 refuses `wanted` more instances; `market`: `on-demand` or `spot`."""
    short = short_of(account, name, zone, market, wanted)
    if isinstance(short, Stock):
        account.stock.refused(short)
    return bool(short)


def short_of(
    account: Account, name: str, zone: str, market: str, wanted: int
) -> Stock | Literal[True] | None:
    """The row with too few machines; True if `faults` has none; None if there are enough."""
    if exhausted(account.faults, name, zone, market):
        return True
    for row in account.stock:
        if row.machine_type != name or row.zone not in ("", zone):
            continue
        if row.capacity_type not in ("", market):
            continue
        used = sum(
            machine.instance_type == name
            and machine.state not in NOT_RUNNING
            and row.zone in ("", machine.availability_zone)
            and row.capacity_type in ("", bought_as(machine))
            for machine in account.backend("ec2").all_instances()
        )
        if used + wanted > row.nodes:
            return row
    return None


def why_no_addresses(account: Account, ids: Sequence[str], name: str, more: int) -> str:
    """EC2's message if the subnets have no addresses for `more` nodes of type `name`; empty if they
    have. By default the vpc-cni keeps at least all addresses of a node's first interface
    (aws/amazon-vpc-cni-k8s, docs/eni-and-ip-target.md); AWS reserves five in each subnet."""
    nodes = [
        instance(account, machine.instance_type)
        for machine in account.backend("ec2").all_instances()
        if machine.subnet_id in ids and machine.state not in NOT_RUNNING
    ]
    new = instance(account, name)
    sizes = [
        1 if _few_addresses(account) or row.interfaces is None else row.interfaces[1]
        for row in (new, *nodes)
    ]
    each_has, used = sizes[0], sum(sizes[1:])
    blocks = [IPv4Network(subnet.cidr_block) for subnet in subnets(account, ids)]
    if more < 1 or used + (more - 1) * each_has < sum(block.num_addresses - 5 for block in blocks):
        return ""
    return (
        f"There are not enough free addresses in subnet '{ids[0]}' to satisfy the requested "
        "number of instances."
    )


def _few_addresses(account: Account) -> bool:
    """Whether a cluster's pods have IPv6 addresses, or its vpc-cni is told how many to keep."""
    return any(
        (cluster.row.get("kubernetesNetworkConfig") or {}).get("ipFamily") == "ipv6"
        or "_IP_TARGET" in ((cluster.addons.get("vpc-cni") or {}).get("configurationValues") or "")
        for cluster in account.clusters.values()
    )


def no_capacity(name: str, zone: str, market: str) -> str:
    """EC2's message for a lack of capacity."""
    if market == "spot":
        return "There is no Spot capacity available that matches your request."
    return (
        f"We currently do not have sufficient {name} capacity in the Availability Zone you "
        f"requested ({zone}). Our system will be working on provisioning additional capacity."
    )


def used_vcpus(account: Account, quota: str) -> int:
    """The vCPUs of the running instances that count against a quota, by its key."""
    used = 0
    for machine in account.backend("ec2").all_instances():
        market = getattr(machine, "instance_lifecycle", None)
        if machine.state in NOT_RUNNING or market == "capacity-block":
            continue
        row = instance(account, machine.instance_type)
        if quota_name(row, spot=market == "spot") == quota:
            used += row.vcpu
    return used


def _quota(name: str) -> Quota:
    family = name.partition(".")[0]
    if family.startswith("p"):
        return "P"
    return "G_VT" if family.startswith(("g", "vt")) else "standard"


def quota_name(row: InstanceType, *, spot: bool) -> str:
    """The key in `Faults.quota` for nodes of this type: `P`, `G_VT spot`, `standard`."""
    if not spot:
        return row.quota
    return f"{catalog.quota_group(row.name, spot=True) or row.quota} spot"


def vcpu_limit(account: Account, quota: str) -> int:
    """The vCPUs of a quota, by its key in `Faults.quota`."""
    if quota in account.faults.quota or not account.quota_suffices:
        return account.faults.quota.get(quota, DEFAULT_VCPUS)
    rows = [group.row for group in account.groups.values()]
    types = [(instance(account, row["instanceTypes"][0]), row) for row in rows]
    most = sum(
        of.vcpu * int(row["scalingConfig"]["maxSize"])
        for of, row in types
        if quota_name(of, spot=row["capacityType"] == "SPOT") == quota
    )
    return max(DEFAULT_VCPUS, most)


def why_no_quota(account: Account, group: str, types: Sequence[str], spot: bool, nodes: int) -> str:
    """Why `nodes` nodes of this node group exceed a vCPU quota; empty if they do not."""
    row = instance(account, types[0])
    name, used = quota_name(row, spot=spot), 0
    for other, item in account.groups.items():
        # Capacity Blocks have their own quota.
        if other != group and item.row["capacityType"] != "CAPACITY_BLOCK":
            theirs = instance(account, item.row["instanceTypes"][0])
            if quota_name(theirs, spot=item.row["capacityType"] == "SPOT") == name:
                used += theirs.vcpu * len([*running(account, item), *warm_running(account, item)])
    if account.quota_suffices and name not in account.faults.quota:
        return ""
    limit = vcpu_limit(account, name)
    if used + nodes * row.vcpu <= limit:
        return ""
    words = "Could not launch Spot Instances. MaxSpotInstanceCountExceeded" if spot else (
        "Could not launch On-Demand Instances. VcpuLimitExceeded"
    )  # fmt: skip
    return (
        f"{words} - You have requested more vCPU capacity than your current vCPU limit of {limit} "
        f"allows for the instance bucket that the specified instance type belongs to: {nodes} of "
        f"{row.name} need {nodes * row.vcpu}, {used} are in use (quota {name}, "
        f"{catalog.quota_code(row.name, spot=spot) or 'in vCPUs'})"
    )
