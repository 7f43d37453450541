"""The settings of a multi-node training job, and whether its pool can run it."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, MinLen

from ..cluster import Fabric, GpuPool
from ..gpu.pod_args import PodArgs
from ..gpu.pod_group import PodGroup
from ..gpu.resources_args import impossible, too_many
from ..schema.effect import Sent, Silent
from ..schema.limits import VARIABLE, Hint, Limit, none_of, refusal
from ..schema.refusal import Refusal, collected, raised, refuse
from ..schema.rules import never, rule
from .batch_args import QueueRequest

_PLACE = Sent("JobSet spec.replicatedJobs[].template.spec.template.metadata.annotations")
_LAUNCHERS = re.compile(
    r"accelerate|bash|conda|deepspeed|env|mpirun|poetry|python[0-9.]*|sh|torchrun|uv|.*\.sh"
)
_OPTIONS = re.compile("--(?:nnodes|nproc[-_]per[-_]node)(?:=.*)?")


def _not_a_script(command: Sequence[str]) -> str | None:
    first = command[0].rpartition("/")[2]
    before = itertools.takewhile(lambda word: not word.endswith(".py"), command)
    if option := next(filter(_OPTIONS.fullmatch, before), None):
        return f"has {option}, which the job itself gives torchrun; drop it, and set nodes and gpus"
    if not _LAUNCHERS.fullmatch(first):
        return None
    return (
        f"begins with {first}, and torchrun, which the job starts itself, would run that as a "
        "Python script; give only the script and its arguments, such as [train.py, --epochs, "
        '"3"], or put --no-python in front of another program'
    )


_FREE = none_of("MASTER_ADDR", "MASTER_PORT", why="is set by the job itself; drop it")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingArgs(PodArgs):
    """PyTorch's `torchrun` on several nodes of a pool, one worker pod per node, all or none."""

    env: Annotated[
        Mapping[Annotated[str, VARIABLE, _FREE], str], Sent("PodSpec containers[].env[]")
    ] = field(default_factory=dict)
    """Environment variables."""
    pool: Annotated[str, Sent("PodSpec nodeSelector")]
    """The GPU pool on which the workers run."""
    nodes: Annotated[int, Ge(1), Sent("JobSet spec.replicatedJobs[].template.spec.parallelism")]
    """The number of worker pods, each on its own node."""
    command: Annotated[
        Sequence[str],
        MinLen(1),
        Hint("give the script that torchrun starts"),
        Limit(_not_a_script),
        Sent("PodSpec containers[].command[]"),
    ]
    """The command that torchrun starts once per GPU, with its arguments: `[train.py, --epochs,
    "3"]`. The image has `torchrun` on its PATH, as PyTorch's images do."""
    gpus: Annotated[int | None, Ge(1), Sent("PodSpec containers[].resources.limits")] = None
    """The GPUs of each worker; by default, all GPUs of a node."""
    queue: Annotated[
        str | None, Silent("the pool decides it; only the queue that hands it out is accepted")
    ] = None
    """The queue of `batch.queues` in which the job waits for the GPUs of all workers."""
    priority: Annotated[str | None, Sent("ObjectMeta labels")] = None
    """Its priority in the queue, one of `batch.priorities`; by default, value 0."""
    required_topology: Annotated[str | None, _PLACE] = None
    """Within what all workers have to be: one of the labels that say where in the network nodes of
    a `topologyAware` pool are. The job waits in its queue until all of them fit there."""
    preferred_topology: Annotated[
        str | None,
        _PLACE,
        never(required_topology=True)("has no effect with requiredTopology; drop one of the two"),
    ] = None
    """Within what they are if they all fit there; otherwise, Kueue takes as few such places as
    possible. One of the same labels."""
    max_restarts: Annotated[int, Ge(0), Sent("JobSet spec.failurePolicy.maxRestarts")] = 3
    """How often all workers are restarted after one of them has failed."""
    disruption_budget: Annotated[bool, Sent("PodDisruptionBudget")] = False
    """Whether a PodDisruptionBudget protects running workers from eviction: upgrades of their nodes
    wait for the job, as long as the cloud allows (GKE: one hour; EKS: until the update fails)."""
    wait: Annotated[bool, Sent("ObjectMeta annotations")] = False
    """Whether `pulumi up` waits until the job completes, including its time in the queue."""

    @rule
    def _check_own_variables(self) -> Iterator[Refusal]:
        for position, source in enumerate(self.env_from):
            if source.name and (refused := refusal([_FREE], source.name)):
                yield refused.under("envFrom", position, "name")

    def worker_gpus(self, pool: GpuPool) -> int:
        """GPUs of one worker on `pool`."""
        return max(pool.gpus_per_pod) if self.gpus is None else self.gpus

    def adapters(self, pool: GpuPool) -> int:
        """All of its node's, by default, if workers use all GPUs of several nodes."""
        if self.efa is None:
            return pool.adapters_of(self.nodes, self.worker_gpus(pool))
        return PodArgs.adapters(self, pool)

    def claimed(self, pool: GpuPool) -> Fabric | None:
        """The network of which each worker gets all of its node's adapters; None if none does."""
        return pool.claimed_by(self.nodes, self.worker_gpus(pool))

    def uses_host(self, pool: GpuPool) -> bool:
        """Whether workers mount a directory of their node, such as that of NCCL's plugin for the
        adapters that they get."""
        return PodArgs.uses_host(self, pool) or self.claimed(pool) is not None

    def pod_groups(self, path: str, pools: Mapping[str, GpuPool]) -> Iterator[PodGroup]:
        """Its workers, on their pool."""
        yield PodGroup(
            path=path,
            pool=self.pool,
            namespace=self.namespace,
            image=self.image,
            count=self.nodes,
            gpus=self.worker_gpus(pools[self.pool]),
            uses_host=self.uses_host(pools[self.pool]),
            claims=self.claims,
            default_disk=self.default_disk(pools[self.pool]),
            doubtful_disk=self.doubtful_disk(pools[self.pool]),
            own_nodes=True,
            together=True,
        )

    def request(self, pool: GpuPool) -> QueueRequest:
        """The resources that all workers together request from the queue."""
        return QueueRequest(
            queue=self.queue,
            priority=self.priority,
            namespace=self.namespace,
            pool=pool,
            pods=self.nodes,
            gpus=self.worker_gpus(pool),
            uncounted=self.uncounted,
        )

    def possible_on(self, pool: GpuPool, key: str) -> Sequence[int]:
        """What `pool` allows for a setting, if that is not what its limits allow."""
        if key != "gpus":
            return ()
        whole = pool.topology is not None and self.queue and self.nodes > 1
        return [pool.gpus_per_node] if whole else pool.gpus_per_pod

    @collected
    def check_fits(self, pool: GpuPool) -> Iterator[Refusal]:
        """Raises `Refusal` if `pool` could never run all workers at once."""
        if pool.sharing is not None:
            yield refuse("pool")(
                f"{pool.name} shares its GPUs, and NCCL needs whole GPUs",
                remedy="use a pool without sharing",
            )
        gpus = self.worker_gpus(pool)
        if gpus not in pool.gpus_per_pod:
            yield impossible(gpus, pool, self.possible_on(pool, "gpus"))
        yield from too_many(self.nodes, pool)
        yield from raised(self.check_node, pool, gpus)
        yield from raised(self._check_topology, pool)

    @collected
    def _check_topology(self, pool: GpuPool) -> Iterator[Refusal]:
        for key, level in (
            ("requiredTopology", self.required_topology),
            ("preferredTopology", self.preferred_topology),
        ):
            if level is None:
                continue
            if pool.topology is None:
                yield refuse(key)(
                    f"Kueue does not know where nodes of pool {pool.name} are",
                    remedy="set topologyAware: true for the pool, or drop the key",
                )
            elif level not in pool.topology:
                yield refuse(key, level)(
                    f"is not a label that says where nodes of pool {pool.name} are",
                    allowed=pool.topology,
                )
            if self.queue is None:
                yield refuse(key)("has no effect without a queue", remedy="set queue, or drop it")
        if self.required_topology is not None and pool.all_at_once is not None:
            yield refuse("requiredTopology")(
                f"the cloud starts nodes of the queued pool {pool.name} anywhere in a zone, and "
                "would bill them while the job cannot start; use preferredTopology"
            )
        whole = self.worker_gpus(pool) == pool.gpus_per_node
        if pool.topology is not None and self.queue and self.nodes > 1 and not whole:
            yield refuse("gpus")(
                f"{self.worker_gpus(pool)} leaves room for another worker on a node of the "
                f"topology-aware pool {pool.name}, where Kueue would place it although each "
                f"worker has its own node; request {pool.gpus_per_node}, or drop the key"
            )
