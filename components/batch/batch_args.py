"""The settings of queues, and how many GPUs each queue may hand out."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from annotated_types import Ge, Interval, Le, MinLen

from ..catalog import images
from ..cluster import GpuPool
from ..schema.effect import Sent
from ..schema.limits import DNS_LABEL, UNIQUE, matching
from ..schema.refusal import Refusal, Refusals, collected, raised, refuse, unknown
from ..schema.rules import Checked, rule

_GROUP = matching(
    "a group of yours; give a name that does not begin with system:",
    re.compile(r"(?!system:).*\S.*"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueArgs(Checked):
    """A queue and the pools whose GPUs it hands out; a job starts when all of its GPUs are free."""

    pools: Annotated[
        Sequence[str], MinLen(1), UNIQUE, Sent("ClusterQueue spec.resourceGroups[].flavors[].name")
    ]
    """The queue's pools; each pool belongs to one queue only. A job that names no pool gets the
    first one with free GPUs."""
    namespaces: Annotated[
        Sequence[Annotated[str, DNS_LABEL]],
        MinLen(1),
        UNIQUE,
        Sent("ClusterQueue spec.namespaceSelector", "LocalQueue"),
    ] = ("default",)
    """The namespaces in which jobs may name the queue: those of `namespaces`, or existing ones."""
    nominal_quota: Annotated[
        Mapping[str, Annotated[int, Ge(1)]],
        Sent("ClusterQueue spec.resourceGroups[].flavors[].resources[].nominalQuota"),
    ] = field(default_factory=dict)
    """How many units of each pool's GPU resource the queue hands out at once, by pool. By default,
    `maxNodes` times the allocatable units of a node."""
    groups: Annotated[Sequence[Annotated[str, _GROUP]], UNIQUE, Sent("RoleBinding subjects[]")] = ()
    """The Kubernetes groups that may submit jobs, with any pod that the namespace admits; requires
    `jobSet`. On EKS, a name in `cluster.users`. The stack must create the namespaces of such a
    queue with `podSecurity: baseline`. On an existing cluster they can be other namespaces, except
    `default` and `kube-*`; check which Pod Security level these enforce."""

    @rule
    def _check_quota(self) -> Iterator[Refusal]:
        for pool in self.nominal_quota:
            if pool not in self.pools:
                reason = "is not a pool of this queue"
                yield refuse(("nominalQuota", pool))(reason, allowed=self.pools)

    def quota(self, pool: GpuPool) -> int:
        """Units of the pool's GPU resource that the queue hands out at once.

        Raises `Refusal` if the number is not known, or is more than the pool's maxNodes allows.
        """
        quota = self.nominal_quota.get(pool.name)
        if pool.max_nodes is None:
            if quota is None:
                raise refuse(("nominalQuota", pool.name))(
                    "is missing, and cannot be derived because the pool has no maxNodes",
                    remedy="set how many GPUs the queue may hand out",
                )
            return quota
        most = pool.max_nodes * pool.allocatable
        if quota is not None and quota > most:
            raise refuse(("nominalQuota", pool.name))(
                f"{quota} is more than the pool's maxNodes allows, at most {most}",
                remedy="lower it, or raise maxNodes",
            )
        return most if quota is None else quota

    def key(self, name: str, key: str) -> str:
        """The path of a setting of the queue called `name`."""
        return f"batch.queues.{name}.{key}"

    def guaranteed(self, pool: GpuPool) -> int:
        """The units of the pool that the queue can hand out whatever other queues do."""
        return self.quota(pool)

    def resource_quota(self, pool: GpuPool) -> dict[str, str]:
        """Kueue's quota for the pool's flavor, a string, as the API server returns it."""
        return {"nominalQuota": str(self.quota(pool))}

    @property
    def priorities(self) -> Sequence[str] | None:
        """The priorities that its jobs may have; None if all are allowed."""
        return None

    @property
    def submitters(self) -> Sequence[tuple[str, str]]:
        """The subjects that may submit jobs: `Group` or `User`, and the name."""
        return [("Group", group) for group in self.groups]

    @property
    def sharing(self) -> dict[str, Any]:
        """The ClusterQueue fields that tie it to other queues of its pools; may be empty."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRequest:
    """The resources that a job requests from its queue, all at once."""

    queue: str | None
    """The queue's name; None for a job without a queue."""
    namespace: str
    pool: GpuPool
    pods: int
    gpus: int
    """GPUs per pod."""
    priority: str | None = None
    long_running: bool = False
    """Whether no queue accepts it, as its pods never end or its block has no key `queue`."""
    uncounted: str = ""
    """A key of claims that Kueue does not count; empty without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchArgs(Checked):
    """The controllers for multi-node jobs and for jobs that wait in queues."""

    job_set: Annotated[bool, Sent("Controller", "CustomResourceDefinition")] = False
    """Whether this stack runs the JobSet controller, which `trainingJobs` need."""
    queues: Mapping[Annotated[str, DNS_LABEL], QueueArgs] = field(default_factory=dict)
    """The queues by name. If there are any, this stack runs Kueue."""
    priorities: Annotated[
        Mapping[Annotated[str, DNS_LABEL], Annotated[int, Ge(-1_000_000_000), Le(1_000_000_000)]],
        Sent("ClusterQueue spec.preemption", "WorkloadPriorityClass"),
    ] = field(default_factory=dict)
    """The values that jobs may name as their `priority`; a job without one has 0. Within a queue, a
    job with a higher value starts first, and preempts running jobs with a lower one if it needs
    their GPUs: these return to the queue and start again."""
    pods_ready_minutes: Annotated[
        int | None,
        Interval(ge=1, le=1440),
        Sent("ConfigMap data.controller_manager_config.yaml.waitForPodsReady.timeout"),
    ] = None
    """How many minutes a job that has left its queue may take until all of its pods run; applies to
    all queues. Then Kueue stops it, so that its nodes become idle, and it returns to its queue. A
    running job that waits for another pod is not stopped. By default, there is no limit."""
    deletion_protection: Annotated[
        bool | None, Sent("DeletionProtection (protect)", "CustomResourceDefinition (protect)")
    ] = None
    """Whether Pulumi refuses, on an existing cluster, to remove `jobSet`, the last queue or the
    stack, because every JobSet or Kueue object of the cluster would be deleted too, also those of
    others. By default, true; before you remove them, set it to `false` and run `pulumi up`."""

    @rule
    def _check_queues(self) -> Iterator[Refusal]:
        owners: dict[str, str] = {}
        for name, queue in self.queues.items():
            if queue.groups and not self.job_set:
                yield refuse(("queues", name, "groups"))(
                    "submit JobSets, whose controller this stack does not install",
                    remedy="set jobSet: true, or drop the key",
                )
            for pool in queue.pools:
                if pool in owners and not queue.sharing:
                    yield refuse(("queues", name, "pools"), pool)(
                        f"already belongs to queue {owners[pool]}, and two queues would hand out "
                        "the same GPUs; list it in only one"
                    )
                owners[pool] = name

    def joined(self, teams: Mapping[str, QueueArgs]) -> "BatchArgs":
        """These args with the teams' queues and the controllers for them.

        Raises `Refusal` for a queue, pool or namespace that both a team and another queue claim.
        """
        refusals = Refusals()
        for name, queue in self.queues.items():
            if name in teams:
                reason = "is also the name of a team, whose queue has that name; choose another"
                refusals.add(refuse(("queues", name))(reason))
            for team, its in teams.items():
                for key in ("pools", "namespaces"):
                    if both := [item for item in getattr(queue, key) if item in getattr(its, key)]:
                        reason = f"belongs to team {team}; drop it, or make the queue a team too"
                        refusals.add(refuse(("queues", name, key), both[0])(reason))
        refusals.check()
        return replace(self, job_set=True, queues={**self.queues, **teams})

    def owners(self, pool: str) -> list[str]:
        """The queues that hand out the pool: one, or one per team that shares it."""
        return [name for name, queue in self.queues.items() if pool in queue.pools]

    def _queue(self, name: str) -> QueueArgs:
        if name not in self.queues:
            allowed = unknown(name, self.queues, f"add batch.queues.{name}")
            raise refuse("queue", name)("is not a queue", remedy=allowed)
        return self.queues[name]

    @collected
    def check_names(self, args: Any) -> Iterator[Refusal]:
        """Raises the refusals of a queue and a priority that pods name and that do not exist."""
        if "queue" in args.__dataclass_fields__ and args.queue is not None:
            yield from raised(self._queue, args.queue)
            if args.priority is not None:
                yield from raised(self.check_priority, "priority", args.priority)

    @collected
    def check_queue(self, asked: QueueRequest) -> Iterator[Refusal]:
        """Raises `Refusal` if the job could never leave its queue."""
        name, pool = asked.queue, asked.pool
        if name is None:
            if asked.priority is not None:
                yield refuse("priority")("has no effect without a queue; drop it, or set queue")
            if pool.all_at_once is not None and asked.long_running:
                yield refuse("pool")(
                    f"{pool.name} is queued, and only jobs of a queue run there",
                    remedy="choose another pool",
                )
            elif pool.all_at_once is not None:
                yield refuse("queue")(
                    f"is missing, and pool {pool.name} is queued: its nodes start only for jobs "
                    "of a queue; set it, or choose another pool"
                )
            return
        args = self._queue(name)
        if asked.namespace not in args.namespaces:
            yield refuse("queue")(
                f"{name} does not accept jobs from namespace {asked.namespace}",
                remedy=f"allowed namespaces: {', '.join(args.namespaces)}",
            )
        if asked.uncounted:
            yield refuse(asked.uncounted)(
                f"is not possible in queue {name}: of GPUs that pods claim, Kueue "
                f"{images.KUEUE.tag} counts only a number for each pod",
                remedy="drop the key, or use a pool without a queue",
            )
        yield from raised(self._check_priority, name, asked.priority)
        if pool.name not in args.pools:
            yield refuse("queue")(
                f"{name} does not hand out pool {pool.name}",
                remedy=f"allowed pools: {', '.join(args.pools)}",
            )
        elif not asked.gpus:
            yield refuse("queue")(
                f"{name} hands out GPUs, and gpus is 0; request GPUs, or drop the queue"
            )
        elif asked.pods * asked.gpus > (quota := args.quota(pool)):
            bound = "the queue's nominalQuota" if pool.name in args.nominal_quota else "maxNodes"
            yield refuse("queue")(
                f"{name} hands out {quota} GPUs of pool {pool.name}, and {asked.pods} pods with "
                f"{asked.gpus} each would wait forever; request fewer, or raise {bound}"
            )

    def check_priority(self, path: str, priority: str) -> None:
        """Raises `Refusal` if `priority` is not in `priorities`."""
        if priority not in self.priorities:
            add = f"add batch.priorities.{priority}, for instance 1000"
            remedy = unknown(priority, self.priorities, add)
            raise refuse(path, priority)("is not a priority", remedy=remedy)

    def _check_priority(self, queue: str, priority: str | None) -> None:
        if priority is None:
            return
        self.check_priority("priority", priority)
        allowed = self.queues[queue].priorities
        if allowed is not None and priority not in allowed:
            raise refuse("priority")(
                f"{priority} is not available to jobs of team {queue}",
                allowed=allowed,
                remedy="" if allowed else "drop it",
            )

    def _entrance(self, queue: str, namespace: str) -> str:
        """The keys of a workload in `namespace` for the queue to accept it."""
        allowed = self.queues[queue].namespaces
        move = "" if namespace in allowed else f" and namespace: {allowed[0]}"
        return f"queue: {queue}{move}"

    def past_queue(self, pool: GpuPool, kind: str, namespace: str, gpus: int) -> str | None:
        """A warning that a workload of this kind (`job` or another) bypasses the queue that hands
        out the pool; None if the queue's quota leaves enough for the `gpus` of all such workloads.
        A pool without a maximum has an explicit quota."""
        owners = self.owners(pool.name)
        if not owners or pool.max_nodes is None:
            return None
        free = pool.max_nodes * pool.allocatable - gpus
        if sum(self.queues[owner].guaranteed(pool) for owner in owners) <= free:
            return None
        name = " or ".join(owners)
        if kind == "job":
            what = f"queue: is missing, and pool {pool.name} belongs to queue {name}: the job"
            ways = [" or ".join(self._entrance(owner, namespace) for owner in owners)]
        else:
            what = f"pool: {pool.name} belongs to queue {name}, and a {kind} has no queue: it"
            ways = []
        if free > 0:
            quotas = [self.queues[owner].key(owner, "nominalQuota") for owner in owners]
            ways.append(f"{' + '.join(f'{key}.{pool.name}' for key in quotas)} to at most {free}")
        way = f"set {', or '.join(ways)}" if ways else "choose another pool"
        return (
            f"{what} does not wait in the queue, so a job that the queue has started may have to "
            f"wait for its GPUs; {way}"
        )
