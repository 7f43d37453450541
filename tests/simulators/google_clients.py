"""A program of Google's typed client libraries, `python -m tests.simulators.google_clients
API`: an assertion fails where the cloud behind the address answers as no cloud does.

It imports nothing of ours: these libraries and Pulumi's register the same protobuf names, which one
process cannot have twice.
"""

import sys
import time
from typing import Any

import pytest
from google.api_core.exceptions import BadRequest, Conflict, Forbidden, NotFound
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1, container_v1
from google.cloud.container_v1.services.cluster_manager.transports.rest import (
    ClusterManagerRestTransport,
)

REGION: dict[str, Any] = {"project": "p", "region": "us-central1"}
LOCATION = "projects/p/locations/us-central1-a"
CLUSTER = f"{LOCATION}/clusters/dev"
POOL = f"{CLUSTER}/nodePools/gpu"
DONE = container_v1.Operation.Status.DONE


class Clients:
    """Google's clients of a project without anything."""

    def __init__(self, api: str) -> None:
        signed = AnonymousCredentials()
        asking: dict[str, Any] = {"credentials": signed, "client_options": {"api_endpoint": api}}
        self.operations = compute_v1.GlobalOperationsClient(**asking)
        self.regional = compute_v1.RegionOperationsClient(**asking)
        self.networks = compute_v1.NetworksClient(**asking)
        self.subnetworks = compute_v1.SubnetworksClient(**asking)
        self.routers = compute_v1.RoutersClient(**asking)
        self.groups = compute_v1.InstanceGroupManagersClient(**asking)
        self.firewalls = compute_v1.FirewallsClient(**asking)
        transport = ClusterManagerRestTransport(
            host=f"{api.removeprefix('http://')}/container", url_scheme="http", credentials=signed
        )
        self.container = container_v1.ClusterManagerClient(transport=transport)

    def network(self) -> None:
        """A network `net` with a subnetwork `nodes`."""
        net = compute_v1.Network(name="net", auto_create_subnetworks=False)
        self.done(self.networks.insert_unary(project="p", network_resource=net))
        nodes = compute_v1.Subnetwork(
            name="nodes", network="global/networks/net", ip_cidr_range="10.0.0.0/20"
        )
        self.done(self.subnetworks.insert_unary(**REGION, subnetwork_resource=nodes))

    def done(self, operation: compute_v1.Operation) -> None:
        """Waits for it. The library's own `result()` asks Google whatever address it was given."""
        if operation.region:
            found = self.regional.wait(**REGION, operation=operation.name)
        else:
            found = self.operations.wait(project="p", operation=operation.name)
        assert found.status == compute_v1.Operation.Status.DONE

    def finished(self, operation: container_v1.Operation) -> container_v1.Operation:
        """The operation once it is done."""
        ends = time.monotonic() + 20
        while operation.status != DONE and time.monotonic() < ends:
            name = f"{LOCATION}/operations/{operation.name}"
            operation = self.container.get_operation(name=name)
        assert operation.status == DONE
        return operation


