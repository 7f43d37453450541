"""The settings of a GKE cluster's network."""

import ipaddress
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from ..access.addresses import cidr
from ..catalog.gke import COMPUTE_NAME
from ..schema.decode import camel
from ..schema.effect import Sent
from ..schema.limits import Limit, matching
from ..schema.on_change import NEVER, OnChange
from ..schema.outputs import MaybeOutput, applied
from ..schema.refusal import Refusal, collected, named, refuse
from ..schema.rules import Checked, rule
from .immutable import unless_grown
from .sign_in import PROJECT

_NAME = re.compile(COMPUTE_NAME)
_RULE = (
    "a name of Google Cloud; allowed: at most 63 lowercase letters, digits and '-', a letter "
    "first, no '-' at the end"
)
NETWORK_NAME = matching(_RULE, _NAME)
"""The name of a secondary range."""


def _or_path(kind: str, pattern: str) -> Limit:
    path = rf"(?:https://[^/]+/compute/v1/)?projects/[^/]+/{pattern}/{_NAME.pattern}"
    return matching(f"{_RULE}; or projects/PROJECT/{kind}/NAME", _NAME, re.compile(path))


VPC = _or_path("global/networks", "global/networks")
SUBNETWORK = _or_path("regions/REGION/subnetworks", "regions/[^/]+/subnetworks")
"""The name of a network or a subnetwork, or its outputs `id` and `self_link`."""
_RANGE = cidr(8, 27)
_NAMED = {
    "vpc": "the VPC network of the subnetwork",
    "subnetwork": "the subnetwork",
    "pods_range": "the subnetwork's secondary range for pods",
    "services_range": "the subnetwork's secondary range for services",
}
"""Setting of an existing subnetwork -> what it has to name."""
POD_ADDRESSES, RESERVED_ADDRESSES = 256, 4
"""Addresses of the pods' range for each node of GKE Standard, a /24; and those of a subnetwork that
nodes cannot use (https://cloud.google.com/kubernetes-engine/docs/concepts/alias-ips)."""
_OWN = ("nodes_cidr", "pods_cidr", "services_cidr", "flow_logs")
"""Settings of a subnetwork that the stack creates, which do not apply to an existing one."""


def network_path(project: str, vpc: MaybeOutput | None) -> MaybeOutput:
    """The full name of a network, of the project unless it names its own; empty without one."""
    return applied(partial(_full, f"projects/{project}/global/networks"), vpc) if vpc else ""


def _full(folder: str, name: str) -> str:
    return name[name.index("projects/") :] if "/" in name else f"{folder}/{name}"


def last_part(name: MaybeOutput) -> MaybeOutput:
    """The name at the end of a path, or an output as it is."""
    return name.rpartition("/")[2] if isinstance(name, str) else name


