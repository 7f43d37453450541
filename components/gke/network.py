"""The VPC of a GKE cluster: private nodes, one router with Cloud NAT, no inbound rule.

Of an existing subnetwork nothing is made, changed or granted: its network is somebody else's.
"""

import pulumi
import pulumi_gcp as gcp

from .network_args import GkeNetworkArgs

_PODS_RANGE = "pods"
_SERVICES_RANGE = "services"


class GkeNetwork(pulumi.ComponentResource):
    """A VPC with one subnetwork in the cluster's region, or a subnetwork that is there."""

    network: pulumi.Input[str]
    """`projects/...`, as is the subnetwork."""
    subnetwork: pulumi.Input[str]
    pods_range: str
    services_range: str
    egress: list[pulumi.Resource]
    """Private nodes have no way out, to pull an image for instance, before all of these stand."""

    def __init__(
        self,
        name: str,
        args: GkeNetworkArgs,
        *,
        project: str,
        region: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gke:Network", name, None, opts)
        if args.existing:
            self.network = args.network_in(project)
            self.subnetwork = args.subnetwork_in(project, region)
            self.egress = []
        else:
            self._own_vpc(name, args, region)
        self.pods_range = args.pods_range or _PODS_RANGE
        self.services_range = args.services_range or _SERVICES_RANGE
        self.register_outputs({})

    def _own_vpc(self, name: str, args: GkeNetworkArgs, region: str) -> None:
        child = pulumi.ResourceOptions(parent=self)
        network = gcp.compute.Network(
            name, auto_create_subnetworks=False, routing_mode="REGIONAL", opts=child
        )
        router = gcp.compute.Router(name, network=network.id, region=region, opts=child)
        nat = gcp.compute.RouterNat(
            name,
            router=router.name,
            region=region,
            nat_ip_allocate_option="AUTO_ONLY",
            # All of the VPC's, which has the one below: while NAT named it, nothing could replace
            # it, since Compute Engine deletes no subnetwork that is in use.
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            # Without it a node has 64 ports for all of its pods together: 64 connections to one
            # destination, and the 65th, of a data loader for instance, is dropped.
            enable_dynamic_port_allocation=True,
            min_ports_per_vm=64,
            max_ports_per_vm=8192,
            # Excludes dynamic ports, and the provider keeps what it had where it is left out.
            enable_endpoint_independent_mapping=False,
            log_config={"enable": True, "filter": "ERRORS_ONLY"},
            opts=child,
        )
        subnetwork = gcp.compute.Subnetwork(
            name,
            network=network.id,
            region=region,
            ip_cidr_range=args.nodes_cidr,
            secondary_ip_ranges=[
                {"range_name": _PODS_RANGE, "ip_cidr_range": args.pods_cidr},
                {"range_name": _SERVICES_RANGE, "ip_cidr_range": args.services_cidr},
            ],
            private_ip_google_access=True,
            log_config={"aggregation_interval": "INTERVAL_10_MIN", "flow_sampling": 0.5}
            if args.flow_logs
            else None,
            opts=pulumi.ResourceOptions(
                parent=self,
                # Its successor has the same ranges, or some of them, and ranges of one VPC must
                # not overlap. With it goes the cluster, which a subnetwork replaces anyway.
                delete_before_replace=True,
            ),
        )
        self.network, self.subnetwork, self.egress = network.id, subnetwork.id, [nat]
