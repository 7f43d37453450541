"""Firewall rules of a network."""

from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.compute import resources
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK, full_name, invalid
from gpu_cluster.rehearsal.simulators.google.errors import bad_request

TOKEN = "compute.firewalls"


def _insert(call: Call) -> dict[str, Any]:
    network = full_name(
        call, call.body.get("network", "global/networks/default"), "global/networks"
    )
    state = {
        "direction": "INGRESS",
        "priority": 1000,
        "disabled": False,
        "logConfig": {"enable": False},
        **call.body,
        "network": LINK + network,
    }
    _check(state)
    return resources.insert(call, TOKEN, "firewall", state, uses=[network])


def _patch(call: Call) -> dict[str, Any]:
    firewall = call.cloud.found(call.name)
    state = firewall.state | call.body
    if state["direction"] != firewall.state["direction"]:
        raise invalid("resource.direction", state["direction"], "It cannot be changed")
    network = full_name(call, state["network"], "global/networks")
    call.cloud.found(network)
    state["network"] = LINK + network
    _check(state)
    firewall.state, firewall.depends_on = state, [network]
    return resources.operation(call, "patch", call.name)


def _check(state: dict[str, Any]) -> None:
    if bool(state.get("allowed")) == bool(state.get("denied")):
        raise bad_request(
            "Exactly one of 'resource.allowed' and 'resource.denied' must be specified", "invalid"
        )
    sources = ("sourceRanges", "sourceTags", "sourceServiceAccounts")
    if state["direction"] == "EGRESS" and any(state.get(name) for name in sources):
        raise bad_request("An egress firewall rule has no sources", "invalid")
    if state["direction"] == "INGRESS":
        if not any(state.get(name) for name in sources):
            state["sourceRanges"] = ["0.0.0.0/0"]
    elif not state.get("destinationRanges"):
        state["destinationRanges"] = ["0.0.0.0/0"]
    if not 0 <= state["priority"] <= 65535:
        raise invalid("resource.priority", state["priority"], "It must be from 0 to 65535")


METHODS = resources.methods("firewalls", insert=_insert, patch=_patch)
