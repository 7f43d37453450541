"""What only shows once pools, workloads, queues and jobs are known together.

Each function raises ValueError with one line that begins with the key's path.
"""

from collections.abc import Mapping
from pathlib import Path

from components.batch.batch_args import BatchArgs, QueueRequest
from components.batch.training_args import TrainingArgs
from components.catalog import kubernetes as names
from components.cluster import GpuPool
from components.decode import NAMESPACE, at, unknown
from components.gpu.acceptance_args import GpuTestArgs, job_name
from components.gpu.pod_args import Beside
from components.gpu.pod_parts import contents_of
from components.gpu.workload_args import WorkloadArgs

Pools = Mapping[str, GpuPool]


def check_pool_name(name: str) -> None:
    """A node pool's name has 40 characters at most, of which the automatic suffix takes 8."""
    if names.invalid_dns_label(name) or not name[:1].isalpha() or len(name) > 32:
        raise ValueError(
            f"{NAMESPACE}:gpuPools.{name}: is not a pool name; allowed: at most 32 lowercase "
            "letters, digits and '-', a letter first, no '-' at the end"
        )


def check_workloads(
    workloads: Mapping[str, WorkloadArgs],
    pools: Pools,
    batch: BatchArgs | None,
    jobs: Mapping[str, TrainingArgs],
    beside: Beside,
    root: Path,
) -> None:
    """Refuses a workload that no node could carry, or that would never leave its queue."""
    for name, workload in workloads.items():
        path = f"{NAMESPACE}:workloads.{name}"
        if reason := names.invalid_dns_label(name):
            raise ValueError(f"{path}: {reason}")
        if name in jobs:
            raise ValueError(f"{path}: is a training job's name too; take another")
        pool = _pool(f"{path}.pool", workload.pool, pools)
        at(path, workload.check_fits, pool)
        at(path, (batch or BatchArgs()).check_queue, _request(workload, pool))
        at(path, workload.check_beside, beside,
           namespace=workload.namespace, nodes=workload.pods, pool=pool)  # fmt: skip
        at(path, contents_of, workload, root)


def check_gpu_test(args: GpuTestArgs, pools: Pools, workloads: Mapping[str, WorkloadArgs]) -> None:
    """Refuses pools that cannot be measured so, and a workload under the name of such a Job."""
    path = f"{NAMESPACE}:gpuTest"
    for position, name in enumerate(args.pools):
        at(path, args.check_on, _pool(f"{path}.pools[{position}]", name, pools))
        other = workloads.get(job_name(name))
        if other is not None and other.namespace == args.namespace:
            raise ValueError(
                f"{NAMESPACE}:workloads.{job_name(name)}: is the name of the Job that measures "
                f"pool {name}; take another"
            )


def _request(workload: WorkloadArgs, pool: GpuPool) -> QueueRequest:
    return QueueRequest(
        queue=workload.queue,
        namespace=workload.namespace,
        pool=pool,
        pods=workload.pods,
        gpus=workload.gpus,
    )


def _pool(path: str, name: str, pools: Pools) -> GpuPool:
    if name not in pools:
        allowed = unknown(name, pools) if pools else "gpuPools has none"
        raise ValueError(f"{path}: {name!r} is not a pool; {allowed}")
    return pools[name]
