"""The usage of Google Cloud's quotas by the GPU pools of a GKE cluster, with the answers, and the
zones that offer their machines and accelerators.

Queries the Compute Engine REST API: v1 `regions.get`, `projects.get`, and `aggregatedList` of
`instances`, `acceleratorTypes`, `machineTypes` and `reservations`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_cluster.components.catalog import gke as catalog
from gpu_cluster.components.cluster import ResolvedPool
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
from gpu_cluster.components.gke.reservation import parse_reservation
from gpu_cluster.stacks.capacity import advice
from gpu_cluster.stacks.capacity import reserved as reservations
from gpu_cluster.stacks.capacity.google_advice import GoogleAdvice
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.google_reservations import described, own_nodes, specific
from gpu_cluster.stacks.capacity.offers import Offer, Wanted
from gpu_cluster.stacks.capacity.verdict import Known, Need, Unit, Unknown
from gpu_cluster.stacks.table import amount

KEYS = ("gcp:project",)
_Sizes = dict[tuple[str, str, Unit], dict[str, int]]
"""Quota, scope and unit -> pool -> its units."""
ALL_REGIONS = "all regions"
_PREEMPTIBLE = ("spot", "flex-start")
_CLUSTER_LABEL = "goog-k8s-cluster-name"
"""The label that GKE sets on the virtual machines of its nodes."""
_DISK_QUOTAS = {
    "pd-standard": "DISKS_TOTAL_GB",
    "pd-balanced": "SSD_TOTAL_GB",
    "pd-ssd": "SSD_TOTAL_GB",
    "hyperdisk-balanced": "HDB_TOTAL_GB",
}
"""Type of a disk -> the regional quota: docs.cloud.google.com/compute/resource-usage, "Disk
quotas", and the discovery document's `Quota.metric`."""


CPU_QUOTAS = {"n1": "CPUS", "e2": "CPUS"} | {
    family: f"{family.upper()}_CPUS"
    for family in ("a2", "c2", "c2d", "c3", "m1", "m2", "m3", "n2", "n2d", "t2a", "t2d")
}
"""Family of a machine -> the regional quota of its vCPUs: the metrics of the discovery document.
N1 and E2 share one, and those of newer families count against CPUS_PER_VM_FAMILY, which the API
does not list; all count against the project's."""
FAMILY_SSD_QUOTA = "LOCAL_SSD_TOTAL_GB_PER_VM_FAMILY"
"""The quota of local SSDs of a family ("Local SSD per machine family (GB)" of the console), which
the API does not list. No page says which families have one; errors of users name it for C2 and N2D,
so that only N1, the oldest, is taken to count against LOCAL_SSD_TOTAL_GB."""
GLOBAL_CPU_QUOTA = "CPUS_ALL_REGIONS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of a pool at its maximum."""

    machine: catalog.MachineType | None
    way: str
    """How they are bought, at last, as a value of `capacityType`."""
    disk: str
    """The type of the boot disk."""
    gigabytes: int
    """The size of the boot disk."""
    count: int
    ssd_gib: int = 0
    """The size of the local SSDs together."""


def needs(
    pools: Mapping[str, ResolvedPool[Any]], gpus: Mapping[str, int], *, project: str, region: str
) -> tuple[list[Need], list[str]]:
    """One need per regional metric and one for the project, and notes about what is not counted.

    `gpus`: pool -> maximum number of physical GPUs.
    """
    sizes: _Sizes = {}
    notes = []
    for name, pool in pools.items():
        # A pool with an order of fallback needs quota for its last choice, or it may wait; the
        # others are in choices.
        way = pool.args.order[-1]
        if way == "reservation":
            # The reservation itself was counted when it was created.
            notes.append(
                f"pool {name}: not counted, because its nodes use reservation "
                f"{pool.args.reservation}"
            )
            continue
        if not gpus[name]:
            continue
        metric = metric_of(catalog.ACCELERATORS[pool.pool.accelerator], way)
        sizes.setdefault((metric, region, "GPUs"), {})[name] = gpus[name]
    if sizes:
        everything = {name: n for counted in sizes.values() for name, n in counted.items()}
        sizes[catalog.GLOBAL_GPU_QUOTA, ALL_REGIONS, "GPUs"] = everything
    return _as_needs(sizes, project), notes


def node_needs(nodes: Mapping[str, Nodes], *, project: str, region: str) -> list[Need]:
    """A need for each quota of boot disks, of local SSDs, and of vCPUs that are bought on demand: a
    reservation counted its own when it was created, and Spot has another quota of vCPUs if the
    project asked for it."""
    sizes: _Sizes = {}
    for pool, of in nodes.items():
        disks = sizes.setdefault((_DISK_QUOTAS[of.disk], region, "GB"), {})
        disks[pool] = of.gigabytes * of.count
        if of.machine and of.ssd_gib and of.way != "reservation":
            ssds = ssd_metric(of.machine.family, of.way)
            sizes.setdefault((ssds, region, "GB"), {})[pool] = of.ssd_gib * of.count
        if of.machine is None or of.way != "on-demand":
            continue
        cpus = {pool: of.machine.vcpu * of.count}
        if (of_family := CPU_QUOTAS.get(of.machine.family)) is not None:
            sizes.setdefault((of_family, region, "vCPUs"), {}).update(cpus)
        sizes.setdefault((GLOBAL_CPU_QUOTA, ALL_REGIONS, "vCPUs"), {}).update(cpus)
    return _as_needs(sizes, project)


