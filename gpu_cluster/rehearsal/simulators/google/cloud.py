"""The simulated Google Cloud: its resources, its quotas, the nodes it would start."""

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_cluster.components.catalog.gke import ACCELERATORS, GLOBAL_GPU_QUOTA, region_of
from gpu_cluster.rehearsal.simulators.cloud import (
    ApiFaults,
    ControlPlane,
    Mount,
    NodeGroup,
    NoFaults,
    PodNetwork,
    RefusedError,
    Wanted,
    not_as_before,
)
from gpu_cluster.rehearsal.simulators.google import (
    artifact_registry,
    attached,
    compute_classes,
    existing_cluster,
    nodes,
    policies,
    topology,
)
from gpu_cluster.rehearsal.simulators.google import buckets as bucket_rules
from gpu_cluster.rehearsal.simulators.google.autopilot import (
    ACCELERATOR_COUNT_LABEL,
    GpuRequestShape,
    autopilot_groups,
    gpu_request_shapes,
    reserved_pool,
)
from gpu_cluster.rehearsal.simulators.google.compute.instances import gpus_used
from gpu_cluster.rehearsal.simulators.google.container import pod_networks, reserved
from gpu_cluster.rehearsal.simulators.google.container.machine_families import check_boot_disk
from gpu_cluster.rehearsal.simulators.google.container.node_defaults import (
    accelerator_of,
    max_pods,
    quota_metric,
)
from gpu_cluster.rehearsal.simulators.google.container.node_features import ACCELERATOR_LABEL
from gpu_cluster.rehearsal.simulators.google.container.tokens import CLUSTER, NODE_POOL
from gpu_cluster.rehearsal.simulators.google.errors import ApiError
from gpu_cluster.rehearsal.simulators.google.existing_network import lay_out
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google.state import CloudState, Existing
from gpu_cluster.rehearsal.simulators.google.states import states
from gpu_cluster.rehearsal.simulators.google.stock import exhausted, machine_of, short_of
from gpu_cluster.rehearsal.simulators.google_inventory import GkeCluster
from gpu_cluster.rehearsal.simulators.stock import Stock, Stocks

DEFAULT_QUOTA = 16
"""The limit, in GPUs, of metrics that `Faults.quota` does not set; real ones often start at 0."""

_NOT_HELD = ("serviceusage.services",)
"""An API stays enabled when its resource is deleted, so it is not a leftover."""


