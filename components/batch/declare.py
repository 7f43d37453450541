"""The controllers and queues of a stack."""

from collections.abc import Sequence

import pulumi

from ..cluster import Cluster
from ..gpu.pod_args import Auxiliary
from .batch_args import BatchArgs


def declare_batch(
    args: BatchArgs | None, *, cluster: Cluster, auxiliary: Auxiliary | None = None
) -> Sequence[pulumi.Resource]:
    """Declares controllers and queues; returns what a queued job cannot be without.
    `auxiliary`: what the jobs' pods may name."""
    if args is None:
        return []
    # Few stacks have any, and its parts of the SDK are large.
    from .batch import Batch

    options = cluster.component_options
    return [Batch("batch", args, cluster=cluster, auxiliary=auxiliary, opts=options)]
