"""The nodes that Karpenter launches for a pool: the EC2NodeClass, and its part of the NodePool."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from ..catalog import eks as catalog
from ..cluster import GpuPool, ResolvedPool
from ..scalers import SYSTEM_NODES
from ..schema.outputs import MaybeOutput
from .cluster_args import EksSystemPoolArgs
from .cpu_pool_args import EksCpuPoolArgs
from .efa import interfaces
from .fallback_args import part_names
from .karpenter_pool import Nodes
from .network_args import subnet_at
from .node_args import EksKubeletArgs
from .pool_args import EksGpuNodeGroupArgs
from .user_data import EVICTION, al2023, bottlerocket

CAPACITY_TYPES = {
    "on-demand": "on-demand",
    "spot": "spot",
    "reservation": "reserved",
    "capacity-block": "reserved",
}
"""`capacityType` in the settings -> Karpenter's capacity type."""
FORCED_AFTER = "15m"
"""How long an update waits with `forceUpdate`: the time after which a node group's fails on EKS."""
_FAMILIES = {"al2023": "AL2023", "bottlerocket": "Bottlerocket"}
_NATIVE = (
    "max_pods", "kube_reserved", "system_reserved", "eviction_hard", "eviction_soft",
    "eviction_soft_grace_period",
)  # fmt: skip
"""Kubelet settings that an EC2NodeClass supports; Karpenter takes them into account."""
_SYSTEM_GIB = 4
"""The size of Bottlerocket's system volume in Karpenter
(pkg/providers/amifamily/bottlerocket.go)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The settings that all node classes of a cluster share."""

    subnets: Mapping[str, pulumi.Input[str]]
    """Zone, or subnet of an existing VPC, as in the settings -> the subnet's ID."""
    security_groups: Sequence[pulumi.Input[str]]
    placement_groups: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Pool -> the name of its placement group, of those that have one."""
    instance_profile: pulumi.Input[str] | None
    """The instance profile that the stack creates; None if `role` is set."""
    role: pulumi.Input[str] | None
    """The name of the role that Auto Mode, or an existing Karpenter, may give to nodes."""
    tags: Mapping[str, str]
    key: MaybeOutput | None
    """The ARN of the KMS key that encrypts disks; None for the account's default."""


def gpu_nodes(resolved: ResolvedPool[EksGpuNodeGroupArgs], site: Site) -> Nodes:
    """The nodes of a GPU pool."""
    args, pool = resolved.args, resolved.pool
    volumes = [
        _volume(
            "/dev/xvdb" if args.os == "bottlerocket" else "/dev/xvda",
            args.disk_size_gb,
            site.key,
            throughput=args.disk_throughput,
            iops=args.disk_iops,
            snapshotID=args.disk_snapshot_id,
            volumeInitializationRate=args.disk_initialization_rate,
        )
    ]
    if args.os == "bottlerocket":
        volumes.insert(0, _volume("/dev/xvda", _SYSTEM_GIB, site.key))
    spec: dict[str, Any] = {
        **_site(pool.name, site, resolved.places, args.security_group_ids),
        **_image(args),
        "blockDeviceMappings": volumes,
        "metadataOptions": _metadata_options(args.metadata_hop_limit),
    }
    if args.efa:
        spec["networkInterfaces"] = [
            {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}
            for card, device, kind in interfaces(args.efa_cards)
        ]
    if args.local_storage == "raid0":
        spec["instanceStorePolicy"] = "RAID0"
    if group := site.placement_groups.get(pool.name):
        spec["placementGroupSelector"] = {"name": group}
    if args.reservation is not None:
        spec["capacityReservationSelectorTerms"] = [{"id": args.reservation}]
    if kubelet := _kubelet(args):
        spec["kubelet"] = kubelet
    if user_data := _user_data(args, pool):
        spec["userData"] = user_data
    share = args.max_unavailable_percentage
    nodes = Nodes(
        pool=pool,
        class_kind="EC2NodeClass",
        class_spec=spec,
        instance_types=args.instance_types,
        arch=args.instance_type.arch,
        capacity_types=[CAPACITY_TYPES[way] for way in args.purchases],
        startup_taints=args.startup_taints,
        removal=args.karpenter,
        drifted=str(args.max_unavailable or 1) if share is None else f"{share}%",
        forced_after=FORCED_AFTER if args.force_update else None,
    )
    return in_order(nodes, resolved)


def in_order(nodes: Nodes, resolved: ResolvedPool[EksGpuNodeGroupArgs]) -> Nodes:
    """The nodes with a NodePool for each choice of the pool's order, the first with the largest
    weight, unless one NodePool has the order. They are `Nodes` of the same node class."""
    args, names = resolved.args, part_names(nodes.name, resolved.args.fallback, groups=False)
    if len(names) == 1:
        return nodes
    first = args.karpenter.weight or len(names)
    parts = {}
    for position, (name, choice) in enumerate(zip(names, resolved.choices, strict=True)):
        own = list(choice.places) != list(resolved.places)
        parts[name] = dataclasses.replace(
            nodes,
            instance_types=choice.args.instance_types,
            capacity_types=[CAPACITY_TYPES[choice.args.capacity_type]],
            zones=choice.places if own else (),
            removal=dataclasses.replace(nodes.removal, weight=first - position),
        )
    return dataclasses.replace(nodes, parts=parts)


