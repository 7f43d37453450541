"""The resources that exist in the cluster before the stack's own pods are declared."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from ..cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Prerequisites:
    """The cluster, and the resources that pods may have to wait for."""

    cluster: Cluster
    queues: Sequence[pulumi.Resource] = ()
    """The controllers and queues for jobs, without which a job with a queue never starts."""
    plugins: Sequence[pulumi.Resource] = ()
    """Device plugins and the DRA driver. A pod that the kubelet refuses during a replacement is not
    recreated, and one with a claim ends only while the driver runs."""
    auxiliary: Sequence[pulumi.Resource] = ()
    """The service accounts and claims that pods may name."""
