"""GKE's requirements for a network: permissions if it is in another project, and always a route to
the internet.

Each message is GKE's own; the comment above it links to a report of it.
"""

from collections.abc import Iterable

from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request
from gpu_cluster.rehearsal.simulators.google.resource import PROJECT_NUMBER, CloudResource
from gpu_cluster.rehearsal.simulators.google.state import CloudState

_ROBOT = f"service-{PROJECT_NUMBER}@container-engine-robot.iam.gserviceaccount.com"
GKE_AGENT = f"serviceAccount:{_ROBOT}"
APIS_AGENT = f"serviceAccount:{PROJECT_NUMBER}@cloudservices.gserviceaccount.com"
"""The service agents of the cluster's project."""
HOST_USER, NETWORK_USER = "roles/container.hostServiceAgentUser", "roles/compute.networkUser"


def check_network(cloud: CloudState, identity: str, network: str, subnetwork: str) -> None:
    """Raises ApiError if the cluster's project may not use the network, or if the network or
    subnetwork does not exist."""
    project, host = identity.split("/")[1], network.split("/")[1]
    if project != host and cloud.host_projects.get(project) != host:
        # https://github.com/GoogleCloudPlatform/gke-enterprise-mt/issues/20
        raise bad_request(
            f'Project "{project}" does not have an associated Shared-VPC host project.'
        )
    if project != host and not _granted(cloud, [f"projects/{host}"], HOST_USER, GKE_AGENT):
        # https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/616
        raise ApiError(
            403,
            "Kubernetes Engine Service Agent is missing required permissions on this project. See "
            "https://cloud.google.com/kubernetes-engine/docs/troubleshooting"
            "#gke_service_account_deleted for more info: required "
            f'"container.hostServiceAgent.use" permission(s) for "projects/{host}".',
        )
    cloud.found(network)
    if subnetwork not in cloud.resources:
        _, owner, _, region, _, name = subnetwork.split("/")
        # https://github.com/hashicorp/terraform-provider-google/issues/7545
        raise ApiError(
            404,
            f'Not found: project "{owner}" does not have a subnetwork named "{name}" in region '
            f'"{region}".',
        )


def failure(cloud: CloudState, cluster: CloudResource, nodes: int) -> str:
    """Why creating the cluster, with its first `nodes`, fails; empty if it succeeds."""
    network, subnetwork = cluster.depends_on
    project, host = cluster.identity.split("/")[1], network.split("/")[1]
    places = [f"projects/{host}", subnetwork]
    agents = [GKE_AGENT, APIS_AGENT] if project != host else []
    if not all(_granted(cloud, places, NETWORK_USER, agent) for agent in agents):
        # https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/302
        return (
            "Google Compute Engine: Required 'compute.subnetworks.get' permission for "
            f"'{subnetwork}'"
        )
    private = cluster.state["networkConfig"].get("defaultEnablePrivateNodes")
    # GKE enables it for private nodes in its own project's network, but not in a Shared VPC
    # (docs.cloud.google.com, "Best practices for GKE networking").
    access = project == host or cloud.resources[subnetwork].state.get("privateIpGoogleAccess")
    leads_out = _has_nat(cloud, network, subnetwork) or any(
        network in route.depends_on for route in cloud.of("compute.routes")
    )
    if private and not access and not leads_out:
        # https://github.com/terraform-google-modules/terraform-example-foundation/issues/1324
        return (
            f"All cluster resources were brought up, but: only 0 nodes out of {nodes} have "
            "registered; cluster may be unhealthy."
        )
    return ""


def _granted(cloud: CloudState, names: Iterable[str], role: str, member: str) -> bool:
    return any(
        binding["role"] == role and member in binding["members"]
        for name in names
        for binding in cloud.policies.get(name, {}).get("bindings", ())
    )


def _has_nat(cloud: CloudState, network: str, subnetwork: str) -> bool:
    """Whether a Cloud NAT of the region serves this subnetwork."""
    place = subnetwork.partition("/subnetworks/")[0]
    for router in cloud.of("compute.routers"):
        if network not in router.depends_on or not router.identity.startswith(f"{place}/"):
            continue
        for nat in router.state.get("nats", ()):
            listed = [net["name"].partition("/v1/")[2] for net in nat.get("subnetworks", ())]
            if not listed or subnetwork in listed:
                return True
    return False
