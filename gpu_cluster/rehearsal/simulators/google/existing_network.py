"""Networks that existed before the stack, with their owners."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.compute import (
    networks,
    resources,
    routers,
    routes,
    subnetworks,
)
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK
from gpu_cluster.rehearsal.simulators.google.container.shared_vpc import (
    APIS_AGENT,
    GKE_AGENT,
    HOST_USER,
    NETWORK_USER,
)
from gpu_cluster.rehearsal.simulators.google.state import CloudState
from gpu_cluster.rehearsal.simulators.google_inventory import Networks, Subnetwork


def lay_out(cloud: CloudState, there: Networks) -> None:
    """Creates the networks; raises ApiError for impossible subnetworks."""
    by_network = sorted(there.subnetworks, key=_network)
    for network, inside in groupby(by_network, key=_network):
        _lay_out(cloud, network, list(inside))
    hosts = sorted({one.project for one in there.subnetworks} - {there.service_project})
    for host in hosts:
        if "attachment" not in there.missing:
            cloud.host_projects[there.service_project] = host
        if "hostServiceAgentUser" not in there.missing:
            cloud.policies[f"projects/{host}"] = _policy(HOST_USER, [GKE_AGENT])
    for one in there.subnetworks:
        if one.project in hosts and "networkUser" not in there.missing:
            name = f"projects/{one.project}/regions/{one.region}/subnetworks/{one.name}"
            cloud.policies[name] = _policy(NETWORK_USER, [GKE_AGENT, APIS_AGENT])


def _network(one: Subnetwork) -> str:
    return f"projects/{one.project}/global/networks/{one.vpc}"


def _lay_out(cloud: CloudState, network: str, inside: Sequence[Subnetwork]) -> None:
    project, name = network.split("/")[1], network.rpartition("/")[2]
    body: dict[str, Any] = {"name": name, "autoCreateSubnetworks": False}
    _insert(cloud, networks, f"projects/{project}/global/networks", body)
    for one in inside:
        body = {
            "name": one.name,
            "network": network,
            "ipCidrRange": str(one.cidr),
            "privateIpGoogleAccess": one.out in ("nat", "google"),
            "secondaryIpRanges": [
                {"rangeName": label, "ipCidrRange": str(block)}
                for label, block in one.ranges.items()
            ],
        }
        _insert(cloud, subnetworks, f"projects/{project}/regions/{one.region}/subnetworks", body)
    if any(one.out == "firewall" for one in inside):
        identity = f"projects/{project}/global/routes/{name}-out"
        hop = {"destRange": "0.0.0.0/0", "priority": 900, "nextHopIlb": str(inside[0].cidr[-3])}
        route = {"network": LINK + network, **hop}
        cloud.resources[identity] = resources.new(
            identity, routes.TOKEN, "route", route, uses=[network]
        )
    for region in sorted({one.region for one in inside if one.out == "nat"}):
        place = f"projects/{project}/regions/{region}"
        listed = [
            {"name": f"{place}/subnetworks/{one.name}", "sourceIpRangesToNat": ["ALL_IP_RANGES"]}
            for one in inside
            if one.region == region and one.out == "nat"
        ]
        nat = {
            "name": "out",
            "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
            "subnetworks": listed,
        }
        body = {"name": f"{name}-{region}", "network": network, "nats": [nat]}
        _insert(cloud, routers, f"{place}/routers", body)


def _insert(cloud: CloudState, collection: Any, place: str, body: dict[str, Any]) -> None:
    method = f"{collection.TOKEN}.insert"
    collection.METHODS[method](
        Call(
            cloud=cloud,
            service="compute",
            version="v1",
            method=method,
            path={},
            name=place,
            query={},
            body=body,
        )
    )


def _policy(role: str, members: list[str]) -> dict[str, Any]:
    return {"version": 1, "bindings": [{"role": role, "members": members}]}