def cpu_nodes(name: str, args: EksCpuPoolArgs, places: Sequence[str], site: Site) -> Nodes:
    """The nodes of a pool without GPUs."""
    return _plain(args.pool(name), args.instance_types, args.disk_size_gb, args.spot, places, site)


def system_nodes(args: EksSystemPoolArgs, places: Sequence[str], site: Site) -> Nodes | None:
    """The system nodes beyond the fixed ones; None if the settings allow no more."""
    if args.max_nodes == args.min_nodes:
        return None
    pool = GpuPool(
        name=SYSTEM_NODES,
        accelerator="none",
        gpus_per_node=0,
        min_nodes=0,
        max_nodes=args.max_nodes - args.min_nodes,
    )
    return _plain(pool, args.instance_types, args.disk_size_gb, args.spot, places, site)


def _plain(
    pool: GpuPool,
    instance_types: Sequence[str],
    disk: int,
    spot: bool,
    places: Sequence[str],
    site: Site,
) -> Nodes:
    return Nodes(
        pool=pool,
        class_kind="EC2NodeClass",
        class_spec={
            **_site(pool.name, site, places),
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "blockDeviceMappings": [_volume("/dev/xvda", disk, site.key)],
            "metadataOptions": _metadata_options(1),
        },
        instance_types=instance_types,
        arch=catalog.arch_of(instance_types[0]),
        capacity_types=["spot" if spot else "on-demand"],
    )


def _site(
    name: str, site: Site, places: Sequence[str], security_groups: Sequence[MaybeOutput] = ()
) -> dict[str, Any]:
    return {
        **({"role": site.role} if site.role else {"instanceProfile": site.instance_profile}),
        **located(site, places, security_groups),
        "tags": {"Name": name, **site.tags},
    }


def located(
    site: Site, places: Sequence[str], security_groups: Sequence[MaybeOutput] = ()
) -> dict[str, Any]:
    """The subnets and security groups of nodes, by ID."""
    return {
        "subnetSelectorTerms": [
            {"id": site.subnets.get(place) or subnet_at(place)} for place in places
        ],
        "securityGroupSelectorTerms": [
            {"id": group} for group in [*site.security_groups, *security_groups]
        ],
    }


def _image(args: EksGpuNodeGroupArgs) -> dict[str, Any]:
    if args.ami_id is not None:
        return {"amiFamily": _FAMILIES[args.os], "amiSelectorTerms": [{"id": args.ami_id}]}
    release = "latest"
    if args.release_version is not None:
        # `1.35.6-20260714` for AL2023, `1.54.0-b06a4e5f` for Bottlerocket.
        version, _, rest = args.release_version.partition("-")
        release = f"v{rest if args.os == 'al2023' else version}"
    return {"amiSelectorTerms": [{"alias": f"{args.os}@{release}"}]}


def _volume(
    device: str, gib: int, key: MaybeOutput | None, **more: MaybeOutput | int | None
) -> dict[str, Any]:
    options = {**more, "kmsKeyID": key}
    return {
        "deviceName": device,
        "ebs": {
            "volumeType": "gp3",
            "volumeSize": f"{gib}Gi",
            "encrypted": True,
            "deleteOnTermination": True,
            **{name: value for name, value in options.items() if value is not None},
        },
    }


def _metadata_options(hops: int) -> dict[str, Any]:
    return {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": hops}


def _kubelet(args: EksGpuNodeGroupArgs) -> dict[str, Any]:
    if args.kubelet is None:
        return {}
    options = {name: getattr(args.kubelet, name) for name in _NATIVE}
    if args.os == "bottlerocket" and options["eviction_hard"]:
        # The kubelet treats an omitted signal as zero, and Bottlerocket adds none.
        options["eviction_hard"] = {**EVICTION, **options["eviction_hard"]}
    native = EksKubeletArgs(**options)
    return native.config


def _user_data(args: EksGpuNodeGroupArgs, pool: GpuPool) -> str | None:
    """The user's user data, with the kubelet settings that an EC2NodeClass does not support."""
    rest = None
    if args.kubelet is not None:
        empty = EksKubeletArgs()
        without = {name: getattr(empty, name) for name in _NATIVE}
        rest = dataclasses.replace(args.kubelet, **without)
        rest = rest if rest.settings else None
    if args.os == "bottlerocket":
        return bottlerocket(rest, pool, args.user_data, None, image_pull=args.image_pull)
    # Karpenter itself adds what `instanceStorePolicy` takes.
    mounts = None if args.local_storage == "raid0" else args.local_storage
    return al2023(rest, args.user_data, None, mounts, args.image_pull)
