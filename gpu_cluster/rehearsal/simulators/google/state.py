"""The resources of the simulated Google Cloud, as the methods of its APIs read and change them."""

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.rehearsal.simulators.blocks import Sizes
from gpu_cluster.rehearsal.simulators.cloud import ApiFaults, ControlPlane, NodeGroup, Recycled
from gpu_cluster.rehearsal.simulators.google.errors import bad_request, not_found
from gpu_cluster.rehearsal.simulators.google.operations import Operations
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google_inventory import Bucket, Networks
from gpu_cluster.rehearsal.simulators.reservations import Reservation
from gpu_cluster.rehearsal.simulators.stock import Stock

_POOL_MEMBER = re.compile(r"serviceAccount:(?P<pool>[^\[]+\.svc\.id\.goog)\[[^/\]]+/[^/\]]+\]")
_DEFAULT_ACCOUNTS = ("default", "", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    """The content of a cloud before its first request."""

    networks: Networks | None = None
    reservations: Sequence[Reservation] = ()
    buckets: Mapping[str, Bucket] = field(default_factory=dict)
    """Buckets that differ from the default, by name."""
    not_granted: frozenset[str] = frozenset()
    """Cloud KMS keys on which GKE's service agent has no role, as `projects/...`, and
    repositories on which the nodes' account has none, as in an image's name."""
    accounts: frozenset[str] = frozenset()
    """Emails of service accounts."""
    stock: Sequence[Stock] = ()
    """Machines in limited number."""
    blocks: Sizes = field(default_factory=dict)
    """Where in the network machines are."""


class CloudState(ABC):
    """The resources of a cloud, and the cloud-wide functions that its methods use. Thread-safe."""

    def __init__(
        self, *, control_plane: ControlPlane, faults: ApiFaults, existing: Existing
    ) -> None:
        self.control_plane = control_plane
        self.faults = faults
        self.reservations = tuple(existing.reservations)
        self.buckets = dict(existing.buckets)
        self.not_granted = existing.not_granted
        self.accounts = existing.accounts
        self.recycled: Recycled = lambda group, revision: "done"
        self.lock = threading.RLock()
        self.operations = Operations()
        self.resources: dict[str, CloudResource] = {}
        """All resources by ID. Hold `lock` to read or change them."""
        self.policies: dict[str, dict[str, Any]] = {}
        """Project, service account or bucket (`b/NAME`) -> its IAM policy, without etag."""
        self.host_projects: dict[str, str] = {}
        """Shared VPC: project -> the host project that it is attached to."""
        self.auto_nodes: dict[str, int] = {}
        """Autopilot's group -> its current nodes. Hold `lock`, as for `resources`."""
        self._workload_pools: set[str] = set()
        self._assumed: dict[str, None] = {}
        self.peered: set[str] = set()
        """Networks that have been peered with a Filestore instance's."""
        """The assumptions, one line each."""

    # Implemented by the cloud as a whole.

    @abstractmethod
    def node_groups(self) -> list[NodeGroup]:
        """Implements `rehearsal.simulators.cloud.Cloud`."""

    @abstractmethod
    def pools(self) -> Iterator[CloudResource]:
        """All node pools, including those that Autopilot creates for a reservation."""

    @abstractmethod
    def limit(self, metric: str) -> int:
        """The GPUs that the project may have in a metric."""

    @abstractmethod
    def short_of(self, machine: tuple[str, str], more: int, zone: str) -> Stock | None:
        """The row of stock with too few machines for `more` of a type, bought in a way."""

    @abstractmethod
    def check_start(self, pool: CloudResource, wanted: int) -> None:
        """Raises ApiError if the pool cannot have `wanted` nodes: GKE creates a pool that cannot
        have any nodes, and Compute Engine refuses its first one."""

    @abstractmethod
    def check_upgrade(self, pool: CloudResource, more: int, *, other_machines: bool) -> None:
        """Raises ApiError if the pool cannot have `more` nodes than it has while it is upgraded, or
        all of its nodes on `other_machines`."""

    @abstractmethod
    def notify(self) -> None:
        """Runs the callback if `node_groups` has changed since the last call."""

    def followed(self, recycled: Recycled) -> None:
        """Implements `rehearsal.simulators.cloud.Recycling`."""
        self.recycled = recycled

    # The resources.

    def of(self, token: str) -> Iterator[CloudResource]:
        """All resources of a resource type."""
        return (resource for resource in list(self.resources.values()) if resource.token == token)

    def found(self, identity: str) -> CloudResource:
        """The resource with this full name; raises ApiError (404) if it does not exist."""
        if identity not in self.resources:
            raise not_found(identity)
        return self.resources[identity]

    def remove(self, identity: str) -> None:
        """Deletes the resource together with its parts."""
        del self.resources[identity]
        for child in [item for item in self.resources.values() if item.parent == identity]:
            if child.identity in self.resources:
                self.remove(child.identity)

    def workload_pool(self, name: str) -> None:
        """Creates the project's workload identity pool, which outlives the cluster."""
        self._workload_pools.add(name)

    def check_account(self, node_config: Mapping[str, Any] | None, project: str) -> None:
        """Raises ApiError if the nodes' service account does not exist."""
        email = (node_config or {}).get("serviceAccount")
        if email in _DEFAULT_ACCOUNTS:
            return
        if (
            "@" in str(email)
            and _missing_identity(f"serviceAccount:{email}", self._accounts(), set(), project)
            is None
        ):
            return
        raise bad_request(f"Service account '{email}' does not exist")

    def _accounts(self) -> set[str]:
        return {row.state["email"] for row in self.of("iam.serviceAccounts")} | self.accounts

    def check_member(self, member: str, project: str) -> None:
        """Raises ApiError if an IAM member does not exist."""
        if reason := _missing_identity(member, self._accounts(), self._workload_pools, project):
            raise bad_request(reason)

    def assume(self, line: str) -> None:
        """Records an assumption about undocumented behaviour on which a response is based."""
        self._assumed[line] = None

    def ends_half_way(self, kind: str) -> str:
        """The injected error of the next operation of this type; empty if it succeeds."""
        planned = self.faults.halfway.get(kind)
        return planned.pop(0) if planned else ""


def _missing_identity(member: str, accounts: set[str], pools: set[str], project: str) -> str | None:
    """Why the API refuses this member, or None. Other projects' accounts are accepted."""
    if pool := _POOL_MEMBER.fullmatch(member):
        if pool["pool"] not in pools:
            return f"Identity Pool does not exist ({pool['pool']})"
        return None
    kind, _, email = member.partition(":")
    ours = email.endswith(f"@{project}.iam.gserviceaccount.com")
    if kind == "serviceAccount" and ours and email not in accounts:
        return f"Service account {email} does not exist."
    return None
