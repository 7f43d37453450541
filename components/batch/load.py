"""Reads queues, workloads, training jobs, services and the GPU test from a stack's config.

Each function raises one `Refusal`, also for pods that could never run; what else it finds is in
its `further`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from ..catalog import kubernetes as names
from ..cluster import GpuPool
from ..gpu.acceptance_args import GpuTestArgs
from ..gpu.pod_args import Auxiliary
from ..gpu.pod_parts import contents_of
from ..gpu.service_args import ServiceArgs
from ..gpu.workload_args import GpuPodArgs, WorkloadArgs
from ..schema.decode import at, decode_map, read_partly
from ..schema.refusal import UNKNOWN_POOL, Keys, Refusals, known_only, refuse, unset
from ..schema.rules import is_given
from .batch_args import BatchArgs, QueueArgs, QueueRequest
from .training_args import TrainingArgs

Pools = Mapping[str, GpuPool]
Pods = TypeVar("Pods", bound=GpuPodArgs | TrainingArgs)


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
    path: str,
    value: object,
    pools: Pools,
    of_teams: Callable[[], Mapping[str, QueueArgs]],
    refusals: Refusals,
) -> BatchArgs | None:
    """Reads the config's `batch`, whose key is `path`, with the teams' queues added; None if
    nothing in it is enabled. Raises the refusals of queues; after others, which it adds to
    `refusals`, what it returns lacks what is refused."""
    of_queues = Refusals()
    args = read_partly(path, BatchArgs, value, refusals) or known_only(BatchArgs)
    with of_queues:
        for name, queue in args.queues.items():
            for position, pool in enumerate(queue.pools):
                with of_queues:
                    quota = pool_at((path, "queues", name, "pools", position), pool, pools)
                    at((path, "queues", name), queue.quota, quota)
    refusals.add(*of_queues)
    if (teams := of_teams()) and isinstance(value, Mapping) and value.get("jobSet") is False:
        reason = "is false, and teams submit their jobs as JobSets; drop the key, or teams"
        refusals.add(refuse((path, "jobSet"))(reason))
    none, remedy = not (args.queues or teams), "add batch.queues or teams, or drop the key"
    if none and is_given(args, "pods_ready_minutes"):
        reason = "is for jobs of queues, and there is none"
        refusals.add(refuse((path, "podsReadyMinutes"))(reason, remedy=remedy))
    if none and is_given(args, "priorities"):
        reason = "has no effect without queues"
        refusals.add(refuse((path, "priorities"))(reason, remedy=remedy))
    if teams:
        args = at(path, args.joined, teams)
    if of_queues:
        raise of_queues.first()
    return args if args.queues or args.job_set else None


def read_workloads(path: str, value: object, available: Available) -> Mapping[str, WorkloadArgs]:
    """Reads the config's `workloads`, whose key is `path`."""
    return read_pods(path, WorkloadArgs, value, available)


def read_services(path: str, value: object, available: Available) -> Mapping[str, ServiceArgs]:
    """Reads the config's `services`, whose key is `path`."""
    return read_pods(path, ServiceArgs, value, available)


def read_gpu_test(path: str, value: object, available: Available) -> GpuTestArgs | None:
    """Reads the config's `gpuTest`, whose key is `path`; None if it is not set. Refuses pools that
    cannot be tested this way."""
    if not value:
        return None
    refusals = Refusals()
    if args := read_partly(path, GpuTestArgs, value, refusals):
        with refusals:
            _check_pinned(path, args.image)
        for position, name in enumerate(getattr(args, "pools", ())):
            with refusals:
                at(path, args.check_on, pool_at((path, "pools", position), name, available.pools))
    refusals.check()
    return args


def read_training_jobs(
    path: str, value: object, available: Available
) -> Mapping[str, TrainingArgs]:
    """Reads the config's `trainingJobs`, whose key is `path`."""
    return read_pods(path, TrainingArgs, value, available)


def read_pods(path: str, kind: type[Pods], value: object, available: Available) -> dict[str, Pods]:
    """Reads and checks a block of pods, each entry on one pool; an entry with a refused setting as
    far as possible."""
    refusals = Refusals()
    entries = decode_map(path, kind, value, refusals)
    with refusals:
        runs = kind is not TrainingArgs or (available.batch and available.batch.job_set)
        if value and not runs:
            raise refuse(path)("need the JobSet controller", remedy="set batch.jobSet to true")
    for name, args in entries.items():
        entry = f"{path}.{name}"
        with refusals:
            at(entry, (available.batch or BatchArgs()).check_names, args)
        with refusals:
            at(entry, args.check_names, available.auxiliary)
        with refusals:
            pool = pool_at((entry, "pool"), args.pool, available.pools)
            if isinstance(args, TrainingArgs):
                refusals.narrow(entry, partial(args.possible_on, pool))
            check_pods(entry, args, pool, available)
    if refusals:
        raise refusals.first()
    return dict(entries)


def _request(args: GpuPodArgs | TrainingArgs, pool: GpuPool, batch: BatchArgs) -> QueueRequest:
    if isinstance(args, GpuPodArgs):
        waiting = args if isinstance(args, WorkloadArgs) else None
        return QueueRequest(
            queue=waiting.queue if waiting else None,
            priority=waiting.priority if waiting else None,
            namespace=args.namespace,
            pool=pool,
            pods=args.pods,
            gpus=args.gpus,
            long_running=args.long_running,
            uncounted="sharedGpus" if args.shared_gpus else args.uncounted,
        )
    if args.queue is None and (owners := batch.owners(args.pool)):
        raise refuse("queue")(
            f"is missing, and the GPUs of pool {args.pool} are handed out by queue "
            f"{' or '.join(owners)}; set it"
        )
    return args.request(pool)


def check_pods(
    path: str, args: GpuPodArgs | TrainingArgs, pool: GpuPool, available: Available
) -> None:
    """Refuses pods that do not fit any node, would never leave their queue, or name missing
    objects."""
    refusals = Refusals()
    with refusals:
        at(path, args.check_fits, pool)
    fit = not refusals
    with refusals:
        batch = available.batch or BatchArgs()
        request = at(path, _request, args, pool, batch)
        if not fit:
            unset(request, ["gpus"])  # More than fit on nodes are also too many for a queue.
        at(path, batch.check_queue, request)
    with refusals:
        nodes = args.nodes if isinstance(args, TrainingArgs) else args.pods
        at(path, args.check_auxiliary, available.auxiliary, nodes=nodes, pool=pool)
    with refusals:
        at(path, contents_of, args, available.root)
    with refusals:
        _check_pinned(path, args.image)
    refusals.check()


def _check_pinned(path: str, image: str) -> None:
    if names.unpinned(image):
        raise refuse((path, "image"), image)(
            "may refer to another image tomorrow",
            remedy="give a tag other than latest, or a digest",
        )


def pool_at(path: Keys, name: str, pools: Pools) -> GpuPool:
    """The pool that the setting at `path` names."""
    if name not in pools:
        remedy = "" if pools else "gpuPools has no valid pool"
        known = sorted(pools)
        raise refuse(path, name)("is not a pool", allowed=known, remedy=remedy, code=UNKNOWN_POOL)
    return pools[name]
