"""Google Cloud resources that exist before the stack: the subnetworks of existing networks.

`inventories/<stack>.yaml` lists them, and what the network team has not done yet. Without it they
are derived from the stack's settings, and the report says so.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from gpu_cluster.components.gke.cluster_args import KMS_KEY
from gpu_cluster.components.gke.existing_args import GkeExistingClusterArgs
from gpu_cluster.components.gke.network_args import GkeNetworkArgs
from gpu_cluster.components.gke.node_account import foreign_repository
from gpu_cluster.components.gke.settings import GkeSettings
from gpu_cluster.components.gke_autopilot.settings import GkeAutopilotSettings
from gpu_cluster.components.schema.decode import camel
from gpu_cluster.components.schema.outputs import text
from gpu_cluster.components.schema.refusal import shown as written
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.rehearsal.simulators.inventory import (
    INVENTORIES,
    block_of,
    cluster_keys,
    file_of,
    inventory,
    without_reservations,
    wrong,
)

Out = Literal["nat", "google", "firewall", "none"]
Missing = Literal["attachment", "hostServiceAgentUser", "networkUser"]
_NODES, _PODS, _SERVICES = (
    ipaddress.IPv4Network(block) for block in ("10.10.0.0/20", "10.64.0.0/14", "10.10.16.0/20")
)
"""The ranges of a derived subnetwork."""
_NAMES = ("project", "vpc", "name", "region")
_EXAMPLE = (
    "{ subnetworks: [{ project: company-net, vpc: shared, name: gke, region: us-central1, cidr: "
    "10.10.0.0/20, ranges: { pods: 10.64.0.0/14, services: 10.10.16.0/20 }, out: nat }] }"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnetwork:
    """A subnetwork of an existing network."""

    project: str
    vpc: str
    name: str
    region: str
    cidr: ipaddress.IPv4Network
    ranges: Mapping[str, ipaddress.IPv4Network]
    """Name -> secondary range."""
    out: Out = "nat"
    """How its nodes reach the outside: `nat` for a Cloud NAT, with Private Google Access; `google`
    for only the latter; `firewall` for a route of the whole network through a firewall."""
    internal: bool = False
    """Whether a firewall rule lets its nodes reach each other, as networks between GPUs need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """The network resources that exist for a project."""

    service_project: str
    """The stack's project."""
    subnetworks: Sequence[Subnetwork]
    missing: frozenset[Missing] = frozenset()
    """The missing parts of a Shared VPC: the project's attachment, roles of its agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeCluster:
    """Another owner's GKE cluster, by default as created by the Terraform module
    terraform-google-modules/kubernetes-engine (cluster.tf and variables.tf)."""

    project: str
    name: str
    location: str
    version: str = ""
    """The release channel's, if omitted."""
    release_channel: str = "REGULAR"
    autopilot: bool = False
    workload_identity: bool = True
    private_nodes: bool = False
    dns_access: bool = False
    """Whether the control plane can be reached under its DNS name."""
    ip_access: bool = True
    """Whether it can be reached under its IP addresses."""
    addons: Sequence[str] = ()
    """Additional addons, by their names in gcloud's --update-addons."""
    metrics: Sequence[str] = ()
    """The metrics that GKE collects; if omitted, those of every new cluster."""
    managed_prometheus: bool = True
    multi_networking: bool = False
    """Whether nodes and pods can have several networks; the cluster then has Dataplane V2."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Resource -> the most that the cluster may have; any enables node auto-provisioning."""
    zones: Sequence[str] = ()
    """The nodes' zones; if omitted, GKE's choice."""
    node_pools: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {
            "default-pool": {"machineType": "e2-medium", "nodes": 0},
            "default-node-pool": {"machineType": "e2-medium", "nodes": 1},
        }
    )
    """Name -> `machineType`, `nodes` per zone, `labels` and, in the API's form, `taints` and the
    counts of `autoscaling`, by default at most 100 per zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Another owner's bucket."""

    uniform_access: bool = True
    """Whether only IAM, and no access control list, controls access to its objects."""
    location: str = ""
    """A region, a dual-region or a multi-region; empty for the cluster's region."""
    missing: bool = False
    """Whether the bucket does not exist. Buckets that are not in the inventory do."""


def buckets(stack: str, folder: Path = INVENTORIES) -> dict[str, Bucket]:
    """The inventory's `buckets`, by name. Raises StackError if they are invalid."""
    found = inventory(stack, folder)
    rows = found.get("buckets", {}) if isinstance(found, dict) else {}
    keys = {camel(item.name): item for item in fields(Bucket)}
    if not isinstance(rows, dict):
        raise wrong(stack, ".buckets", "is not a map; write it as { NAME: { location: EU } }")
    for name, row in rows.items():
        for key, value in row.items() if isinstance(row, dict) else [(name, row)]:
            if key not in keys or not isinstance(value, type(keys[key].default)):
                at = f".buckets.{name}"
                raise wrong(stack, at, f"{key}: {written(value)}; allowed: {', '.join(keys)}")
    return {
        name: Bucket(**{keys[key].name: value for key, value in row.items()})
        for name, row in rows.items()
    }


