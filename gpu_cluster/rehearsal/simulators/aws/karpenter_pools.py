"""NodePools of Karpenter for AWS as node groups: the instances launched for each, how they join,
and why none is launched or joins.

Karpenter's decisions are made by upstream's program, which runs in a rehearsal. This module has
what EC2 and EKS do with the instances: an instance reads its user data and registers a node if its
role, its security groups and its subnet allow that.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.catalog.eks import InstanceType
from gpu_cluster.components.kube import quantity
from gpu_cluster.rehearsal.simulators.aws import auto_mode, nodes
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.addons import taints_taken_off
from gpu_cluster.rehearsal.simulators.aws.ami_types import has_driver, toolkit
from gpu_cluster.rehearsal.simulators.aws.first_boot import settings, why_not_joined
from gpu_cluster.rehearsal.simulators.aws.images import Image, image_of
from gpu_cluster.rehearsal.simulators.aws.instances import bought_as, instance
from gpu_cluster.rehearsal.simulators.aws.network_interfaces import why_silent
from gpu_cluster.rehearsal.simulators.aws.node_join_checks import why_nodes_fail, why_unreachable
from gpu_cluster.rehearsal.simulators.aws.pod_calls import still_denied
from gpu_cluster.rehearsal.simulators.aws.roles import role_name
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Group
from gpu_cluster.rehearsal.simulators.aws.user_data import runs_plugin
from gpu_cluster.rehearsal.simulators.cloud import (
    Choice,
    Machine,
    NodeGroup,
    NodePools,
    NodeTaint,
    NodeTemplate,
)

NODE_CLASS = "EC2NodeClass"
POOL_TAG = "karpenter.sh/nodepool"
_DISK_GIB = 20
"""The volume of an EC2NodeClass that names none (upstream's amifamily.DefaultEBS)."""
_LABELS = re.compile(r'--node-labels="?([^"]*)"?')
_MOST = 1000
"""The maximum number of nodes of a pool without limits."""
_TYPES = {**catalog.CPU_INSTANCE_TYPES, **catalog.INSTANCE_TYPES}
_ABSENT = "no pod of Karpenter is ready in the cluster"
_NOT_AUTOMATIC = "EKS Auto Mode is not enabled in the cluster"


def groups(account: Account, objects: NodePools) -> Iterator[NodeGroup]:
    """Yields one group for each NodePool. Those with the same labels are an order if their weights
    differ: of the NodePools that fit a pod, Karpenter uses the one with the largest for which EC2
    has not just refused all offerings (karpenter.sh/docs/concepts/nodepools, "spec.weight", 1.14,
    read 2026-11-29)."""
    weights: dict[str, set[int]] = {}
    for pool in objects.pools:
        if "replicas" not in pool["spec"]:
            weights.setdefault(_labels(pool), set()).add(_weight(pool))
    by_name = {pool["metadata"]["name"]: pool for pool in objects.pools}
    for group in _groups(account, objects):
        pool = by_name[group.name]
        order = sorted(weights.get(_labels(pool), ()), reverse=True)
        if len(order) < 2 or "replicas" in pool["spec"]:
            yield group
            continue
        choice = Choice(of=_labels(pool), rank=order.index(_weight(pool)), migrates=False)
        yield replace(group, choice=choice)


def _labels(pool: Mapping[str, Any]) -> str:
    labels = (pool["spec"]["template"].get("metadata") or {}).get("labels") or {}
    return ",".join(sorted(f"{key}={value}" for key, value in labels.items()))


def _weight(pool: Mapping[str, Any]) -> int:
    return int(pool["spec"].get("weight") or 0)


def _groups(account: Account, objects: NodePools) -> Iterator[NodeGroup]:
    cluster = next(iter(account.clusters.values()), None)
    if cluster is None:
        return
    classes = {(item["kind"], item["metadata"]["name"]): item for item in objects.classes}
    for pool in objects.pools:
        reference = pool["spec"]["template"]["spec"].get("nodeClassRef") or {}
        kind = reference.get("kind")
        node_class = classes.get((kind, reference.get("name")))
        if kind == NODE_CLASS:
            absent = "" if objects.controller else _ABSENT
            yield _group(account, cluster, pool, node_class, absent=absent)
        elif kind == auto_mode.NODE_CLASS:
            absent = "" if cluster.automatic else _NOT_AUTOMATIC
            yield _group(account, cluster, pool, node_class, absent=absent, automatic=True)


def _group(
    account: Account,
    cluster: Cluster,
    pool: Mapping[str, Any],
    node_class: Mapping[str, Any] | None,
    *,
    absent: str,
    automatic: bool = False,
) -> NodeGroup:
    """`absent`: why nothing scales the pool, if so. `automatic`: whether it belongs to EKS Auto
    Mode, whose image contains the driver and the device plugin."""
    name, spec = pool["metadata"]["name"], pool["spec"]
    launched = [machine for machine in _running(account) if _tags(machine).get(POOL_TAG) == name]
    failed = {node.id: why_not_in(account, cluster, node) for node in launched}
    row = instance(account, launched[0].instance_type if launched else _first_type(spec))
    image = _image(account, launched[0]) if launched else _image_of_class(account, node_class, row)
    if automatic:  # Auto Mode's types are unknown, except that it has drivers for those it starts
        image = None
    prototype = _prototype(account, pool, row, image, node_class, automatic=automatic)
    if automatic:
        prototype = _automatic(prototype)
    unjoined = [
        f"instance {identity} runs and does not join the cluster: {why}"
        for identity, why in failed.items()
        if why
    ]
    own = auto_mode.why_never(cluster, pool, node_class) if automatic else ()
    reasons = [*own, *_why_never(pool, node_class), *unjoined, *still_denied(account)]
    gpus = int(row.gpus) if row.vendor == "NVIDIA" else 0
    fixed = spec.get("replicas")
    bottlerocket = automatic or (image is not None and image.family == "bottlerocket")
    user_data = str(((node_class or {}).get("spec") or {}).get("userData") or "")
    own_plugin = automatic or (bottlerocket and runs_plugin(user_data))
    return NodeGroup(
        name=name,
        min_nodes=fixed or 0,
        max_nodes=_most(spec, row) if fixed is None else fixed,
        target_nodes=len(launched) - len(unjoined),
        template=prototype,
        node=prototype,
        driver="cloud" if image is None or has_driver(image.ami_type) or not gpus else "pod",
        plugin="cloud" if own_plugin or not gpus else "pod",
        node_os="bottlerocket" if bottlerocket else "al2023",
        toolkit=toolkit({"amiType": image.ami_type, "releaseVersion": f"-{image.release[1:]}"})
        if image
        else "",
        spot=_values(spec, "karpenter.sh/capacity-type") == ["spot"],
        on_demand_per_hour=row.on_demand,
        unscaled=absent or "; ".join(reasons),
        attempts=tuple(attempts := account.attempts.get(name, [])),
        refused=_refused(attempts, _values(spec, "karpenter.sh/capacity-type")),
        gpus=gpus,
        gpu_model=row.gpu_model or "",
        efa_fault=why_silent(account, launched[0].launch_data) if launched else "",
        machines=tuple(
            Machine(
                name=vm.private_dns_name,
                provider_id=f"aws:///{vm.availability_zone}/{vm.id}",
                node=_joining(account, cluster, vm),
                bought=bought_as(vm),
            )
            for vm in launched
            if not failed[vm.id]
        ),
    )


def architectures(objects: NodePools) -> dict[str, str]:
    """ID of an image that a node class names -> the architecture of the pools that use it: an image
    is taken to be built for its nodes."""
    used: dict[str, str] = {}
    for pool in objects.pools:
        name = (pool["spec"]["template"]["spec"].get("nodeClassRef") or {}).get("name")
        arm = _values(pool["spec"], "kubernetes.io/arch") == ["arm64"]
        for node_class in objects.classes:
            if node_class["metadata"]["name"] == name:
                terms = node_class["spec"].get("amiSelectorTerms") or []
                ids = [term["id"] for term in terms if "id" in term]
                used |= dict.fromkeys(ids, "arm64" if arm else "x86_64")
    return used


def _refused(attempts: Sequence[tuple[str, str]], ways: Sequence[str]) -> str:
    """Why no purchase option is left to try: Karpenter tries them in a fixed order, and since the
    pool last got an instance it has failed with the last one that the pool allows."""
    last = next((way for way in ("on-demand", "spot") if way in ways), "")
    for way, why in reversed(attempts):
        if not why:
            return ""
        if way == last or not last:
            return why
    return ""


def _running(account: Account) -> Iterator[Any]:
    for machine in account.backend("ec2").all_instances():
        if machine.state != "terminated" and hasattr(machine, "launch_data"):
            yield machine


def _tags(made: Any) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in made.get_tags()}


