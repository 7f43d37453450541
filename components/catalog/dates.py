"""Until when tables of the catalog hold: after that, the clouds may have what a table lacks.

The nightly run fails once a date has passed. Read the source again, add what is new, and set the
next date.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated:
    """A table that is complete only until a date."""

    table: str
    """Its module in this package and its name."""
    until: date
    source: str
    """What is read again, and why it holds so long."""


DATED: Final[Sequence[Dated]] = (
    Dated(
        table="eks.KUBERNETES_VERSIONS",
        until=date(2027, 1, 31),
        source="docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html; EKS adds a "
        "minor about every four months",
    ),
    Dated(
        table="eks.AMI_RELEASES",
        until=date(2027, 1, 31),
        source="awslabs/amazon-eks-ami CHANGELOG.md; a new minor has images from its first day",
    ),
    Dated(
        table="eks_addons.BAD_VERSIONS",
        until=date(2027, 1, 31),
        source="issues and releases of the addons' repositories, every two months",
    ),
    Dated(
        table="eks_instances.INSTANCE_TYPES",
        until=date(2027, 1, 31),
        source="aws/karpenter-provider-aws website instance-types.md; AWS announces families at "
        "re:Invent, in the first days of December",
    ),
)