def check_host(project: str, host: str | None, **named: MaybeOutput | None) -> Iterator[Refusal]:
    """Refuses a host project that is the cluster's own, and paths, by key, in other projects."""
    if host == project:
        yield refuse(("network", "hostProject"), project)(
            "is the cluster's own project; drop the key, which names another one"
        )
    for key, path in named.items():
        if not isinstance(path, str) or "/" not in path:
            continue
        owner = path.partition("projects/")[2].partition("/")[0]
        if owner != (host or project):
            yield refuse(("network", key), path)(
                f"is in project {owner}, and networks of this stack in {host or project}",
                remedy=f"set hostProject: {owner}" if owner != project else "drop hostProject",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeNetworkArgs(Checked):
    """IP ranges (IPv4 CIDR) of the stack's own subnetwork, without overlap; or an existing one."""

    nodes_cidr: Annotated[str, _RANGE, OnChange(unless_grown), Sent("Subnetwork ipCidrRange")] = (
        "10.0.0.0/20"
    )
    """The IP range of the nodes; a /20 has 4,092 addresses for them."""
    # https://github.com/hashicorp/terraform-provider-google/issues/7474
    pods_cidr: Annotated[
        str, cidr(8, 24), OnChange(NEVER), Sent("Subnetwork secondaryIpRanges[].ipCidrRange")
    ] = "10.16.0.0/14"
    """The IP range of the pods; each node uses a /24 of it."""
    services_cidr: Annotated[
        str, _RANGE, OnChange(NEVER), Sent("Subnetwork secondaryIpRanges[].ipCidrRange")
    ] = "10.20.0.0/20"
    """The IP range of Kubernetes services; a /20 has 4,096 addresses."""
    flow_logs: Annotated[
        bool, Sent("Subnetwork logConfig", "Cluster enableIntranodeVisibility")
    ] = False
    """Whether the VPC records flow logs; on GKE Standard, including traffic between pods of one
    node. The logs are billed by volume."""
    # A cluster cannot be moved to another network:
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-shared-vpc
    subnetwork: Annotated[
        Annotated[MaybeOutput, SUBNETWORK] | None,
        OnChange("cluster"),
        Sent("Cluster subnetwork"),
    ] = None
    """An existing subnetwork in the cluster's region, by its name; its nodes need access to the
    internet. The stack then creates no network, router or Cloud NAT."""
    vpc: Annotated[
        Annotated[MaybeOutput, VPC] | None, OnChange("cluster"), Sent("Cluster network")
    ] = None
    """The VPC network of `subnetwork`, by its name."""
    host_project: Annotated[
        str | None, PROJECT, OnChange("cluster"), Sent("Cluster network", "Cluster subnetwork")
    ] = None
    """The ID of the Shared VPC host project with `vpc`; by default, the cluster's project."""
    pods_range: Annotated[
        Annotated[MaybeOutput, NETWORK_NAME] | None,
        OnChange("cluster"),
        Sent("Cluster ipAllocationPolicy.clusterSecondaryRangeName"),
    ] = None
    """The secondary range of `subnetwork` for pods, by its name; each node uses a /24 of it."""
    services_range: Annotated[
        Annotated[MaybeOutput, NETWORK_NAME] | None,
        OnChange("cluster"),
        Sent("Cluster ipAllocationPolicy.servicesSecondaryRangeName"),
    ] = None
    """The secondary range of `subnetwork` for services, by its name."""

    @rule
    def _check_own_or_existing(self) -> None:
        if self.existing:
            self._check_existing()
        else:
            self._check_ranges()

    def _room(self) -> Iterator[tuple[str, str, int]]:
        """Key and value of the own subnetwork's ranges that nodes use, and how many nodes fit."""
        if not self.existing:
            pods, nodes = map(ipaddress.IPv4Network, (self.pods_cidr, self.nodes_cidr))
            yield "podsCidr", self.pods_cidr, pods.num_addresses // POD_ADDRESSES
            yield "nodesCidr", self.nodes_cidr, nodes.num_addresses - RESERVED_ADDRESSES

    def check_room(self, fewest: int, most: int) -> list[str]:
        """A warning for each range without room for `most` nodes, the maximum of all pools.

        Raises `Refusal` for one without room for `fewest`, with which each pool has a node.
        """
        lines = []
        for key, network, room in self._room():
            has = f"{network} has room for {room} nodes, and the pools"
            if room < fewest:
                raise refuse(("network", key))(
                    f"{has} need {fewest}",
                    remedy="use a larger range, because it cannot be replaced later",
                )
            if room < most:
                lines.append(
                    f"network.{key}: {has} grow to {most}; use a larger range now, because it "
                    "cannot be replaced later, or lower maxNodes"
                )
        return lines

    @staticmethod
    def check_given(given: Collection[str]) -> None:
        """Raises `Refusal` for settings of an own subnetwork together with an existing one."""
        own_key = next((key for key in _OWN if key in given), None)
        if own_key and any(key in given for key in (*_NAMED, "host_project")):
            raise refuse(camel(own_key))(
                "an existing subnetwork has its own; drop it, or drop subnetwork"
            )

    @property
    def existing(self) -> bool:
        """Whether the settings name an existing subnetwork."""
        return any(getattr(self, key) is not None for key in (*_NAMED, "host_project"))

    def network_in(self, project: str) -> MaybeOutput:
        """The full name of the existing network, for a cluster in `project`."""
        return network_path(self.host_project or project, self.vpc)

    def subnetwork_in(self, project: str, region: str) -> MaybeOutput:
        """The full name of the existing subnetwork, for a cluster in `project`."""
        place = f"projects/{self.host_project or project}/regions/{region}/subnetworks"
        assert self.subnetwork is not None, "checked with the others"
        return applied(partial(_full, place), self.subnetwork)

    @collected
    def check_in(self, project: str) -> Iterator[Refusal]:
        """Raises `Refusal` if the network cannot belong to a cluster in `project`."""
        yield from check_host(project, self.host_project, vpc=self.vpc, subnetwork=self.subnetwork)

    def _check_existing(self) -> None:
        for key, what in _NAMED.items():
            if getattr(self, key) is None:
                raise refuse(camel(key))(
                    f"is missing; an existing network needs {named('vpc')}, "
                    f"{named('subnetwork')}, {named('podsRange')} and {named('servicesRange')}: "
                    f"name {what}"
                )
        if self.pods_range == self.services_range:
            raise refuse("servicesRange", self.services_range)(
                f"is also {named('podsRange')}, and GKE needs two different secondary ranges; "
                "name another"
            )

    def _check_ranges(self) -> None:
        taken: list[tuple[str, ipaddress.IPv4Network]] = []
        for key, text in (
            ("nodesCidr", self.nodes_cidr),
            ("podsCidr", self.pods_cidr),
            ("servicesCidr", self.services_cidr),
        ):
            block = ipaddress.IPv4Network(text)
            for other, earlier in taken:
                if block.overlaps(earlier):
                    raise refuse(key, text)(f"overlaps {other} {earlier}; choose another")
            taken.append((key, block))
