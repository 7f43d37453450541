"""A GKE cluster that existed before the stack, as its owner created it."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.google import iam
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.container import clusters
from gpu_cluster.rehearsal.simulators.google.container.tokens import NODE_POOL
from gpu_cluster.rehearsal.simulators.google.errors import ApiError
from gpu_cluster.rehearsal.simulators.google.state import CloudState
from gpu_cluster.rehearsal.simulators.google_inventory import GkeCluster

_ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")
"""terraform-google-modules/kubernetes-engine, sa.tf, with `grant_registry_access`."""
_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
_SEVERAL_NETWORKS = {"enableMultiNetworking": True, "datapathProvider": "ADVANCED_DATAPATH"}
_UP_SECONDS = 60.0


def lay_out(cloud: CloudState, cluster: GkeCluster) -> None:
    """Creates the cluster, in the first existing subnetwork, with its pools and their service
    account, and waits until it is up. Raises ApiError if GKE would not create it."""
    subnetwork = next(cloud.of("compute.subnetworks"))
    nodes = f"tf-gke-{cluster.name[:15]}-0a1b@{cluster.project}.iam.gserviceaccount.com"
    project = f"projects/{cluster.project}"
    _call(
        cloud, iam.METHODS, "iam.projects.serviceAccounts.create", project,
        {"accountId": nodes.partition("@")[0]}, projectsId=cluster.project,
    )  # fmt: skip
    bindings = [{"role": role, "members": [f"serviceAccount:{nodes}"]} for role in _ROLES]
    cloud.policies[project] = {"version": 1, "bindings": bindings}
    place = f"{project}/locations/{cluster.location}"
    pods, services = (block["rangeName"] for block in subnetwork.state["secondaryIpRanges"][:2])
    body: dict[str, Any] = {
        "name": cluster.name,
        "network": subnetwork.state["network"],
        "subnetwork": subnetwork.identity,
        "ipAllocationPolicy": {
            "useIpAliases": True,
            "clusterSecondaryRangeName": pods,
            "servicesSecondaryRangeName": services,
        },
        "locations": list(cluster.zones),
        "releaseChannel": {"channel": cluster.release_channel},
        "initialClusterVersion": cluster.version,
        "networkConfig": {
            "defaultEnablePrivateNodes": cluster.private_nodes,
            **(_SEVERAL_NETWORKS if cluster.multi_networking else {}),
        },
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"allowExternalTraffic": cluster.dns_access},
            "ipEndpointsConfig": {"enabled": cluster.ip_access},
        },
        "monitoringConfig": {
            "managedPrometheusConfig": {"enabled": cluster.managed_prometheus},
            **(
                {"componentConfig": {"enableComponents": list(cluster.metrics)}}
                if cluster.metrics
                else {}
            ),
        },
        "maintenancePolicy": {"window": {"dailyMaintenanceWindow": {"startTime": "05:00"}}},
        **({"autopilot": {"enabled": True}} if cluster.autopilot else _of_standard(cluster, nodes)),
    }
    if cluster.workload_identity:
        body["workloadIdentityConfig"] = {"workloadPool": f"{cluster.project}.svc.id.goog"}
    begun = _call(
        cloud, clusters.METHODS, "container.projects.locations.clusters.create",
        f"{place}/clusters",
        {"cluster": body}, projectsId=cluster.project, locationsId=cluster.location,
    )  # fmt: skip
    operation = cloud.operations.get(f"{place}/operations/{begun['name']}")
    operation.done.wait(_UP_SECONDS)
    if operation.error is not None:
        raise operation.error
    with cloud.lock:
        for pool in cloud.of(NODE_POOL):
            pool.state["status"] = "RUNNING"


def _of_standard(cluster: GkeCluster, nodes: str) -> dict[str, Any]:
    addons = {f"{name[0].lower()}{name[1:]}Config": {"enabled": True} for name in cluster.addons}
    metadata = {"workloadMetadataConfig": {"mode": "GKE_METADATA"}}
    return {
        "addonsConfig": addons,
        "shieldedNodes": {"enabled": True},
        "nodePools": [
            {
                "name": name,
                "initialNodeCount": row["nodes"],
                **({"autoscaling": scaling} if (scaling := _scaling(row)) else {}),
                "config": {
                    "machineType": row["machineType"],
                    "serviceAccount": nodes,
                    "oauthScopes": _SCOPES,
                    "tags": [f"gke-{cluster.name}", f"gke-{cluster.name}-{name}"],
                    "labels": {
                        "cluster_name": cluster.name,
                        "node_pool": name,
                        **row.get("labels", {}),
                    },
                    "taints": list(row.get("taints", ())),
                    **(metadata if cluster.workload_identity else {}),
                },
            }
            for name, row in cluster.node_pools.items()
        ],
        "autoscaling": {
            "enableNodeAutoprovisioning": bool(cluster.limits),
            "resourceLimits": [
                {"resourceType": name, "maximum": str(most)}
                for name, most in cluster.limits.items()
            ],
        },
    }


def _scaling(row: Mapping[str, Any]) -> dict[str, Any]:
    if "autoscaling" in row:
        return {"enabled": True, **row["autoscaling"]}
    nodes = row["nodes"]
    return {"enabled": True, "minNodeCount": nodes, "maxNodeCount": 100} if nodes else {}


def _call(
    cloud: CloudState, methods: Any, method: str, name: str, body: dict[str, Any], **path: str
) -> dict[str, Any]:
    try:
        with cloud.lock:
            answer: dict[str, Any] = methods[method](
                Call(
                    cloud=cloud,
                    service=method.partition(".")[0],
                    version="v1",
                    method=method,
                    path=path,
                    name=name,
                    query={},
                    body=body,
                )
            )
    except ApiError as error:
        raise ApiError(error.code, f"the cluster of another owner: {error.message}") from None
    return answer
