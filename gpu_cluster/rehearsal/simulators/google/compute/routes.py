"""Routes of VPC networks: those that Compute Engine creates automatically, and added ones."""

import zlib
from collections.abc import Iterator
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.compute import networks, resources, subnetworks
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK, full_name

TOKEN = "compute.routes"
_GATEWAY = "global/gateways/default-internet-gateway"


def _rows(call: Call) -> Iterator[dict[str, Any]]:
    place = f"projects/{call.path['project']}"
    for network in call.cloud.of(networks.TOKEN):
        if not network.identity.startswith(f"{place}/"):
            continue
        inside = [
            net for net in call.cloud.of(subnetworks.TOKEN) if network.identity in net.depends_on
        ]
        found = [
            {
                "name": _name(network.identity),
                "destRange": "0.0.0.0/0",
                "priority": 1000,
                "nextHopGateway": f"{LINK}{place}/{_GATEWAY}",
            },
            *(
                {
                    "name": _name(subnetwork.identity),
                    "destRange": subnetwork.state["ipCidrRange"],
                    "priority": 0,
                    "nextHopNetwork": LINK + network.identity,
                }
                for subnetwork in inside
            ),
        ]
        for row in found:
            yield {
                "kind": "compute#route",
                "network": LINK + network.identity,
                "selfLink": f"{LINK}{place}/global/routes/{row['name']}",
                **row,
            }
        for added in call.cloud.of(TOKEN):
            if full_name(call, added.state["network"], "global/networks") == network.identity:
                yield added.state


def _name(of: str) -> str:
    return f"default-route-{zlib.crc32(of.encode()):08x}"


def _list(call: Call) -> dict[str, Any]:
    wanted = call.query.get("filter", "")
    rows = [resources.row(call, row) for row in _rows(call) if resources.matches(row, wanted)]
    return resources.listed(call, "compute#routeList", rows)


METHODS = {"compute.routes.list": _list}
