"""Networks of nodes and pods besides the cluster's, as GKE's controllers and autoscaler see them.

kubernetes/cloud-provider-gcp 4e245312, pkg/controller/gkenetworkparamset, and GoogleCloudPlatform/
cluster-autoscaler 7d250507, pkg/networking/matcher.go (read 2026-11-29).
"""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_cluster.components.catalog.gke import region_of
from gpu_cluster.components.kube.partial import get
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, PodNetwork
from gpu_cluster.rehearsal.simulators.google.container.tokens import NODE_POOL
from gpu_cluster.rehearsal.simulators.google.errors import bad_request
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google.state import CloudState

_RESOURCE = "networking.gke.io.networks/"
_MOST = {"a3-megagpu-8g": 8, "a3-highgpu-8g": 4}
"""Machine type -> how many additional interfaces a machine has; others at most seven:
docs.cloud.google.com/kubernetes-engine/docs/concepts/about-multinetwork-support-for-pods."""
Object = Mapping[str, Any]


def check_pool(cloud: CloudState, cluster: CloudResource, state: Mapping[str, Any]) -> list[str]:
    """The networks and subnetworks of a new pool's additional interfaces, as full names. Raises
    ApiError if GKE or Compute Engine refuses them."""
    configs = state["networkConfig"].get("additionalNodeNetworkConfigs") or ()
    if not configs:
        return []
    machine = state["config"]["machineType"].removesuffix("-nolssd")
    if not cluster.state["networkConfig"].get("enableMultiNetworking"):
        raise bad_request("additionalNodeNetworkConfigs needs enableMultiNetworking of the cluster")
    if state["networkConfig"].get("acceleratorNetworkProfile"):
        # cluster-toolkit 1.95.0, modules/compute/gke-node-pool: dranet_additional_networks_conflict
        raise bad_request("acceleratorNetworkProfile excludes additionalNodeNetworkConfigs")
    if not state["config"]["imageType"].upper().startswith("COS"):
        # docs.cloud.google.com/kubernetes-engine/docs/how-to/setup-multinetwork-support-for-pods
        raise bad_request("additionalNodeNetworkConfigs needs nodes with Container-Optimized OS")
    if len(configs) > _MOST.get(machine, 7):
        raise bad_request(f"{machine} has at most {_MOST.get(machine, 7)} additional interfaces")
    used = [cluster.depends_on[0]]
    for config in configs:
        network, subnetwork = _full(cluster, config["network"], config["subnetwork"])
        cloud.found(network)
        if network not in cloud.found(subnetwork).depends_on:
            raise bad_request(f"Subnetwork '{subnetwork}' is not in network '{network}'")
        if network in used:
            raise bad_request(f"Networks must be distinct for NICs of one VM: {network}")
        used += [network, subnetwork]
    return used[1:]


def _full(cluster: CloudResource, network: str, subnetwork: str) -> tuple[str, str]:
    project, region = cluster.identity.split("/")[1], region_of(cluster.state["location"])
    return (
        f"projects/{project}/global/networks/{network}",
        f"projects/{project}/regions/{region}/subnetworks/{subnetwork}",
    )


def judged(
    cloud: CloudState, cluster: CloudResource, networks: Sequence[Object], params: Sequence[Object]
) -> dict[str, PodNetwork]:
    """Name of a GKENetworkParamSet -> what GKE makes of it."""
    found, subnets = {}, dict[str, str]()
    for param in sorted(params, key=lambda param: str(param["metadata"]["creationTimestamp"])):
        name, spec = param["metadata"]["name"], param.get("spec") or {}
        refusal = _refusal(cloud, cluster, spec, subnets)
        subnets.setdefault(spec.get("vpcSubnet", ""), name)
        network = next((item for item in networks if _refers(item, name)), None)
        found[name] = PodNetwork(
            refusal=refusal,
            network=network["metadata"]["name"] if network else "",
            mismatch=_mismatch(network, spec) if network else "",
            fault="" if refusal else _fault(cloud, *_full(cluster, spec["vpc"], spec["vpcSubnet"])),
            vpc=spec.get("vpc", ""),
            subnetwork=spec.get("vpcSubnet", ""),
        )
    return found


def _refers(network: Object, name: str) -> bool:
    reference = get(network, "spec", "parametersRef") or {}
    return reference.get("kind") == "GKENetworkParamSet" and reference.get("name") == name