def _image(account: Account, made: Any) -> Image | None:
    return image_of(account, made.image_id)


def _image_of_class(
    account: Account, node_class: Mapping[str, Any] | None, row: InstanceType
) -> Image | None:
    """The image that Karpenter would use for the type, of those that it found for the class."""
    arch = "arm64" if row.arch == "arm64" else "x86_64"
    known = [
        image
        for ami in ((node_class or {}).get("status") or {}).get("amis") or []
        if (image := image_of(account, ami["id"])) and image.arch == arch
    ]
    wanted = "nvidia" if row.vendor == "NVIDIA" else "standard"
    return next((image for image in known if image.variant == wanted), None)


def _as_group(account: Account, made: Any) -> Group:
    """The instance as part of a managed node group, which boots in the same way."""
    data = dict(made.launch_data)
    interfaces = data.get("NetworkInterfaces") or []
    data.setdefault(
        "SecurityGroupIds", [group for nic in interfaces[:1] for group in nic.get("Groups") or []]
    )
    image, cluster = _image(account, made), next(iter(account.clusters))
    release = image.release if image else ""
    row = {
        "clusterName": cluster,
        "instanceTypes": [made.instance_type],
        "amiType": image.ami_type if image else "CUSTOM",
        "version": image.minor if image else "",
        "releaseVersion": f"-{release.removeprefix('v')}",
        "diskSize": _DISK_GIB,
        "subnets": [made.subnet_id],
        "nodeRole": _role(account, data),
    }
    return Group(row=row, given={}, scaling_group="", template="", data=data)


