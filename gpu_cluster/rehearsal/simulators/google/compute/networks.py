"""VPC networks in custom subnet mode, and Shared VPCs."""

from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.compute import resources
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK, full_name
from gpu_cluster.rehearsal.simulators.google.errors import ApiError

TOKEN = "compute.networks"
_IMMUTABLE = ("name", "description", "autoCreateSubnetworks", "internalIpv6Range", "networkProfile")


def _insert(call: Call) -> dict[str, Any]:
    body = call.body
    if body.get("autoCreateSubnetworks") is not False:
        raise ApiError(
            501,
            "a rehearsal simulates only networks with autoCreateSubnetworks: false, whose "
            "subnetworks are declared",
        )
    routing = {"routingMode": "REGIONAL", "bgpBestPathSelectionMode": "LEGACY"}
    given = dict(body.get("routingConfig", {}))
    given.pop("deleteBgpAlwaysCompareMed", None)  # a command, not part of the state
    filled = {
        "mtu": 1460,
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        **body,
        "routingConfig": routing | given,
    }
    return resources.insert(call, TOKEN, "network", filled)


def _get(call: Call) -> dict[str, Any]:
    return resources.row(call, _with_subnetworks(call, call.cloud.found(call.name).state))


def _list(call: Call) -> dict[str, Any]:
    answer = resources.list_(call)
    answer["items"] = [
        resources.row(call, _with_subnetworks(call, network)) for network in answer["items"]
    ]
    return answer


def _with_subnetworks(call: Call, state: dict[str, Any]) -> dict[str, Any]:
    identity = full_name(call, state["selfLink"], "global/networks")
    inside = [
        LINK + subnetwork.identity
        for subnetwork in call.cloud.of("compute.subnetworks")
        if identity in subnetwork.depends_on
    ]
    return state | ({"subnetworks": inside} if inside else {})


def _patch(call: Call) -> dict[str, Any]:
    state = call.cloud.found(call.name).state
    for name in _IMMUTABLE:
        if name in call.body and call.body[name] != state.get(name):
            raise resources.invalid(f"resource.{name}", call.body[name], "It cannot be changed")
    routing = state["routingConfig"] | call.body.get("routingConfig", {})
    if routing.pop("deleteBgpAlwaysCompareMed", False):
        routing.pop("bgpAlwaysCompareMed", None)
    state |= call.body | {"routingConfig": routing}
    return resources.operation(call, "patch", call.name)


def _host(call: Call) -> dict[str, Any]:
    """Returns the host project of a Shared VPC; empty if the project is not attached to one."""
    host = call.cloud.host_projects.get(call.path["project"])
    known = {"name": host, "selfLink": f"{LINK}projects/{host}"} if host else {}
    return {"kind": "compute#project", **known}


def _delete(call: Call) -> dict[str, Any]:
    answer = resources.delete(call)
    if call.name in call.cloud.peered:
        # GoogleCloudPlatform/cluster-toolkit, tools/clean-filestore-limit.sh; magic-modules pull
        # request 18476 (2026-07-30)
        call.cloud.assume(
            f"network {call.name.rpartition('/')[2]}: a Filestore instance was in it, whose "
            "peering filestore-peer-NNN may outlive it; Compute Engine then refuses to delete the "
            "network (resourceInUseByAnotherResource) until you delete the peering: gcloud compute "
            "networks peerings list"
        )
    return answer


METHODS = {
    "compute.projects.getXpnHost": _host,
    **resources.methods(
        "networks", insert=_insert, get=_get, list=_list, patch=_patch, delete=_delete
    ),
}
