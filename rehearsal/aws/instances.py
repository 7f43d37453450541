"""Instance types: the catalog's, and for those without GPUs whatever EC2's API knows of them."""

from collections.abc import Mapping, Sequence

from components.catalog import eks as catalog
from components.catalog.eks import InstanceType
from components.catalog.eks_instances import Quota
from rehearsal.aws.account import Account, answering
from rehearsal.provider.handler import CloudError

DEFAULT_VCPUS = 2048
"""Of every quota that `Faults.quota` does not set. New accounts often have 0 for GPUs."""
_ARCH = {"x86_64": "amd64", "arm64": "arm64"}


def instance(account: Account, name: str) -> InstanceType:
    """The instance type; raises CloudError in EKS's words where there is none."""
    if known := catalog.instance_type(name):
        return known
    try:
        with answering():
            answer = account.client("ec2").describe_instance_types(InstanceTypes=[name])
    except CloudError:
        raise CloudError(
            "InvalidParameterException: The following supplied instance types do not exist: "
            f"[{name}]"
        ) from None
    row = answer["InstanceTypes"][0]
    gpus = row.get("GpuInfo", {}).get("Gpus", [])
    vendor = gpus[0]["Manufacturer"] if gpus else None
    return InstanceType(
        name=name,
        gpus=sum(each["Count"] for each in gpus),
        gpu_model=gpus[0]["Name"] if gpus else None,
        gpu_memory_mib=gpus[0].get("MemoryInfo", {}).get("SizeInMiB") if gpus else None,
        vendor=vendor if vendor in ("NVIDIA", "AMD") else None,
        vcpu=row["VCpuInfo"]["DefaultVCpus"],
        memory_gib=row["MemoryInfo"]["SizeInMiB"] / 1024,
        arch="arm64" if "arm64" in row["ProcessorInfo"]["SupportedArchitectures"] else "amd64",
        on_demand=None,
        quota=_quota(name),
        source="moto",
    )


def _quota(name: str) -> Quota:
    family = name.partition(".")[0]
    if family.startswith("p"):
        return "P"
    return "G_VT" if family.startswith(("g", "vt")) else "standard"


def quota_name(row: InstanceType, *, spot: bool) -> str:
    """The key of `Faults.quota` for nodes of this type: `P`, `G_VT spot`, `standard`."""
    return f"{row.quota} spot" if spot else row.quota


def check_quota(
    account: Account, quota: Mapping[str, int], group: str, types: Sequence[str], spot: bool,
    nodes: int,
) -> None:  # fmt: skip
    """Raises CloudError where `nodes` nodes of this group exceed the vCPUs of a quota."""
    row = instance(account, types[0])
    name = quota_name(row, spot=spot)
    used = 0
    for other, parts in account.groups.items():
        if other != group:
            theirs = instance(account, parts.inputs["instanceTypes"][0])
            if quota_name(theirs, spot=parts.inputs["capacityType"] == "SPOT") == name:
                used += theirs.vcpu * len(parts.interfaces)
    limit = quota.get(name, DEFAULT_VCPUS)
    if used + nodes * row.vcpu > limit:
        words = "Could not launch Spot Instances. MaxSpotInstanceCountExceeded" if spot else (
            "Could not launch On-Demand Instances. VcpuLimitExceeded"
        )  # fmt: skip
        raise CloudError(
            f"AsgInstanceLaunchFailures: {words} - You have requested more vCPU capacity than your "
            f"current vCPU limit of {limit} allows for the instance bucket that the specified "
            f"instance type belongs to: {nodes} of {row.name} need {nodes * row.vcpu}, {used} are "
            f"in use (quota {name}, {catalog.quota_code(row.name, spot=spot) or 'in vCPUs'})"
        )