def _role(account: Account, data: Mapping[str, Any]) -> str:
    profile = (data.get("IamInstanceProfile") or {}).get("Name")
    for item in account.backend("iam").instance_profiles.values():
        if item.name == profile and item.roles:
            return str(item.roles[0].arn)
    return ""


def why_not_in(account: Account, cluster: Cluster, made: Any) -> str:
    """Why an instance does not become a node of the cluster; empty if it does."""
    group = _as_group(account, made)
    role = group.row["nodeRole"]
    if not role:
        return "it has no role: its instance profile has none"
    if automatic := bool(made.automatic):
        if why := auto_mode.why_unauthorized(cluster, role_name(role)):
            return why
        group.row["automatic"] = True
    entry = cluster.entries.get(role)
    if not automatic and (entry is None or entry["type"] not in ("EC2_LINUX", "EC2")):
        return (
            f"its role {role_name(role)} has no access entry of the type EC2_LINUX in cluster "
            f"{cluster.row['name']}"
        )
    group.row["amiType"] = "CUSTOM"  # nothing is added to this user data
    return (
        why_nodes_fail(account, cluster, group.row)
        or why_unreachable(account, cluster, group)
        or why_not_joined(cluster, group)
    )


def _joining(account: Account, cluster: Cluster, made: Any) -> NodeTemplate:
    """The node that the instance's kubelet registers."""
    group = _as_group(account, made)
    if made.automatic:
        group.row["amiType"] = "CUSTOM"
    row = instance(account, made.instance_type)
    kubelet = settings(group).get("kubelet") or {}
    config = kubelet.get("config") or {}
    labels = {
        **_of_machine(account, row, made.availability_zone),
        **_kubelet_labels(kubelet),
    }
    taints = tuple(_kubelet_taints(config))
    found = NodeTemplate(
        labels=labels, taints=taints, capacity=nodes.capacity(group, row, automatic=made.automatic)
    )
    if made.automatic:
        found = _automatic(found)
    return found.without(taints_taken_off(account, cluster))


def _automatic(node: NodeTemplate) -> NodeTemplate:
    """The node as in EKS Auto Mode, with EKS's labels instead of Karpenter's."""
    labels = {auto_mode.label(key): value for key, value in node.labels.items()} | {
        "eks.amazonaws.com/compute-type": "auto"
    }
    return replace(node, labels=labels)


def _of_machine(account: Account, row: InstanceType, zone: str) -> dict[str, str]:
    return {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": row.arch,
        "node.kubernetes.io/instance-type": row.name,
        "topology.kubernetes.io/region": account.region,
        "topology.kubernetes.io/zone": zone,
    }


def _kubelet_labels(kubelet: Mapping[str, Any]) -> dict[str, str]:
    """The labels in nodeadm's flags, or in Bottlerocket's `node-labels`."""
    found = dict((kubelet.get("config") or {}).get("nodeLabels") or {})
    for flag in kubelet.get("flags") or []:
        if match := _LABELS.fullmatch(flag):
            found |= dict(pair.partition("=")[::2] for pair in match[1].split(",") if pair)
    return found


def _kubelet_taints(config: Mapping[str, Any]) -> Iterator[NodeTaint]:
    for taint in config.get("registerWithTaints") or []:
        yield NodeTaint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])
    for key, values in (config.get("nodeTaints") or {}).items():
        for item in values if isinstance(values, list) else [values]:
            value, _, effect = item.rpartition(":")
            yield NodeTaint(key=key, value=value, effect=effect)


