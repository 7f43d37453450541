"""The settings of a team: its people, its namespaces, and its share of the GPUs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

from annotated_types import Ge, MinLen

from ..catalog import kubernetes as names
from ..cluster import GpuPool
from ..gpu.resources_args import ResourcesArgs
from ..kube import quantity
from ..schema.effect import Sent
from ..schema.limits import DNS_LABEL, QUANTITY, UNIQUE, Example, Hint
from ..schema.refusal import Keys, Refusal, Refusals, raised, refuse
from ..schema.rules import Checked, rule
from .batch_args import QueueArgs

COHORT = "teams"
"""The cohort that contains the teams' queues and within which GPUs are lent."""
WITHIN_QUEUE = {"withinClusterQueue": "LowerPriority"}
"""Which running jobs of its queue a job may preempt if the queue has no GPUs left."""
CHOOSES_GPUS, HARMLESS_VARIABLE = "NVIDIA_", "NVIDIA_DRIVER_CAPABILITIES"
"""How variables begin that choose which GPUs a container sees, and the one that does not."""
_FLAVOR = "ClusterQueue spec.resourceGroups[].flavors[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamQuotaArgs(Checked):
    """Maximums for a team's namespace, which Kueue does not count."""

    cpu: Annotated[str, QUANTITY] | None = None
    """The CPU that its pods request together, such as `64`."""
    memory: Annotated[str, QUANTITY] | None = None
    """The memory that its pods request together, such as `512Gi`."""
    storage: Annotated[str, QUANTITY] | None = None
    """The size of its claims together, including those of ephemeral volumes, such as `2Ti`."""
    pods: Annotated[int | None, Ge(1)] = None
    """The number of its pods that have not ended."""

    def hard(self) -> dict[str, str]:
        """The entries of the ResourceQuota."""
        amounts = {
            "requests.cpu": self.cpu,
            "requests.memory": self.memory,
            "requests.storage": self.storage,
            "pods": None if self.pods is None else str(self.pods),
        }
        return {name: amount for name, amount in amounts.items() if amount is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamArgs(Checked):
    """People who submit training jobs, and nothing else, in their own namespaces, which this stack
    creates; their queue has the team's name. With any team, this stack runs Kueue and JobSet."""

    members: Annotated[
        Sequence[str],
        MinLen(1),
        UNIQUE,
        Hint("name the people or groups"),
        Sent("AccessEntry principalArn", "RoleBinding subjects[]"),
        Example("[group:researchers@example.com]"),
    ]
    """The members. EKS: ARNs of IAM roles and users. GKE: `user:` or `group:` and an e-mail
    address. An existing cluster: `user:` or `group:` and the name that the cluster uses; if it is
    an EKS cluster that `existing` names, also ARNs."""
    namespaces: Annotated[
        Sequence[Annotated[str, DNS_LABEL]],
        UNIQUE,
        Sent("Namespace", "ResourceQuota", "ClusterQueue spec.namespaceSelector", "LocalQueue"),
    ] = ()
    """Its namespaces, which no other team may use; by default, one with the team's name. Their Pod
    Security level is set in the block `namespaces`, if it differs from the default."""
    gpus: Annotated[
        Mapping[str, Annotated[int, Ge(0)]],
        MinLen(1),
        Hint("name a pool, and how many of its GPUs are the team's"),
        Sent(f"{_FLAVOR}.resources[].nominalQuota", "ResourceQuota spec.hard"),
        Example("{ train-gpu: 8 }"),
    ]
    """The guaranteed units of each pool's GPU resource, by pool; 0 for a pool to borrow from."""
    borrow: Annotated[
        bool, Sent(f"{_FLAVOR}.resources[].borrowingLimit", "ResourceQuota spec.hard")
    ] = False
    """Whether its jobs may also use what other teams leave idle in these pools. When the other team
    needs its GPUs, borrowing jobs are stopped: they wait in their queue and start again from the
    beginning or from their last checkpoint."""
    lend: Annotated[bool, Sent(f"{_FLAVOR}.resources[].lendingLimit")] = True
    """Whether others may borrow what this team leaves idle."""
    weight: Annotated[int, Ge(1), Sent("ClusterQueue spec.fairSharing.weight")] = 1
    """The team's weight when several teams want to borrow: 2 gets twice as much as 1."""
    priorities: Annotated[
        Sequence[str] | None, UNIQUE, Sent("ValidatingAdmissionPolicy spec.validations[]")
    ] = None
    """The values of `batch.priorities` that its jobs may have; by default, all. They only order the
    team's own jobs: no priority keeps another team from its GPUs."""
    requests: Annotated[ResourcesArgs, Sent("LimitRange spec.limits[].defaultRequest")] = field(
        default_factory=lambda: ResourcesArgs(cpu="500m", memory="1Gi")
    )
    """The CPU, memory and disk requests of containers that specify none."""
    quota: Annotated[TeamQuotaArgs, Sent("ResourceQuota spec.hard")] = field(
        default_factory=TeamQuotaArgs
    )
    """What all pods in each of its namespaces may have besides GPUs; by default, any amount."""

    @rule
    def _check_namespaces(self) -> None:
        for position, namespace in enumerate(self.namespaces):
            check_creatable(f"namespaces[{position}]", namespace)

    @rule
    def _check_quota(self) -> Iterator[Refusal]:
        for key in ("cpu", "memory"):
            most, asked = getattr(self.quota, key), getattr(self.requests, key)
            if most and asked is None:
                yield refuse(("quota", key))(
                    "a namespace with this quota refuses containers without a request",
                    remedy=f"set the team's requests.{key}, or drop the key",
                )
            what = f"requests.{key}, which a container without a request gets,"
            yield from raised(check_quota, ("quota", key), most, asked, what)

    @rule
    def _check_gpus(self) -> Iterator[Refusal]:
        for pool, gpus in self.gpus.items():
            if not gpus and not self.borrow:
                remedy = "raise it, drop the pool, or set borrow: true"
                yield refuse(("gpus", pool))("is 0, and the team may not borrow", remedy=remedy)


def check_quota(path: Keys, most: str | None, amount: Decimal | str | None, what: str) -> None:
    """Raises `Refusal` if the quota `most` is less than `amount`."""
    if most and amount and quantity.parse(most) < (needed := quantity.parse(f"{amount}")):
        shown = amount if isinstance(amount, str) else f"{needed.normalize():f}"
        raise refuse(path)(f"{most} is less than {what} {shown}", remedy="raise it")


def chooses_gpus(variable: str) -> bool:
    """Whether a team's pods may not have the variable, because it chooses the GPUs they see."""
    return variable.startswith(CHOOSES_GPUS) and variable != HARMLESS_VARIABLE


def check_creatable(path: str, namespace: str) -> None:
    """Raises `Refusal` for a namespace of Kubernetes, the cloud or a controller."""
    if names.RESERVED_NAMESPACE.fullmatch(namespace):
        raise refuse(path, namespace)(
            "belongs to Kubernetes, the cloud or a controller",
            remedy="give a namespace that belongs to the team",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamQueue(QueueArgs):
    """The queue of a team. `nominal_quota` is its maximum, including what it borrows."""

    team: TeamArgs
    users: Sequence[str] = ()
    """The Kubernetes users that may submit jobs, in addition to `groups`."""

    def key(self, name: str, key: str) -> str:
        """The path of a setting of the team."""
        return f"teams.{name}.{ {'groups': 'members', 'nominalQuota': 'gpus'}.get(key, key) }"

    def guaranteed(self, pool: GpuPool) -> int:
        """The units of the pool that no other team can take from it."""
        return self.team.gpus[pool.name]

    def resource_quota(self, pool: GpuPool) -> dict[str, str]:
        """Kueue's quota for the pool's flavor, a string, as the API server returns it."""
        return {
            "nominalQuota": str(self.guaranteed(pool)),
            **({} if self.team.borrow else {"borrowingLimit": "0"}),
            **({} if self.team.lend else {"lendingLimit": "0"}),
        }

    @property
    def priorities(self) -> Sequence[str] | None:
        """The priorities that its jobs may have; None if all are allowed."""
        return self.team.priorities

    @property
    def submitters(self) -> Sequence[tuple[str, str]]:
        """Its members as RoleBindings name them."""
        return [
            *(("Group", group) for group in self.groups),
            *(("User", user) for user in self.users),
        ]

    @property
    def sharing(self) -> dict[str, Any]:
        """The ClusterQueue fields that tie it to the queues of other teams."""
        return {
            "cohortName": COHORT,
            "fairSharing": {"weight": str(self.team.weight)},
            # No `borrowWithinCohort`: Kueue ignores it with fair sharing.
            "preemption": {**WITHIN_QUEUE, "reclaimWithinCohort": "Any"},
        }


def team_queues(
    teams: Mapping[str, TeamArgs], subjects: Mapping[str, tuple[Sequence[str], Sequence[str]]]
) -> dict[str, QueueArgs]:
    """The teams' queues; `subjects`: the Kubernetes groups and users of each team."""
    queues: dict[str, QueueArgs] = {}
    refusals = Refusals()
    for name, team in teams.items():
        others = [other for other in teams.values() if other is not team and other.lend]
        most = {
            pool: gpus + sum(other.gpus.get(pool, 0) for other in others if team.borrow)
            for pool, gpus in team.gpus.items()
        }
        for pool, gpus in most.items():
            if not gpus:
                reason = "is 0, and no other team lends any of this pool"
                remedy = "raise it, or drop the pool"
                refusals.add(refuse((name, "gpus", pool))(reason, remedy=remedy))
        if not all(most.values()):
            continue
        groups, users = subjects[name]
        queues[name] = TeamQueue(
            pools=list(team.gpus),
            namespaces=namespaces_of(name, team),
            nominal_quota=most,
            groups=groups,
            users=users,
            team=team,
        )
    refusals.check()
    return queues


def namespaces_of(name: str, team: TeamArgs) -> Sequence[str]:
    """The namespaces of a team."""
    return team.namespaces or (name,)
