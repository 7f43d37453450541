"""Facts that follow from the name of an AWS region: its partition, its zones' names, ARNs."""

import re

from ..catalog import eks as catalog
from ..catalog.spelling import nearest

REGION = re.compile(r"(us-gov|[a-z]{2})-[a-z]+-[0-9]")
_COMPASS = ("north", "south", "east", "west", "central")


def is_region(text: str) -> bool:
    """Whether this has the form of a region's name: `us-east-1`, `us-gov-west-1`.

    False for regions of the isolated and sovereign partitions, whose services have other names.
    """
    return REGION.fullmatch(text) is not None


def meant_region(region: str) -> str | None:
    """The region that an unknown one most likely means; None if that is not clear.

    A region with a known name and another number may have opened since the catalog was read.
    """
    names = {name.rstrip("0123456789") for name in catalog.REGIONS}
    if region.rstrip("0123456789") in names:
        return None
    return nearest(region, catalog.REGIONS, 0.8)


def partition(region: str) -> str:
    """The AWS partition, which is the second part of every ARN in the region."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def managed_policy(region: str, name: str) -> str:
    """The ARN of an IAM policy that AWS manages."""
    return f"arn:{partition(region)}:iam::aws:policy/{name}"


def access_policy(region: str, name: str) -> str:
    """The ARN of an access policy of EKS."""
    return f"arn:{partition(region)}:eks::aws:cluster-access-policy/{name}"


def endpoint_service(region: str, service: str) -> str:
    """A service's name for VPC endpoints; in China, most names have another form (eksctl
    pkg/cfn/builder/vpc_endpoint.go, 2026-11-24)."""
    china = region.startswith("cn-") and service not in ("s3", "logs")
    prefix = "cn." if china else ""
    return f"{prefix}com.amazonaws.{region}.{service}"


def is_zone_name(zone: str, region: str) -> bool:
    """Whether this is the name of a zone of the region: `us-east-1a`, but not a local zone."""
    return re.fullmatch(f"{re.escape(region)}[a-z]", zone) is not None


def is_zone_id(zone: str, region: str) -> bool:
    """Whether this is the ID of one of the region's zones: `use1-az1`, the same in every account.

    It begins with an abbreviation of the region: `usgw1` for us-gov-west-1, `apne1` for
    ap-northeast-1.
    """
    *land, direction, number = region.split("-")
    for word in _COMPASS:
        direction = direction.replace(word, word[0])
    short = land[0] + "".join(word[0] for word in land[1:])
    return re.fullmatch(f"{short}{direction}{number}-az[0-9]+", zone) is not None
