"""Reads an existing GKE cluster for its inventory; changes nothing in Google Cloud.

It queries Kubernetes Engine (the cluster) and Compute Engine (subnetwork, routers and routes).
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from gpu_cluster.components.gke.existing_args import GkeExistingClusterArgs
from gpu_cluster.components.gke.settings import GkeSettings
from gpu_cluster.components.lifecycle.ownership import GOOGLE_LABEL, google_label
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.google_existing import found_in, has_address, kubeconfig_of
from gpu_cluster.stacks.capacity.google_network import way_out
from gpu_cluster.stacks.capacity.verdict import Unknown
from gpu_cluster.stacks.outcome import CheckError

Row = Mapping[str, Any]
Read = tuple[dict[str, Any], str]
"""The keys of an inventory, and a kubeconfig of the cluster."""
_COUNTS = ("minNodeCount", "maxNodeCount", "totalMinNodeCount", "totalMaxNodeCount")
_T = TypeVar("_T")


def read_inventory(
    settings: Settings[GkeSettings], owner: str, endpoint: str | None = None
) -> Read:
    """Describes the cluster from the project. `owner`: the stack, `<project>/<stack>`, whose own
    node pools are omitted; `endpoint`: a simulator's URL. Raises CheckError."""
    own, args, api = settings.own, settings.own.cluster, GoogleApi(endpoint)
    assert isinstance(args, GkeExistingClusterArgs)
    row = _known(api.get("container", args.path_in(own.project)))
    subnetwork = _subnetwork(api, row)
    return {"subnetworks": [subnetwork], "cluster": _cluster(row, owner)}, kubeconfig_of(api, own)


def _known(answer: _T | Unknown) -> _T:
    if isinstance(answer, Unknown):
        raise CheckError(answer.reason)
    return answer


def _subnetwork(api: GoogleApi, row: Row) -> dict[str, Any]:
    name = row["networkConfig"]["subnetwork"]
    found = _known(api.get("compute", name))
    _, project, _, region, _, subnetwork = name.split("/")
    blocks = {item["rangeName"]: item["ipCidrRange"] for item in found.get("secondaryIpRanges", ())}
    policy = row.get("ipAllocationPolicy") or {}
    # The cluster's ranges first: GKE may have them outside the subnetwork.
    pods = policy.get("clusterSecondaryRangeName") or "pods"
    services = policy.get("servicesSecondaryRangeName") or "services"
    first = {pods: row["clusterIpv4Cidr"], services: row["servicesIpv4Cidr"]}
    return {
        "project": project,
        "vpc": row["networkConfig"]["network"].rpartition("/")[2],
        "name": subnetwork,
        "region": region,
        "cidr": found["ipCidrRange"],
        "ranges": {**first, **blocks},
        "out": _known(way_out(api, name, found)),
    }


def _cluster(row: Row, owner: str) -> dict[str, Any]:
    found = found_in(row)
    config, stack = row["networkConfig"], google_label(*owner.split("/", 1))
    monitoring = (row.get("monitoringConfig") or {}).get("componentConfig") or {}
    endpoints = row.get("controlPlaneEndpointsConfig") or {}
    addons = row.get("addonsConfig") or {}
    return {
        "version": ".".join(found.version.split(".")[:2]),
        "releaseChannel": (row.get("releaseChannel") or {}).get("channel", "UNSPECIFIED"),
        "autopilot": found.autopilot,
        "workloadIdentity": bool(found.workload_pool),
        "privateNodes": bool(config.get("defaultEnablePrivateNodes")),
        "dnsAccess": bool((endpoints.get("dnsEndpointConfig") or {}).get("allowExternalTraffic")),
        "ipAccess": has_address(row),
        "addons": [
            f"{key[0].upper()}{key[1:].removesuffix('Config')}"
            for key, value in addons.items()
            if value.get("enabled")
        ],
        "metrics": list(monitoring.get("enableComponents", ())),
        "managedPrometheus": found.managed_prometheus,
        "limits": dict(found.limits),
        "zones": list(row["locations"]),
        "nodePools": {
            pool["name"]: _node_pool(pool, len(pool.get("locations") or row["locations"]))
            for pool in row.get("nodePools") or ()
            if (pool["config"].get("resourceLabels") or {}).get(GOOGLE_LABEL) != stack
        },
    }


def _node_pool(pool: Row, zones: int) -> dict[str, Any]:
    config, scaling = pool["config"], pool.get("autoscaling") or {}
    counts = {key: scaling[key] for key in _COUNTS if scaling.get("enabled") and scaling.get(key)}
    least = max(counts.get("minNodeCount", 0), -(-counts.get("totalMinNodeCount", 0) // zones))
    return {
        "machineType": config["machineType"],
        "nodes": max(pool.get("initialNodeCount", 0), least),
        "labels": dict(config.get("labels") or {}),
        **({"taints": list(config["taints"])} if config.get("taints") else {}),
        **({"autoscaling": counts} if counts else {}),
    }
