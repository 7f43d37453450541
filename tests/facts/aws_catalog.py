"""The EKS catalog beside what others maintain: each comparison yields a line per difference."""

from collections.abc import Iterator
from typing import Any

import botocore.session

from gpu_cluster.components.catalog import eks
from gpu_cluster.components.catalog.eks_regions import regions_of
from gpu_cluster.components.eks import cluster_args, regions
from quality.clouds import aws_models
from tests.facts import aws_sources as aws


def eks_constants() -> Iterator[str]:
    """The EKS catalog's enums, patterns and limits, with botocore."""
    for ours, path, word in (
        (eks.CLUSTER_NAME.pattern, "CreateClusterRequest name", "pattern"),
        (eks.CLUSTER_NAME_MAX, "CreateClusterRequest name", "max"),
        (set(eks.CAPACITY_TYPES), "CreateNodegroupRequest capacityType", "enum"),
        (eks.TAINT_KEY_MAX, "Taint key", "max"),
        (eks.TAINT_VALUE_MAX, "Taint value", "max"),
    ):  # fmt: skip
        shape, _, member = path.partition(" ")
        found = aws_models.shape_at("eks", shape, member)
        assert found, path
        theirs = found[word]
        plain = theirs.lstrip("^") if word == "pattern" else theirs
        if ours != (set(plain) if word == "enum" else plain):
            yield f"{path} {word}: {_shown(ours)} here, botocore has {_shown(plain)}"
    for name, ours, word in (
        ("labelKey", eks.LABEL_KEY_MAX, "max"),
        ("labelValue", eks.LABEL_VALUE_MAX, "max"),
        ("labelValue", eks.LABEL_VALUE_MIN, "min"),
    ):
        if ours != (theirs := aws_models.shapes("eks")[name][word]):
            yield f"{name} {word}: {ours} here, botocore has {theirs}"
    images = set(aws_models.shapes("eks")["AMITypes"]["enum"])
    removed = {*eks.REMOVED_AMI_TYPES, *eks.REMOVED_AMI_TYPES.values()}
    for name in sorted(
        ({eks.ami_type(*key[:2], gpu=key[2]) for key in _IMAGES} | removed) - images
    ):
        yield f"amiType {name}: botocore has no such"


_IMAGES = [
    (os, arch, gpu)
    for os in ("al2023", "bottlerocket")
    for arch in ("amd64", "arm64")
    for gpu in (True, False)
]


def log_retention() -> Iterator[str]:
    """What `logRetentionDays` may be, with CloudFormation."""
    found = aws_models.schema_at("AWS::Logs::LogGroup", "retentionInDays")
    assert found
    for days in sorted(set(found["enum"]) ^ set(cluster_args.RETENTION_DAYS)):
        lacks = "CloudFormation lacks" if days in cluster_args.RETENTION_DAYS else "also"
        yield f"logRetentionDays: {lacks} {days}"


def instance_names() -> Iterator[str]:
    """The catalog's instance types, with EC2's enum and what DescribeInstanceTypes answers."""
    enum, described = set(aws_models.shapes("ec2")["InstanceType"]["enum"]), aws.instance_types()
    for name in (*eks.INSTANCE_TYPES, *eks.CPU_INSTANCE_TYPES):
        if name not in enum:
            yield f"{name}: EC2's enum has no such"
        if name not in described and (name in eks.CPU_INSTANCE_TYPES or not eks.refusal(name)):
            yield f"{name}: can be chosen, and DescribeInstanceTypes did not know it"
    for name, row in described.items():
        if "GpuInfo" in row and name not in eks.INSTANCE_TYPES:
            yield f"{name}: has GPUs, and the catalog does not know it"


