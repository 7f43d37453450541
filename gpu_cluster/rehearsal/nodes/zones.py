"""The zones of the nodes of a pool with several: each starts in one that has its machine.

GKE has a group of machines in each zone of a pool. With either location policy its autoscaler takes
another zone if one has no machine left (docs.cloud.google.com/kubernetes-engine/docs/concepts/
cluster-autoscaler, "Location policy", read 2026-11-28). Here, the zone with the fewest nodes of the
pool is asked first. A pod that selects a zone, or whose volume is in one, restricts the NodeClaim.
"""

from collections import Counter
from collections.abc import Callable, Collection

from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.rehearsal.control_plane.api import Api, Object
from gpu_cluster.rehearsal.control_plane.pods import is_starting
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes.bounds import NODE_CLAIMS
from gpu_cluster.rehearsal.nodes.node_registration import karpenters
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, RefusedError, Zonal


class Zones:
    """The zones of one cluster's nodes."""

    def __init__(self, api: Callable[[], Api], log: EventLog, cloud: object) -> None:
        self._api, self._log, self._cloud = api, log, cloud
        self._of: dict[str, tuple[str, str]] = {}
        """Node -> its group and zone."""

    def keep(self, names: Collection[str]) -> None:
        """Forgets all other nodes, and tells the cloud how many are where."""
        self._of = {name: where for name, where in self._of.items() if name in names}
        if isinstance(self._cloud, Zonal):
            self._cloud.in_zones = Counter(self._of.values())

    def label(self, name: str) -> dict[str, str]:
        """The label of the node's zone; none if its group has only one."""
        return {ZONE: self._of[name][1]} if name in self._of else {}

    def left(self, name: str, group: NodeGroup) -> bool:
        """Whether the node is in a zone that its group no longer has."""
        zone = self._of[name][1] if name in self._of else ""
        return bool(zone and group.zones) and zone not in group.zones

    def place(self, name: str, group: NodeGroup) -> NodeGroup:
        """The group, in the zone in which a node that the cloud itself keeps starts now."""
        if not self._spread(group):
            return group
        zone = self._emptiest(group, group.zones)[0]
        self._enter(name, group, zone)
        return group.in_zone(zone)

    def start(self, node: Object, group: NodeGroup, nodes: int) -> str | None:
        """Starts a node that the autoscaler requested, as one of `nodes`; returns why the cloud
        starts it in none of the zones, "" if it does, and None if it was started before or has no
        choice of zones. Raises KeyError for a group that was deleted meanwhile."""
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        if name in self._of or not self._spread(group):
            return None
        if not karpenters(node) or not is_starting(node):
            self._enter(name, group, labels.get(ZONE, group.zones[0]))
            return None
        assert isinstance(self._cloud, Zonal)
        reason = f"no zone of pool {group.name} is in those that its pods select"
        for zone in self._emptiest(group, self._allowed(node, group)):
            try:
                self._cloud.start_in(group.name, nodes, zone)
            except (CloudError, RefusedError) as error:
                reason = str(error)
                self._log.record("cloud", group.name, "no machine", zone=zone, message=reason)
                continue
            self._enter(name, group, zone)
            return ""
        return reason

    def _spread(self, group: NodeGroup) -> bool:
        several = len(group.zones) > 1 and not group.queued
        return several and isinstance(self._cloud, Zonal)

    def _enter(self, name: str, group: NodeGroup, zone: str) -> None:
        self._of[name] = group.name, zone
        if isinstance(self._cloud, Zonal):
            self._cloud.in_zones[group.name, zone] += 1

    def _emptiest(self, group: NodeGroup, zones: Collection[str]) -> list[str]:
        counts = Counter(self._of.values())
        return sorted(zones, key=lambda zone: counts[group.name, zone])

    def _allowed(self, node: Object, group: NodeGroup) -> list[str]:
        """The group's zones that the node's claim allows."""
        metadata = node["metadata"]
        owners = [reference["name"] for reference in metadata.get("ownerReferences") or []]
        # Until Karpenter has registered the node, its host name is the only link.
        name = next(iter(owners), metadata["labels"]["kubernetes.io/hostname"])
        claim = self._api().get(f"{NODE_CLAIMS}/{name}")
        allowed = [
            zone
            for requirement in claim["spec"]["requirements"]
            if requirement["key"] == ZONE
            for zone in requirement["values"]
        ]
        return [zone for zone in group.zones if not allowed or zone in allowed]