def not_granted(stack: str, folder: Path = INVENTORIES) -> frozenset[str]:
    """The inventory's `notGranted`: Cloud KMS keys and Artifact Registry repositories. Raises
    StackError for anything else."""
    found = inventory(stack, folder)
    names = found.get("notGranted", []) if isinstance(found, dict) else []
    for name in names if isinstance(names, list) else [names]:
        if not KMS_KEY.fullmatch(str(name)) and not foreign_repository(str(name), ""):
            raise wrong(
                stack, ".notGranted", f"{written(name)} is neither a Cloud KMS key, such as "
                "projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY, nor a repository, "
                "such as REGION-docker.pkg.dev/PROJECT/REPOSITORY"
            )  # fmt: skip
    return frozenset(names)


def node_accounts(settings: Settings[Any] | None) -> frozenset[str]:
    """Emails of the service accounts that the stack's pools name for their nodes."""
    own = settings.own if settings else None
    if not isinstance(own, GkeSettings):
        return frozenset()
    named = (pool.args.service_account for pool in own.pools.values())
    return frozenset(text(email) for email in named if email is not None)


def gke_cluster(
    stack: str, settings: Settings[Any] | None, folder: Path = INVENTORIES
) -> tuple[GkeCluster | None, list[str]]:
    """The existing GKE cluster to which a stack adds its pools, and notes for the report; None if
    the stack creates its own. Raises StackError for an invalid inventory."""
    own = settings.own if settings else None
    if not isinstance(own, GkeSettings) or not isinstance(own.cluster, GkeExistingClusterArgs):
        return None, []
    name, location = own.cluster.name, own.cluster.location
    has: dict[str, Any] = {"project": own.project, "name": name, "location": location}
    like = f"{name} is simulated as the Terraform module kubernetes-engine"
    given, notes = cluster_keys(stack, GkeCluster, has, like, folder)
    return GkeCluster(**has, **given), notes


def networks(
    stack: str, settings: Settings[Any] | None, folder: Path = INVENTORIES
) -> tuple[Networks | None, list[str]]:
    """The existing subnetworks for a stack's cluster, and notes for the report; None if the stack
    creates its own. Raises StackError for an invalid inventory."""
    own = settings.own if settings else None
    if not isinstance(own, GkeSettings | GkeAutopilotSettings):
        return None, []
    wanted = own.cluster.network
    if isinstance(wanted, GkeNetworkArgs) and not wanted.existing:
        return None, []
    found = without_reservations(inventory(stack, folder))
    if found is not None:
        return _checked(stack, found, own.project), []
    if not isinstance(wanted, GkeNetworkArgs):
        named = Subnetwork(
            project=wanted.host_project or own.project,
            vpc=text(wanted.vpc or "main"),
            name="nodes",
            region=own.cluster.region,
            cidr=_NODES,
            ranges={"pods": _PODS, "services": _SERVICES},
        )
        return Networks(service_project=own.project, subnetworks=[named]), []
    derived = Subnetwork(
        project=wanted.host_project or own.project,
        vpc=str(wanted.vpc),
        name=str(wanted.subnetwork),
        region=own.cluster.region,
        cidr=_NODES,
        ranges={str(wanted.pods_range): _PODS, str(wanted.services_range): _SERVICES},
    )
    return Networks(service_project=own.project, subnetworks=[derived]), [
        f"this subnetwork is simulated: {wanted.subnetwork}; no inventory describes it, so it is "
        f"derived from cluster.network: {file_of(stack)} says region, ranges, way out and grants"
    ]


def _checked(stack: str, found: Any, project: str) -> Networks:
    rows = found.get("subnetworks") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not rows or set(found) - {"subnetworks", "missing"}:
        raise wrong(stack, "", f"is not a list of subnetworks; write it as {_EXAMPLE}")
    missing = found.get("missing", [])
    for item in missing if isinstance(missing, list) else [missing]:
        if item not in get_args(Missing):
            allowed = ", ".join(get_args(Missing))
            raise wrong(stack, ".missing", f"{written(item)}; allowed: {allowed}")
    return Networks(
        service_project=project,
        subnetworks=[
            _subnetwork(stack, f".subnetworks[{position}]", row)
            for position, row in enumerate(rows)
        ],
        missing=frozenset(missing),
    )


def _subnetwork(stack: str, at: str, row: Any) -> Subnetwork:
    known = [item.name for item in fields(Subnetwork)]
    if not isinstance(row, dict) or set(row) - set(known):
        raise wrong(stack, at, f"is not a subnetwork; allowed: {', '.join(known)}")
    for key in _NAMES:
        if not isinstance(row.get(key), str):
            raise wrong(stack, f"{at}.{key}", f"{written(row.get(key))} is not a name")
    ranges, out = row.get("ranges", {}), row.get("out", "nat")
    if not isinstance(ranges, dict):
        raise wrong(stack, f"{at}.ranges", "is not a map of names to networks")
    if out not in get_args(Out):
        raise wrong(stack, f"{at}.out", f"{written(out)}; allowed: {', '.join(get_args(Out))}")
    return Subnetwork(
        **{key: row[key] for key in _NAMES},
        cidr=block_of(stack, f"{at}.cidr", row.get("cidr")),
        ranges={
            str(name): block_of(stack, f"{at}.ranges.{name}", value)
            for name, value in ranges.items()
        },
        out=out,
        internal=row.get("internal") is True,
    )
