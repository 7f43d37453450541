"""Whether an existing Google Cloud network meets the requirements of a GKE cluster; read-only.

Queries the Compute Engine API of the network's project (`subnetworks`, `routers`, `routes`) and of
the cluster's (`projects.getXpnHost`), and Resource Manager (the project's number, the host's
policy).
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from gpu_cluster.components.catalog.kubernetes import is_registry
from gpu_cluster.components.gke.network_args import (
    POD_ADDRESSES,
    RESERVED_ADDRESSES,
    GkeNetworkArgs,
)
from gpu_cluster.components.schema.outputs import text
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.verdict import Finding, Unknown

_AT = "cluster.network"
_HOST_USER, _NETWORK_USER = "roles/container.hostServiceAgentUser", "roles/compute.networkUser"
_ANYWHERE, _GATEWAY = "0.0.0.0/0", "default-internet-gateway"
_GOOGLE_RANGES = ("199.36.153.8/30", "199.36.153.4/30")
"""private.googleapis.com and restricted.googleapis.com (cloud.google.com,
configure-private-google-access, read 2026-11-22)."""
_GOOGLE_REGISTRIES = (".pkg.dev", ".gcr.io")
"""Registries that Private Google Access reaches."""
_COLLECTIVE = ("group:", "domain:", "principalSet:")
"""Members that may include an agent; their own members are not checked."""

Policy = Mapping[str, Any] | Unknown


def network_findings(
    network: GkeNetworkArgs,
    *,
    project: str,
    region: str,
    nodes: int | None,
    images: Iterable[str],
    api: GoogleApi,
) -> Sequence[Finding]:
    """A finding for each requirement that is not met or not known; none for a network that the
    stack creates. `nodes`: maximum number of nodes, None if there is no limit; `images`: those of
    the cluster's pods, as they are pulled."""
    if not network.existing:
        return []
    asked = _Asked(api, network, project, region, nodes)
    return [*asked.subnetwork(), *asked.shared_vpc(), *asked.way_out(images)]


def _wrong(key: str, reason: str) -> Finding:
    return Finding.wrong(f"{_AT}.{key}", reason)


def _unknown(key: str, reason: str) -> Finding:
    return Finding.unknown(f"{_AT}.{key}", reason)


