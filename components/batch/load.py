"""Reads queues, workloads, training jobs, services and the GPU test from a stack's config.

Each function raises ValueError with one line that begins with the key's path, also for pods that
could never run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..catalog import kubernetes as names
from ..cluster import GpuPool
from ..decode import at, decode, decode_map, unknown
from ..gpu.acceptance_args import GpuTestArgs
from ..gpu.pod_args import Auxiliary, PodArgs
from ..gpu.pod_parts import contents_of
from ..gpu.service_args import ServiceArgs
from ..gpu.workload_args import WorkloadArgs
from ..refusal import UNKNOWN_POOL, Keys, Refusal, Refusals
from .batch_args import BatchArgs, QueueArgs, QueueRequest
from .training_args import TrainingArgs

Pools = Mapping[str, GpuPool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """What the pods of a stack can use."""

    pools: Pools
    batch: BatchArgs | None = None
    auxiliary: Auxiliary = field(default_factory=Auxiliary)
    """The accounts and claims that pods may name."""
    root: Path = Path()
    """The folder of the files that their volumes name."""


def read_batch(
    path: str, value: object, pools: Pools, of_teams: Mapping[str, QueueArgs]
) -> BatchArgs | None:
    """Reads the config's `batch`, whose key is `path`, with the teams' queues added; None if
    nothing in it is enabled."""
    args = decode(path, BatchArgs, value)
    for name, queue in args.queues.items():
        for position, pool in enumerate(queue.pools):
            quota = pool_at((path, "queues", name, "pools", position), pool, pools)
            at((path, "queues", name), queue.quota, quota)
    if of_teams:
        if isinstance(value, Mapping) and value.get("jobSet") is False:
            raise Refusal(
                (path, "jobSet"),
                "is false, and teams submit their jobs as JobSets; drop the key, or teams",
            )
        args = at(path, args.joined, of_teams)
    if args.priorities and not args.queues:
        raise Refusal(
            (path, "priorities"),
            "has no effect without queues; add batch.queues or teams, or drop the key",
        )
    if args.pods_ready_minutes is not None and not args.queues:
        raise Refusal(
            (path, "podsReadyMinutes"),
            "is for jobs of queues, and there is none; add batch.queues or teams, or drop the key",
        )
    return args if args.job_set or args.queues else None


def read_workloads(path: str, value: object, available: Available) -> Mapping[str, WorkloadArgs]:
    """Reads the config's `workloads`, whose key is `path`."""
    workloads = decode_map(path, WorkloadArgs, value)
    refusals = Refusals()
    for name, workload in workloads.items():
        with refusals:
            pool = pool_at((path, name, "pool"), workload.pool, available.pools)
            check_pods(f"{path}.{name}", workload, _request(workload, pool), available)
    refusals.check()
    return workloads


def read_gpu_test(path: str, value: object, available: Available) -> GpuTestArgs | None:
    """Reads the config's `gpuTest`, whose key is `path`; None if it is not set. Refuses pools that
    cannot be tested this way."""
    if not value:
        return None
    args = decode(path, GpuTestArgs, value)
    _check_pinned(path, args.image)
    for position, name in enumerate(args.pools):
        at(path, args.check_on, pool_at((path, "pools", position), name, available.pools))
    return args


def read_training_jobs(
    path: str, value: object, available: Available
) -> Mapping[str, TrainingArgs]:
    """Reads the config's `trainingJobs`, whose key is `path`."""
    jobs, batch = decode_map(path, TrainingArgs, value), available.batch
    if jobs and not (batch and batch.job_set):
        raise Refusal(path, "need the JobSet controller", remedy="set batch.jobSet to true")
    for name, job in jobs.items():
        pool = pool_at((path, name, "pool"), job.pool, available.pools)
        if job.queue is None and (owners := batch.owners(job.pool) if batch else []):
            raise Refusal(
                (path, name, "queue"),
                f"is missing, and the GPUs of pool {job.pool} are handed out by queue "
                f"{' or '.join(owners)}; set it",
            )
        check_pods(f"{path}.{name}", job, job.request(pool), available)
    return jobs


def check_pods(
    path: str,
    args: PodArgs,
    request: QueueRequest,
    available: Available,
) -> None:
    """Refuses pods that do not fit any node, would never leave their queue, or name missing
    objects. `request`: what they request all at once, with or without a queue."""
    refusals = Refusals()
    with refusals:
        at(path, args.check_fits, request.pool)
        at(path, (available.batch or BatchArgs()).check_queue, request)
        at(path, args.check_auxiliary, available.auxiliary, nodes=request.pods, pool=request.pool)
    with refusals:
        at(path, contents_of, args, available.root)
    with refusals:
        _check_pinned(path, args.image)
    refusals.check()


def _check_pinned(path: str, image: str) -> None:
    if names.unpinned(image):
        raise Refusal(
            (path, "image"),
            "may refer to another image tomorrow",
            given=image,
            remedy="give a tag other than latest, or a digest",
        )


def _request(workload: WorkloadArgs, pool: GpuPool) -> QueueRequest:
    return QueueRequest(
        queue=workload.queue,
        priority=workload.priority,
        namespace=workload.namespace,
        pool=pool,
        pods=workload.pods,
        gpus=workload.gpus,
        long_running=workload.kind != "job",
    )


def pool_at(path: Keys, name: str, pools: Pools) -> GpuPool:
    """The pool that the setting at `path` names."""
    if name not in pools:
        allowed = unknown(name, pools) if pools else "gpuPools has no valid pool"
        raise Refusal(path, "is not a pool", given=name, remedy=allowed, code=UNKNOWN_POOL)
    return pools[name]


def read_services(path: str, value: object, available: Available) -> Mapping[str, ServiceArgs]:
    """Reads the config's `services`, whose key is `path`."""
    services = decode_map(path, ServiceArgs, value)
    for name, args in services.items():
        request = QueueRequest(
            queue=None,
            namespace=args.namespace,
            pool=pool_at((path, name, "pool"), args.pool, available.pools),
            pods=args.pods,
            gpus=args.gpus,
            long_running=True,
        )
        check_pods(f"{path}.{name}", args, request, available)
    return services
