"""The networks between the GPUs of several nodes for `gpuDirect: tcpx` and `tcpxo`.

docs.cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx and
GoogleCloudPlatform/cluster-toolkit 1.95.0, examples/gke-a3-megagpu (read 2026-11-29): a VPC network
for each interface, with jumbo frames, and in the cluster a `Network` with its parameters, by which
GKE's autoscaler knows what a node of an empty pool has.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any, cast

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes
from pulumi_gcp.container import (
    NodePoolNetworkConfigAdditionalNodeNetworkConfigArgsDict,
    NodePoolNetworkConfigArgsDict,
)
from pulumi_kubernetes.core.v1 import NodeSelectorRequirementArgsDict

from ..catalog import images
from ..catalog import kubernetes as names
from ..catalog.gke import GPU_INTERFACES, GpuDirect
from ..cluster import Cluster
from ..daemon_set import affinity_to, daemon_set
from .cluster_args import GPU_NETWORKS

_MTU = 8244
"""Of A3's interfaces for GPUs, as Google's instructions have it."""
_INJECTOR = "device-injector"
Interface = NodePoolNetworkConfigAdditionalNodeNetworkConfigArgsDict
"""The names of a network and its subnetwork: GKE's autoscaler compares them with those in the
cluster as text (GoogleCloudPlatform/cluster-autoscaler 7d250507, pkg/networking/matcher.go)."""


def node_networks(
    gpu_direct: GpuDirect | None,
    interfaces: Sequence[Interface],
    private_nodes: pulumi.Input[bool],
) -> NodePoolNetworkConfigArgsDict | None:
    """The networks of a pool's nodes besides the cluster's. `private_nodes`: whether the cluster
    gives nodes no public addresses."""
    if gpu_direct is None:
        return None
    return {
        "accelerator_network_profile": "auto" if gpu_direct == "rdma" else None,
        "additional_node_network_configs": list(interfaces[: GPU_INTERFACES[gpu_direct]])
        if gpu_direct != "rdma"
        else None,
        # With the block, the provider sends false for what it does not have, and the nodes would
        # not be as the cluster's others: magic-modules, expandNodeNetworkConfig.
        "enable_private_nodes": private_nodes,
    }


class GkeGpuNetworks(pulumi.ComponentResource):
    """A VPC network for each interface, in which its nodes reach each other, and nothing else."""

    interfaces: Sequence[Interface]
    networks: Sequence[pulumi.Resource]
    """Resources that must outlive the nodes."""

    def __init__(
        self,
        name: str,
        count: int,
        *,
        cidr: str,
        region: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`count`: how many of the networks the cluster's pools use. `cidr`: the range that all
        divide among themselves, so that theirs stay if other pools need more."""
        super().__init__("gpu-cluster:gke:GpuNetworks", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        parts = IPv4Network(cidr).subnets(prefixlen_diff=(len(GPU_NETWORKS) - 1).bit_length())
        interfaces, resources = list[Interface](), list[pulumi.Resource]()
        for part, suffix in zip(map(str, parts), GPU_NETWORKS[:count], strict=False):
            network = gcp.compute.Network(
                f"{name}-{suffix}",
                auto_create_subnetworks=False,
                routing_mode="REGIONAL",
                mtu=_MTU,
                opts=child,
            )
            subnetwork = gcp.compute.Subnetwork(
                f"{name}-{suffix}",
                network=network.id,
                region=region,
                ip_cidr_range=part,
                opts=child,
            )
            firewall = gcp.compute.Firewall(
                f"{name}-{suffix}",
                network=network.id,
                source_ranges=[part],
                allows=[{"protocol": protocol} for protocol in ("tcp", "udp", "icmp")],
                opts=child,
            )
            interfaces.append({"network": network.name, "subnetwork": subnetwork.name})
            resources += [network, subnetwork, firewall]
        self.interfaces, self.networks = interfaces, resources
        self.register_outputs({})


def read_interfaces(
    networks: Sequence[str], *, provider: pulumi.ProviderResource, parent: pulumi.Resource
) -> list[Interface]:
    """The interfaces of nodes whose pods join an existing cluster's `Network` objects. A preview
    fails with the name of an object that does not exist, or RunError if it is not one for GPUs."""
    return [_read_interface(name, provider, parent) for name in networks]


def _read_interface(
    network: str, provider: pulumi.ProviderResource, parent: pulumi.Resource
) -> Interface:
    def spec(kind: str, name: str, object_name: pulumi.Input[str]) -> pulumi.Output[Any]:
        found = pulumi.CustomResource(
            f"kubernetes:{names.GKE_NETWORKING_GROUP}/{names.GKE_NETWORKING_VERSION}:{kind}",
            name,
            {"spec": None},
            pulumi.ResourceOptions(parent=parent, provider=provider, id=object_name),
        )
        return cast(pulumi.Output[Any], found.spec)  # type: ignore[attr-defined]

    def parameters_of(network_spec: Mapping[str, Any]) -> str:
        reference = network_spec.get("parametersRef") or {}
        if (network_spec["type"], reference.get("kind")) != ("Device", "GKENetworkParamSet"):
            raise pulumi.RunError(
                f"gpu-cluster:cluster.gpuNetworks: {network} is a Network of type "
                f"{network_spec['type']}, and interfaces for GPUs are devices; name one of type "
                "Device, which refers to a GKENetworkParamSet"
            )
        return str(reference["name"])

    def checked(found: Mapping[str, Any]) -> Mapping[str, Any]:
        # Of a network attachment, it has no vpc; for the daemons, interfaces are the kernel's:
        # GoogleCloudPlatform/gke-networking-api, pkg/apis/network/v1, GKENetworkParamSet.
        wrong = [f"no {key}" for key in ("vpc", "vpcSubnet") if not found.get(key)]
        if (mode := found.get("deviceMode")) != "NetDevice":
            wrong.append(f"deviceMode {mode}" if mode else "no deviceMode")
        if wrong:
            raise pulumi.RunError(
                f"gpu-cluster:cluster.gpuNetworks: the GKENetworkParamSet of {network} has "
                f"{' and '.join(wrong)}, and interfaces for GPUs need vpc, vpcSubnet and "
                "deviceMode NetDevice; name a Network whose parameters have them"
            )
        return found

    parameters = spec(
        "GKENetworkParamSet",
        f"{network}-parameters",
        spec("Network", network, network).apply(parameters_of),
    ).apply(checked)
    return {"network": parameters["vpc"], "subnetwork": parameters["vpcSubnet"]}


class GkePodNetworks(pulumi.ComponentResource):
    """The networks as pods name them, and what gives the daemon of such a pod its devices."""

    def __init__(
        self,
        name: str,
        networks: Sequence[str],
        interfaces: Sequence[Interface],
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gke:PodNetworks", name, None, opts)
        version = f"{names.GKE_NETWORKING_GROUP}/{names.GKE_NETWORKING_VERSION}"
        for network, interface in zip(networks, interfaces, strict=True):
            parameters = kubernetes.apiextensions.CustomResource(
                f"{network}-parameters",
                api_version=version,
                kind="GKENetworkParamSet",
                metadata={"name": network},
                spec={
                    "vpc": interface["network"],
                    "vpcSubnet": interface["subnetwork"],
                    "deviceMode": "NetDevice",
                },
                opts=cluster.options(self),
            )
            kubernetes.apiextensions.CustomResource(
                network,
                api_version=version,
                kind="Network",
                metadata={"name": network},
                spec={
                    "type": "Device",
                    "parametersRef": {
                        "group": names.GKE_NETWORKING_GROUP,
                        "kind": "GKENetworkParamSet",
                        "name": network,
                    },
                },
                # GKE deletes no parameters that a Network refers to.
                opts=cluster.options(self, depends_on=[parameters]),
            )
        self._inject_devices(cluster)
        self.register_outputs({})

    def _inject_devices(self, cluster: Cluster) -> None:
        """container-engine-accelerators 992db812, nri_device_injector/nri-device-injector.yaml."""
        required: NodeSelectorRequirementArgsDict = {"key": names.GPU_DIRECT, "operator": "Exists"}
        daemon_set(
            _INJECTOR,
            {
                "affinity": affinity_to([{}], [required]),
                "host_network": True,
                "host_pid": True,
                "containers": [
                    {
                        "name": _INJECTOR,
                        "image": images.DEVICE_INJECTOR.reference,
                        "resources": {"requests": {"cpu": "150m"}},
                        "security_context": {"privileged": True},
                        "volume_mounts": [
                            {"name": "devices", "mount_path": "/dev"},
                            {"name": "nri", "mount_path": "/var/run/nri"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "devices", "host_path": {"path": "/dev"}},
                    {"name": "nri", "host_path": {"path": "/var/run/nri"}},
                ],
            },
            cluster.options(self, delete_before_replace=True),
            waits=False,
        )