def compute(google: Clients) -> None:
    """Created, listed page by page, changed, refused and deleted, each by its own method."""
    net = google.networks.get(project="p", network="net")
    assert net.routing_config.routing_mode == "REGIONAL"
    (link,) = net.subnetworks
    assert link.endswith("projects/p/regions/us-central1/subnetworks/nodes")
    for name in ("a", "b"):
        rule = compute_v1.Firewall(
            name=name,
            network="global/networks/net",
            source_ranges=["10.0.0.0/8"],
            allowed=[compute_v1.Allowed(I_p_protocol="tcp", ports=["22"])],
        )
        google.done(google.firewalls.insert_unary(project="p", firewall_resource=rule))
    pages = google.firewalls.list(compute_v1.ListFirewallsRequest(project="p", max_results=1)).pages
    assert [[one.name for one in page.items] for page in pages] == [["a"], ["b"]]
    nat = compute_v1.RouterNat(
        name="nat",
        nat_ip_allocate_option="AUTO_ONLY",
        source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
    )
    router = compute_v1.Router(name="r", network="global/networks/net", nats=[nat])
    google.done(google.routers.insert_unary(**REGION, router_resource=router))
    (made,) = google.routers.get(**REGION, router="r").nats
    assert (made.name, made.min_ports_per_vm) == ("nat", 64)
    with pytest.raises(Conflict, match="already exists"):
        google.routers.insert_unary(**REGION, router_resource=router)
    wider = compute_v1.ExpandIpCidrRangeSubnetworkRequest(
        **REGION,
        subnetwork="nodes",
        subnetworks_expand_ip_cidr_range_request_resource={"ip_cidr_range": "10.0.0.0/16"},
    )
    google.done(google.subnetworks.expand_ip_cidr_range_unary(wider))
    assert google.subnetworks.get(**REGION, subnetwork="nodes").ip_cidr_range == "10.0.0.0/16"
    with pytest.raises(BadRequest, match="already being used by"):
        google.networks.delete_unary(project="p", network="net")
    google.done(google.routers.delete_unary(**REGION, router="r"))
    with pytest.raises(NotFound, match="was not found"):
        google.routers.get(**REGION, router="r")


def gke(google: Clients) -> None:
    """A cluster and a pool of GPUs live, are resized, changed, refused and deleted."""
    api = google.container
    cluster = container_v1.Cluster(
        name="dev", network="net", subnetwork="nodes", initial_node_count=1
    )
    google.finished(api.create_cluster(parent=LOCATION, cluster=cluster))
    found = api.get_cluster(name=CLUSTER)
    assert found.status == container_v1.Cluster.Status.RUNNING
    assert [pool.name for pool in found.node_pools] == ["default-pool"]
    t4 = container_v1.AcceleratorConfig(accelerator_count=1, accelerator_type="nvidia-tesla-t4")
    config = container_v1.NodeConfig(machine_type="n1-standard-4", accelerators=[t4])
    pool = container_v1.NodePool(name="gpu", config=config)
    google.finished(api.create_node_pool(parent=CLUSTER, node_pool=pool))
    (card,) = api.get_node_pool(name=POOL).config.accelerators
    version = container_v1.GPUDriverInstallationConfig.GPUDriverVersion.DEFAULT
    assert card.gpu_driver_installation_config.gpu_driver_version == version
    size = container_v1.SetNodePoolSizeRequest(name=POOL, node_count=2)
    done = google.finished(api.set_node_pool_size(size))
    assert done.operation_type == container_v1.Operation.Type.SET_NODE_POOL_SIZE
    managed = compute_v1.ListInstanceGroupManagersRequest(project="p", zone="us-central1-a")
    sizes = {group.name: group.target_size for group in google.groups.list(managed)}
    assert sizes["gke-dev-gpu-grp"] == 2
    with pytest.raises(Forbidden):
        api.set_node_pool_size(container_v1.SetNodePoolSizeRequest(name=POOL, node_count=9))
    scaling = container_v1.VerticalPodAutoscaling(enabled=True)
    update = container_v1.ClusterUpdate(desired_vertical_pod_autoscaling=scaling)
    google.finished(api.update_cluster(name=CLUSTER, update=update))
    assert api.get_cluster(name=CLUSTER).vertical_pod_autoscaling.enabled
    offered = api.get_server_config(name=LOCATION)
    assert api.get_cluster(name=CLUSTER).current_master_version == offered.default_cluster_version
    google.finished(api.delete_node_pool(name=POOL))
    google.finished(api.delete_cluster(name=CLUSTER))
    with pytest.raises(NotFound):
        api.get_cluster(name=CLUSTER)
    assert not api.list_clusters(parent=LOCATION).clusters


if __name__ == "__main__":
    clients = Clients(sys.argv[1])
    clients.network()
    compute(clients)
    gke(clients)
