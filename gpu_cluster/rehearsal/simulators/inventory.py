"""Resources that exist before the stack: a cluster's machines, or the subnets of a VPC.

`inventories/<stack>.yaml` lists them. Without it they are derived from the stack's settings, and
the report says so. No account or cluster is queried.
"""

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.cluster import GPU_TAINT, ResolvedPool
from gpu_cluster.components.eks.existing_args import EksExistingClusterArgs
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.existing.settings import ExistingSettings
from gpu_cluster.components.kube import quantity
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.schema.decode import camel, decode, type_hints
from gpu_cluster.components.schema.outputs import texts
from gpu_cluster.components.schema.refusal import shown as written
from gpu_cluster.components.settings.blocks import RUNNING
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.definition.files import ROOT
from gpu_cluster.stacks.definition.names import StackError

INVENTORIES = ROOT / "inventories"
CONTROLLERS = ("kueue", "jobset", "karpenter")
AUTO_MODE_POOLS = ("general-purpose", "system")
"""The built-in node pools of EKS Auto Mode."""
Machine = dict[str, Any]
Out = Literal["nat", "internet", "none"]

_MACHINE_KEYS = ("name", "labels", "taints", "gpus", "devicePlugin", "capacity", "real")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,48}[a-z0-9])?")
_MACHINE_TYPES = {"nodeGroups": "instanceType", "nodePools": "machineType"}
"""Key of a cluster whose value describes nodes -> the key of their machine type."""
_ROOMY = {"cpu": "128", "memory": "1Ti"}
"""The size of a derived machine: enough for any workload, since no inventory states its size."""
_VPC = ipaddress.IPv4Network("10.0.0.0/16")
"""The range of a derived VPC, of which each subnet gets a 16th."""
_SECOND = "subnet-0ffffffffffffffff"
_EXAMPLE = (
    "{ name: gpu-1, labels: { gpus: 'true' }, gpus: 4, capacity: { cpu: '64', memory: 256Gi } }"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnet of an existing VPC."""

    zone: str
    cidr: ipaddress.IPv4Network
    public: bool = False
    """Whether nodes in it get a public address."""
    out: Out = "nat"
    """How its nodes reach the internet: `nat` for anything that accepts private addresses,
    including a transit gateway or a firewall; `internet` for an internet gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """An existing VPC."""

    cidrs: Sequence[ipaddress.IPv4Network]
    """The block with which it was created, and those added later."""
    subnets: Mapping[str, Subnet]
    """ID -> subnet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EksCluster:
    """Another owner's EKS cluster, by default as created by terraform-aws-eks."""

    name: str
    version: str
    subnets: Sequence[str]
    """IDs of the subnets of the control plane and of the node groups."""
    security_groups: Sequence[str] = ()
    """IDs of its nodes' security groups, instead of EKS's own."""
    authentication_mode: Literal["API", "API_AND_CONFIG_MAP", "CONFIG_MAP"] = "API_AND_CONFIG_MAP"
    karpenter_node_role: str = ""
    """The name of the role that its Karpenter gives to nodes; empty if it has none."""
    auto_mode: Sequence[str] | None = None
    """The built-in node pools of EKS Auto Mode, if it is on; None if it is off."""
    addons: Sequence[str] = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns")
    addon_configuration: Mapping[str, Any] = field(default_factory=dict)
    """Name of an addon -> its configuration, unless it has its defaults."""
    node_groups: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {"default": {"instanceType": "m6i.large", "nodes": 2}}
    )
    """Name -> `instanceType` and `nodes`."""
    pod_identities: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """`namespace/serviceAccount` -> the AWS actions that its role allows on all resources."""


