"""Virtual machines: the nodes that the project's clusters have now."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.catalog.gke import ACCELERATORS
from simulators.google.api.call import Call, not_found
from simulators.google.compute import resources
from simulators.google.compute.resources import LINK
from simulators.google.container.reserved import affinity
from simulators.google.container.tokens import CLUSTER, NODE_POOL

if TYPE_CHECKING:
    from simulators.google.cloud import GoogleCloud


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Nodes of one group."""

    cluster: str
    """Its full name, `projects/...`."""
    group: str
    count: int
    gpus: int
    """On each node."""
    labels: Mapping[str, str]
    """As the node has them in Kubernetes."""
    reservation: str = ""
    """What they come out of, as the node pool names it."""

    @property
    def zone(self) -> str:
        """The first of theirs."""
        return self.labels["topology.kubernetes.io/zone"]

    @property
    def accelerator(self) -> str | None:
        """E.g. `nvidia-l4`."""
        return self.labels.get("cloud.google.com/gke-accelerator")

    @property
    def model(self) -> str:
        """`provisioningModel`."""
        if self.labels.get("cloud.google.com/gke-flex-start") == "true":
            return "FLEX_START"
        return "SPOT" if self.labels.get("cloud.google.com/gke-spot") == "true" else "STANDARD"

    @property
    def metric(self) -> str | None:
        """The quota that their GPUs count against."""
        if self.accelerator is None:
            return None
        gpu_model = ACCELERATORS[self.accelerator]
        preemptible = self.labels.get("cloud.google.com/gke-preemptible") == "true"
        return (
            gpu_model.quota_metric_preemptible
            if preemptible or self.model != "STANDARD"
            else gpu_model.quota_metric
        )


def running(cloud: "GoogleCloud") -> Iterator[Running]:
    """All nodes that run now. Hold the cloud's lock."""
    groups = {group.name: group for group in cloud.node_groups()}
    pools = {pool.identity.rpartition("/")[2]: pool for pool in cloud.of(NODE_POOL)}
    with_pools = {pool.parent for pool in pools.values()}
    # Nodes that no pool has are those of the cluster that makes its own.
    automatic = [one.identity for one in cloud.of(CLUSTER) if one.identity not in with_pools]
    for name, group in groups.items():
        pool = pools.get(name)
        count = pool.nodes if pool else cloud.auto_nodes.get(name, 0)
        owner = (pool.parent or "") if pool else next(iter(automatic), "")
        labels = group.node.labels
        if count and owner:
            gpus = int(labels.get("cloud.google.com/gke-accelerator-count", group.gpus))
            reservation = affinity(pool.state) if pool else ""
            yield Running(
                cluster=owner,
                group=name,
                count=count,
                gpus=gpus,
                labels=labels,
                reservation=reservation,
            )


def _rows(call: Call, zone: str | None = None) -> list[dict[str, Any]]:
    found = []
    for nodes in running(call.cloud):
        project, cluster = nodes.cluster.split("/")[1], nodes.cluster.rpartition("/")[2]
        if project != call.path["project"] or zone not in (None, nodes.zone):
            continue
        place = f"{LINK}projects/{project}/zones/{nodes.zone}"
        machine = nodes.labels.get("node.kubernetes.io/instance-type", "")
        row: dict[str, Any] = {
            "kind": "compute#instance",
            "status": "RUNNING",
            "zone": place,
            "machineType": f"{place}/machineTypes/{machine}",
            "labels": {"goog-k8s-cluster-name": cluster, "goog-k8s-node-pool-name": nodes.group},
            "scheduling": {"provisioningModel": nodes.model},
        }
        if nodes.accelerator:
            kind = f"{place}/acceleratorTypes/{nodes.accelerator}"
            row["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": nodes.gpus}]
        if nodes.reservation:
            row["reservationAffinity"] = {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": [nodes.reservation],
            }
        for number in range(nodes.count):
            name = f"gke-{cluster}-{nodes.group}-{number}"
            found.append({"name": name, "selfLink": f"{place}/instances/{name}", **row})
    wanted = call.query.get("filter", "")
    return [resources.row(call, one) for one in found if resources.matches(one, wanted)]


def _get(call: Call) -> dict[str, Any]:
    for one in _rows(call, call.path["zone"]):
        if one["name"] == call.path["instance"]:
            return one
    raise not_found(call.name)


def _list(call: Call) -> dict[str, Any]:
    return resources.listed(call, "compute#instanceList", _rows(call, call.path["zone"]))


def _aggregated(call: Call) -> dict[str, Any]:
    return resources.aggregated(call, "compute#instanceAggregatedList", "instances", _rows(call))


METHODS = {
    "compute.instances.get": _get,
    "compute.instances.list": _list,
    "compute.instances.aggregatedList": _aggregated,
}
