"""Queues and training jobs as a stack's config has them, or why they would never run."""

from collections.abc import Mapping
from pathlib import Path

from components.batch.batch_args import BatchArgs, QueueRequest
from components.batch.training_args import TrainingArgs, invalid_name
from components.catalog import kubernetes as names
from components.cluster import GpuPool
from components.decode import at, decode, decode_map, unknown
from components.gpu.pod_args import Beside
from components.gpu.pod_parts import contents_of
from components.gpu.workload_args import WorkloadArgs

Pools = Mapping[str, GpuPool]


def read_batch(path: str, value: object, pools: Pools) -> BatchArgs | None:
    """The config's `batch`, whose key is `path`; None where nothing of it is wanted.

    Raises ValueError with one line that begins with the key's path, as all here do.
    """
    args = decode(path, BatchArgs, value)
    for name, queue in args.queues.items():
        for position, pool in enumerate(queue.pools):
            quota = pool_at(f"{path}.queues.{name}.pools[{position}]", pool, pools)
            at(f"{path}.queues.{name}", queue.quota, quota)
    return args if args.job_set or args.queues else None


def read_training_jobs(
    path: str, value: object, batch: BatchArgs | None, pools: Pools, beside: Beside, root: Path
) -> Mapping[str, TrainingArgs]:
    """The config's `trainingJobs`, whose key is `path`. `beside`: what their pods may name;
    `root`: where their files are."""
    jobs = decode_map(path, TrainingArgs, value)
    if jobs and not (batch and batch.job_set):
        raise ValueError(f"{path}: need the JobSet controller; set batch.jobSet to true")
    owners = {pool: q for q, args in (batch.queues if batch else {}).items() for pool in args.pools}
    for name, job in jobs.items():
        if reason := invalid_name(name):
            raise ValueError(f"{path}.{name}: {reason}")
        pool = pool_at(f"{path}.{name}.pool", job.pool, pools)
        if job.queue is None and job.pool in owners:
            raise ValueError(
                f"{path}.{name}.queue: is missing, and pool {job.pool} is handed out by queue "
                f"{owners[job.pool]}; set it"
            )
        check_pods(f"{path}.{name}", job, job.request(pool), batch, beside, root)
    return jobs


def check_pods(
    path: str,
    args: WorkloadArgs | TrainingArgs,
    request: QueueRequest,
    batch: BatchArgs | None,
    beside: Beside,
    root: Path,
) -> None:
    """Refuses pods that no node could carry, that would never leave their queue, or that name what
    is not there. `request`: what they ask for all at once, queue or none."""
    at(path, args.check_fits, request.pool)
    at(path, (batch or BatchArgs()).check_queue, request)
    at(path, args.check_beside, beside, nodes=request.pods, pool=request.pool)
    at(path, contents_of, args, root)
    at(path, names.check_pinned, args.image)


def pool_at(path: str, name: str, pools: Pools) -> GpuPool:
    """The pool that the key at `path` names."""
    if name not in pools:
        allowed = unknown(name, pools) if pools else "gpuPools has none"
        raise ValueError(f"{path}: {name!r} is not a pool; {allowed}")
    return pools[name]
