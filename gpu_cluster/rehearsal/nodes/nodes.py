"""Adds the nodes that the cloud would run, and their GPUs when they are due.

Nodes that the cloud creates itself (a group's initial or minimum count) are created here. Nodes
that the autoscaler adds are created by Karpenter, and get their real properties before any pod.
"""

import queue
import secrets
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import urllib3

from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.rehearsal.control_plane.api import STRATEGIC, Api, Object
from gpu_cluster.rehearsal.control_plane.attachments import FOLLOWED, Attachments
from gpu_cluster.rehearsal.control_plane.cluster_cache import KINDS, ClusterCache
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.control_plane.pods import (
    EFA,
    GPU,
    PUBLISHED,
    allocatable_gpus,
    claims_devices,
    claims_efa,
    full_name,
    holds,
    installs_gib,
    is_device_plugin,
    is_dra_driver,
    is_ready,
    is_starting,
    maps_requests,
    second_efa_plugin,
    serves_efa,
)
from gpu_cluster.rehearsal.control_plane.watch import Change, Watcher
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes.autoscaler import (
    EMPTY_SECONDS,
    NODE_POOLS,
    Autoscaler,
    pool_name,
    remove_node,
)
from gpu_cluster.rehearsal.nodes.claimed_nodes import lacks_node, unexpected, waiting
from gpu_cluster.rehearsal.nodes.expander import Backoff, disordered
from gpu_cluster.rehearsal.nodes.gpu_sharing import Reader, refused
from gpu_cluster.rehearsal.nodes.gpus import CLOUD_SECONDS, conflicts, gpu_parts
from gpu_cluster.rehearsal.nodes.kwok import PassedOver
from gpu_cluster.rehearsal.nodes.migration import STEADY_SECONDS, Moving, movable
from gpu_cluster.rehearsal.nodes.node_registration import (
    belongs,
    by_instance,
    karpenters,
    machines_node,
    new_node,
    wanted_taints,
)
from gpu_cluster.rehearsal.nodes.pod_networks import NETWORKS, PodNetworks
from gpu_cluster.rehearsal.nodes.queued import QueuedNodes
from gpu_cluster.rehearsal.nodes.recycler import Recycler
from gpu_cluster.rehearsal.nodes.resource_slices import (
    SLICES,
    STUCK_SECONDS,
    UNPREPARED,
    publish,
    withdraw,
)
from gpu_cluster.rehearsal.nodes.scale_down import UNNEEDED_SECONDS, Drained, Sustained, unneeded
from gpu_cluster.rehearsal.nodes.scalers import KeptTemplates, rules, running, scaled_groups
from gpu_cluster.rehearsal.nodes.zones import Zones
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.simulators.cloud import (
    Block,
    ClassScaler,
    Cloud,
    GpuSharing,
    Machine,
    NodeGroup,
    NodeTemplate,
    Recycling,
    RefusedError,
    Surging,
)

TICK_SECONDS = 0.25
GROWTH_SECONDS = 5.0
"""How long after a node was started for claims the next one is: until then it has joined."""
_CLASSES, _CLASS = "/apis/cloud.google.com/v1/computeclasses", "cloud.google.com/compute-class"


