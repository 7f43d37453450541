"""The settings of an EKS cluster's network."""

import ipaddress
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Len, MinLen

from ..access.addresses import cidr, is_private
from ..catalog import eks as catalog
from ..schema.decode import camel
from ..schema.effect import Sent
from ..schema.limits import UNIQUE, Hint, matching
from ..schema.on_change import NEVER, OnChange, if_longer
from ..schema.outputs import MaybeOutput, texts
from ..schema.refusal import Refusal, collected, named, refuse
from ..schema.rules import Checked, rule
from . import regions

SubnetId = Annotated[
    MaybeOutput,
    matching(
        "the ID of a subnet such as subnet-0123456789abcdef0",
        re.compile(r"subnet-[0-9a-f]{8}([0-9a-f]{9})?"),
    ),
]
_VPC_CIDR = cidr(16, 18, private=True, why=", of which each zone's nodes and pods take an eighth")
_CARRIER = ipaddress.IPv4Network("100.64.0.0/10")
"""The shared address space of RFC 6598, which companies use internally."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EksNetworkArgs(Checked):
    """A VPC that the stack creates over two or three zones, or the subnets of an existing one."""

    # The control plane stays in its zones and subnets; only nodes can be in additional ones.
    zones: Annotated[
        Sequence[str],
        Len(2, 3),
        Hint("EKS needs subnets in at least two zones"),
        UNIQUE,
        OnChange(if_longer("node pools")),
        Sent("Subnet availabilityZone", "NodeGroup subnetIds"),
    ] = ()
    """Names (`us-east-1a`) or IDs (`use1-az1`) of two or three zones. There is no default: the
    zones of a region differ by account, and a preview would need the network to ask AWS. A third
    zone can be appended later, for nodes only."""
    # https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html
    cidr: Annotated[str, _VPC_CIDR, OnChange(NEVER), Sent("Vpc cidrBlock")] = "10.0.0.0/16"
    """The VPC's range, /16 to /18. Each zone's private subnet has an eighth, its public a 256th."""
    nat: Annotated[
        Literal["single", "per-zone"], Sent("NatGateway", "RouteTableAssociation routeTableId")
    ] = "single"
    """The number of NAT gateways. `single` costs a third, but all zones depend on one."""
    interface_endpoints: Annotated[bool, Sent("VpcEndpoint", "SecurityGroup")] = False
    """Whether nodes and pods reach EC2, ECR, STS, EKS, EKS Auth, Auto Scaling and CloudWatch Logs
    through interface endpoints in each zone of the VPC instead of the NAT gateway. All other
    traffic still passes the NAT gateway."""
    subnet_ids: Annotated[
        Sequence[SubnetId],
        MinLen(catalog.MIN_SUBNETS),
        Hint("EKS needs them in different zones"),
        UNIQUE,
        OnChange("node pools"),
        Sent("Cluster vpcConfig.subnetIds[]", "NodeGroup subnetIds"),
    ] = ()
    """Private subnets of an existing VPC, with access to the internet, in at least two zones. The
    control plane stays in the subnets in which it was created."""

    security_group_ids: ClassVar[Sequence[str]] = ()
    """Always empty: nodes have the group that EKS creates with the cluster."""

    @property
    def places(self) -> tuple[str, ...]:
        """Where nodes and disks can be: zones, or the subnets of an existing VPC."""
        return places_of("cluster.network.subnetIds", self.subnet_ids) or tuple(self.zones)

    @property
    def exits(self) -> tuple[str, ...]:
        """The zones with a NAT gateway, in a VPC of the stack's own."""
        return tuple(self.zones if self.nat == "per-zone" else self.zones[:1])

    @rule
    def _check_zones(self) -> None:
        if not self.zones and not self.subnet_ids:
            raise refuse("zones")(
                "is missing; name two or three zones of the region (aws ec2 "
                "describe-availability-zones --region REGION lists your account's), or give "
                + named("subnetIds")
            )

    def possible(self, key: str) -> None:
        """Raises the refusal of a setting that an existing VPC has itself."""
        if self.subnet_ids:
            self.check_given({"subnet_ids", key})

    @staticmethod
    def check_given(given: Collection[str]) -> None:
        """Raises `Refusal` for settings of the stack's own VPC together with existing subnets."""
        if "subnet_ids" not in given:
            return
        for key in ("zones", "cidr", "nat", "interface_endpoints"):
            if key in given:
                raise refuse(camel(key))(
                    "an existing VPC has its own",
                    remedy=f"drop it, or drop {named('subnetIds')}",
                )

    @collected
    def check_in(self, region: str) -> Iterator[Refusal]:
        """Raises `Refusal` if a zone is not in `region`, or cannot host a control plane."""
        excluded = catalog.CONTROL_PLANE_EXCLUDED_ZONES.get(region)
        for position, zone in enumerate(self.zones):
            if not (regions.is_zone_name(zone, region) or regions.is_zone_id(zone, region)):
                yield refuse(("zones", position), zone)(
                    f"is not a zone of {region}; give a name such as {region}a, or an ID"
                )
            if zone == excluded:
                yield refuse(("zones", position), zone)(
                    "cannot host an EKS control plane; choose another zone"
                )
            # The excluded zone's name differs by account; only this one is well known.
            if zone == "us-east-1e":
                yield refuse(("zones", position), zone)(
                    f"is {excluded} in most accounts, which cannot host an EKS control plane",
                    remedy="choose another zone, or give IDs such as use1-az1",
                )


class Place(str):
    """The path of a subnet in the settings, in place of its ID if that is an output."""

    __slots__ = ("subnet",)
    subnet: MaybeOutput


def places_of(path: str, subnets: Sequence[MaybeOutput]) -> tuple[str, ...]:
    """The IDs of these subnets; for each output, a `Place` below the path of the list."""
    found: list[str] = []
    for position, subnet in enumerate(subnets):
        if isinstance(subnet, str):
            found.append(subnet)
        else:
            place = Place(f"{path}[{position}]")
            place.subnet = subnet
            found.append(place)
    return tuple(found)


def subnet_at(place: str) -> MaybeOutput:
    """The ID of an existing VPC's subnet."""
    return place.subnet if isinstance(place, Place) else place


def missing(chosen: Sequence[MaybeOutput], offered: Sequence[MaybeOutput]) -> Iterator[str]:
    """Zones or subnets that are not among those offered, as far as these are known."""
    if all(type(place) is str for place in offered):
        yield from (place for place in texts(chosen) if place not in offered)


def is_reserved(block: ipaddress.IPv4Network) -> bool:
    """Whether the network has no public addresses, so that it can only reach a private endpoint."""
    return is_private(block) or block.subnet_of(_CARRIER)