def network_needs(
    pools: Mapping[str, ResolvedPool[Any]], *, cluster: GkeClusterArgs, project: str
) -> list[Need]:
    """The needs of the VPC networks that the stack creates, if it creates those between GPUs, and
    of their subnetworks."""
    own = {} if cluster.network.existing else {cluster.name: 1}
    fabrics = [pool.pool.fabric for pool in pools.values() if pool.pool.fabric]
    between = {name for fabric in fabrics for name in fabric.networks or ()}
    counted = {**own, "gpuNetworksCidr": len(between)}
    sizes: _Sizes = {
        ("NETWORKS", ALL_REGIONS, "VPCs"): counted,
        ("SUBNETWORKS", ALL_REGIONS, "subnetworks"): counted,
    }
    return _as_needs(sizes, project) if between else []


def _as_needs(sizes: _Sizes, project: str) -> list[Need]:
    link = f"https://console.cloud.google.com/iam-admin/quotas?project={project}"
    return [
        Need(quota=metric, scope=scope, unit=unit, pools=pools, link=link)
        for (metric, scope, unit), pools in sizes.items()
    ]


def one_node(pool: ResolvedPool[Any], way: str, *, region: str) -> Need:
    """How much of a quota a node of the pool uses if it is bought in this way."""
    metric = metric_of(catalog.ACCELERATORS[pool.pool.accelerator], way)
    counted = {pool.pool.name: pool.pool.gpus_per_node}
    return Need(quota=metric, scope=region, unit="GPUs", pools=counted, link="")


def metric_of(gpu_model: catalog.Accelerator, way: str) -> str:
    """The regional metric for GPUs bought in this way, a value of `capacityType`."""
    preemptible = way in _PREEMPTIBLE
    return gpu_model.quota_metric_preemptible if preemptible else gpu_model.quota_metric


def ssd_metric(family: str, way: str) -> str:
    """The regional metric for local SSDs of machines bought in this way."""
    if way in _PREEMPTIBLE:
        return "PREEMPTIBLE_LOCAL_SSD_GB"
    if family == "n1":
        return "LOCAL_SSD_TOTAL_GB"
    return f"{FAMILY_SSD_QUOTA} of {family.upper()}"