class GoogleCloud(CloudState):
    """Implements `rehearsal.simulators.cloud.Cloud`. Thread-safe."""

    def __init__(
        self,
        *,
        control_plane: ControlPlane,
        faults: ApiFaults | None = None,
        existing: Existing | None = None,
        quota_suffices: bool = False,
    ) -> None:
        """`quota_suffices`: every pool can grow to its maximum unless `faults` sets a quota."""
        existing = existing or Existing()
        super().__init__(
            control_plane=control_plane, faults=faults or NoFaults(), existing=existing
        )
        self._quota_suffices = quota_suffices
        self._gpu_request_shapes: set[GpuRequestShape] = set()
        """Shared and partitioned GPUs that pods have ever selected on Autopilot."""
        self._attached: dict[str, str] = {}
        """Resources that GKE's controllers created -> the ID of their cluster."""
        self._callbacks: list[Callable[[], None]] = []
        self._announced: list[NodeGroup] = []
        self._blocks = existing.blocks
        self.stock = Stocks(existing.stock)
        """Machines that ran out, and those that become available again."""
        self.placed: Counter[tuple[str, str]] = Counter()
        self.in_zones: Counter[tuple[str, str]] = Counter()
        self._classes: list[Mapping[str, Any]] = []
        self._pod_networks: Mapping[str, PodNetwork] = {}
        if existing.networks is not None:
            lay_out(self, existing.networks)
        self._before = set(self._listed())
        """The cloud's resources before the stack."""
        self._states_before: Mapping[str, str] = {}
        """The states of those resources, if another owner's cluster is among them."""

    # The sandbox's view.

    def node_groups(self) -> list[NodeGroup]:
        """One per node pool. On Autopilot one per accelerator and count, one for each way of
        sharing that pods selected, and one without GPUs."""
        with self.lock:
            groups = []
            for cluster in self.of(CLUSTER):
                if (cluster.state.get("autopilot") or {}).get("enabled"):
                    groups += self._autopilot(cluster)
            auto = self._candidates()
            for pool in self.of(NODE_POOL):
                if pool.state["status"] not in ("PROVISIONING", "ERROR"):
                    cluster = self.resources[pool.parent or ""]
                    candidate = auto.pop(pool.identity, None)
                    groups.append(
                        compute_classes.group(candidate, cluster, pool)
                        if candidate
                        else replace(
                            pod_networks.with_interfaces(
                                nodes.group(pool, cluster), pool, [*self._pod_networks.values()]
                            ),
                            blocks=topology.blocks(
                                pool.state["config"]["machineType"], self._blocks
                            ),
                        )
                    )
            groups += [
                compute_classes.group(item, self.resources[item.pool.parent or ""], item.pool)
                for item in auto.values()
            ]
            return groups

    def classes(self, objects: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Implements `rehearsal.simulators.cloud.ClassScaler`."""
        with self.lock:
            self._classes = list(objects)
            clusters = [*self.of(CLUSTER)]
            return [
                line
                for cluster in clusters
                for line in compute_classes.candidates(self, cluster, self._classes)[1]
            ]

    def networks(
        self, networks: Sequence[Mapping[str, Any]], params: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, PodNetwork]:
        """Implements `rehearsal.simulators.cloud.Networking`."""
        with self.lock:
            cluster = next(self.of(CLUSTER), None)
            known = pod_networks.judged(self, cluster, networks, params) if cluster else {}
            before, self._pod_networks = self._pod_networks, known
        if known != before:
            self.notify()
        return known

    def starts(self, group: str) -> bool:
        """Implements `rehearsal.simulators.cloud.ClassScaler`."""
        with self.lock:
            candidates = {row.pool.state["name"]: row.pool for row in self._candidates().values()}
            if (pool := self._pool(group) or candidates.get(group)) is None:
                return False
            try:
                self.check_start(pool, pool.nodes + 1)
            except ApiError:
                return False
            return True

    def _candidates(self) -> dict[str, compute_classes.Candidate]:
        """Full name of a node pool -> the class's priority for which GKE creates it."""
        return {
            candidate.pool.identity: candidate
            for cluster in self.of(CLUSTER) if self._classes
            for candidate in compute_classes.candidates(self, cluster, self._classes)[0]
        }  # fmt: skip

    def _pool(self, group: str) -> CloudResource | None:
        return next((pool for pool in self.of(NODE_POOL) if pool.state["name"] == group), None)

    def set_size(self, group: str, nodes: int) -> None:
        """Implements `rehearsal.simulators.cloud.Cloud`."""
        self.start_in(group, nodes, "")

    def start_in(self, group: str, nodes: int, zone: str) -> None:
        """Implements `rehearsal.simulators.cloud.Zonal`; in no particular zone if it is empty."""
        try:
            self._set_size(group, nodes, zone)
        except ApiError as error:
            raise RefusedError(error.message) from None

    def _set_size(self, group: str, nodes: int, zone: str) -> None:
        with self.lock:
            pool, auto = self._pool(group), self._candidates()
            if pool is None:
                pool = next((c.pool for c in auto.values() if c.pool.state["name"] == group), None)
            if pool is not None:
                if nodes > pool.nodes:
                    self.check_start(pool, nodes, zone)
                pool.nodes = max(nodes, pool.kept_nodes)  # some have not joined yet
                if nodes and pool.identity not in self.resources:
                    self.resources[pool.identity] = pool
                elif not nodes and pool.state["autoscaling"].get("autoprovisioned"):
                    self.remove(pool.identity)  # GKE keeps no empty pool that it created
                return
            known = {group.name: group for group in self.node_groups()}
            if nodes > self.auto_nodes.get(group, 0):
                self._check_auto_start(known[group], nodes)
            self.auto_nodes[group] = nodes

    def recommend(self, group: str, nodes: int, zones: Sequence[str]) -> str:
        """Implements `rehearsal.simulators.cloud.Queueing`."""
        with self.lock:
            pool = self._pool(group)
            has = (z for z in zones if pool is None or self._short_of(pool, nodes, z) is None)
            return next(has, zones[0])

    def start_together(self, group: str, nodes: int, zone: str) -> None:
        """Implements `rehearsal.simulators.cloud.Queueing`."""
        with self.lock:
            if (pool := self._pool(group)) is None:
                raise RefusedError(f"there is no node pool {group}")
            try:
                self.check_start(pool, pool.nodes + nodes, zone)
            except ApiError as error:
                raise RefusedError(error.message, quota=error.reason == "quotaExceeded") from None
            pool.nodes += nodes
            pool.kept_nodes += nodes
            self.placed[group, zone] += nodes
        self.notify()

    def release(self, group: str, provider_id: str) -> None:
        """Implements `Cloud`; GKE does not name a machine before its node exists."""
        with self.lock:
            if (pool := self._pool(group)) is None:
                raise KeyError(group)
            pool.kept_nodes -= 1
            pool.nodes -= 1

    def left(self, group: str, provider_id: str) -> None:
        """Implements `rehearsal.simulators.cloud.Surging`."""
        with self.lock:
            if (pool := self._pool(group)) and pool.surging:
                pool.surging -= 1
                self.release(group, provider_id)

    def _autopilot(self, cluster: CloudResource) -> list[NodeGroup]:
        project, region = cluster.identity.split("/")[1], region_of(cluster.state["location"])
        return autopilot_groups(
            cluster,
            self._gpu_request_shapes,
            lambda path: reserved.in_region(self, path, project, region),
        )

    def asked(self, selectors: Sequence[Mapping[str, str]]) -> None:
        """Receives the node selectors of the cluster's pods, for which Autopilot creates shared
        GPUs and uses machines of reservations."""
        with self.lock:
            self._gpu_request_shapes |= gpu_request_shapes(selectors)

    def attach(self, wanted: Sequence[Wanted]) -> Mapping[str, str]:
        """Creates what GKE's controllers create for the objects of the cluster's users."""
        with self.lock:
            cluster = next(self.of(CLUSTER), None)
            if cluster is None:  # and no controller remains to delete anything
                return {}
            answer = attached.attach(self.resources, self._attached, cluster, wanted)
            self.peered |= attached.peered_networks(self.resources)
            return answer

    def disk_zone(self, handle: str) -> str:
        """Implements `rehearsal.simulators.cloud.Attaching`."""
        with self.lock:
            return attached.disk_zone(self.resources, handle)

    def storage_classes(self) -> Sequence[Mapping[str, Any]]:
        """GKE's own StorageClasses."""
        with self.lock:
            cluster = next(self.of(CLUSTER), None)
            return attached.storage_classes(cluster) if cluster else []

    def why_not_provisioned(self, wanted: Wanted) -> str:
        """The error of the drivers for Compute Engine's disks and Filestore about a claim."""
        with self.lock:
            cluster = next(self.of(CLUSTER), None)
            if cluster is None:
                return ""
            return attached.why_not_provisioned(self.resources, cluster, wanted)

    def why_not_mounted(self, mount: Mount) -> str:
        """The error of the drivers for disks, Filestore and buckets about a pod's volume."""
        with self.lock:
            cluster = next(self.of(CLUSTER), None)
            if cluster is None:
                return ""
            if mount.driver in attached.DRIVERS:
                return attached.why_not_mounted(self.resources, cluster, mount)
            return bucket_rules.why_not_mounted(mount, cluster, self.policies, self.buckets)

    def why_unenforced(
        self,
        config_maps: Mapping[str, Mapping[str, Any]],
        node_classes: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Implements `rehearsal.simulators.cloud.Enforcing`: Dataplane V2, which Autopilot always
        has, or Calico (docs.cloud.google.com/kubernetes-engine/docs/how-to/network-policy)."""
        with self.lock:
            cluster = next(self.of(CLUSTER), None)
            state = cluster.state if cluster else {}
        network, policy = state.get("networkConfig") or {}, state.get("networkPolicy") or {}
        enforced = (state.get("autopilot") or {}).get("enabled") or policy.get("enabled")
        if not state or enforced or network.get("datapathProvider") == "ADVANCED_DATAPATH":
            return ""
        return (
            "the cluster has neither Dataplane V2 nor networkPolicy: no NetworkPolicy is enforced"
        )

    def why_not_pulled(self, image: str) -> str:
        """containerd's error about an image in Artifact Registry that nodes may not read."""
        with self.lock:
            return artifact_registry.why_not_pulled(image, self.not_granted)

    def assumptions(self) -> Sequence[str]:
        """Implements `Assuming`."""
        with self.lock:
            return list(self._assumed)

    def list_resources(self) -> list[str]:
        """`subnetwork projects/...`, one line each, sorted: what was created since the stack began,
        and what existed before and has been deleted."""
        with self.lock:
            as_it_is = states(self) if self._states_before else {}
            return not_as_before(self._before, set(self._listed()), self._states_before, as_it_is)

    def open(self, cluster: GkeCluster) -> None:
        """Creates a cluster that exists before the stack, and returns when it is up."""
        existing_cluster.lay_out(self, cluster)
        with self.lock:
            self._before, self._states_before = set(self._listed()), states(self)

    def _listed(self) -> Iterator[str]:
        for resource in self.resources.values():
            if resource.token not in _NOT_HELD:
                yield f"{resource.display_name} {resource.identity}"
        yield from policies.binding_lines(self)

    def on_change(self, callback: Callable[[], None]) -> None:
        """The callback runs on the thread of the operation that changed something, unlocked."""
        with self.lock:
            self._callbacks.append(callback)
        self.stock.on_return(callback)

    def notify(self) -> None:
        """Runs the callback if `node_groups` has changed since the last call."""
        with self.lock:
            current = self.node_groups()
            changed, self._announced = current != self._announced, current
            callbacks = list(self._callbacks) if changed else []
        for callback in callbacks:
            callback()

    # The resource types' view.

    def pools(self) -> Iterator[CloudResource]:
        """All node pools, including those that Autopilot creates for a reservation."""
        yield from self.of(NODE_POOL)
        for cluster in self.of(CLUSTER):
            if (cluster.state.get("autopilot") or {}).get("enabled"):
                for group in self._autopilot(cluster):
                    nodes = self.auto_nodes.get(group.name, 0)
                    if pool := reserved_pool(cluster, group, nodes):
                        yield pool

    # Limits on starting nodes.

    def limit(self, metric: str) -> int:
        """The GPUs that the project may have in a metric."""
        if metric in self.faults.quota or not self._quota_suffices:
            return self.faults.quota.get(metric, DEFAULT_QUOTA)
        groups = [pool for pool in self.node_groups() if not pool.auto_provisioned]
        most = sum(group.max_nodes * group.gpus for group in groups)
        return max(DEFAULT_QUOTA, most + reserved.reserved_gpus(self, None, None))

    def _short_of(
        self, pool: CloudResource, more: int, zone: str, besides: str = ""
    ) -> Stock | None:
        return self.short_of(machine_of(pool), more, zone, besides)

    def short_of(
        self, machine: tuple[str, str], more: int, zone: str, besides: str = ""
    ) -> Stock | None:
        """As in `stock`; `besides`: the ID of a pool that does not count."""
        pools = [pool for pool in self.pools() if pool.identity != besides]
        return short_of(self.stock, pools, machine, more, zone, self.placed + self.in_zones)

    def check_start(self, pool: CloudResource, wanted: int, zone: str = "") -> None:
        """Raises ApiError if the pool cannot have `wanted` nodes, the new ones in `zone`, by
        default evenly in all of its zones: GKE creates a pool that cannot have any nodes, and
        Compute Engine refuses its first one."""
        if not wanted:
            return
        check_boot_disk(pool.state["config"])
        zones, more = [zone] if zone else pool.state["locations"], wanted - pool.nodes
        for number, place in enumerate(zones):
            if share := (more + len(zones) - 1 - number) // len(zones):
                self._check_stock(pool, share, place)
        cluster = self.resources[pool.parent or ""]
        compute_classes.check_limits(cluster, self.pools(), pool, wanted)
        self._check_allowed(pool, wanted)
        self._check_addresses(cluster, pool, wanted - pool.nodes)

    def _check_addresses(self, cluster: CloudResource, pool: CloudResource, more: int) -> None:
        """Raises ApiError if the cluster's subnetwork has no addresses for `more` nodes of the pool
        or for their pods: each node takes twice its maximum of pods, as a whole block
        (cloud.google.com/kubernetes-engine/docs/how-to/flexible-pod-cidr)."""
        subnetwork = self.resources.get(cluster.depends_on[1])
        if subnetwork is None:
            return
        name = (cluster.state.get("ipAllocationPolicy") or {}).get("clusterSecondaryRangeName")
        ranges = {row["rangeName"]: row for row in subnetwork.state.get("secondaryIpRanges") or ()}
        counts = [(pool, pool.nodes) for pool in self.pools() if pool.parent == cluster.identity]
        counts.append((pool, more))
        pods = sum(
            count * (1 << (2 * max_pods(pool.state) - 1).bit_length()) for pool, count in counts
        )
        uses = [(subnetwork.state["ipCidrRange"], sum(count for _, count in counts) + 4, "")]
        uses += [(ranges[name]["ipCidrRange"], pods, f"-{name}")] if name in ranges else []
        for block, used, suffix in uses:
            if used > ipaddress.ip_network(block).num_addresses:
                # cloud.google.com/kubernetes-engine/docs/troubleshooting, "IP_SPACE_EXHAUSTED"
                raise ApiError(
                    400,
                    "[IP_SPACE_EXHAUSTED]: Instance creation failed: IP space of "
                    f"'{subnetwork.identity}{suffix}' is exhausted.",
                )

    def check_upgrade(self, pool: CloudResource, more: int, *, other_machines: bool) -> None:
        """Raises ApiError if the pool cannot have `more` nodes than it has while it is upgraded, or
        all of its nodes on `other_machines`. Limits of node auto-provisioning are the
        autoscaler's."""
        zones, besides = pool.state["locations"], pool.identity if other_machines else ""
        if need := pool.nodes if other_machines else more:
            zone = next((z for z in zones if not self._short_of(pool, need, z, besides)), zones[0])
            self._check_stock(pool, need, zone, besides)
            self._check_allowed(pool, pool.nodes + more)

    def _check_stock(self, pool: CloudResource, more: int, zone: str, besides: str = "") -> None:
        if short := self._short_of(pool, more, zone, besides):
            self.stock.refused(short)
            raise exhausted(pool, zone)

    def _check_allowed(self, pool: CloudResource, wanted: int) -> None:
        """Raises ApiError if neither reservation nor quota has that many nodes for the pool."""
        reserved.check_start(self, pool, wanted)
        gpus = accelerator_of(pool.state)
        if gpus and not reserved.affinity(pool.state):  # else the reservation limits them
            region = region_of(pool.state["locations"][0])
            metric = quota_metric(pool.state)
            self._check_quota(pool.state["name"], wanted * gpus[1], metric, region)

    def _check_auto_start(self, group: NodeGroup, wanted: int) -> None:
        for pool in self.pools():
            if pool.state["name"] == group.name:
                reserved.check_start(self, pool, wanted)
                return  # the reservation limits them
        labels = group.node.labels
        if name := labels.get(ACCELERATOR_LABEL):
            gpu_model, gpus = ACCELERATORS[name], wanted * int(labels[ACCELERATOR_COUNT_LABEL])
            metric = gpu_model.quota_metric_preemptible if group.spot else gpu_model.quota_metric
            self._check_quota(group.name, gpus, metric, labels["topology.kubernetes.io/region"])

    def _check_quota(self, group: str, gpus: int, metric: str, region: str) -> None:
        """Raises ApiError if the project may not have this many GPUs in the group."""
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
