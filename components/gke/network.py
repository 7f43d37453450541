"""The VPC of a GKE cluster: private nodes, one router with Cloud NAT, no inbound rule of its own."""

import ipaddress
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

PODS_RANGE = "pods"
SERVICES_RANGE = "services"


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeNetworkArgs:
    """Address ranges (IPv4 CIDR) of the subnetwork; they may not overlap."""

    nodes_cidr: str = "10.0.0.0/20"
    """Nodes: a /20 holds 4,092."""
    pods_cidr: str = "10.16.0.0/14"
    """Pods: each node takes a /24 of it."""
    services_cidr: str = "10.20.0.0/20"
    """Services: a /20 holds 4,096."""
    flow_logs: bool = False
    """VPC flow logs; they are billed by volume."""

    def __post_init__(self) -> None:
        taken: list[tuple[str, ipaddress.IPv4Network]] = []
        for key, text in (
            ("nodesCidr", self.nodes_cidr),
            ("podsCidr", self.pods_cidr),
            ("servicesCidr", self.services_cidr),
        ):
            block = parse_cidr(key, text)
            if not 8 <= block.prefixlen <= 27:
                raise ValueError(f"{key}: {text!r} has /{block.prefixlen}; allowed: /8 to /27")
            for other, earlier in taken:
                if block.overlaps(earlier):
                    raise ValueError(f"{key}: {text!r} overlaps {other} {earlier}; choose another")
            taken.append((key, block))


def parse_cidr(key: str, text: str) -> ipaddress.IPv4Network:
    """`text` as an IPv4 network; raises ValueError with one line that begins with `key`."""
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"{key}: {text!r} is not an IPv4 CIDR ({error})") from None


class GkeNetwork(pulumi.ComponentResource):
    """A VPC with one subnetwork in the cluster's region."""

    network_id: pulumi.Output[str]
    subnetwork_id: pulumi.Output[str]
    nat: gcp.compute.RouterNat
    """Private nodes have no way out, to pull an image for instance, before it stands."""

    def __init__(
        self,
        name: str,
        args: GkeNetworkArgs,
        *,
        region: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gke:Network", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        network = gcp.compute.Network(
            name, auto_create_subnetworks=False, routing_mode="REGIONAL", opts=child
        )
        subnetwork = gcp.compute.Subnetwork(
            name,
            network=network.id,
            region=region,
            ip_cidr_range=args.nodes_cidr,
            secondary_ip_ranges=[
                {"range_name": PODS_RANGE, "ip_cidr_range": args.pods_cidr},
                {"range_name": SERVICES_RANGE, "ip_cidr_range": args.services_cidr},
            ],
            private_ip_google_access=True,
            log_config={"aggregation_interval": "INTERVAL_10_MIN", "flow_sampling": 0.5}
            if args.flow_logs
            else None,
            opts=child,
        )
        router = gcp.compute.Router(name, network=network.id, region=region, opts=child)
        self.nat = gcp.compute.RouterNat(
            name,
            router=router.name,
            region=region,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="LIST_OF_SUBNETWORKS",
            subnetworks=[{"name": subnetwork.id, "source_ip_ranges_to_nats": ["ALL_IP_RANGES"]}],
            log_config={"enable": True, "filter": "ERRORS_ONLY"},
            opts=child,
        )
        self.network_id = network.id
        self.subnetwork_id = subnetwork.id
        self.register_outputs({})