class Nodes:
    """One thread that follows the cluster and the cloud while the control plane runs."""

    def __init__(
        self, control_plane: LocalControlPlane, cloud: Cloud, autoscaler: Autoscaler,
        cluster_cache: ClusterCache, event_log: EventLog, gpus_late: float = 0.0,
        updating: Callable[[], bool] = lambda: False,
        others_labels: Callable[[NodeGroup], dict[str, str]] = lambda group: {},
        removed_taints: Collection[str] = (),
    ) -> None:  # fmt: skip
        """`gpus_late`: seconds by which driver and device plugin are delayed; `updating`: whether
        the engine is running; `others_labels`: labels that others set on a group's nodes;
        `removed_taints`: keys of taints that others remove from a node once it is ready."""
        self._removed_taints = removed_taints
        self._others_labels = others_labels
        self._updating = updating
        self._control_plane = control_plane
        self._gpus_due = CLOUD_SECONDS + gpus_late
        self._cloud = cloud
        self._autoscaler = autoscaler
        self._cluster_cache = cluster_cache
        self._event_log = event_log
        self._changes: queue.SimpleQueue[str] = queue.SimpleQueue()
        """The changes to process: `cloud`, or a kind of the cluster's objects."""
        self._intake = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._watcher: Watcher | None = None
        self.turns = 0
        """How often it has read the cluster and done, or recorded, what follows."""
        self.refusals: dict[str, str] = {}
        """Group -> why the cloud would not start another node in it."""
        self.outdated: dict[str, NodeGroup] = {}
        """Group -> the group with the outdated template that the autoscaler uses."""
        self.waiting: dict[str, str] = {}
        """Owner of a ProvisioningRequest -> why its nodes do not start."""
        self.sharing: dict[str, GpuSharing] = {}
        """Node -> how its device plugin shares its GPUs."""
        cloud.on_change(lambda: self._changes.put("cloud"))

    @property
    def _api(self) -> Api:
        return self._control_plane.api

    def scaled(self, pods: Sequence[Object]) -> list[NodeGroup]:
        """The cloud's groups as autoscalers among these pods see them, and their nodes without the
        taints that others remove."""
        cache = self._cluster_cache
        groups = scaled_groups(
            self._cloud,
            pods,
            cache.all("NodePool"),
            [*cache.all("EC2NodeClass"), *cache.all("NodeClass")],
            cache.config_maps,
        )
        return [replace(group, node=group.node.without(self._removed_taints)) for group in groups]

    def start(self) -> None:
        """Starts the thread."""
        self._stopped = threading.Event()
        self._nodes: list[Object] = []
        self._pods: list[Object] = []
        self._created: dict[str, str] = {}
        """Nodes that were created here and have not been seen yet -> their group."""
        self._successors: set[str] = set()
        """Those of them that replace a recycled node."""
        self._zones = Zones(lambda: self._api, self._event_log, self._cloud)
        self._recycler = Recycler(lambda: self._api, self._event_log)
        if isinstance(self._cloud, Recycling):
            self._cloud.followed(self._recycler.recycled)
        self._order: dict[str, int] = {}
        """Nodes in the order in which they were first seen."""
        self._refused: set[str] = set()
        """Nodes that were withdrawn and still exist."""
        self._sizes: dict[str, int] = {}
        self._labelled: dict[str, set[str]] = {}
        """Node -> the group's labels that it was given."""
        self._blocks: dict[str, Block] = {}
        """Node -> where in the cloud's network it is."""
        self._ready_since: dict[str, float] = {}
        self._members: set[str] = set()
        """Nodes whose group has been recorded."""
        self._offered: dict[str, int] = {}
        """Node -> the number of GPUs it was last given."""
        self._published: set[str] = set()
        """Nodes whose ResourceSlice of network interfaces has been published."""
        self._grown: dict[str, float] = {}
        """Group -> when the next node may be started for claims."""
        self._claimable: dict[str, int] = {}
        """Node -> the number of GPUs in its ResourceSlice."""
        self.refusals, self.sharing, self.outdated = {}, {}, {}
        self._attempts: dict[str, int] = {}
        """Pool whose machines another owner launches -> how many of its attempts are recorded."""
        self._warm_starts: dict[str, int] = {}
        """Group -> how many of its starts from a warm pool are on record."""
        self._backoff = Backoff()
        self._stuck = Sustained[Object](STUCK_SECONDS)
        self._unneeded = Sustained[Drained](UNNEEDED_SECONDS)
        self._movable = Sustained[Moving](STEADY_SECONDS)
        self._kept_templates = KeptTemplates()
        self._queued = QueuedNodes(lambda: self._api, self._event_log, self._cloud)
        self._attachments = Attachments(self._cloud, self._api)
        self._passed_over = PassedOver(lambda: self._api)
        self._pod_networks = PodNetworks(lambda: self._api, self._cloud)
        self._reader = Reader(self._config_map)
        self._thread = threading.Thread(target=self._guarded, name="nodes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread and the autoscaler; nodes stay as they are."""
        with self._intake:
            self._stopped.set()
        if self._watcher is not None:
            self._watcher.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(10)
            self._attachments.end(self._followed())
        self._cluster_cache.clear()
        self._autoscaler.stop()

    @contextmanager
    def emptying_soon(self) -> Iterator[None]:
        """Lets the stack's Karpenter remove an empty node as fast as the rehearsal's own.

        Afterwards its pools are as they were, with the same owner of each field: the stack's next
        update would be in conflict with another.
        """
        changed = {}
        for pool in self._cluster_cache.all("NodePool"):
            path = f"{NODE_POOLS}/{pool['metadata']['name']}"
            kind = pool["spec"]["template"]["spec"]["nodeClassRef"]["kind"]
            if kind in ("EC2NodeClass", "NodeClass"):
                changed[path] = self._api.get(path)
                disruption = {"consolidateAfter": f"{EMPTY_SECONDS}s"}
                self._api.patch(path, {"spec": {"disruption": disruption}})
        try:
            yield
        finally:
            for path, pool in changed.items():
                self._restore(path, pool)

    def _restore(self, path: str, pool: Object) -> None:
        disruption = {key: pool["spec"]["disruption"].get(key) for key in ("consolidateAfter",)}
        owners = pool["metadata"].get("managedFields") or []
        known = {(by["manager"], by["operation"], by.get("subresource")) for by in owners}
        try:
            now = self._api.patch(path, {"spec": {"disruption": disruption}})
            # What Karpenter itself wrote meanwhile stays its own.
            others = [
                field
                for field in now["metadata"]["managedFields"]
                if field.get("subresource")
                and (field["manager"], field["operation"], field["subresource"]) not in known
            ]
            self._api.patch(path, {"metadata": {"managedFields": [*owners, *others]}})
        except ApiError as error:
            if error.status != 404:  # deleted meanwhile
                raise

    def _followed(self) -> dict[str, list[Object]]:
        return {kind: self._cluster_cache.all(kind) for kind in FOLLOWED}

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:
            # Without this thread no node ever joins: report that instead of blaming the program.
            if not self._stopped.is_set():
                traceback.print_exc()
                self._event_log.finding("sandbox", f"the rehearsal's own sandbox failed: {error!r}")

    def _run(self) -> None:
        stopped = self._stopped
        self._autoscaler.install(self._api, stopped)
        self._watcher = Watcher(self._api, KINDS, partial(self._see, stopped))
        cloud_changed, believed = True, dict[str, tuple[str, NodeTemplate]]()
        while not stopped.is_set():
            cloud_changed |= self._take_changes()
            if stopped.is_set():
                return
            # Before the snapshot: pods that the update has not restarted yet may still restart.
            updating = self._updating()
            # One snapshot for the whole turn, since more changes may arrive meanwhile.
            self._nodes, self._pods = self._cluster_cache.nodes, self._cluster_cache.pods
            try:
                self._follow_classes()
                cache = self._cluster_cache
                self._pod_networks.turn(cache.all("Network"), cache.all("GKENetworkParamSet"))
                found = self._kept_templates.applied(
                    self.scaled(self._pods), self._nodes, self._pods
                )
                groups = {group.name: group for group in found}
                self.outdated = {group.name: group for group in found if group.outdated}
                for name, group in self.outdated.items() if not updating else ():
                    self._event_log.finding(name, f"pool {name}: {group.outdated}")
                if not updating:
                    self._check_order(found)
                before, believed = believed, {g.name: (g.unscaled, g.template) for g in found}
                over = self._backoff.over()
                if cloud_changed or before != believed or over:
                    self.refusals = {
                        name: why
                        for name, why in self.refusals.items()
                        if self._backoff.holds(name)
                    }
                    self._scale(groups)
                    cloud_changed = False
                self._queued.turn(found, self._nodes, self._pods)
                self.waiting = self._queued.waiting
                self._reconcile(groups)
                self._grow(found)
                self._drain(found)
                self._keep_claiming()
                self._attachments.follow(self._followed())
                self._passed_over.turn(self._nodes, self._pods)
                self.turns += 1
            except ApiError as error:
                if error.status not in (404, 409):  # outdated by a change that is about to arrive
                    self._event_log.record("node", "nodes", "error", message=str(error))
            except urllib3.exceptions.HTTPError as error:
                if not stopped.is_set():
                    self._event_log.record("node", "nodes", "error", message=str(error))

    def _see(self, stopped: threading.Event, kind: str, change: Change, item: Object) -> None:
        """Records a change of the cluster at once, even while this thread is busy, so that a
        rehearsal never mistakes an object that was not processed yet for a missing one."""
        with self._intake:
            if not stopped.is_set():
                self._cluster_cache.change(kind, change, item)
        self._changes.put(kind)

    def _drain(self, groups: list[NodeGroup]) -> None:
        """Removes a half-empty node; Karpenter evicts its pods, as a drain does."""
        self._migrate(groups)
        for node in self._queued.over:
            if node["metadata"]["name"] not in self._refused:
                (own,) = (group for group in groups if belongs(node, group))
                self._take(node, own.name, "run duration over")
        drained = self._unneeded.first({
            name: node
            for node in unneeded(groups, self._nodes, self._pods, rules(self._pods))
            if (name := node.node["metadata"]["name"]) not in self._queued.booked
        })  # fmt: skip
        if drained is None or drained.node["metadata"]["name"] in self._refused:
            return
        if finding := drained.finding():
            self._event_log.finding(drained.group, finding)
        if karpenters(drained.node):
            self._refused.add(drained.node["metadata"]["name"])
            remove_node(self._api, drained.node)
        else:
            self._take(drained.node, drained.group, "scaled in")

    def _take(self, node: Mapping[str, Any], group: str, why: str) -> None:
        """Deletes a node that the cloud itself keeps, and has it keep one less."""
        name = node["metadata"]["name"]
        self._refused.add(name)
        self._event_log.record("node", name, why, group=group)
        self._cloud.release(group, node["spec"].get("providerID", ""))
        self._api.delete(f"/api/v1/nodes/{name}")

    def _check_order(self, groups: list[NodeGroup]) -> None:
        """Records what keeps an autoscaler from following its order of node groups."""
        scalers, seen = running(self._pods), self._cluster_cache.config_maps
        if disordered(groups, scalers, lambda place, name: seen.get(f"{place}/{name}")):
            # What was seen of ConfigMaps may be older than the autoscaler's pod.
            for line in disordered(groups, scalers, self._config_map):
                self._event_log.finding(line.partition(":")[0], line)

    def _follow_classes(self) -> None:
        """Passes the cluster's ComputeClasses to the cloud, if pods select any."""
        selected = any(_CLASS in (pod["spec"].get("nodeSelector") or {}) for pod in self._pods)
        if not selected or not isinstance(self._cloud, ClassScaler):
            return
        for line in self._cloud.classes(self._api.items(_CLASSES)):
            self._event_log.finding(line.partition(":")[0], line)

    def _migrate(self, groups: list[NodeGroup]) -> None:
        """Removes a node whose pods can move to one of an earlier choice."""
        if not isinstance(self._cloud, ClassScaler):
            return
        starts = self._cloud.starts
        found = movable(
            groups,
            self._nodes,
            self._pods,
            rules(self._pods),
            lambda name: name not in self.refusals and starts(name),
        )
        moving = self._movable.first(found)
        if moving is None or (name := moving.node["metadata"]["name"]) in self._refused:
            return
        self._event_log.record("node", name, "moved back", group=moving.group, to=moving.to)
        self._refused.add(name)
        remove_node(self._api, moving.node)

    def _take_changes(self) -> bool:
        """Waits for changes; returns whether the cloud has changed."""
        cloud = False
        try:
            cloud = self._changes.get(timeout=TICK_SECONDS) == "cloud"
            while True:
                cloud |= self._changes.get_nowait() == "cloud"
        except queue.Empty:
            return cloud

    def _scale(self, groups: Mapping[str, NodeGroup]) -> None:
        frozen = {
            name: sum(
                1
                for node in self._of_group(group)
                if karpenters(node) and node["metadata"]["name"] not in self._refused
            )
            for name, group in groups.items()
            if name in self.refusals or group.unscaled or group.queued
        }
        self._autoscaler.sync(
            self._api, self._control_plane.kubeconfig, list(groups.values()), frozen
        )

    def _of_group(self, group: NodeGroup) -> list[dict[str, Any]]:
        return [node for node in self._nodes if belongs(node, group)]

    def _reconcile(self, groups: Mapping[str, NodeGroup]) -> None:
        sizes: Counter[str] = Counter()
        nodes = {node["metadata"]["name"]: node for node in self._nodes}
        self._order = {name: n for n, name in enumerate({**self._order, **nodes}) if name in nodes}
        self._refused &= nodes.keys()
        for name in nodes.keys() & self._created.keys():
            del self._created[name]
            self._successors.discard(name)
        self._zones.keep((nodes.keys() | self._created.keys()) - self._refused)
        for name in self._order:
            node = nodes[name]
            group = next((g for g in groups.values() if belongs(node, g)), None)
            if group is None:
                # Karpenter removes a deleted pool's nodes itself.
                if not karpenters(node) and not node["metadata"].get("deletionTimestamp"):
                    self._event_log.record("node", name, "of no group")
                    self._api.delete(f"/api/v1/nodes/{name}")
                continue
            if node["metadata"].get("deletionTimestamp") or name in self._refused:
                continue
            if group.machines is not None:
                self._join(name, node, group)
                continue
            if karpenters(node) and sizes[group.name] >= group.max_nodes:
                # The group's maximum has changed since Karpenter requested the node.
                self._refuse(node)
                continue
            if self._zones.left(name, group):
                self._event_log.record("node", name, "zone removed", group=group.name)
                self._refused.add(name)
                remove_node(self._api, node)
                continue
            if not self._started(node, group, groups, sizes[group.name] + 1):
                continue
            sizes[group.name] += 1
            asked = sizes[group.name] <= self._sizes.get(group.name, 0)
            self._join(name, node, group, asked=asked)
        for name in self._successors:
            sizes[self._created[name]] += 1
        for group in groups.values():
            if group.machines is not None:
                self._follow_machines(group, group.machines)
                continue
            coming = group.name in self._created.values()
            gone = None if coming else self._recycler.turn(group, self._of_group(group), self._pods)
            if gone is not None:
                node, replaced = gone
                self._refused.add(node["metadata"]["name"])  # until it is seen to be gone
                if replaced:
                    self._successors.add(self._create(group))
                elif isinstance(self._cloud, Surging):
                    self._cloud.left(group.name, node["spec"].get("providerID", ""))
                continue  # this turn's snapshot still has the old node
            self._keep(group)
            self._follow_warm_pool(group)
            if self._sizes.get(group.name, 0) != sizes[group.name]:
                self._resize(group, groups, sizes[group.name])

    def _started(
        self, node: Object, group: NodeGroup, groups: Mapping[str, NodeGroup], nodes: int
    ) -> bool:
        """Whether the cloud has started the node, for which it is asked now if the group has
        several zones; for all others it is asked for the group's size."""
        try:
            refusal = self._zones.start(node, group, nodes)
        except KeyError:  # the group was deleted meanwhile; its nodes follow
            return False
        if refusal:
            self._refused_by_cloud(group, groups, nodes, refusal, [node])
            return False
        if refusal is not None:
            before = self._sizes.get(group.name, 0)
            self._event_log.record("cloud", group.name, "size", nodes=nodes, before=before)
            self._sizes[group.name] = nodes
        return True

    def _join(
        self, name: str, node: Mapping[str, Any], group: NodeGroup, *, asked: bool = True
    ) -> None:
        """`asked`: whether the cloud has been asked for the node, and has not refused it."""
        if name not in self._members:
            gpus = int(group.node.capacity.get(GPU, 0))
            self._members.add(name)
            ways = {node.name: f"{group.name} as {node.bought}" for node in group.machines or ()}
            self._event_log.record(
                "node", name, "member", group=group.name, gpus=gpus, order=group.order,
                choice=ways.get(name, group.as_choice),
                added=karpenters(node) or group.machines is not None,
            )  # fmt: skip
        try:
            self._gpus(node, group)
            self._adapters(node, group)
            self._devices(node, group)
            self._networks(node, group)
            # A controller labels and taints the nodes that it launches itself.
            if group.machines is None:
                self._shape(node, group, asked=asked)
            elif holds(node, "Ready"):
                self._remove_taints(node)
        except ApiError as error:
            if error.status not in (404, 409):  # outdated by a change that is about to arrive
                raise

    def _remove_taints(self, node: Mapping[str, Any]) -> None:
        """As the owner's agent does once it runs on the node."""
        taints = node["spec"].get("taints") or []
        rest = [taint for taint in taints if taint["key"] not in self._removed_taints]
        if len(rest) < len(taints):
            metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
            patch = {"metadata": metadata, "spec": {"taints": rest}}
            self._api.patch(f"/api/v1/nodes/{node['metadata']['name']}", patch)

    def _keep(self, group: NodeGroup) -> None:
        """Creates or deletes nodes until the cloud's own count is reached."""
        if group.real:  # it joins on its own
            return
        own = [
            node
            for node in self._of_group(group)
            if not karpenters(node) and node["metadata"]["name"] not in self._refused
        ]
        coming = sum(1 for of in self._created.values() if of == group.name)
        stay, ended, ids = by_instance(own, group)
        for _ in range(group.target_nodes - len(stay) - coming):
            self._create(group)
        for node in (*ended, *stay[max(group.target_nodes, 0) :]):
            self._api.delete(f"/api/v1/nodes/{node['metadata']['name']}")
        for name, identity in ids.items():
            self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"providerID": identity}})

    def _follow_machines(self, group: NodeGroup, machines: Sequence[Machine]) -> None:
        """Adds the nodes of launched machines, and removes those of terminated ones."""
        own = {node["metadata"]["name"]: node for node in self._of_group(group)}
        for machine in machines:
            if machine.name not in own and machine.name not in self._created:
                self._created[machine.name] = group.name
                self._api.create("/api/v1/nodes", machines_node(machine, group))
        running = {machine.provider_id for machine in machines}
        for name, node in own.items():
            leaving = node["metadata"].get("deletionTimestamp")
            if node["spec"].get("providerID") not in running and not leaving:
                self._api.delete(f"/api/v1/nodes/{name}")
        for bought, why in group.attempts[self._attempts.get(group.name, 0) :]:
            if why:
                self._event_log.record(
                    "cloud", group.name, "refused",
                    message=why, order=group.order, choice=f"{group.name} as {bought}",
                )  # fmt: skip
        self._attempts[group.name] = len(group.attempts)
        if group.refused:
            self.refusals[group.name] = group.refused
        else:
            self.refusals.pop(group.name, None)

    def _create(self, group: NodeGroup) -> str:
        name = f"{pool_name(group.name)}-{secrets.token_hex(2)}"
        self._created[name] = group.name
        self._api.create("/api/v1/nodes", new_node(name, self._zones.place(name, group)))
        self._labelled[name] = set(group.node.labels)
        return name

    def _resize(self, group: NodeGroup, groups: Mapping[str, NodeGroup], nodes: int) -> None:
        before = self._sizes.get(group.name, 0)
        try:
            self._cloud.set_size(group.name, nodes)
        except KeyError:  # the group was deleted meanwhile; its nodes follow
            return
        except (CloudError, RefusedError) as error:
            added = [node for node in self._of_group(group) if karpenters(node)]
            added.sort(key=lambda node: self._order[node["metadata"]["name"]])
            self._refused_by_cloud(group, groups, nodes, str(error), added[before - nodes :])
        else:
            self._event_log.record("cloud", group.name, "size", nodes=nodes, before=before)
            self._sizes[group.name] = nodes

    def _refused_by_cloud(
        self,
        group: NodeGroup,
        groups: Mapping[str, NodeGroup],
        nodes: int,
        message: str,
        added: Sequence[Object],
    ) -> None:
        """Takes back the nodes that were `added` in vain, and lets the group grow no further."""
        self.refusals[group.name] = message
        self._event_log.record(
            "cloud", group.name, "refused",
            nodes=nodes, message=message, order=group.order, choice=group.as_choice,
        )  # fmt: skip
        for node in added:
            self._refuse(node)
        # Karpenter would retry at once. The cloud would refuse again, and has to be asked again
        # if Karpenter was already creating another one.
        self._sizes[group.name] = min(self._sizes.get(group.name, 0), nodes)
        if group.choice and group.known_as:
            self._backoff.failed(group.name)
        self._scale(groups)

    def _follow_warm_pool(self, group: NodeGroup) -> None:
        """Puts on record the nodes that came from instances that had booted before."""
        before = self._warm_starts.get(group.name, 0)
        if group.warm_starts > before:
            self._event_log.record(
                "cloud", group.name, "warm start", nodes=group.warm_starts - before, left=group.warm
            )
            self._warm_starts[group.name] = group.warm_starts

    def _refuse(self, node: Mapping[str, Any]) -> None:
        """Removes a node that the cloud would never have started."""
        self._event_log.record("node", node["metadata"]["name"], "taken back")
        self._refused.add(node["metadata"]["name"])
        remove_node(self._api, node)

    def _shape(self, node: Mapping[str, Any], group: NodeGroup, *, asked: bool) -> None:
        """Gives the node the labels and taints that the group's nodes currently have."""
        metadata, name = node["metadata"], node["metadata"]["name"]
        registered = not karpenters(node) or "karpenter.sh/registered" in metadata["labels"]
        labels: dict[str, str | None] = {**group.node.labels, **self._others_labels(group)}
        labels |= self._place(name, group) | self._queued.zone(metadata.get("labels") or {})
        labels |= self._zones.label(name)
        if karpenters(node):
            labels["karpenter.sh/do-not-sync-taints"] = "true"
            # Karpenter sets the template's labels until the node is registered.
            given = self._labelled.setdefault(name, set(group.template.labels))
        else:
            given = self._labelled.setdefault(name, set())
        if registered:
            labels |= {key: None for key in given if key not in group.node.labels}
        current = metadata.get("labels") or {}
        changed = {key: value for key, value in labels.items() if current.get(key) != value}
        starting = not registered or (not asked and is_starting(node))
        taints = wanted_taints(node["spec"].get("taints") or [], group, starting=starting)
        patch: dict[str, Any] = {"metadata": {"resourceVersion": metadata["resourceVersion"]}}
        if changed:
            patch["metadata"]["labels"] = changed
        if taints is not None:
            patch["spec"] = {"taints": taints}
        if changed or taints is not None:
            self._api.patch(f"/api/v1/nodes/{name}", patch)
            self._labelled[name] = given | set(group.node.labels)

    def _place(self, name: str, group: NodeGroup) -> dict[str, str]:
        """The labels of where the node is: in the first block of its group that has room."""
        if not group.blocks:
            return {}
        if name not in self._blocks:
            names = {node["metadata"]["name"] for node in self._nodes}
            taken = [block for node, block in self._blocks.items() if node in names]
            free = (
                row for row in group.blocks if row.nodes is None or taken.count(row) < row.nodes
            )
            self._blocks[name] = next(free, group.blocks[-1])
            where = "/".join(self._blocks[name].labels.values())
            self._event_log.record("node", name, "placed", block=where)
        block = self._blocks[name]
        own = {block.host: f"host-{name.rpartition('-')[2]}"} if block.host else {}
        return {**block.labels, **own}

    def _gpus(self, node: Mapping[str, Any], group: NodeGroup) -> None:
        """Adds the node's GPUs once driver and plugin are present, and removes them with those."""
        name = node["metadata"]["name"]
        if group.real:
            self._offers(name, group, allocatable_gpus(node))
            return
        has, sharing = int(group.node.capacity.get(GPU, 0)), group.sharing
        driver: Object | None = None
        if not holds(node, "Ready"):
            self._ready_since.pop(name, None)
            due = False
        else:
            since = self._ready_since.setdefault(name, time.monotonic())
            due = has > 0 and time.monotonic() - since >= self._gpus_due
            # It waits for the devices that pods claim, if it knows those of other nodes.
            claims = group.template.expected is not None and waiting(
                group, self._pods, mapped=self._mapped
            )
            if has and not due and group.unwaited and karpenters(node) and not claims:
                self._event_log.finding(
                    group.name,
                    f"pool {group.name}: unnecessary scale-up: while the driver and device plugin "
                    "start on a ready node, the autoscaler starts another node for the same "
                    f"pods: {group.unwaited}",
                )
        if due:
            pods = [pod for pod in self._pods if pod["spec"].get("nodeName") == name]
            plugins = [pod for pod in pods if is_device_plugin(pod) and is_ready(pod)]
            driver = next((pod for pod in pods if is_dra_driver(pod) and is_ready(pod)), None)
            if plugins and group.plugin == "pod":
                sharing = self._reader.of(plugins[0], pods)
                has *= sharing.replicas
            parts = gpu_parts(group, pods)
            wrong = conflicts(name, group, parts) + refused(name, group, sharing, pods)
            for line in wrong:
                self._event_log.finding(group.name, line)
            due = parts.complete and not sharing.fault
        self.sharing[name] = sharing
        wanted = has if due else 0
        claimed = driver is not None or self._claimable.get(name, 0) > 0
        if claimed:
            self._publish(node, group, driver, wanted)
            wanted = 0
        allocatable = int(node["status"].get("allocatable", {}).get(GPU, 0))
        capacity = node["status"].get("capacity", {})
        if allocatable == wanted and (wanted or GPU not in capacity):
            return
        quantity = str(wanted) if wanted else None
        rest = {key: amount for key, amount in group.node.capacity.items() if key != EFA}
        size = {**rest, GPU: quantity}
        # Recorded first: a pod may be seen with a GPU before the response arrives.
        if not claimed:
            self._offers(name, group, wanted)
        self._set_resources(name, size)

    def _publish(
        self, node: Mapping[str, Any], group: NodeGroup, driver: Object | None, gpus: int
    ) -> None:
        """Publishes the node's GPUs as the DRA driver in this pod does, and withdraws them once it
        is gone."""
        name = node["metadata"]["name"]
        count = gpus if driver is not None else 0
        if self._claimable.get(name, 0) == count:
            return
        if driver is not None and count:
            account = f"{driver['metadata']['namespace']}:{driver['spec']['serviceAccountName']}"
            try:
                publish(self._api, account, dict(node), group.gpu_model, count)
            except ApiError as error:
                if error.status not in (403, 422):  # no right, or refused by an admission policy
                    raise
                self._event_log.finding(
                    group.name,
                    f"pool {group.name}: {full_name(driver)} cannot publish the GPUs of node "
                    f"{name}: {error}",
                )
                return
            if karpenters(node) and group.template.devices is not None and group.machines is None:
                self._check_expected(node, group)
        else:
            withdraw(self._api, name)
        self._claimable[name] = count
        self._offers(name, group, count)
        value = str(count) if count else None
        self._api.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {PUBLISHED: value}}})

    def _keep_claiming(self) -> None:
        """Keeps pods with claims Terminating on nodes that the DRA driver has left: the kubelet
        asks it to take their devices back first, and tries again until it is there (kubernetes
        v1.34, pkg/kubelet/cm/dra/manager.go, unprepareResources)."""
        left = {
            node["metadata"]["name"]
            for node in self._nodes
            if self._claimable.get(node["metadata"]["name"]) == 0
        }
        stuck: dict[str, Object] = {}
        for pod in self._pods:
            metadata, spec = pod["metadata"], pod["spec"]
            if not claims_devices(pod) or not spec.get("nodeName"):
                continue
            others = [name for name in metadata.get("finalizers") or [] if name != UNPREPARED]
            kept, ending = spec["nodeName"] in left, "deletionTimestamp" in metadata
            if kept and ending:
                stuck[full_name(pod)] = pod
            elif kept != (UNPREPARED in (metadata.get("finalizers") or [])):
                self._api.patch(
                    f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}",
                    {"metadata": {"finalizers": [*others, UNPREPARED] if kept else others}},
                )
        if first := self._stuck.first(stuck):
            self._event_log.finding(
                full_name(first),
                f"pod {full_name(first)} does not end: it claims devices of node "
                f"{first['spec']['nodeName']}, which the DRA driver has left",
            )

    def _check_expected(self, node: Mapping[str, Any], group: NodeGroup) -> None:
        """Reports a node that the cloud's autoscaler would not have started for pods with claims.
        It looks at the group's other nodes (on GKE, at the zone's) if it has some, unless it
        considers no claims at all."""
        templates, claims = (
            {full_name(item): item for item in self._cluster_cache.all(kind)}
            for kind in ("ResourceClaimTemplate", "ResourceClaim")
        )
        zone = node["metadata"]["labels"].get(ZONE)
        first = all(
            other["metadata"]["name"] == node["metadata"]["name"]
            or (group.zones and other["metadata"]["labels"].get(ZONE) != zone)
            for other in self._of_group(group)
        )
        if group.template.expected is None or first:
            for line in unexpected(
                group, self._pods, templates, claims, self._cluster_cache.device_classes
            ):
                self._event_log.finding(
                    group.name,
                    f"pool {group.name}: node {node['metadata']['name']} would not have started: "
                    f"to the autoscaler, {line}",
                )

    @property
    def _mapped(self) -> bool:
        return maps_requests(self._cluster_cache.device_classes.values())

    def _grow(self, groups: Sequence[NodeGroup]) -> None:
        """Starts a node for pods whose claims no node can meet, one after the other."""
        for group in groups:
            scaled = group.autoscaled and not group.unscaled and group.machines is None
            own = self._of_group(group)
            if (
                scaled
                and group.name not in self.refusals
                and time.monotonic() >= self._grown.get(group.name, 0.0)
                and len(own) < group.max_nodes
                and lacks_node(group, own, self._pods, mapped=self._mapped)
            ):
                self._grown[group.name] = time.monotonic() + GROWTH_SECONDS
                self._autoscaler.start_node(self._api, group)

    def _adapters(self, node: Mapping[str, Any], group: NodeGroup) -> None:
        """Adds the node's Elastic Fabric Adapters while AWS's device plugin is ready on it."""
        if (count := group.node.capacity.get(EFA)) is None:
            return
        name, has = node["metadata"]["name"], node["status"].get("allocatable", {}).get(EFA, "0")
        pods = [pod for pod in self._pods if pod["spec"].get("nodeName") == name and is_ready(pod)]
        wanted = count if holds(node, "Ready") and any(map(serves_efa, pods)) else "0"
        if wanted != "0":
            faults = [group.efa_fault, *map(claims_efa, pods), second_efa_plugin(pods)]
            for fault in filter(None, faults):
                self._event_log.finding(group.name, f"pool {group.name}: {fault}")
        if wanted != has:
            size = {EFA: wanted}
            self._set_resources(name, size)

    def _devices(self, node: Mapping[str, Any], group: NodeGroup) -> None:
        """Publishes what pods can claim on a ready node, once, as GKE's DRANET does. It goes with
        its node: GoogleCloudPlatform/cluster-autoscaler 7d250507, dynamicresources/network.go."""
        metadata = node["metadata"]
        if not group.node.devices or not holds(node, "Ready"):
            return
        name = metadata["name"]
        if name not in self._published:
            self._published.add(name)
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": metadata["uid"]}
            count = sum(group.node.devices.values())
            self._api.apply(f"{SLICES}/{name}-dra.net", {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"{name}-dra.net", "ownerReferences": [owner]},
                "spec": {
                    "driver": "dra.net",
                    "nodeName": name,
                    "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                    "devices": [
                        {"name": f"gpu{n}rdma0", "attributes": {"dra.net/rdma": {"bool": True}}}
                        for n in range(count)
                    ],
                },
            })  # fmt: skip
        pods = [pod for pod in self._pods if pod["spec"].get("nodeName") == name]
        claiming = [pod for pod in pods if pod["spec"].get("resourceClaims")]
        if claiming and not any(map(installs_gib, pods)):
            self._event_log.finding(
                group.name,
                f"pool {group.name}: {full_name(claiming[0])} claims RDMA interfaces, and nothing "
                "has copied NCCL's plugin for them to its node: it never starts",
            )

    def _networks(self, node: Mapping[str, Any], group: NodeGroup) -> None:
        """Updates what a node offers of networks, and checks the pods there that name some."""
        name, now = node["metadata"]["name"], node["status"].get("allocatable", {})
        has, wanted = (
            {key: amount for key, amount in shape.items() if key.startswith(NETWORKS)}
            for shape in (now, group.node.capacity)
        )
        size = {
            key: wanted.get(key) for key in {**has, **wanted} if has.get(key) != wanted.get(key)
        }
        if size:
            self._set_resources(name, size)
        pods = [pod for pod in self._pods if pod["spec"].get("nodeName") == name]
        for line in self._pod_networks.wrong(node, pods):
            self._event_log.finding(group.name, f"pool {group.name}: {line}")

    def _set_resources(self, name: str, size: Mapping[str, str | None]) -> None:
        """Changes what a node offers; None removes a resource."""
        status = {"status": {"capacity": size, "allocatable": size}}
        self._api.patch(f"/api/v1/nodes/{name}/status", status, STRATEGIC)

    def _offers(self, name: str, group: NodeGroup, gpus: int) -> None:
        if self._offered.get(name, 0) != gpus:
            self._offered[name] = gpus
            self._event_log.record("node", name, "gpus", gpus=gpus, group=group.name)

    def _config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Reads it from the API server: the cached one may be older than the pod that reads it."""
        try:
            return self._api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise
