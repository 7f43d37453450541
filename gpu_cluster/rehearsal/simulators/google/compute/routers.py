"""Cloud Routers, and Cloud NAT, which is part of its router."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.compute import resources
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK, full_name, invalid
from gpu_cluster.rehearsal.simulators.google.errors import bad_request

TOKEN = "compute.routers"
_IDLE = {
    "udpIdleTimeoutSec": 30,
    "icmpIdleTimeoutSec": 30,
    "tcpEstablishedIdleTimeoutSec": 1200,
    "tcpTransitoryIdleTimeoutSec": 30,
    "tcpTimeWaitTimeoutSec": 120,
}
"""The default, in seconds (compute v1, `RouterNat`)."""


def _insert(call: Call) -> dict[str, Any]:
    if not call.body.get("network"):
        raise bad_request("Required field 'resource.network' not specified", "required")
    network = full_name(call, call.body["network"], "global/networks")
    state = {**call.body, "network": LINK + network}
    used = _with_nats(call, state)
    return resources.insert(call, TOKEN, "router", state, uses=[network, *used])


def _patch(call: Call) -> dict[str, Any]:
    router = call.cloud.found(call.name)
    state = router.state | call.body
    network = full_name(call, state["network"], "global/networks")
    if network != router.depends_on[0]:
        raise invalid("resource.network", call.body["network"], "It cannot be changed")
    state["network"] = LINK + network
    used = _with_nats(call, state)
    for identity in used:
        call.cloud.found(identity)
    router.state, router.depends_on = state, [network, *used]
    return resources.operation(call, "patch", call.name)


def _with_nats(call: Call, router: dict[str, Any]) -> list[str]:
    """Adds the API's defaults and checks them; returns the subnetworks that the NATs name."""
    used, place = [], "/".join(call.name.split("/")[2:4])
    nats = [
        _complete(index, nat) | _links(call, nat, place)
        for index, nat in enumerate(router.get("nats") or ())
    ]
    names = [nat.get("name") for nat in nats]
    for index, name in enumerate(names):
        if not name:
            raise bad_request(f"Required field 'resource.nats[{index}].name' not specified")
        if name in names[:index]:
            raise invalid(f"resource.nats[{index}].name", name, "Two NATs have it")
    for nat in nats:
        used += [full_name(call, net["name"], "") for net in nat.get("subnetworks", ())]
    if nats:
        router["nats"] = nats
    else:
        router.pop("nats", None)
    return used


def _links(call: Call, nat: Mapping[str, Any], place: str) -> dict[str, Any]:
    if not nat.get("subnetworks"):
        return {}
    collection = f"{place}/subnetworks"
    return {
        "subnetworks": [
            subnetwork | {"name": LINK + full_name(call, subnetwork["name"], collection)}
            for subnetwork in nat["subnetworks"]
        ]
    }


def _complete(index: int, given: Mapping[str, Any]) -> dict[str, Any]:
    dynamic = given.get("enableDynamicPortAllocation", False)
    nat = {
        "type": "PUBLIC",
        "natIpAllocateOption": "AUTO_ONLY",
        "autoNetworkTier": "PREMIUM",
        "endpointTypes": ["ENDPOINT_TYPE_VM"],
        "enableDynamicPortAllocation": False,
        "enableEndpointIndependentMapping": False,
        "minPortsPerVm": 32 if dynamic else 64,
        **_IDLE,
        **{name: value for name, value in given.items() if value not in (None, [])},
    }
    first = nat.pop("initialNatIps", None)  # only used when a NAT is created
    nat |= {"natIps": first} if first and not nat.get("natIps") else {}
    listed = nat.get("sourceSubnetworkIpRangesToNat") == "LIST_OF_SUBNETWORKS"
    if listed != bool(nat.get("subnetworks")):
        raise bad_request(
            f"'resource.nats[{index}].subnetworks' goes with sourceSubnetworkIpRangesToNat "
            "LIST_OF_SUBNETWORKS, and only with it",
            "invalid",
        )
    if (nat["natIpAllocateOption"] == "MANUAL_ONLY") != bool(nat.get("natIps")):
        raise bad_request(
            f"'resource.nats[{index}].natIps' are needed with natIpAllocateOption MANUAL_ONLY, and "
            "excluded with AUTO_ONLY",
            "invalid",
        )
    _check_ports(f"resource.nats[{index}]", nat)
    return nat


def _check_ports(at: str, nat: Mapping[str, Any]) -> None:
    """Refuses port settings that Cloud NAT does not support (compute v1, `RouterNat`)."""
    dynamic, least = nat["enableDynamicPortAllocation"], nat["minPortsPerVm"]
    if nat["enableEndpointIndependentMapping"] and dynamic:
        raise invalid(f"{at}.enableEndpointIndependentMapping", "true",
                      "It is exclusive with enableDynamicPortAllocation.")  # fmt: skip
    most = nat.get("maxPortsPerVm")
    if most is None:
        return
    if not dynamic:
        raise invalid(f"{at}.maxPortsPerVm", most, "It needs enableDynamicPortAllocation.")
    for name, value in (("minPortsPerVm", least), ("maxPortsPerVm", most)):
        if not 32 <= value <= 65536 or value & (value - 1):
            words = "It must be a power of two from 32 to 65536."
            raise invalid(f"{at}.{name}", value, words)
    if most <= least:
        raise invalid(f"{at}.maxPortsPerVm", most, f"It must be more than minPortsPerVm {least}.")


METHODS = resources.methods("routers", insert=_insert, patch=_patch)
