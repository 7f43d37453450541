"""Releases that are known to do harm, each as its makers' changelog or tracker says.

Only what a stack can pin has a row. Read the sources again at each release of this program, and
remove a row once its release can no longer be pinned. What a newer device plugin needs of an image
is `eks.TOOLKIT_SINCE`, what a GPU needs is `eks_instances.InstanceType.first_driver`.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from .kubernetes import al2023_day


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRelease:
    """A range of releases that do harm."""

    of: str
    """`al2023` or `bottlerocket` for an EKS image with NVIDIA's driver, `gke` for a cluster's
    version, otherwise the name of an EKS addon."""
    since: str
    """The first one, without EKS's or Bottlerocket's build; of al2023, its day."""
    until: str
    """The first later one that is good, or that the source does not name."""
    level: Literal["warning", "refusal"]
    symptom: str
    """What it does; completes "`<release>` ..."."""
    remedy: str
    source: str
    read: str
    """The date on which the source was read."""
    reason: str | None = None
    """The reason of the node condition with which node repair replaces healthy nodes."""

    def line(self, release: str) -> str:
        """The warning about a pinned release, without the key that precedes it."""
        return f"{release} {self.symptom} ({self.source}); {self.remedy}"


BAD_RELEASES: Final = (
    BadRelease(
        of="al2023",
        since="20260128",
        until="20260129",
        level="warning",
        symptom="was abandoned by AWS in favor of 20260129",
        remedy="give that or a later one",
        source="https://github.com/awslabs/amazon-eks-ami/blob/main/CHANGELOG.md",
        read="2026-11-29",
    ),
    BadRelease(
        of="al2023",
        since="20260625",
        until="20260709",
        level="warning",
        symptom="has ENA 2.17.0 in its images for Kubernetes 1.33 and later, with which the kernel "
        "may panic when a network interface is detached, as the VPC CNI does",
        remedy="give 20260709 or later",
        source="https://github.com/amzn/amzn-drivers/issues/380",
        read="2026-11-30",
    ),
    BadRelease(
        of="al2023",
        since="20260818",
        until="20260819",
        level="warning",
        symptom="has NVIDIA's toolkit 1.20.0, with which no GPU container starts that mounts "
        "something read-only at /etc/nvidia",
        remedy="mount it elsewhere, or give another one",
        source="https://github.com/awslabs/amazon-eks-ami/issues/2790",
        read="2026-11-29",
    ),
    BadRelease(
        of="bottlerocket",
        since="1.25.0",
        until="1.27.0",
        level="refusal",
        symptom="does not always load NVIDIA's driver, and such a node has no GPU for pods",
        remedy="give 1.27.0 or later, or drop the key for the newest",
        source="https://github.com/bottlerocket-os/bottlerocket/issues/4250",
        read="2026-11-29",
    ),
    BadRelease(
        of="eks-node-monitoring-agent",
        since="v1.7.0",
        until="v1.7.1",
        level="warning",
        symptom="reports DCGMHealthCode71 on healthy H100 and A100 nodes that ever had an NVLink "
        "CRC error, and watches no GPU on arm64",
        remedy="set a later one if EKS has it",
        source="https://github.com/aws/eks-node-monitoring-agent/pull/261",
        read="2026-11-28",
        reason="DCGMHealthCode71",
    ),
    *(
        BadRelease(
            of="gke",
            since=f"{good[:4]}.0-gke.0",
            until=good,
            level="warning",
            symptom="may leave GPU nodes with the taint cloud.google.com/impending-node-"
            "termination after host maintenance, so that no pod is placed on them",
            remedy=f"give {good} or later",
            source="https://docs.cloud.google.com/kubernetes-engine/docs/troubleshooting/"
            "known-issues",
            read="2026-11-29",
        )
        for good in ("1.33.5-gke.2469000", "1.34.1-gke.2037001")
    ),
)

_VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)(?:-gke\.([0-9]+)|-.*)?")


def harm(of: str, release: str | None) -> BadRelease | None:
    """The row for a release as the cloud names it; None if it is not exact, or not known to do
    harm."""
    if at := _order(of, release or ""):
        for bad in BAD_RELEASES:
            if bad.of == of and _order(of, bad.since) <= at < _order(of, bad.until):
                return bad
    return None


def _order(of: str, release: str) -> tuple[int, ...]:
    """The numbers by which two releases are compared; empty if it is not exact."""
    if of == "al2023":
        day = al2023_day(release) or release
        return (int(day),) if day.isdecimal() else ()
    exact = _VERSION.fullmatch(release)
    if of == "gke" and "-gke." not in release:
        return ()  # GKE chooses the newest patch of such a version.
    return tuple(int(number or 0) for number in exact.groups()) if exact else ()
