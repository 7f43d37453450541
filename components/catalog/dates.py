"""Until when tables of the catalog hold: after that, the clouds may have what a table lacks.

Once a date has passed, the settings accept with a warning what a table lacks, unless they need
figures from its row, and the nightly run fails. Read the source again, add what is new, and set the
next date.
"""

from collections.abc import Mapping
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


_TABLES: Final = (
    Dated(
        table="bad_releases.BAD_RELEASES",
        until=date(2027, 1, 31),
        source="issues and releases of the repositories in its rows, and GKE's known issues, every "
        "two months",
    ),
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
        table="eks_instances.INSTANCE_TYPES",
        until=date(2027, 1, 31),
        source="aws/karpenter-provider-aws website instance-types.md; AWS announces families at "
        "re:Invent, in the first days of December",
    ),
    Dated(
        table="gke.CHANNEL_MINORS",
        until=date(2027, 2, 28),
        source="docs.cloud.google.com/kubernetes-engine/docs/release-notes; a minor of Kubernetes "
        "lasts about four months",
    ),
    Dated(
        table="gke.ACCELERATOR_ZONES",
        until=date(2027, 2, 28),
        source="python -m quality zones; Google opens zones with GPUs in most months",
    ),
)
DATED: Final[Mapping[str, Dated]] = {dated.table: dated for dated in _TABLES}


def holds(table: str) -> bool:
    """Whether the clouds have no more than the table, as far as is known today."""
    return date.today() <= DATED[table].until