def instance_shapes() -> Iterator[str]:
    """vCPUs, memory, GPUs, network and disks of every type, with DescribeInstanceTypes."""
    described = aws.instance_types()
    for name, row in {**eks.INSTANCE_TYPES, **eks.CPU_INSTANCE_TYPES}.items():
        if name not in described:
            continue
        theirs = described[name]
        gpus = theirs.get("GpuInfo", {}).get("Gpus", [])
        for what, ours, other in (
            ("vCPUs", row.vcpu, theirs["VCpuInfo"]["DefaultVCpus"]),
            ("GiB", row.memory_gib, theirs["MemoryInfo"]["SizeInMiB"] / 1024),
            ("GPUs", row.gpus, sum(gpu["Count"] for gpu in gpus)),
            ("GPU MiB", row.gpu_memory_mib, gpus[0]["MemoryInfo"]["SizeInMiB"] if gpus else None),
            ("GPU's maker", row.vendor, gpus[0]["Manufacturer"] if gpus else None),
            ("EFA", row.efa_interfaces,
             theirs["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)),
            ("EFA's cards", [*row.efa_cards],
             [card["NetworkCardIndex"] for card in theirs["NetworkInfo"]["NetworkCards"]
              if "efa-only" in card.get("InterfaceTypes", ())]),
            ("NVMe GB", row.local_nvme_gb,
             theirs.get("InstanceStorageInfo", {}).get("TotalSizeInGB")),
            ("arm64", row.arch == "arm64",
             "arm64" in theirs["ProcessorInfo"]["SupportedArchitectures"]),
        ):  # fmt: skip
            known_here = row.vendor is not None or what in ("vCPUs", "GiB", "arm64")
            if ours != other and known_here:
                yield f"{name} {what}: {ours} here, {other} there"


def offers() -> Iterator[str]:
    """What can be chosen is offered in some zone, as `DescribeInstanceTypeOfferings` answered."""
    offered = {
        name
        for places in aws.offerings("availability-zone").values()
        for names in places.values()
        for name in names
    }
    for name in (*eks.INSTANCE_TYPES, *eks.CPU_INSTANCE_TYPES):
        if name not in offered and (name in eks.CPU_INSTANCE_TYPES or not eks.refusal(name)):
            yield f"{name}: can be chosen, and no zone offered it"


def gpu_regions() -> Iterator[str]:
    """The regions of a type that can be chosen are those that cfn-lint or moto has."""
    for name in eks.INSTANCE_TYPES:
        there = {region for region, names in aws.regions().items() if name in names}
        ours = {*regions_of(name)}
        if not eks.refusal(name) and ours != there:
            yield f"{name}: {sorted(ours - there)} only here, {sorted(there - ours)} only there"


def places() -> Iterator[str]:
    """Regions, their partitions and the names and IDs of their zones are known as such."""
    for region, partition in aws.partitions().items():
        known = regions.is_region(region)
        if known and regions.partition(region) != partition:
            yield f"{region}: of {partition}, and {regions.partition(region)} here"
        if not known:
            yield f"{region}: of {partition}, and no region here"
    for kind, known_as in (
        ("availability-zone", regions.is_zone_name),
        ("availability-zone-id", regions.is_zone_id),
    ):
        for region, zones in aws.offerings(kind).items():
            for zone in sorted(zones):
                if not known_as(zone, region):
                    yield f"{zone}: of {region}, and no such zone here"


def _shown(value: Any) -> str:
    return ", ".join(sorted(value)) if isinstance(value, set) else str(value)


def eks_regions() -> Iterator[str]:
    """Regions of the partitions whose names the program knows, with botocore's endpoints."""
    session = botocore.session.get_session()
    theirs = {
        region
        for partition in ("aws", "aws-cn", "aws-us-gov")
        for region in session.get_available_regions("eks", partition_name=partition)
    }
    for region in sorted(theirs ^ set(eks.REGIONS)):
        yield f"{region}: {'not here' if region in theirs else 'botocore has no such'}"


COMPARISONS = {
    "aws eks constants": eks_constants,
    "aws eks regions": eks_regions,
    "aws log retention": log_retention,
    "aws instance names": instance_names,
    "aws instance shapes": instance_shapes,
    "aws offers": offers,
    "aws gpu regions": gpu_regions,
    "aws places": places,
}
