"""Subnetworks. Refuses ranges that overlap others in the network, that are too small, or that are
removed while a cluster uses them."""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_cluster.rehearsal.simulators.google import policies
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.compute import resources
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK, full_name, invalid
from gpu_cluster.rehearsal.simulators.google.container.tokens import CLUSTER
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource

TOKEN = "compute.subnetworks"
_PATCHED = ("privateIpv6GoogleAccess", "stackType", "ipv6AccessType", "logConfig", "purpose",
            "role", "secondaryIpRanges", "allowSubnetCidrRoutesOverlap", "enableFlowLogs",
            "fingerprint")  # fmt: skip


def _insert(call: Call) -> dict[str, Any]:
    body = call.body
    for name in ("network", "ipCidrRange"):
        if not body.get(name):
            raise bad_request(f"Required field 'resource.{name}' not specified", "required")
    network = full_name(call, body["network"], "global/networks")
    call.cloud.found(network)
    state = {
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        **body,
        "network": LINK + network,
    }
    _check_ranges(call, f"{call.name}/{body.get('name')}", network, state)
    answer = resources.insert(call, TOKEN, "subnetwork", state, uses=[network])
    _complete(call.cloud.found(f"{call.name}/{body['name']}"))
    return answer


def _complete(resource: CloudResource) -> None:
    """Adds derived fields: the first address is the gateway's."""
    state = resource.state
    state["gatewayAddress"] = str(ipaddress.ip_network(state["ipCidrRange"])[1])
    state["fingerprint"] = resources.fingerprint(state)


def _check_ranges(call: Call, identity: str, network: str, state: Mapping[str, Any]) -> None:
    if prefix := state.get("ipCollection"):  # of which a simulated project has none
        place = "/".join(call.name.split("/")[2:4])
        call.cloud.found(full_name(call, prefix, f"{place}/publicDelegatedPrefixes"))
    taken = [
        (other.identity, path, value)
        for other in call.cloud.of(TOKEN)
        if other.identity != identity and network in other.depends_on
        for path, value in _ranges(other.state)
    ]
    for path, value in _ranges(state):
        try:
            mine = ipaddress.ip_network(value)
        except ValueError:
            raise invalid(f"resource.{path}", value, "It is not a valid IP range") from None
        if mine.prefixlen > 29:
            raise invalid(path, value, "The range is smaller than /29")
        for whose, other_path, other in taken:
            if mine.overlaps(ipaddress.ip_network(other)):
                raise bad_request(
                    f"Invalid IPCidrRange: {path} {value} conflicts with {other_path} {other} of "
                    f"'{whose}'",
                    "invalid",
                )
        taken.append((identity, path, value))


def _ranges(state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "ipCidrRange", state["ipCidrRange"]
    for index, block in enumerate(state.get("secondaryIpRanges") or []):
        if block.get("ipCidrRange"):
            yield f"secondaryIpRanges[{index}].ipCidrRange", block["ipCidrRange"]


def _expand(call: Call) -> dict[str, Any]:
    resource = call.cloud.found(_before(call))
    before, wanted = resource.state["ipCidrRange"], call.body.get("ipCidrRange", "")
    state = resource.state | {"ipCidrRange": wanted}
    _check_ranges(call, resource.identity, resource.depends_on[0], state)
    old, new = ipaddress.ip_network(before), ipaddress.ip_network(wanted)
    if old.version != new.version or not old.subnet_of(new):  # type: ignore[arg-type]
        raise invalid("ipCidrRange", wanted, f"The range must contain the present one, {before}")
    resource.state = state
    _complete(resource)
    return resources.operation(call, "expandIpCidrRange", resource.identity)


def _set_access(call: Call) -> dict[str, Any]:
    resource = call.cloud.found(_before(call))
    resource.state["privateIpGoogleAccess"] = call.body.get("privateIpGoogleAccess", False)
    _complete(resource)
    return resources.operation(call, "setPrivateIpGoogleAccess", resource.identity)


def _policy(call: Call) -> dict[str, Any]:
    call.cloud.found(_before(call))
    return policies.get(replace(call, name=_before(call)))


def _before(call: Call) -> str:
    """The full name of the subnetwork whose verb is called."""
    return call.name.rpartition("/")[0]


def _patch(call: Call) -> dict[str, Any]:
    resource = call.cloud.found(call.name)
    given = call.body.get("fingerprint")
    if not given:
        raise bad_request("Required field 'resource.fingerprint' not specified", "required")
    if given != resource.state["fingerprint"]:
        raise ApiError(412, "Invalid fingerprint.")
    for name, value in call.body.items():
        if name not in _PATCHED and value != resource.state.get(name):
            raise invalid(f"resource.{name}", value, "It cannot be changed by a patch")
    state = resource.state | call.body
    _check_ranges(call, call.name, resource.depends_on[0], state)
    _refuse_range_in_use(call, resource, state)
    resource.state = state
    _complete(resource)
    return resources.operation(call, "patch", call.name)


def _refuse_range_in_use(call: Call, old: CloudResource, new: Mapping[str, Any]) -> None:
    def named(state: Mapping[str, Any]) -> dict[str, Any]:
        ranges = state.get("secondaryIpRanges") or ()
        return {block["rangeName"]: block.get("ipCidrRange") for block in ranges}

    before, after = named(old.state), named(new)
    for cluster in call.cloud.of(CLUSTER):
        policy = cluster.state.get("ipAllocationPolicy", {})
        for use in ("clusterSecondaryRangeName", "servicesSecondaryRangeName"):
            name = policy.get(use)
            if old.identity in cluster.depends_on and before.get(name) != after.get(name):
                raise bad_request(
                    f"Secondary range '{name}' is in use by '{cluster.identity}'",
                    "resourceInUseByAnotherResource",
                )


METHODS = resources.methods(
    "subnetworks",
    insert=_insert,
    aggregatedList=resources.aggregated_list,
    getIamPolicy=_policy,
    patch=_patch,
    expandIpCidrRange=_expand,
    setPrivateIpGoogleAccess=_set_access,
)