def inventory(stack: str, folder: Path = INVENTORIES) -> Any:
    """The content of `<folder>/<stack>.yaml`; None without such a file. Raises StackError."""
    file = folder / f"{stack}.yaml"
    try:
        return yaml.safe_load(file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        words = " ".join(str(error).split())
        raise StackError(f"{file_of(stack)} cannot be read: {words}") from None


def without_reservations(found: Any) -> Any:
    """The inventory's network keys; None if it has none."""
    others = (
        "reservations", "stock", "blocks", "buckets", "notGranted", "gpuOperator", "cluster",
        "objects", "controllers", "startupTaints",
    )  # fmt: skip
    if not isinstance(found, dict) or not any(key in found for key in others):
        return found
    return {key: value for key, value in found.items() if key not in others} or None


def machines(
    stack: str, settings: Settings[Any] | None, folder: Path = INVENTORIES
) -> tuple[list[Machine], list[str]]:
    """The machines of a stack's cluster, and notes for the report. Without an inventory they are
    derived from `settings`, which is None if the program will refuse them.

    Raises StackError, one line, for an invalid inventory.
    """
    found = described_machines(stack, folder)
    existing = settings is not None and isinstance(settings.own, ExistingSettings)
    pools = settings.pools if settings and existing else {}
    # Otherwise another owner's device plugin is assumed to run there, of unspecified origin.
    assumed = {} if gpu_operator(stack, folder) else pools
    if found is not None:
        return _with_plugins(stack, checked_machines(stack, found), assumed)
    derived: list[Machine] = [{"name": "control", "capacity": {"cpu": "16", "memory": "64Gi"}}]
    for name, pool in pools.items():
        extended = pool.pool.extended_resources or {}
        derived += [
            {
                "name": f"{name}-{number}",
                "labels": dict(pool.args.node_selector),
                "taints": list(map(asdict, pool.pool.taints)),
                "gpus": pool.pool.gpus_per_node,
                "capacity": {**_ROOMY, **{key: str(n) for key, n in extended.items()}},
            }
            for number in range(1, _machines_for(name, settings) + 1)
        ]
    named = ", ".join(str(machine["name"]) for machine in derived)
    derived, notes = _with_plugins(stack, derived, assumed)
    return derived, [
        *notes,
        f"these machines are simulated: {named}; no inventory describes yours, so they are derived "
        f"from gpuPools: gpu-cluster inventory {stack} writes {file_of(stack)}",
    ]


def _with_plugins(
    stack: str, found: Sequence[Machine], pools: Mapping[str, ResolvedPool[Any]]
) -> tuple[list[Machine], list[str]]:
    """The machines, each with `devicePlugin`: if an inventory does not set it, `devicePlugin: none`
    of a pool means that another owner's plugin runs there."""
    own = [
        name for name, pool in pools.items() if "device plugin" in (pool.pool.left_to_others or ())
    ]
    selectors = [pools[name].args.node_selector.items() for name in own]
    machines, taken = list[Machine](), list[str]()
    for machine in found:
        labels = machine.get("labels", {}).items()
        has = any(selector <= labels for selector in selectors)
        if machine.get("gpus") and has and "devicePlugin" not in machine:
            taken.append(str(machine["name"]))
            machines.append({**machine, "devicePlugin": True})
        else:
            machines.append(machine)
    return machines, [
        f"devicePlugin of {', '.join(own)} is none, so another device plugin than the stack's is "
        f"taken to run on {', '.join(taken)}; devicePlugin: false of a machine in {file_of(stack)} "
        "says that none does"
    ] if taken else []


def described_machines(stack: str, folder: Path = INVENTORIES) -> Any:
    """The machines in an existing cluster's inventory: all of it, or its key `machines`."""
    found = inventory(stack, folder)
    keyed = isinstance(found, dict) and not {"machines", "gpuOperator"}.isdisjoint(found)
    return found.get("machines") if keyed else found


def gpu_operator(stack: str, folder: Path = INVENTORIES) -> Literal["before", "after"] | None:
    """When the owner installs NVIDIA's GPU Operator: before or after the stack is deployed; None if
    never. Raises StackError for an invalid inventory."""
    found = inventory(stack, folder)
    when = found.get("gpuOperator") if isinstance(found, dict) else None
    if when not in (None, "before", "after"):
        raise wrong(stack, ".gpuOperator", f"{written(when)} is not known; allowed: before, after")
    return when


def startup_taints(stack: str, folder: Path = INVENTORIES) -> frozenset[str]:
    """Keys of taints that something of the owner's removes from new nodes, such as the agent of a
    network or of storage. Raises StackError for an invalid inventory."""
    found = inventory(stack, folder)
    keys = (found.get("startupTaints") if isinstance(found, dict) else None) or []
    if not isinstance(keys, list) or any(
        not isinstance(key, str) or names.invalid_label_key(key) for key in keys
    ):
        raise wrong(
            stack, ".startupTaints", f"{written(keys)} is not a list of keys of taints; write it "
            "as [node.cilium.io/agent-not-ready]"
        )  # fmt: skip
    return frozenset(keys)


def controllers(stack: str, folder: Path = INVENTORIES) -> list[str]:
    """Which of `CONTROLLERS` are installed in an existing cluster.

    Raises StackError for an invalid inventory.
    """
    found = inventory(stack, folder)
    if not isinstance(found, dict) or not {"machines", "cluster"} & found.keys():
        return []
    allowed = ("machines", "controllers", "gpuOperator")
    if "machines" in found and (unknown := set(found) - set(allowed)):
        raise wrong(stack, f".{min(unknown)}", f"is not known; allowed: {', '.join(allowed)}")
    named = found.get("controllers") or []
    if not isinstance(named, list) or any(name not in CONTROLLERS for name in named):
        raise wrong(
            stack,
            ".controllers",
            f"{written(named)} is not a list of these: {', '.join(CONTROLLERS)}",
        )
    return named


def _machines_for(pool: str, settings: Settings[Any] | None) -> int:
    """The number of a pool's machines on which all its workloads can run at once; at least 1."""
    if settings is None:
        return 1
    room = settings.pools[pool].pool.allocatable
    needed = 0
    for key, block in RUNNING.items():
        for pods in settings.pod_groups_of(key) if block.holds_nodes else ():
            if pods.pool == pool and pods.gpus:
                on_node = 1 if pods.own_nodes else max(room // pods.gpus, 1)
                needed += -(-pods.count // on_node)
    return max(needed, 1)


def checked_machines(stack: str, found: Any) -> list[Machine]:
    """Validates the machines. Raises StackError with the path of an invalid value."""
    if not isinstance(found, list) or not found:
        raise wrong(stack, "", f"is not a list of machines; write some as {_EXAMPLE}")
    known: set[str] = set()
    for position, machine in enumerate(found):
        at = f"[{position}]"
        if not isinstance(machine, dict):
            raise wrong(stack, at, f"{written(machine)} is not a machine; write it as {_EXAMPLE}")
        for key in machine:
            if key not in _MACHINE_KEYS:
                allowed = ", ".join(_MACHINE_KEYS)
                raise wrong(stack, f"{at}.{key}", f"there is no such key; allowed: {allowed}")
        name = machine.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in known:
            raise wrong(
                stack, f"{at}.name", f"{written(name)} is not a unique name; allowed: at most 50 "
                "of a-z, 0-9, '-' and '.', for each machine a different one"
            )  # fmt: skip
        known.add(name)
        _check_machine(stack, at, machine)
    return [dict(machine) for machine in found]


def _check_machine(stack: str, at: str, machine: Machine) -> None:
    gpus = machine.get("gpus", 0)
    if not isinstance(gpus, int) or isinstance(gpus, bool) or not 0 <= gpus <= 16:
        raise wrong(
            stack, f"{at}.gpus", f"{written(gpus)} is not a number of GPUs; allowed: 0 to 16"
        )
    plugin = machine.get("devicePlugin", False)
    if not isinstance(plugin, bool):
        raise wrong(
            stack, f"{at}.devicePlugin", f"{written(plugin)} is not a boolean (true or false)"
        )
    capacity = machine.get("capacity")
    size = capacity if isinstance(capacity, dict) else {}
    for key in ("cpu", "memory", *size):
        value = size.get(key)
        try:
            quantity.parse(str(value))
        except ValueError:
            raise wrong(
                stack, f"{at}.capacity.{key}", f"{written(value)} is not a quantity; give one such "
                "as " + ("256Gi" if key == "memory" else "'64'")
            ) from None  # fmt: skip
    labels = machine.get("labels", {})
    if not isinstance(labels, dict) or not all(isinstance(v, str) for v in labels.values()):
        raise wrong(stack, f"{at}.labels", "is not a map of strings; put values in quotes")
    for key, value in labels.items():
        if reason := names.invalid_label_key(str(key)) or names.invalid_label_value(value):
            raise wrong(stack, f"{at}.labels.{key}", str(reason))
    taints = machine.get("taints", [])
    for position, taint in enumerate(taints if isinstance(taints, list) else [taints]):
        if (
            not isinstance(taint, dict)
            or set(taint) != {"key", "value", "effect"}
            or taint["effect"] not in names.TAINT_EFFECTS
        ):
            raise wrong(
                stack, f"{at}.taints[{position}]", f"{written(taint)} is not a taint; write it as "
                f"{{ key: {GPU_TAINT.key}, value: {GPU_TAINT.value}, effect: {GPU_TAINT.effect} }}"
            )  # fmt: skip


def network(
    stack: str, settings: Settings[Any] | None, folder: Path = INVENTORIES
) -> tuple[Network | None, list[str]]:
    """The existing VPC for a stack's cluster, and notes for the report; None if the stack creates
    its own. Raises StackError for an invalid inventory."""
    own = settings.own if settings else None
    if not isinstance(own, EksSettings) or not own.cluster.network.subnet_ids:
        return None, []
    wanted, region = own.cluster.network.places, own.region
    found = without_reservations(inventory(stack, folder))
    if found is None:
        # The stack's nodes may be in one zone; an existing control plane is in two.
        single = isinstance(own.cluster, EksExistingClusterArgs) and len(wanted) == 1
        return _derived([*wanted, _SECOND] if single else wanted, region), [
            f"these subnets are simulated: {', '.join(wanted)}; no inventory describes them, so "
            f"they are derived from their IDs: {file_of(stack)} says zone, CIDR and way out of each"
        ]
    described = _checked_network(stack, found, region)
    if unknown := [subnet for subnet in wanted if subnet not in described.subnets]:
        raise wrong(
            stack, ".subnets", f"does not describe {', '.join(unknown)} of cluster.network."
            f"subnetIds; it has {', '.join(described.subnets)}"
        )  # fmt: skip
    return described, []


def cluster_keys(
    stack: str, kind: Any, known: Collection[str], like: str, folder: Path
) -> tuple[dict[str, Any], list[str]]:
    """Field of `kind` -> the value in `cluster` of a stack's inventory, for another owner's
    cluster, and notes for the report if there is none. `known`: fields that the stack itself
    defines.

    Raises StackError for an invalid inventory.
    """
    found = inventory(stack, folder)
    described = found.get("cluster") if isinstance(found, dict) else None
    if described is None:
        return {}, [
            f"the cluster {like} makes one by default: `cluster` in {file_of(stack)} says what "
            "yours is like"
        ]
    if not isinstance(described, dict):
        raise wrong(stack, ".cluster", "is not a map; write it as { version: '1.35' }")
    keys = {camel(item.name): item.name for item in fields(kind) if item.name not in known}
    if unknown := [key for key in described if key not in keys]:
        allowed = ", ".join(keys)
        raise wrong(stack, f".cluster.{unknown[0]}", f"is not known; allowed: {allowed}")
    for key, value in described.items():
        if key == "autoMode":  # `eks_cluster` says what is allowed.
            continue
        if key in _MACHINE_TYPES:
            _check_nodes(stack, key, value)
            continue
        if key == "addonConfiguration":
            if not isinstance(value, dict) or not all(isinstance(v, dict) for v in value.values()):
                reason = f"{written(value)} is not a configuration by name of an addon"
                raise wrong(stack, f".cluster.{key}", f"{reason}; write it as {{ coredns: {{}} }}")
            continue
        try:
            decode(f"cluster.{key}", type_hints(kind)[keys[key]], value)
        except ValueError as error:
            raise StackError(f"{file_of(stack)} {error}") from None
    return {keys[key]: value for key, value in described.items()}, []


def _check_nodes(stack: str, key: str, value: Any) -> None:
    machine = _MACHINE_TYPES[key]
    if not isinstance(value, dict) or not all(
        isinstance(row, dict) and type(row.get(machine)) is str and type(row.get("nodes")) is int
        for row in value.values()
    ):
        raise wrong(
            stack, f".cluster.{key}", f"{written(value)} does not describe nodes; write it as "
            f"{{ NAME: {{ {machine}: TYPE, nodes: 2 }} }}"
        )  # fmt: skip


def eks_cluster(
    stack: str, settings: Settings[Any] | None, folder: Path = INVENTORIES
) -> tuple[EksCluster | None, list[str]]:
    """The existing EKS cluster to which a stack adds its pools, and notes for the report; None if
    the stack creates its own. Raises StackError for an invalid inventory."""
    own = settings.own if settings else None
    args = own.cluster if isinstance(own, EksSettings) else None
    if not isinstance(args, EksExistingClusterArgs):
        return None, []
    given, notes = cluster_keys(
        stack, EksCluster, ("name", "subnets"), f"{args.name} is simulated as terraform-aws-eks",
        folder,
    )  # fmt: skip
    unscaled = SCALERS[args.scaler].node_groups and args.autoscaler is None
    if notes and unscaled and not objects(stack, folder):
        notes.append(
            f"{args.name} has no Cluster Autoscaler here, as that module installs none, so no GPU "
            f"node starts: describe yours in {file_of(stack)}, as inventories/on-eks.yaml does, or "
            "set cluster.autoscaler: {} and the stack installs one"
        )
    role = args.karpenter_node_role or ""
    if role and (described := given.get("karpenter_node_role", role)) != role:
        raise wrong(
            stack, ".cluster.karpenterNodeRole", f"is {described}, and cluster.karpenterNodeRole "
            f"of the stack is {role}; give both the same name"
        )  # fmt: skip
    network_, _ = network(stack, settings, folder)
    assert network_ is not None
    if len({subnet.zone for subnet in network_.subnets.values()}) == 1:
        raise wrong(
            stack, ".subnets", "are in one zone, and EKS creates no such cluster; describe another "
            "subnet of the VPC, in another zone"
        )  # fmt: skip
    groups = texts(args.network.security_group_ids)
    described = given.get("security_groups", groups) or ()
    if unknown := [group for group in groups if group not in described]:
        raise wrong(
            stack, ".cluster.securityGroups", f"does not describe {', '.join(unknown)} of "
            f"cluster.network.securityGroupIds; it has {', '.join(described) or 'none'}"
        )  # fmt: skip
    pools = given.get("auto_mode")
    known = isinstance(pools, list) and all(pool in AUTO_MODE_POOLS for pool in pools)
    if pools is not None and not known:
        raise wrong(
            stack, ".cluster.autoMode", f"{written(pools)} is not a list of built-in node pools; "
            f"allowed: {', '.join(AUTO_MODE_POOLS)}; write [] if Auto Mode is on without them, or "
            "drop the key if it is off"
        )  # fmt: skip
    return EksCluster(
        **{
            "version": args.version,
            "security_groups": groups,
            "karpenter_node_role": role,
            **given,
        },
        name=args.name,
        subnets=tuple(network_.subnets),
    ), notes


def check_karpenter(stack: str, cluster: EksCluster | None, folder: Path = INVENTORIES) -> None:
    """Raises StackError if a rehearsal would find no Karpenter in a cluster that should have it."""
    if cluster and cluster.karpenter_node_role and "karpenter" not in controllers(stack, folder):
        raise wrong(
            stack, ".controllers", f"{cluster.name} has no Karpenter here, which cluster."
            "karpenterNodeRole expects: write [karpenter], and what runs it as in "
            "inventories/on-eks-karpenter.yaml, or let gpu-cluster inventory read the cluster"
        )  # fmt: skip


def objects(stack: str, folder: Path = INVENTORIES) -> list[dict[str, Any]]:
    """The Kubernetes objects that the owner of an existing cluster runs in it."""
    found = inventory(stack, folder)
    listed = found.get("objects") if isinstance(found, dict) else None
    for position, obj in enumerate(listed or ()):
        if not isinstance(obj, dict) or not {"apiVersion", "kind", "metadata"} <= obj.keys():
            raise wrong(stack, f".objects[{position}]", "is not an object of Kubernetes")
    return listed or []


def _derived(subnets: Sequence[str], region: str) -> Network:
    """Private subnets with a route to the internet, spread over the region's zones."""
    zones = [f"{region}{letter}" for letter in "abc"]
    blocks = list(_VPC.subnets(prefixlen_diff=max(4, (len(subnets) - 1).bit_length())))
    return Network(
        cidrs=[_VPC],
        subnets={
            subnet: Subnet(zone=zones[position % len(zones)], cidr=blocks[position])
            for position, subnet in enumerate(subnets)
        },
    )


def _checked_network(stack: str, found: Any, region: str) -> Network:
    rows = found.get("subnets") if isinstance(found, dict) else None
    if not isinstance(rows, dict) or not rows or set(found) - {"vpc", "subnets"}:
        raise wrong(
            stack, "", "is not a VPC; write it as { vpc: 10.20.0.0/16, subnets: { subnet-0123456789"
            "abcdef0: { zone: us-east-1a, cidr: 10.20.0.0/19, out: nat } } }"
        )  # fmt: skip
    given = found.get("vpc")
    listed = given if isinstance(given, list) and given else [given]
    blocks = [block_of(stack, ".vpc", block) for block in listed]
    subnets: dict[str, Subnet] = {}
    for name, row in rows.items():
        at = f".subnets.{name}"
        if not isinstance(row, dict) or set(row) - {"zone", "cidr", "public", "out"}:
            raise wrong(stack, at, "is not a subnet; allowed: zone, cidr, public, out")
        zone, out, public = row.get("zone"), row.get("out", "nat"), row.get("public", False)
        if not isinstance(zone, str) or not re.fullmatch(rf"{re.escape(region)}[a-z]", zone):
            raise wrong(stack, f"{at}.zone", f"{written(zone)} is not a zone such as {region}a")
        if out not in get_args(Out):
            raise wrong(stack, f"{at}.out", f"{written(out)}; allowed: {', '.join(get_args(Out))}")
        if not isinstance(public, bool):
            raise wrong(
                stack, f"{at}.public", f"{written(public)} is not a boolean (true or false)"
            )
        cidr = block_of(stack, f"{at}.cidr", row.get("cidr"))
        if not any(cidr.subnet_of(block) for block in blocks):
            has = " or ".join(map(str, blocks))
            raise wrong(stack, f"{at}.cidr", f"{cidr} is not in the VPC's {has}")
        if other := next((n for n, subnet in subnets.items() if subnet.cidr.overlaps(cidr)), None):
            raise wrong(stack, f"{at}.cidr", f"{cidr} overlaps {other}")
        subnets[str(name)] = Subnet(zone=zone, cidr=cidr, public=public, out=out)
    return Network(cidrs=blocks, subnets=subnets)


def block_of(stack: str, at: str, value: object) -> ipaddress.IPv4Network:
    """`value` as a network. Raises StackError with the path of an invalid value."""
    try:
        return ipaddress.IPv4Network(str(value))
    except ValueError:
        raise wrong(stack, at, f"{written(value)} is not a network such as 10.20.0.0/16") from None


def file_of(stack: str) -> str:
    """The path of a stack's inventory, for messages."""
    return f"inventories/{stack}.yaml"


def wrong(stack: str, at: str, reason: str) -> StackError:
    """The error about a path in the inventory, in one line."""
    return StackError(f"{file_of(stack)}{': ' if not at else ' '}{at.removeprefix('.')}"
                      f"{': ' if at else ''}{reason}")  # fmt: skip