def _prototype(
    account: Account,
    pool: Mapping[str, Any],
    row: InstanceType,
    image: Image | None,
    node_class: Mapping[str, Any] | None,
    *,
    automatic: bool,
) -> NodeTemplate:
    """A future node of the pool, of its first instance type and zone."""
    template = pool["spec"]["template"]
    fixed = {
        requirement["key"]: requirement["values"][0]
        for requirement in template["spec"].get("requirements") or []
        if requirement["operator"] == "In" and len(requirement["values"]) == 1
    }
    subnets = ((node_class or {}).get("status") or {}).get("subnets") or []
    zones = _values(pool["spec"], "topology.kubernetes.io/zone")
    zones = zones or [subnet["zone"] for subnet in subnets] or [f"{account.region}a"]
    labels = {
        **_of_machine(account, row, zones[0]),
        **fixed,
        **((template.get("metadata") or {}).get("labels") or {}),
        POOL_TAG: pool["metadata"]["name"],
    }
    group = Group(
        row={
            "instanceTypes": [row.name],
            "amiType": image.ami_type if image else "CUSTOM",
            "version": image.minor if image else "",
            "releaseVersion": f"-{image.release.removeprefix('v')}" if image else "",
            "diskSize": _disk_gib(node_class),
            "instanceStorePolicy": ((node_class or {}).get("spec") or {}).get(
                "instanceStorePolicy"
            ),
        },
        given={},
        scaling_group="",
        template="",
        data={
            "NetworkInterfaces": [
                {"InterfaceType": item["interfaceType"]}
                for item in ((node_class or {}).get("spec") or {}).get("networkInterfaces") or []
            ]
        },
    )
    taints = tuple(
        NodeTaint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])
        for taint in template["spec"].get("taints") or []
    )
    capacity = nodes.capacity(group, row, automatic=automatic)
    return NodeTemplate(labels=labels, taints=taints, capacity=capacity)


def _disk_gib(node_class: Mapping[str, Any] | None) -> int:
    """The size of the volume that pods use: the largest of the class."""
    spec = (node_class or {}).get("spec") or {}
    volumes = [mapping.get("ebs") or {} for mapping in spec.get("blockDeviceMappings") or []]
    sizes = [volume.get("volumeSize") for volume in volumes]
    sizes.append((spec.get("ephemeralStorage") or {}).get("size"))  # of a NodeClass
    return max((int(quantity.parse(size) / 2**30) for size in sizes if size), default=_DISK_GIB)


def _values(spec: Mapping[str, Any], key: str) -> list[str]:
    """The values that a pool's requirements allow for a label; empty if they do not restrict it."""
    for requirement in spec["template"]["spec"].get("requirements") or []:
        if requirement["key"] in (key, auto_mode.label(key)) and requirement["operator"] == "In":
            return list(requirement["values"])
    return []


def _first_type(spec: Mapping[str, Any]) -> str:
    """The cheapest instance type that the requirements allow, among those in the catalog."""
    if named := _values(spec, "node.kubernetes.io/instance-type"):
        return min(named, key=lambda name: _price(_TYPES.get(name)))
    families = _values(spec, "karpenter.k8s.aws/instance-family")
    names = _values(spec, "karpenter.k8s.aws/instance-gpu-name")
    fitting = [
        row
        for row in _TYPES.values()
        if (not families or row.name.partition(".")[0] in families)
        and (not names or (row.gpu_model or "").lower() in names)
    ]
    return min(fitting or list(_TYPES.values()), key=_price).name


def _price(row: InstanceType | None) -> float:
    return float("inf") if row is None or row.on_demand is None else row.on_demand


def _most(spec: Mapping[str, Any], row: InstanceType) -> int:
    """The number of nodes that the pool's limits allow."""
    limits, most = spec.get("limits") or {}, [_MOST]
    for name, size in (("nodes", 1), (nodes.GPU, int(row.gpus)), ("cpu", row.vcpu)):
        if name in limits and size:
            most.append(int(quantity.parse(limits[name]) // size))
    return min(most)


def _why_never(pool: Mapping[str, Any], node_class: Mapping[str, Any] | None) -> Iterator[str]:
    """The problems of the pool and its class that Karpenter itself reports."""
    if node_class is not None:
        yield from _false(node_class)
    # While Karpenter validates a class, its pools are temporarily not ready either.
    follows = ("NodeClassReady",) if node_class is not None else ()
    yield from _false(pool, follows)


def _false(item: Mapping[str, Any], follow: Sequence[str] = ()) -> Iterator[str]:
    """The conditions that are False, except those in `follow`, which depend on another one."""
    for row in (item.get("status") or {}).get("conditions") or []:
        follows = row["type"] in ("Ready", *follow)
        follows |= row.get("reason") == "DependenciesNotReady"
        if row["status"] == "False" and not follows:
            message = row.get("message") or row.get("reason") or ""
            yield f"{item['kind']} {item['metadata']['name']}: {row['type']} is False: {message}"