class GoogleQuotas:
    """Answers from the Compute Engine API; read-only."""

    def __init__(self, project: str, region: str, api: GoogleApi) -> None:
        self._project = project
        self._region = region
        self._api = api
        self._advice = GoogleAdvice(api, project, region)

    def answer(self, need: Need) -> Known | Unknown:
        """The API's answer about a need's quota."""
        where = "" if need.scope == ALL_REGIONS else f"/regions/{need.scope}"
        body = self._api.get("compute", f"projects/{self._project}{where}")
        if isinstance(body, Unknown):
            return body
        if warning := body.get("quotaStatusWarning"):
            return Unknown(
                reason="Google Cloud returned no complete answer: "
                f"{warning.get('message', warning)}"
            )
        quotas = {
            quota["metric"]: Known(limit=float(quota["limit"]), use=float(quota.get("usage", 0)))
            for quota in body.get("quotas", ())
        }
        known = quotas.get(need.quota)
        gpu_model = next(
            (c for c in catalog.ACCELERATORS.values() if need.quota.endswith(c.quota_metric)), None
        )
        if gpu_model and need.quota == gpu_model.quota_metric_preemptible:
            standard = quotas.get(gpu_model.quota_metric)
            if standard is not None and (known is None or not known.limit):
                return _on_standard_quota(need, known, gpu_model.quota_metric, standard)
        if need.quota == "PREEMPTIBLE_LOCAL_SSD_GB" and (known is None or not known.limit):
            return Unknown(
                reason=f"{need.quota} {'is 0' if known else 'is not listed'}; a project that never "
                "requested preemptible quota uses that of its other local SSDs: see the link"
            )
        if known is not None:
            return known
        if need.quota.startswith(FAMILY_SSD_QUOTA):
            return Unknown(reason="this API does not report the quota of a family: see the link")
        if need.unit != "GPUs":
            return Unknown(reason=f"{need.scope} lists no quota of this name: see the link")
        guessed = (
            ", and its name is only assumed"
            if gpu_model and gpu_model.quota_metric_uncertain
            else ""
        )
        return Unknown(
            reason=f"{need.scope} lists no quota of this name{guessed}; newer GPUs count against "
            "GPUS_PER_GPU_FAMILY, which this API does not report: see the link"
        )

    def own_use(self, need: Need, cluster: str) -> float | None:
        """GPUs or vCPUs of the cluster's own nodes that count against a need's quota; None if
        unknown, as for disks, of which an instance does not tell the type, and networks."""
        if need.unit in ("GB", "VPCs", "subnetworks"):
            return None
        instances = self._nodes(cluster)
        if isinstance(instances, Unknown):
            return None
        return sum(
            _counted(instance, need)
            for zone, instance in instances
            # A cluster in another region may have the same name.
            if zone.startswith(f"{self._region}-")
        )

    def offer(self, wanted: Wanted) -> Offer:
        """The zones of Google Cloud that have everything that a pool's nodes consist of."""
        everywhere: set[str] | None = None
        for name in wanted.types:
            collection = "acceleratorTypes" if name in catalog.ACCELERATORS else "machineTypes"
            resources = self._api.aggregated(self._project, collection, f"name={name}")
            if isinstance(resources, Unknown):
                return Offer(wanted=wanted, zones=resources)
            zones = {
                zone
                for zone, resource in resources
                if (resource.get("deprecated") or {}).get("state") not in ("OBSOLETE", "DELETED")
            }
            everywhere = zones if everywhere is None else everywhere & zones
        return Offer(wanted=wanted, zones=tuple(sorted(everywhere or ())))

    def advise(self, wanted: advice.Wanted) -> advice.Advice | None:
        """Compute Engine's advice about a pool's machines."""
        return self._advice.advise(wanted)

    def reserved(self, wanted: reservations.Wanted, cluster: str) -> reservations.Reserved:
        """The state of a reservation in the project that owns it, and how many of its machines are
        nodes of the stack's own cluster."""
        path = parse_reservation(wanted.reservation)
        owner = path.owner or self._project
        reservations_found = self._api.aggregated(owner, "reservations", f"name={path.name}")
        nodes = self._nodes(cluster)
        if isinstance(reservations_found, Unknown):
            return reservations.Reserved(wanted=wanted, reservations=reservations_found)
        own = [] if isinstance(nodes, Unknown) else nodes
        rows = [
            described(row, zone, own_nodes(wanted.reservation, zone, own), self._project, owner)
            for zone, row in reservations_found
        ]
        return reservations.Reserved(wanted=wanted, reservations=tuple(rows))

    def _nodes(self, cluster: str) -> list[tuple[str, Mapping[str, Any]]] | Unknown:
        condition = f"labels.{_CLUSTER_LABEL}={cluster}"
        return self._api.aggregated(self._project, "instances", condition)


def _on_standard_quota(
    need: Need, preemptible: Known | None, metric: str, standard: Known
) -> Known | Unknown:
    """The answer for a project without preemptible quota, whose Spot and flex-start machines count
    against the standard one (docs.cloud.google.com/compute/docs/instances/provisioning-models,
    "Quota", of both: "preemptible quota is consumed. If your project lacks preemptible quota, then
    standard quota is consumed", read 2026-11-26). The API does not tell whether it was never
    requested: a quota that was granted and lowered to 0 is a limit."""
    if need.units > standard.limit:
        return standard
    lacks = "is 0" if preemptible else "is not listed"
    return Unknown(
        reason=f"{need.quota} {lacks}; a project that never requested preemptible quota uses "
        f"{metric} instead, of which {amount(standard.use)} of {amount(standard.limit)} are in "
        f"use, and {need.units} are needed besides what other pools count against it"
    )


def _counted(instance: Mapping[str, Any], need: Need) -> int:
    """GPUs or vCPUs of a virtual machine that count against a need's quota."""
    if instance.get("status") in ("TERMINATED", "SUSPENDED"):
        return 0
    if specific(instance):
        return 0  # The reservation counts instead.
    scheduling = instance.get("scheduling", {})
    preemptible = bool(scheduling.get("preemptible")) or scheduling.get("provisioningModel") in (
        "SPOT",
        "FLEX_START",
    )
    if need.unit == "vCPUs":
        machine = catalog.machine_type(instance["machineType"].rpartition("/")[2])
        if preemptible or machine is None:
            return 0
        counts = need.quota in (GLOBAL_CPU_QUOTA, CPU_QUOTAS.get(machine.family))
        return machine.vcpu * counts
    gpus = 0
    for accelerator in instance.get("guestAccelerators", ()):
        gpu_model = catalog.ACCELERATORS.get(accelerator["acceleratorType"].rpartition("/")[2])
        if gpu_model is None:
            continue
        metric = gpu_model.quota_metric_preemptible if preemptible else gpu_model.quota_metric
        if need.quota == metric or need.scope == ALL_REGIONS:
            gpus += int(accelerator["acceleratorCount"])
    return gpus