class _Asked:
    """The API's answers about one network."""

    def __init__(
        self, api: GoogleApi, network: GkeNetworkArgs, project: str, region: str, nodes: int | None
    ) -> None:
        self._api, self._network, self._region, self._nodes = api, network, region, nodes
        self._project, self._host = project, network.host_project or project
        self._name = text(network.subnetwork_in(project, region))
        self._subnetwork = _last(self._name)
        self._row = api.found("compute", self._name)

    def subnetwork(self) -> Iterator[Finding]:
        """Whether it exists, in that network, with those ranges, and is large enough."""
        name, row = self._subnetwork, self._row
        if isinstance(row, Unknown):
            yield _unknown("subnetwork", row.reason)
            return
        if row is None:
            yield _wrong(
                "subnetwork",
                f"{self._host} has no subnetwork {name} in {self._region}; {self._elsewhere()}",
            )
            return
        vpc = _last(row["network"])
        if vpc != _last(self._network.vpc):
            yield _wrong("vpc", f"{name} is a subnetwork of {vpc}; set vpc to that")
        ranges = {block["rangeName"]: block for block in row.get("secondaryIpRanges", ())}
        for key, range_name in (
            ("podsRange", self._network.pods_range),
            ("servicesRange", self._network.services_range),
        ):
            if range_name not in ranges:
                has = ", ".join(ranges) or "none"
                yield _wrong(key, f"{name} has no secondary range {range_name}; it has: {has}")
        pods = ranges.get(self._network.pods_range, {}).get("ipCidrRange")
        if pods:
            yield from self._room("podsRange", pods, _size(pods) // POD_ADDRESSES)
        primary = row["ipCidrRange"]
        yield from self._room("subnetwork", primary, _size(primary) - RESERVED_ADDRESSES)

    def _room(self, key: str, block: str, room: int) -> Iterator[Finding]:
        if self._nodes is not None and room < self._nodes:
            yield _wrong(
                key,
                f"{block} has room for {room} nodes, and the pools grow to {self._nodes}; use a "
                "larger range, or lower maxNodes",
            )

    def _elsewhere(self) -> str:
        condition = f"name={self._subnetwork}"
        subnetworks = self._api.aggregated(self._host, "subnetworks", condition)
        if isinstance(subnetworks, Unknown):
            return "name an existing one"
        regions = sorted(region for region, _ in subnetworks)
        if not regions:
            return "nor in any other region; name an existing one"
        return f"it is in {', '.join(regions)}: name one of {self._region}"

    def shared_vpc(self) -> Iterator[Finding]:
        """Whether the cluster's project may use a network of another project."""
        if self._host == self._project:
            return
        attached = self._api.get("compute", f"projects/{self._project}/getXpnHost")
        if isinstance(attached, Unknown):
            yield _unknown("hostProject", attached.reason)
        elif attached.get("name") != self._host:
            now = attached.get("name") or "no host project"
            yield _wrong(
                "hostProject",
                f"{self._project} is attached to {now}; attach it: gcloud compute shared-vpc "
                f"associated-projects add {self._project} --host-project={self._host}",
            )
        about = self._api.get("cloudresourcemanager", f"projects/{self._project}")
        if isinstance(about, Unknown):
            yield _unknown(
                "hostProject", f"it is not known whose service agents need roles: {about.reason}"
            )
            return
        number = about["projectNumber"]
        gke = f"service-{number}@container-engine-robot.iam.gserviceaccount.com"
        apis = f"{number}@cloudservices.gserviceaccount.com"
        host = self._api.policy("cloudresourcemanager", f"projects/{self._host}:getIamPolicy")
        policy = self._api.policy("compute", f"{self._name}/getIamPolicy") if self._row else host
        at, folder = f"{_AT}.hostProject", "permissions inherited from a folder were not checked"
        yield from granted(at, [host], _HOST_USER, gke, self._host, folder)
        on = f"{self._subnetwork}, or on {self._host}"
        for agent in (gke, apis):
            at = f"{_AT}.subnetwork"
            yield from granted(at, [policy, host], _NETWORK_USER, agent, on, folder)

    def way_out(self, images: Iterable[str]) -> Iterator[Finding]:
        """Whether private nodes reach the registries of these images, and GKE at all."""
        if self._row is None or isinstance(self._row, Unknown):
            return
        project_region = self._name.partition("/subnetworks/")[0]
        routers = self._api.listed(f"{project_region}/routers")
        if isinstance(routers, Unknown):
            yield _unknown(
                "subnetwork", f"it is not known whether it has a Cloud NAT: {routers.reason}"
            )
            return
        vpc, name = _last(self._row["network"]), self._subnetwork
        ours = [item for item in routers if _last(item["network"]) == vpc]
        if has_nat(ours, str(name)):
            return
        none = f"no Cloud NAT of {vpc} in {self._region} serves {name}"
        asked = self._api.listed(f"projects/{self._host}/global/routes")
        if isinstance(asked, Unknown):
            yield _unknown(
                "subnetwork", f"{none}; it is not known whether a route does: {asked.reason}"
            )
            return
        routes, first = _routes(asked, vpc)
        if _elsewhere(first):
            return  # Traffic leaves through a firewall, a VPN or another network.
        if peers := [item["name"] for item in ours if item.get("bgpPeers")]:
            yield _unknown("subnetwork", f"{none}; it was not checked whether a BGP peer of "
                                         f"{peers[0]} provides internet access")  # fmt: skip
            return
        # In a network of its own project, GKE enables it for private nodes.
        if not self._row.get("privateIpGoogleAccess") and self._host != self._project:
            yield _wrong(
                "subnetwork",
                f"{none}, and it has no Private Google Access: private nodes do not register; add "
                "a Cloud NAT",
            )
        elif first is not None:
            yield from _out_of_reach(none, images)
        elif any(item["destRange"] in _GOOGLE_RANGES for item in routes):
            yield _unknown(
                "subnetwork",
                f"{none}, and Google APIs are reachable only through private.googleapis.com: it "
                f"was not checked whether the DNS zones of {vpc} resolve googleapis.com, gcr.io "
                "and pkg.dev to it",
            )
        else:
            yield _wrong(
                "subnetwork",
                f"{none}, and no route of {vpc} leads to Google: Private Google Access needs one "
                f"of {_ANYWHERE}, or of 199.36.153.8/30, to {_GATEWAY}",
            )


def has_nat(routers: Iterable[Mapping[str, Any]], subnetwork: str) -> bool:
    """Whether a Cloud NAT of these routers serves a subnetwork of their network."""
    nats = [nat for router in routers for nat in router.get("nats", ())]
    listed = [[_last(subnet["name"]) for subnet in nat.get("subnetworks", ())] for nat in nats]
    return any(not names or subnetwork in names for names in listed)


def way_out(
    api: GoogleApi, name: str, row: Mapping[str, Any]
) -> Literal["nat", "google", "firewall", "none"] | Unknown:
    """How private nodes of a subnetwork reach external hosts. `name`: `projects/...`, `row`: the
    subnetwork as Compute Engine returns it."""
    vpc, project = _last(row["network"]), name.split("/")[1]
    routers = api.listed(f"{name.partition('/subnetworks/')[0]}/routers")
    asked = api.listed(f"projects/{project}/global/routes")
    for answer in (routers, asked):
        if isinstance(answer, Unknown):
            return answer
    assert not isinstance(routers, Unknown)
    assert not isinstance(asked, Unknown)
    if has_nat([router for router in routers if _last(router["network"]) == vpc], _last(name)):
        return "nat"
    if _elsewhere(_routes(asked, vpc)[1]):
        return "firewall"
    return "google" if row.get("privateIpGoogleAccess") else "none"


def _routes(
    listed: Iterable[Mapping[str, Any]], vpc: str
) -> tuple[list[Mapping[str, Any]], Mapping[str, Any] | None]:
    """The routes of a network, and the one that leads to the internet, if any."""
    # A route with tags applies to machines with these; GKE's have none by default.
    routes = [route for route in listed if _last(route["network"]) == vpc and not route.get("tags")]
    out = (route for route in routes if route["destRange"] == _ANYWHERE)
    return routes, min(out, key=lambda route: int(route.get("priority", 1000)), default=None)


def _elsewhere(route: Mapping[str, Any] | None) -> bool:
    return route is not None and _last(route.get("nextHopGateway")) != _GATEWAY


def _out_of_reach(none: str, images: Iterable[str]) -> Iterator[Finding]:
    """A finding if nodes that only reach Google cannot pull an image."""
    hosts = {_registry(image) for image in images}
    outside = sorted(host for host in hosts if not f".{host}".endswith(_GOOGLE_REGISTRIES))
    if outside:
        yield _wrong(
            "subnetwork",
            f"{none}, so nodes pull only from Google's registries, and the stack's images "
            f"are in {', '.join(outside)} too; add a Cloud NAT, or set images.registry and copy "
            "them: gpu-cluster images",
        )


def _registry(image: str) -> str:
    """The host that an image is pulled from; without one, it is Docker Hub's."""
    host, slash, _ = image.partition("/")
    return host if slash and is_registry(host) else "docker.io"


def granted(
    about: str, policies: Sequence[Policy], role: str, agent: str, where: str, fix: str
) -> Iterator[Finding]:
    """A finding if an agent has a role in none of the policies, any of which would be enough."""
    known_policies = [policy for policy in policies if not isinstance(policy, Unknown)]
    members = {
        member
        for policy in known_policies
        for binding in policy.get("bindings", ())
        if binding["role"] == role
        for member in binding.get("members", ())
    }
    if f"serviceAccount:{agent}" in members:
        return
    missing = f"{agent} lacks {role} on {where}"
    refused = [policy.reason for policy in policies if isinstance(policy, Unknown)]
    others = sorted(member for member in members if member.startswith(_COLLECTIVE))
    if refused:
        reason = f"it is not known whether {agent} has {role} on {where}: {refused[0]}"
    elif others:
        reason = f"{missing}, unless it is a member of {', '.join(others)}"
    else:
        yield Finding.wrong(about, f"{missing}; {fix}")
        return
    yield Finding.unknown(about, reason)


def _size(block: str) -> int:
    return ipaddress.ip_network(block).num_addresses


def _last(path: object) -> str:
    return str(path).rpartition("/")[2]