def _refusal(
    cloud: CloudState, cluster: CloudResource, spec: Object, subnets: Mapping[str, str]
) -> str:
    vpc, subnet = spec.get("vpc", ""), spec.get("vpcSubnet", "")
    mode, ranges = spec.get("deviceMode"), get(spec, "podIPv4Ranges", "rangeNames")
    if not (vpc and subnet):
        return "GNPConfigInvalid: NetworkAttachment or (VPC + VPCSubnet) must be specified"
    if bool(mode) == bool(ranges):
        return "GNPConfigInvalid: exactly one of PodIPV4Ranges and DeviceMode must be specified"
    network, subnetwork = _full(cluster, vpc, subnet)
    if subnetwork not in cloud.resources:
        return f"SubnetNotFound: subnet: {subnet} not found in VPC: {vpc}"
    if network not in cloud.resources:
        return f"VPCNotFound: VPC: {vpc} not found"
    if mode and network == cluster.depends_on[0]:
        return "DeviceModeCantUseDefaultVPC: GNP with deviceMode can't reference the default VPC"
    if mode and subnet in subnets:
        return (
            f"DeviceModeSubnetAlreadyInUse: Subnet '{subnet}' is already in use by "
            f"'{subnets[subnet]}'"
        )
    return ""


def _mismatch(network: Object, spec: Object) -> str:
    kind = network["spec"]["type"]
    if kind == "Device" and not spec.get("deviceMode"):
        return "DeviceModeMissing: Device type network requires device mode"
    if kind == "L3" and not get(spec, "podIPv4Ranges", "rangeNames"):
        return "L3SecondaryMissing: L3 type network requires secondary range"
    return ""


def _fault(cloud: CloudState, network: str, subnetwork: str) -> str:
    """Why nodes do not reach each other there: a network denies what no rule allows."""
    own = ipaddress.ip_network(cloud.found(subnetwork).state["ipCidrRange"])
    for rule in cloud.of("compute.firewalls"):
        state = rule.state
        allowed = {item.get("IPProtocol") for item in state.get("allowed") or ()}
        sources = map(ipaddress.ip_network, state.get("sourceRanges") or ())
        whole = not any(item.get("ports") for item in state.get("allowed") or ())
        targeted = state.get("targetTags") or state.get("targetServiceAccounts")
        if (
            network in rule.depends_on and state["direction"] == "INGRESS" and whole
            and not targeted and not state["disabled"] and allowed & {"tcp", "all"}
            and any(own.subnet_of(source) for source in sources)  # type: ignore[arg-type]
        ):  # fmt: skip
            return ""
    return f"no firewall rule of {network} lets nodes in {own} reach each other's TCP ports"


def with_interfaces(
    group: NodeGroup, pool: CloudResource, networks: Sequence[PodNetwork]
) -> NodeGroup:
    """The group with a resource for each interface whose network the cluster knows: GKE's
    autoscaler and its nodes have none for others."""
    configs = pool.state["networkConfig"].get("additionalNodeNetworkConfigs") or ()
    capacity = dict(_interfaces(configs, networks))
    if not capacity:
        return group
    template, node = (
        replace(shape, capacity={**shape.capacity, **capacity})
        for shape in (group.template, group.node)
    )
    return replace(group, template=template, node=node)


def _interfaces(
    configs: Sequence[Object], networks: Sequence[PodNetwork]
) -> Iterator[tuple[str, str]]:
    known = {(item.vpc, item.subnetwork): item.network for item in networks if item.ready}
    for config in configs:
        if name := known.get((config["network"], config["subnetwork"])):
            yield f"{_RESOURCE}{name}", "1"
            yield f"{_RESOURCE}{name}.IP", "1"


def check_cluster(cloud: CloudState, identity: str, state: Mapping[str, Any]) -> None:
    """Raises ApiError if GKE refuses several networks in the cluster: cluster-toolkit 1.95.0,
    modules/scheduler/gke-cluster. `ClusterUpdate` has a field for them; what becomes of pools that
    have several is not documented."""
    network = state["networkConfig"]
    if not network.get("enableMultiNetworking"):
        for pool in cloud.of(NODE_POOL):
            used = pool.state["networkConfig"].get("additionalNodeNetworkConfigs")
            if pool.parent == identity and used:
                raise bad_request(f"enableMultiNetworking is in use by {pool.identity}")
        return
    if network.get("datapathProvider") != "ADVANCED_DATAPATH":
        raise bad_request("enableMultiNetworking needs GKE Dataplane V2")
    if not (state.get("ipAllocationPolicy") or {}).get("useIpAliases"):
        raise bad_request("enableMultiNetworking needs a VPC-native cluster")
