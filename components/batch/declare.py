"""Declares the controllers and queues of a stack."""

from collections.abc import Sequence

import pulumi

from ..cluster import Cluster
from ..gpu.pod_args import Auxiliary
from .batch_args import BatchArgs


def declare_batch(
    args: BatchArgs | None, *, cluster: Cluster, auxiliary: Auxiliary | None = None
) -> Sequence[pulumi.Resource]:
    """Declares controllers and queues; returns the resources that a queued job depends on.
    `auxiliary`: the objects that the jobs' pods may name."""
    if args is None:
        return []
    # Imported late: few stacks use them, and the SDK modules that they need are large.
    from .batch import Batch

    options = cluster.component_options
    return [Batch("batch", args, cluster=cluster, auxiliary=auxiliary, opts=options)]
