"""Virtual machines: the current nodes of the project's clusters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_cluster.components.catalog.gke import ACCELERATORS, region_of
from gpu_cluster.rehearsal.simulators.google import nodes
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.compute import resources
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK
from gpu_cluster.rehearsal.simulators.google.container.reserved import affinity, reserved_gpus
from gpu_cluster.rehearsal.simulators.google.container.tokens import CLUSTER
from gpu_cluster.rehearsal.simulators.google.state import CloudState


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The nodes of one group."""

    cluster: str
    """The cluster's full name, `projects/...`."""
    group: str
    count: int
    gpus: int
    """GPUs per node."""
    labels: Mapping[str, str]
    """The node's labels in Kubernetes."""
    reservation: str = ""
    """The reservation of the machines, as the node pool names it."""

    @property
    def zone(self) -> str:
        """The group's first zone."""
        return self.labels["topology.kubernetes.io/zone"]

    @property
    def accelerator(self) -> str | None:
        """The accelerator, such as `nvidia-l4`."""
        return self.labels.get("cloud.google.com/gke-accelerator")

    @property
    def model(self) -> str:
        """The `provisioningModel`."""
        if self.labels.get("cloud.google.com/gke-flex-start") == "true":
            return "FLEX_START"
        return "SPOT" if self.labels.get("cloud.google.com/gke-spot") == "true" else "STANDARD"

    @property
    def metric(self) -> str | None:
        """The quota metric that their GPUs count against."""
        if self.accelerator is None:
            return None
        gpu_model = ACCELERATORS[self.accelerator]
        preemptible = self.labels.get("cloud.google.com/gke-preemptible") == "true"
        return (
            gpu_model.quota_metric_preemptible
            if preemptible or self.model != "STANDARD"
            else gpu_model.quota_metric
        )


def running(cloud: CloudState) -> Iterator[Running]:
    """All current nodes, including those that are booting. Call it with the cloud's lock held."""
    pools = {pool.state["name"]: pool for pool in cloud.pools()}
    own = [pool for pool in pools.values() if pool.identity in cloud.resources]
    groups = {group.name: group for group in cloud.node_groups()} | {
        pool.state["name"]: nodes.group(pool, cloud.found(pool.parent or "")) for pool in own
    }
    with_pools = {pool.parent for pool in own}
    # Nodes without a pool belong to the cluster that creates its own nodes.
    automatic = [row.identity for row in cloud.of(CLUSTER) if row.identity not in with_pools]
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


def gpus_used(cloud: CloudState, metric: str, region: str | None, besides: str = "") -> int:
    """The GPUs that count against a quota: those of the project's reservations, and those of all
    nodes outside reservations, without the group `besides`. Without a region: in all metrics and
    regions. Call it with the cloud's lock held."""
    return reserved_gpus(cloud, metric if region else None, region) + sum(
        row.count * row.gpus
        for row in running(cloud)
        if row.group != besides
        and not row.reservation
        and (region is None or (row.metric == metric and region_of(row.zone) == region))
    )


def _rows(call: Call, zone: str | None) -> Iterator[dict[str, Any]]:
    for item in running(call.cloud):
        project, cluster = item.cluster.split("/")[1], item.cluster.rpartition("/")[2]
        if project != call.path["project"] or zone not in (None, item.zone):
            continue
        place = f"{LINK}projects/{project}/zones/{item.zone}"
        machine = item.labels.get("node.kubernetes.io/instance-type", "")
        row: dict[str, Any] = {
            "kind": "compute#instance",
            "status": "RUNNING",
            "zone": place,
            "machineType": f"{place}/machineTypes/{machine}",
            "labels": {"goog-k8s-cluster-name": cluster, "goog-k8s-node-pool-name": item.group},
            "scheduling": {"provisioningModel": item.model},
        }
        if item.accelerator:
            kind = f"{place}/acceleratorTypes/{item.accelerator}"
            row["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": item.gpus}]
        if item.reservation:
            row["reservationAffinity"] = {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": [item.reservation],
            }
        for number in range(item.count):
            name = f"gke-{cluster}-{item.group}-{number}"
            yield {"name": name, "selfLink": f"{place}/instances/{name}", **row}


METHODS = resources.reads("instances", _rows)
