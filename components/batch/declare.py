"""What a stack has of batch work, in the order in which it must stand."""

from collections.abc import Mapping, Sequence

import pulumi

from components.batch.batch_args import BatchArgs
from components.batch.training_args import TrainingArgs
from components.cluster import Cluster
from components.gpu.pod_args import Beside


def declare_batch(
    args: BatchArgs | None,
    training_jobs: Mapping[str, TrainingArgs],
    *,
    cluster: Cluster,
    beside: Beside | None = None,
    made: Sequence[pulumi.Resource] = (),
) -> Sequence[pulumi.Resource]:
    """Declares controllers, queues and training jobs; returns what a queued job cannot be without.
    `beside`: what the jobs' pods may name, of which `made` are the resources.

    `args` may be None where there are no training jobs.
    """
    if args is None:
        return []
    # Few stacks have any, and its parts of the SDK are large.
    from components.batch.batch import Batch
    from components.batch.training import GpuTraining

    batch = Batch("batch", args, cluster=cluster, beside=beside)
    for name, job in training_jobs.items():
        GpuTraining(name, job, cluster=cluster, after=[batch], beside=made)
    return [batch]
