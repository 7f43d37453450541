"""A loopback view of the simulated cloud's GPU quotas and offers, as Compute Engine's API has it.

Only what a quota check reads: v1 `projects.get`, `regions.get`, `instances.aggregatedList`, and
`list` and `aggregatedList` of `acceleratorTypes` and `machineTypes`.
"""

import json
import threading
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from components.catalog.gke import (
    ACCELERATOR_ZONES,
    ACCELERATORS,
    CPU_MACHINE_TYPES,
    GLOBAL_GPU_QUOTA,
    MACHINE_TYPES,
    Accelerator,
    region_of,
)
from simulators.google import nodes
from simulators.google.autopilot import ACCELERATOR_COUNT_LABEL
from simulators.google.cloud import CLUSTER, DEFAULT_QUOTA, NODE_POOL, GoogleCloud
from tools.peers import close_to_others

OFFERS = ("acceleratorTypes", "machineTypes")
"""Collections of what each zone has."""
_METRICS = [
    metric
    for gpu_model in ACCELERATORS.values()
    # What nobody has read anywhere is not simulated either.
    if not gpu_model.quota_metric_uncertain
    for metric in (gpu_model.quota_metric, gpu_model.quota_metric_preemptible)
]


class QuotaApi:
    """Serves until it is stopped."""

    def __init__(self, cloud: GoogleCloud) -> None:
        class _Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urllib.parse.urlsplit(self.path)
                status, body = respond(cloud, url.path, urllib.parse.parse_qs(url.query))
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing: the terminal is the rehearsal's."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        close_to_others(self._server)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="quota-api", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def respond(
    cloud: GoogleCloud, path: str, query: dict[str, list[str]]
) -> tuple[int, dict[str, Any]]:
    """HTTP status and body for a GET."""
    parts = path.strip("/").split("/")
    with cloud.lock:
        match parts:
            case ["compute", "v1", "projects", project]:
                quotas = [_quota(cloud, GLOBAL_GPU_QUOTA, None)]
                return 200, {"kind": "compute#project", "name": project, "quotas": quotas}
            case ["compute", "v1", "projects", _, "regions", region]:
                quotas = [_quota(cloud, metric, region) for metric in _METRICS]
                return 200, {"kind": "compute#region", "name": region, "quotas": quotas}
            case ["compute", "v1", "projects", _, "aggregated", "instances"]:
                return 200, {"items": _instances(cloud, query.get("filter", [""])[0])}
            case ["compute", "v1", "projects", _, "aggregated", collection] if collection in OFFERS:
                return 200, {"items": _offers(collection, query.get("filter", [""])[0])}
            case ["compute", "v1", "projects", _, "zones", zone, collection] if (
                collection in OFFERS
            ):
                offered = _offers(collection, query.get("filter", [""])[0])
                return 200, {"items": offered.get(f"zones/{zone}", {}).get(collection, [])}
    return 404, {"error": {"code": 404, "message": f"The resource '{path}' was not found"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class _GpuNodes:
    """GPU nodes of one shape that run now."""

    cluster: str
    zone: str
    """The first of theirs."""
    accelerator: Accelerator
    gpus: int
    """On each node."""
    model: str
    """`provisioningModel`."""
    nodes: int

    @property
    def metric(self) -> str:
        gpu_model = self.accelerator
        return (
            gpu_model.quota_metric
            if self.model == "STANDARD"
            else gpu_model.quota_metric_preemptible
        )


def _gpu_nodes(cloud: GoogleCloud) -> list[_GpuNodes]:
    found = []
    for pool in cloud.of(NODE_POOL):
        if (gpus := nodes.accelerator_of(pool.state)) is not None:
            config = pool.state["nodeConfig"]
            model = "SPOT" if config.get("spot") else "STANDARD"
            found.append(
                _GpuNodes(
                    cluster=cloud.get(pool.parent or "").state["name"],
                    zone=pool.state["nodeLocations"][0],
                    accelerator=gpus[0],
                    gpus=gpus[1],
                    model="FLEX_START" if config.get("flexStart") else model,
                    nodes=pool.nodes,
                )
            )
    auto = {
        group.name: group.node.labels for group in cloud.node_groups() if group.auto_provisioned
    }
    for name, count in cloud.auto_nodes.items():
        labels = auto.get(name, {})
        if nodes.ACCELERATOR_LABEL in labels:
            spot = labels.get("cloud.google.com/gke-spot") == "true"
            found += [
                _GpuNodes(
                    cluster=cluster.state["name"],
                    zone=labels["topology.kubernetes.io/zone"],
                    accelerator=ACCELERATORS[labels[nodes.ACCELERATOR_LABEL]],
                    gpus=int(labels[ACCELERATOR_COUNT_LABEL]),
                    model="SPOT" if spot else "STANDARD",
                    nodes=count,
                )
                for cluster in cloud.of(CLUSTER)
                if cluster.state.get("enableAutopilot")
            ]
    return found


def _quota(cloud: GoogleCloud, metric: str, region: str | None) -> dict[str, Any]:
    use = sum(
        group.nodes * group.gpus
        for group in _gpu_nodes(cloud)
        if region is None or (group.metric == metric and region_of(group.zone) == region)
    )
    limit = cloud.faults.quota.get(metric, DEFAULT_QUOTA)
    return {"metric": metric, "limit": float(limit), "usage": float(use)}


def _offers(collection: str, wanted: str) -> dict[str, Any]:
    """Zone -> what it has of a collection, after a filter such as `name=nvidia-l4`."""
    items: dict[str, Any] = {}
    for name, zones in _zones_of(collection).items():
        if wanted in ("", f"name={name}"):
            for zone in zones:
                part = items.setdefault(f"zones/{zone}", {collection: []})
                part[collection].append({"name": name, "zone": zone})
    return items


def _zones_of(collection: str) -> dict[str, Iterable[str]]:
    """Machine or accelerator type -> its zones. Of machines without GPUs every zone has each."""
    if collection == "acceleratorTypes":
        return {
            gpu_model.name: gpu_model.zones
            for gpu_model in ACCELERATORS.values()
            if not gpu_model.retired
        }
    everywhere = sorted({zone for zones in ACCELERATOR_ZONES.values() for zone in zones})
    found: dict[str, Iterable[str]] = dict.fromkeys(CPU_MACHINE_TYPES, everywhere)
    for machine in MACHINE_TYPES.values():
        found[machine.name] = machine.zones or ACCELERATOR_ZONES[machine.accelerator or ""]
    return found


def _instances(cloud: GoogleCloud, wanted: str) -> dict[str, Any]:
    items: dict[str, Any] = {}
    for group in _gpu_nodes(cloud):
        labels = {"goog-k8s-cluster-name": group.cluster}
        if wanted not in ("", *(f"labels.{key}={value}" for key, value in labels.items())):
            continue
        kind = f"zones/{group.zone}/acceleratorTypes/{group.accelerator.name}"
        instance = {
            "status": "RUNNING",
            "labels": labels,
            "scheduling": {"provisioningModel": group.model},
            "guestAccelerators": [{"acceleratorType": kind, "acceleratorCount": group.gpus}],
        }
        part = items.setdefault(f"zones/{group.zone}", {"instances": []})
        part["instances"] += [instance] * group.nodes
    return items
