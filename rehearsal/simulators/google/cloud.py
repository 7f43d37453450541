"""The simulated Google Cloud: what exists, what it may use, which nodes it would start."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from components.catalog.gke import ACCELERATORS, GLOBAL_GPU_QUOTA, region_of
from rehearsal.simulators.cloud import (
    ApiFaults,
    ControlPlane,
    Mount,
    NodeGroup,
    NodeTemplate,
    NoFaults,
    RefusedError,
    Scaler,
    TemplateComparison,
    Wanted,
)
from rehearsal.simulators.google import attached, nodes, policies
from rehearsal.simulators.google import buckets as bucket_rules
from rehearsal.simulators.google.api.call import ApiError, bad_request, not_found
from rehearsal.simulators.google.api.operations import Operations
from rehearsal.simulators.google.autopilot import (
    ACCELERATOR_COUNT_LABEL,
    GpuRequestShape,
    autopilot_groups,
    gpu_request_shapes,
    reserved_pool,
)
from rehearsal.simulators.google.compute.instances import gpus_used
from rehearsal.simulators.google.container import reserved
from rehearsal.simulators.google.container.locations import check_boot_disk
from rehearsal.simulators.google.container.node_defaults import accelerator_of, quota_metric
from rehearsal.simulators.google.container.tokens import CLUSTER, NODE_POOL
from rehearsal.simulators.google.existing_network import lay_out
from rehearsal.simulators.google.resource import CloudResource
from rehearsal.simulators.google_inventory import Bucket, Networks
from rehearsal.simulators.reservations import Reservation

DEFAULT_QUOTA = 16
"""GPUs, of every metric that `Faults.quota` does not set. Real projects often start with 0."""

_POOL_MEMBER = re.compile(r"serviceAccount:(?P<pool>[^\[]+\.svc\.id\.goog)\[[^/\]]+/[^/\]]+\]")
_DEFAULT_ACCOUNTS = ("default", "", None)
_NOT_HELD = ("serviceusage.services",)
"""An API stays enabled when its resource is deleted, so it is nothing left behind."""


class GoogleCloud:
    """Implements `rehearsal.simulators.cloud.Cloud`. Thread-safe."""

    def __init__(
        self,
        *,
        control_plane: ControlPlane,
        faults: ApiFaults | None = None,
        existing: Networks | None = None,
        reservations: Sequence[Reservation] = (),
        quota_suffices: bool = False,
        buckets: Mapping[str, Bucket] | None = None,
    ) -> None:
        """`existing`: networks that are there before anything is made; `reservations`: what was
        bought by then. With `quota_suffices`, every pool can grow to its maximum, as far as
        `faults` sets no quota. `buckets`: those that are not as any other, by name."""
        self.control_plane = control_plane
        self._quota_suffices = quota_suffices
        self.reservations = tuple(reservations)
        self.buckets = dict(buckets or {})
        self.faults = faults or NoFaults()
        self.lock = threading.RLock()
        self.operations = Operations()
        self.resources: dict[str, CloudResource] = {}
        """Everything that exists, by its id. Hold `lock` to read or change it."""
        self.policies: dict[str, dict[str, Any]] = {}
        """Full name of a project, service account or bucket (`b/NAME`) -> its IAM policy, without
        etag."""
        self.host_projects: dict[str, str] = {}
        """Shared VPC: project -> the host project that it is attached to."""
        self.auto_nodes: dict[str, int] = {}
        """Autopilot's group -> its nodes now. Hold `lock`, as for `resources`."""
        self._gpu_request_shapes: set[GpuRequestShape] = set()
        """Shared and partitioned GPUs that pods ever selected on Autopilot."""
        self._attached: dict[str, str] = {}
        """What GKE's controllers made -> the id of their cluster."""
        self._workload_pools: set[str] = set()
        self._assumed: dict[str, None] = {}
        """What was assumed, a line each."""
        self._callbacks: list[Callable[[], None]] = []
        self._announced: list[NodeGroup] = []
        if existing is not None:
            lay_out(self, existing)
        self._before = set(self._held())
        """What the cloud held before the stack came."""

    # The sandbox's view.

    def node_groups(self) -> list[NodeGroup]:
        """One per node pool; on Autopilot one per accelerator and count, one for each way to share
        them that pods selected, and one without GPUs."""
        with self.lock:
            groups = []
            for cluster in self.of(CLUSTER):
                if (cluster.state.get("autopilot") or {}).get("enabled"):
                    groups += self._autopilot(cluster)
            for pool in self.of(NODE_POOL):
                if pool.state["status"] not in ("PROVISIONING", "ERROR"):
                    groups.append(nodes.group(pool, self.resources[pool.parent or ""]))
            return groups

    def set_size(self, group: str, nodes: int) -> None:
        """As `rehearsal.simulators.cloud.Cloud` has it."""
        try:
            self._set_size(group, nodes)
        except ApiError as error:
            raise RefusedError(error.message) from None

    def _set_size(self, group: str, nodes: int) -> None:
        with self.lock:
            for pool in self.of(NODE_POOL):
                if pool.state["name"] == group:
                    if nodes > pool.nodes:
                        self.check_start(pool, nodes)
                    pool.nodes = nodes
                    return
            known = {each.name: each for each in self.node_groups()}
            if nodes > self.auto_nodes.get(group, 0):
                self._check_auto_start(known[group], nodes)
            self.auto_nodes[group] = nodes

    def release(self, group: str, provider_id: str) -> None:
        """As `Cloud` has it; GKE does not name a machine before its node is there."""
        with self.lock:
            pool = next((one for one in self.of(NODE_POOL) if one.state["name"] == group), None)
            if pool is None:
                raise KeyError(group)
            pool.kept_nodes -= 1
            pool.nodes -= 1

    def _autopilot(self, cluster: CloudResource) -> list[NodeGroup]:
        project, region = cluster.identity.split("/")[1], region_of(cluster.state["location"])
        return autopilot_groups(
            cluster,
            self._gpu_request_shapes,
            lambda path: reserved.in_region(self, path, project, region),
        )

    def asked(self, selectors: Sequence[Mapping[str, str]]) -> None:
        """Node selectors of the cluster's pods, for which Autopilot makes shared GPUs, and takes
        machines out of reservations."""
        with self.lock:
            self._gpu_request_shapes |= gpu_request_shapes(selectors)

    def not_scaled(self, scalers: Sequence[Scaler]) -> Mapping[str, str]:
        """GKE scales its node pools itself."""
        return {}

    def compare_template(self, group: str, node: NodeTemplate) -> TemplateComparison | None:
        """GKE sees its node pools themselves."""
        return None

    def attach(self, wanted: Sequence[Wanted]) -> Mapping[str, str]:
        """What GKE's controllers make for the objects of the cluster's users."""
        with self.lock:
            cluster = next(self.of(CLUSTER), None)
            if cluster is None:  # and nobody left who would take anything away
                return {}
            return attached.attach(self.resources, self._attached, cluster, wanted)

    def storage_classes(self) -> Sequence[Mapping[str, Any]]:
        """Those of GKE's own."""
        with self.lock:
            cluster = next(self.of(CLUSTER), None)
            return attached.storage_classes(cluster) if cluster else []

    def why_not_provisioned(self, wanted: Wanted) -> str:
        """What the drivers of Compute Engine's disks and of Filestore say of a claim."""
        with self.lock:
            cluster = next(self.of(CLUSTER), None)
            if cluster is None:
                return ""
            return attached.why_not_provisioned(self.resources, cluster, wanted)

    def why_not_mounted(self, mount: Mount) -> str:
        """What the drivers of disks, of Filestore and of buckets say of a pod's volume."""
        with self.lock:
            cluster = next(self.of(CLUSTER), None)
            if cluster is None:
                return ""
            if mount.driver in attached.DRIVERS:
                return attached.why_not_mounted(self.resources, cluster, mount)
            return bucket_rules.why_not_mounted(mount, cluster, self.policies, self.buckets)

    def assumptions(self) -> Sequence[str]:
        """As `Assuming` has it."""
        with self.lock:
            return list(self._assumed)

    def list_resources(self) -> list[str]:
        """`subnetwork projects/...`, one line each, sorted: whatever was not there before the
        stack, and what was and is gone."""
        with self.lock:
            before, now = self._before, set(self._held())
            gone = [f"not any more: {line}, which is somebody else's" for line in before - now]
            return [*sorted(now - before), *sorted(gone)]

    def _held(self) -> Iterator[str]:
        for resource in self.resources.values():
            if resource.token not in _NOT_HELD:
                yield f"{resource.display_name} {resource.identity}"
        yield from policies.held(self)

    def on_change(self, callback: Callable[[], None]) -> None:
        """The callback runs on the thread of the operation that changed something, unlocked."""
        with self.lock:
            self._callbacks.append(callback)

    def notify(self) -> None:
        """Calls back if `node_groups` changed since the last time."""
        with self.lock:
            current = self.node_groups()
            changed, self._announced = current != self._announced, current
            callbacks = list(self._callbacks) if changed else []
        for callback in callbacks:
            callback()

    # The resource types' view.

    def of(self, token: str) -> Iterator[CloudResource]:
        """All resources of a resource type."""
        return (resource for resource in list(self.resources.values()) if resource.token == token)

    def pools(self) -> Iterator[CloudResource]:
        """All node pools, those that Autopilot makes for a reservation among them."""
        yield from self.of(NODE_POOL)
        for cluster in self.of(CLUSTER):
            if (cluster.state.get("autopilot") or {}).get("enabled"):
                for group in self._autopilot(cluster):
                    nodes = self.auto_nodes.get(group.name, 0)
                    if pool := reserved_pool(cluster, group, nodes):
                        yield pool

    def found(self, identity: str) -> CloudResource:
        """The resource with this full name; raises ApiError, 404."""
        if identity not in self.resources:
            raise not_found(identity)
        return self.resources[identity]

    def remove(self, identity: str) -> None:
        """Deletes the resource, and with it what is part of it."""
        del self.resources[identity]
        for child in [one for one in self.resources.values() if one.parent == identity]:
            if child.identity in self.resources:
                self.remove(child.identity)

    def workload_pool(self, name: str) -> None:
        """A cluster brings the project's workload identity pool, which outlives it."""
        self._workload_pools.add(name)

    def check_account(self, node_config: Mapping[str, Any] | None, project: str) -> None:
        """Raises ApiError where nodes shall run as a service account that does not exist."""
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
        return {one.state["email"] for one in self.of("iam.serviceAccounts")}

    def check_member(self, member: str, project: str) -> None:
        """Raises ApiError where an IAM member does not exist."""
        if reason := _missing_identity(member, self._accounts(), self._workload_pools, project):
            raise bad_request(reason)

    def assume(self, line: str) -> None:
        """Notes what no source says, and a request was answered by."""
        self._assumed[line] = None

    def ends_half_way(self, kind: str) -> str:
        """What the next operation of this kind shall end with; empty where it shall succeed."""
        planned = self.faults.halfway.get(kind)
        return planned.pop(0) if planned else ""

    # What keeps nodes from starting.

    def limit(self, metric: str) -> int:
        """GPUs that the project may have of a metric."""
        if metric in self.faults.quota or not self._quota_suffices:
            return self.faults.quota.get(metric, DEFAULT_QUOTA)
        groups = [pool for pool in self.node_groups() if not pool.auto_provisioned]
        most = sum(group.max_nodes * group.gpus for group in groups)
        return max(DEFAULT_QUOTA, most + reserved.reserved_gpus(self, None, None))

    def check_start(self, pool: CloudResource, wanted: int) -> None:
        """Raises ApiError where the pool cannot have `wanted` nodes: GKE itself makes a pool that
        can have none, and Compute Engine refuses its first node."""
        if not wanted:
            return
        check_boot_disk(pool.state["config"])
        reserved.check_start(self, pool, wanted)
        gpus = accelerator_of(pool.state)
        if gpus and not reserved.affinity(pool.state):  # else it is the reservation that counts
            region = region_of(pool.state["locations"][0])
            metric = quota_metric(pool.state)
            self._check_quota(pool.state["name"], wanted * gpus[1], metric, region)

    def _check_auto_start(self, group: NodeGroup, wanted: int) -> None:
        for pool in self.pools():
            if pool.state["name"] == group.name:
                reserved.check_start(self, pool, wanted)
                return  # it is the reservation that counts
        labels = group.node.labels
        if name := labels.get(nodes.ACCELERATOR_LABEL):
            gpu_model, gpus = ACCELERATORS[name], wanted * int(labels[ACCELERATOR_COUNT_LABEL])
            metric = gpu_model.quota_metric_preemptible if group.spot else gpu_model.quota_metric
            self._check_quota(group.name, gpus, metric, labels["topology.kubernetes.io/region"])

    def _check_quota(self, group: str, gpus: int, metric: str, region: str) -> None:
        """Raises ApiError where the project may not have so many GPUs in the group."""
        for name, place in ((metric, region), (GLOBAL_GPU_QUOTA, None)):
            if self._quota_suffices and name not in self.faults.quota:
                continue
            units, limit = gpus + gpus_used(self, name, place, besides=group), self.limit(name)
            if units > limit:
                scope = f"region {place}" if place else "all regions"
                raise ApiError(
                    403,
                    f"GCE quota exceeded: Quota '{name}' exceeded. Limit: {limit}.0 in {scope}, "
                    f"needed: {units}.0",
                    reason="quotaExceeded",
                )


def _missing_identity(member: str, accounts: set[str], pools: set[str], project: str) -> str | None:
    """Why the API refuses this member, if it does. Accounts of other projects are not known here
    and pass."""
    if pool := _POOL_MEMBER.fullmatch(member):
        if pool["pool"] not in pools:
            return f"Identity Pool does not exist ({pool['pool']})"
        return None
    kind, _, email = member.partition(":")
    ours = email.endswith(f"@{project}.iam.gserviceaccount.com")
    if kind == "serviceAccount" and ours and email not in accounts:
        return f"Service account {email} does not exist."
    return None
