"""The VPC of a GKE cluster: private nodes, one router with Cloud NAT, no inbound rule.

For an existing subnetwork, nothing is created, changed or granted: its network belongs to others.
"""

import pulumi
import pulumi_gcp as gcp

from .network_args import GkeNetworkArgs

_PODS_RANGE = "pods"
_SERVICES_RANGE = "services"


class GkeNetwork(pulumi.ComponentResource):
    """A VPC with one subnetwork in the cluster's region, or an existing subnetwork."""

    network: pulumi.Input[str]
    """The full name, `projects/...`, like that of the subnetwork."""
    subnetwork: pulumi.Input[str]
    pods_range: pulumi.Input[str]
    services_range: pulumi.Input[str]
    egress: list[pulumi.Resource]
    """Resources without which private nodes cannot reach the internet, to pull an image."""

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
            # All of the VPC's, which includes the one below: if NAT named it, it could not be
            # replaced, because Compute Engine deletes no subnetwork that is in use.
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            # Without it, all pods of a node share 64 ports: the 65th connection to one destination,
            # for instance of a data loader, is dropped.
            enable_dynamic_port_allocation=True,
            min_ports_per_vm=64,
            max_ports_per_vm=8192,
            # It excludes dynamic ports, and if it is omitted, the provider keeps the current value.
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
                # Its successor has some of the same ranges, and ranges of one VPC must not overlap.
                # The cluster is deleted with it, which replacing a subnetwork requires anyway.
                delete_before_replace=True,
            ),
        )
        self.network, self.subnetwork, self.egress = network.id, subnetwork.id, [nat]
