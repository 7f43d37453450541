"""Networks that existed before the stack, with their owners."""

from collections.abc import Sequence
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.compute import (
    firewalls,
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


def lay_out(cloud: CloudState, nets: Networks) -> None:
    """Creates the networks; raises ApiError for impossible subnetworks."""
    for network in dict.fromkeys(map(_network, nets.subnetworks)):
        _lay_out(cloud, network, [net for net in nets.subnetworks if _network(net) == network])
    hosts = sorted({net.project for net in nets.subnetworks} - {nets.service_project})
    for host in hosts:
        if "attachment" not in nets.missing:
            cloud.host_projects[nets.service_project] = host
        if "hostServiceAgentUser" not in nets.missing:
            cloud.policies[f"projects/{host}"] = _policy(HOST_USER, [GKE_AGENT])
    for part in nets.subnetworks:
        if part.project in hosts and "networkUser" not in nets.missing:
            name = f"projects/{part.project}/regions/{part.region}/subnetworks/{part.name}"
            cloud.policies[name] = _policy(NETWORK_USER, [GKE_AGENT, APIS_AGENT])


def _network(subnetwork: Subnetwork) -> str:
    return f"projects/{subnetwork.project}/global/networks/{subnetwork.vpc}"


def _lay_out(cloud: CloudState, network: str, inside: Sequence[Subnetwork]) -> None:
    project, name = network.split("/")[1], network.rpartition("/")[2]
    body: dict[str, Any] = {"name": name, "autoCreateSubnetworks": False}
    _insert(cloud, networks, f"projects/{project}/global/networks", body)
    for net in inside:
        body = {
            "name": net.name,
            "network": network,
            "ipCidrRange": str(net.cidr),
            "privateIpGoogleAccess": net.out in ("nat", "google"),
            "secondaryIpRanges": [
                {"rangeName": label, "ipCidrRange": str(block)}
                for label, block in net.ranges.items()
            ],
        }
        _insert(cloud, subnetworks, f"projects/{project}/regions/{net.region}/subnetworks", body)
        if net.internal:
            body = {
                "name": f"{net.name}-internal",
                "network": network,
                "sourceRanges": [str(net.cidr)],
                "allowed": [{"IPProtocol": protocol} for protocol in ("tcp", "udp", "icmp")],
            }
            _insert(cloud, firewalls, f"projects/{project}/global/firewalls", body)
    if any(subnetwork.out == "firewall" for subnetwork in inside):
        identity = f"projects/{project}/global/routes/{name}-out"
        hop = {"destRange": "0.0.0.0/0", "priority": 900, "nextHopIlb": str(inside[0].cidr[-3])}
        route = {"network": LINK + network, **hop}
        cloud.resources[identity] = resources.new(
            identity, routes.TOKEN, "route", route, uses=[network]
        )
    for region in sorted({part.region for part in inside if part.out == "nat"}):
        place = f"projects/{project}/regions/{region}"
        listed = [
            {"name": f"{place}/subnetworks/{net.name}", "sourceIpRangesToNat": ["ALL_IP_RANGES"]}
            for net in inside
            if net.region == region and net.out == "nat"
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
