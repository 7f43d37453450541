"""The settings of Karpenter and of EKS Auto Mode, for the cluster and for a pool."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from ..catalog import images
from ..scalers import SCALERS
from ..schema.effect import Sent
from ..schema.limits import IMAGE, matching, seconds
from ..schema.refusal import Refusal, collected, refuse
from ..schema.rules import Checked, rule

Scaler = Literal["cluster-autoscaler", "karpenter", "auto-mode"]
_DURATION = Annotated[
    str,
    matching(
        "a duration such as 90s, 10m or 1h30m, or Never", re.compile(r"(?:[0-9]+[smh])+|Never")
    ),
]
"""A duration as NodePool's definition accepts it (`karpenter.sh_nodepools.yaml`, 1.15.0)."""
AUTO_MODE_HOURS = 480
"""The maximum `expireAfter` of an Auto Mode NodePool, in hours: with the terminationGracePeriod, by
default 24 hours, it may not exceed 21 days (aws-controllers-k8s/test-infra 1000;
eks/latest/userguide/create-node-pool.html; read 2026-11-24)."""

MAX_CLASS_DISK_GIB = 59000
MAX_CLASS_SUBNETS = 30
"""Maxima of a node class (EC2NodeClass of Karpenter 1.15.0, components/crds; Auto Mode's NodeClass
has the same: eks/latest/userguide/create-node-class.html)."""


@collected
def check_node_class(scaler: str, disk_size_gb: int, places: Sequence[str]) -> Iterator[Refusal]:
    """Raises `Refusal` for what the node class of a pool, if it has one, cannot express."""
    if not SCALERS[scaler].in_cluster:
        return
    if disk_size_gb > MAX_CLASS_DISK_GIB:
        yield refuse("diskSizeGb", disk_size_gb)(
            f"is more than a node class takes; allowed with cluster.scaler {scaler}: at most "
            f"{MAX_CLASS_DISK_GIB}"
        )
    if len(places) > MAX_CLASS_SUBNETS:
        yield refuse("subnetIds")(
            f"the pool is in {len(places)} subnets, and a node class names at most "
            f"{MAX_CLASS_SUBNETS}; name some of them here, or fewer in cluster.network.subnetIds"
        )


def check_tags(tags: Mapping[str, str], scaler: Scaler) -> None:
    """Raises `Refusal` for a tag that the scaler itself sets on instances."""
    for key in tags:
        if SCALERS[scaler].restricted_tags.fullmatch(key):
            raise refuse("tags", key)(
                f"is not possible with cluster.scaler {scaler}, which gives the instances that "
                "tag itself; take another key"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EksKarpenterArgs(Checked):
    """Karpenter's own options."""

    replicas: Annotated[int | None, Interval(ge=1, le=3), Sent("Deployment spec.replicas")] = None
    """How many controllers run, each on a separate node; one of them is active, the others stand
    by. By default, two, or one if the system pool has one node."""
    node_repair: Annotated[bool, Sent("PodSpec containers[].env")] = False
    """Whether it replaces nodes that EKS's monitoring agent reports as faulty, 10 minutes after a
    known GPU error and 30 after others: an alpha feature, which terminates the pods on them,
    including jobs, after 5 or 10 minutes. The new node starts first, unless the faulty one is in a
    full reservation; without capacity for it, the faulty one stays. It also replaces healthy nodes
    if the agent reports DCGMError for one whose DCGM image took more than a minute to pull
    (eks-node-monitoring-agent 266), or, in version 1.7.0, DCGMHealthCode71 for an H100 or A100 that
    ever had an NVLink CRC error (261)."""
    log_level: Annotated[Literal["debug", "info", "error"], Sent("PodSpec containers[].env")] = (
        "info"
    )
    """The log level."""
    image: Annotated[Annotated[str, IMAGE] | None, Sent("PodSpec containers[].image")] = None
    """Your own image instead of the pinned one, for instance from your own registry."""

    def image_for(self, version: str = "") -> str:
        """The controller's image; one for every Kubernetes `version`."""
        return self.image or images.KARPENTER.reference


@dataclass(frozen=True, slots=True, kw_only=True)
class EksPoolKarpenterArgs(Checked):
    """How Karpenter, or Auto Mode, removes the nodes of a pool."""

    consolidation_policy: Annotated[
        Literal["WhenEmpty", "WhenEmptyOrUnderutilized"],
        Sent("NodePool spec.disruption.consolidationPolicy"),
    ] = "WhenEmpty"
    """Which nodes are removed: those without pods, or also those whose pods fit on other nodes, to
    which they are moved. Pods of this stack's jobs are never moved."""
    consolidate_after: Annotated[_DURATION, Sent("NodePool spec.disruption.consolidateAfter")] = (
        "10m"
    )
    """How long a node must be in that state before it is removed; `Never` keeps every node."""
    expire_after: Annotated[_DURATION, Sent("NodePool spec.template.spec.expireAfter")] = "Never"
    """The maximum age of a node: then it accepts no more pods, and is removed once its jobs are
    done, with `forceUpdate` after 15 minutes at the latest. With Auto Mode, at most `480h`, which
    is also the meaning of `Never` there, and jobs have 24 hours to end."""
    weight: Annotated[int | None, Interval(ge=1, le=100), Sent("NodePool spec.weight")] = None
    """The priority among pools that fit a pod: the largest weight wins; by default, 0."""

    @rule
    def _check_age(self) -> None:
        if self.expire_after != "Never" and seconds(self.expire_after) < 3600:
            raise refuse("expireAfter", self.expire_after)(
                "is too short: a GPU node takes up to 15 minutes to start, and the pool would do "
                "little else than replace its nodes; give 1h or more, or Never"
            )

    def check_auto_mode(self) -> None:
        """Raises `Refusal` for options that Auto Mode does not support."""
        if seconds(self.expire_after) > AUTO_MODE_HOURS * 3600:
            raise refuse("expireAfter")(
                f"{self.expire_after} is not possible with cluster.scaler auto-mode: it deletes "
                "nodes after 21 days, and their pods have the last 24 hours to end",
                remedy=f"set at most {AUTO_MODE_HOURS}h",
            )
