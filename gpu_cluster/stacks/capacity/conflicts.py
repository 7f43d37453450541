"""Objects in an existing cluster that a stack would also create, or that it needs."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import kubernetes.client

from gpu_cluster.components.catalog.gke_volumes import STACK_CLASSES
from gpu_cluster.components.catalog.kubernetes import EFA
from gpu_cluster.components.cluster import POOL_LABEL, GpuPool
from gpu_cluster.components.eks.disk_args import STORAGE_CLASS
from gpu_cluster.components.eks.existing_args import EksExistingClusterArgs
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.gke.existing_args import GkeExistingClusterArgs
from gpu_cluster.components.kube.gpu_daemons import is_dra_driver
from gpu_cluster.components.kube.selectors import selects
from gpu_cluster.components.kube.taints import keeps_away, tolerated
from gpu_cluster.components.lifecycle.ownership import owner_of
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.schema import outputs
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.capacity.verdict import Finding, unless_run
from gpu_cluster.stacks.definition.settings import principals_key
from gpu_cluster.stacks.live.cluster import (
    NODE_POOLS,
    Denied,
    asked,
    client_of,
    full_name,
    listed_items,
)

_AUTOSCALER, _PLUGIN = "cluster-autoscaler", "k8s-device-plugin"
_INSTALLER = "nvidia-driver-installer"
"""GoogleCloudPlatform/container-engine-accelerators, nvidia-driver-installer, 2026-11-21."""
_OPERATOR = "clusterpolicies.nvidia.com"
_NO_OPERANDS = "nvidia.com/gpu.deploy.operands"
"""https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html,
"Preventing installation of operands on some nodes", 2026-11-24."""
_DISCOVERY = "--node-group-auto-discovery=asg:tag="
_OF_EKS = ("k8s.io/cluster-autoscaler/enabled", "eks:cluster-name", "eks:nodegroup-name")
"""Tags that EKS sets on the Auto Scaling group of every managed node group."""

_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::(\d+):(role|user)/(?:[^\s\"',/]+/)*([^\s\"',/]+)")
"""An IAM role or user: account, kind and name. aws-auth has the ARNs of roles without their path
(docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html, read 2026-11-24)."""

Object = Mapping[str, Any]
Conflict = tuple[str, str]
"""A setting and what conflicts with it."""


def conflicts(
    kubeconfig: str,
    settings: Settings[Any],
    owner: str,
    *,
    reads_aws_auth: Callable[[], bool] = lambda: True,
) -> tuple[dict[str, str], list[Conflict]]:
    """Setting -> what conflicts with it; and settings that could not be checked, with the missing
    permission. `owner`: the stack, `<project>/<stack>`. `reads_aws_auth`: whether EKS uses that
    ConfigMap.

    Raises CheckError if the cluster does not answer.
    """
    cluster = in_cluster(kubeconfig, owner)
    denied = dict(cluster.denied)
    result: dict[str, str] = {}
    checked = {"gpuPools": ["definitions", "daemons"]}
    if settings.namespaces:
        checked["namespaces"] = ["namespaces"]
        if "namespaces" not in denied:
            result |= dict(_namespaces(cluster.namespaces, settings, owner))
    definitions = None if "definitions" in denied else cluster.definitions
    result |= dict(_device_plugins(definitions, cluster.daemons, settings))
    result |= dict(_installers(cluster.daemons, settings))
    result |= dict(_nccl_plugins(cluster.daemons, settings))
    result |= dict(_efa_plugins(cluster.daemons, settings))
    args = settings.cluster
    classes: set[str] = set(settings.runs.storage_classes & STACK_CLASSES.keys())
    if isinstance(args, EksExistingClusterArgs):
        if SCALERS[args.scaler].node_groups:
            checked["cluster.autoscaler"] = ["deployments"]
            if "deployments" not in denied:
                result |= dict(_autoscaler(cluster.deployments, args))
        else:
            node_objects, unread = _node_objects(kubeconfig, cluster, args.scaler)
            denied |= unread
            checked["gpuPools"] += unread
            if args.cpu_pools:
                checked["cluster.cpuPools"] = ["definitions", *unread]
            for key, reason in node_pools(settings, _theirs(node_objects, owner)):
                result[key] = f"{reason}; {result[key]}" if key in result else reason
        if args.users and reads_aws_auth():
            keys = dict.fromkeys(principals_key(settings, group) for group in args.users)
            checked[", ".join(keys)] = ["aws-auth"]
            core = kubernetes.client.CoreV1Api(client_of(kubeconfig))
            found, unread = _read({"aws-auth": partial(_aws_auth, core)})
            denied |= unread
            result |= dict(mapped(settings, found["aws-auth"]))
        classes = {STORAGE_CLASS} if settings.auxiliary.claims else set()
    if classes:
        checked["volumeClaims"] = ["storage_classes"]
        result |= dict(_storage_classes(cluster.storage_classes, classes))
    return result, [
        (about, denied[kind])
        for about, kinds in checked.items()
        for kind in kinds
        if kind in denied
    ]


def without_running(kubeconfig: str, findings: Sequence[Finding], owner: str) -> list[Finding]:
    """The findings, without those that a DaemonSet of the cluster disproves (`unless_runs`)."""
    if not any(finding.unless_runs for finding in findings):
        return [*findings]
    cluster = in_cluster(kubeconfig, owner)
    if "daemons" in cluster.denied:
        return [*map(unless_run, findings)]
    images = {image for daemon in cluster.daemons for image in _images(daemon)}
    names = {image.rpartition("/")[2].partition(":")[0] for image in images}
    return [finding for finding in findings if finding.unless_runs not in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class InCluster:
    """The objects in a cluster of kinds that a stack may share with others."""

    namespaces: list[Object]
    definitions: list[Object]
    """Definitions and namespaces include the stack's own, the other fields do not."""
    daemons: list[Object]
    deployments: list[Object]
    storage_classes: list[Object]
    denied: Mapping[str, str] = field(default_factory=dict)
    """Field above that is empty because it may not be read -> the missing permission."""

    @property
    def gpu_operator(self) -> bool:
        """Whether NVIDIA's GPU Operator is installed."""
        return _has_operator(self.definitions)


def in_cluster(kubeconfig: str, owner: str) -> InCluster:
    """Reads a cluster; `owner`: the stack. Raises CheckError if the cluster does not answer."""
    client = client_of(kubeconfig)
    apps = kubernetes.client.AppsV1Api(client)
    core, storage = kubernetes.client.CoreV1Api(client), kubernetes.client.StorageV1Api(client)
    extensions = kubernetes.client.ApiextensionsV1Api(client)
    kinds = {
        "namespaces": core.list_namespace,
        "definitions": extensions.list_custom_resource_definition,
        "daemons": apps.list_daemon_set_for_all_namespaces,
        "deployments": apps.list_deployment_for_all_namespaces,
        "storage_classes": storage.list_storage_class,
    }
    found, denied = _read({kind: partial(asked, ask) for kind, ask in kinds.items()})
    shared = ("namespaces", "definitions")
    return InCluster(
        **{kind: rows if kind in shared else _theirs(rows, owner) for kind, rows in found.items()},
        denied=denied,
    )


def _read(
    requests: Mapping[str, Callable[[], bytes]],
) -> tuple[dict[str, list[Object]], dict[str, str]]:
    """Kind -> its objects, and of a kind that may not be read, -> the missing permission."""
    found: dict[str, list[Object]] = {kind: [] for kind in requests}
    denied: dict[str, str] = {}
    for kind, ask in requests.items():
        try:
            found[kind] = listed_items(ask())
        except Denied as error:
            denied[kind] = str(error)
    return found, denied


def _aws_auth(core: Any) -> bytes:
    by_name = "metadata.name=aws-auth"
    return asked(core.list_namespaced_config_map, "kube-system", field_selector=by_name)


def _node_objects(
    kubeconfig: str, cluster: InCluster, scaler: str
) -> tuple[list[Object], dict[str, str]]:
    """The NodePools and node classes in a cluster, and those that may not be read."""
    ask = kubernetes.client.CustomObjectsApi(client_of(kubeconfig)).list_cluster_custom_object
    defined = {definition["metadata"]["name"] for definition in cluster.definitions}
    group, version, node_class = SCALERS[scaler].node_class
    resources = (NODE_POOLS, (group, version, f"{node_class.lower()}es"))
    kinds = {f"{kind[2]}.{kind[0]}": kind for kind in resources}
    found, denied = _read(
        {name: partial(asked, ask, *kind) for name, kind in kinds.items() if name in defined}
    )
    return [item for rows in found.values() for item in rows], denied


def node_pools(settings: Settings[EksSettings], theirs: Sequence[Object]) -> Iterator[Conflict]:
    """Pools with the names of NodePools or node classes of others."""
    pools = {f"gpuPools.{name}": item.pool for name, item in settings.pools.items()}
    scaler = settings.own.cluster.scaler
    parts = {
        f"gpuPools.{name}": item.args.parts(name, scaler)
        for name, item in settings.own.pools.items()
    }
    for name, args in settings.own.cluster.cpu_pools.items():
        pools[f"cluster.cpuPools.{name}"] = args.pool(name)
    existing = {(item["kind"] == "NodePool", item["metadata"]["name"]): item for item in theirs}
    for key, pool in pools.items():
        least, most = pool.bounds
        created = [
            *((True, part) for part in parts.get(key, [pool.name]) if most > least),
            *([(True, f"{pool.name}-static")] if least else []),
            (False, pool.name),
        ]
        if item := next((existing[name] for name in created if name in existing), None):
            yield (
                key,
                f"the cluster already has a {item['kind']} {item['metadata']['name']}, so pulumi "
                "up would fail to create it; choose another name",
            )


def mapped(settings: Settings[EksSettings], config_maps: Sequence[Object]) -> Iterator[Conflict]:
    """Principals of `users` that have rights through aws-auth, over which an access entry takes
    precedence: docs.aws.amazon.com/eks/latest/userguide/migrating-access-entries.html."""
    texts = [text for config_map in config_maps for text in (config_map.get("data") or {}).values()]
    known = {found for text in texts for found in _PRINCIPAL.findall(text)}
    for group, user in settings.own.cluster.users.items():
        for arn in outputs.texts(user.principals):
            if known & {*_PRINCIPAL.findall(arn)}:
                yield (
                    principals_key(settings, group),
                    f"{arn} has rights through the ConfigMap kube-system/aws-auth, and would keep "
                    f"only those of {group}, because an access entry takes precedence; ask the "
                    "cluster's owner for an access entry with all of its groups, or name another",
                )


def _storage_classes(theirs: list[Object], classes: set[str]) -> Iterator[Conflict]:
    if names := sorted(classes & {storage_class["metadata"]["name"] for storage_class in theirs}):
        yield (
            "volumeClaims",
            f"the cluster already has a StorageClass {names[0]}, which pulumi up would create for "
            "them; ask its owner to rename it, or use existingClaim",
        )


def _theirs(found: list[Object], owner: str) -> list[Object]:
    return [item for item in found if owner_of(item) != owner]


def _namespaces(found: list[Object], settings: Settings[Any], owner: str) -> Iterator[Conflict]:
    existing = {namespace["metadata"]["name"]: namespace for namespace in found}
    for name, args in settings.namespaces.items():
        if args.existing and name not in existing:
            yield f"namespaces.{name}", "the cluster has no such namespace; drop existing: true"
        if not args.existing and name in existing and owner_of(existing[name]) != owner:
            yield (
                f"namespaces.{name}",
                "the cluster already has it, so pulumi up would fail to create it; set existing: "
                "true, or choose another name",
            )


def _device_plugins(
    definitions: list[Object] | None, daemons: list[Object], settings: Settings[Any]
) -> Iterator[Conflict]:
    """`definitions`: None if they may not be read."""
    # A device plugin of the cloud, or what the stack runs.
    pools = [
        (item.pool, _whose(item.pool))
        for item in settings.pools.values()
        if item.pool.device_plugin
        or item.pool.device_class
        or (item.pool.driver_directory and "device plugin" not in (item.pool.left_to_others or ()))
    ]
    operator = _has_operator(definitions or [])
    plugins = [item for item in daemons if is_plugin(item)]
    for pool, whose in pools:
        leave = "set devicePlugin: none"
        if whose == "GKE's":
            leave += " and driver: none"
        kept_off = pool.labels.get(_NO_OPERANDS) == "false"
        if operator and not kept_off:
            yield (
                f"gpuPools.{pool.name}",
                "the cluster has NVIDIA's GPU Operator, whose device plugin would also run on the "
                f"GPU nodes, in addition to {whose}; {leave}, which leaves them to the "
                f'operator, or labels: {{ {_NO_OPERANDS}: "false" }}',
            )
        # The plugin of an operator that could not be looked for stays off nodes with the label.
        elif plugins and not operator and not (definitions is None and kept_off):
            yield (
                f"gpuPools.{pool.name}",
                f"the cluster already has a {_kind(plugins[0])}, DaemonSet "
                f"{full_name(plugins[0])}, "
                f"which would also run on the GPU nodes, in addition to {whose}; {leave}, which "
                "leaves them to it",
            )


def _whose(pool: GpuPool) -> str:
    if pool.device_class:
        return "the stack's DRA driver"
    return "the stack's" if pool.device_plugin else "GKE's"


def is_plugin(daemon: Object) -> bool:
    """Whether it is NVIDIA's device plugin or its DRA driver, with pods that tolerate the taint of
    GPU nodes."""
    plugin = _PLUGIN in " ".join(_images(daemon))
    return (plugin or _kind(daemon) == "DRA driver") and _tolerates(daemon)


def _kind(daemon: Object) -> str:
    return "DRA driver" if is_dra_driver(_spec(daemon)) else "device plugin"


def is_installer(daemon: Object) -> bool:
    """Whether it is Google's driver installer."""
    return str(daemon["metadata"]["name"]).startswith(_INSTALLER)


def is_autoscaler(deployment: Object) -> bool:
    """Whether it is Cluster Autoscaler."""
    return any(image.rpartition("/")[2].startswith(_AUTOSCALER) for image in _images(deployment))


def _has_operator(definitions: list[Object]) -> bool:
    return any(definition["metadata"]["name"] == _OPERATOR for definition in definitions)


def _installers(daemons: list[Object], settings: Settings[Any]) -> Iterator[Conflict]:
    """Conflicts with Google's driver installer, which the stack would install as well; it does not
    run on nodes on which GKE installs the driver."""
    theirs = [item for item in daemons if is_installer(item)]
    for name, item in settings.pools.items():
        if theirs and item.pool.installer is not None:
            yield (
                f"gpuPools.{name}.driver",
                f"the cluster already has a driver installer, DaemonSet {full_name(theirs[0])}, "
                "which would run on the GPU nodes in addition to the stack's; set driver: "
                "managed, or none, which leaves the driver to it",
            )


def _nccl_plugins(daemons: list[Object], settings: Settings[Any]) -> Iterator[Conflict]:
    """Google's installers of NCCL's plugin and its device injector: a node has one of each."""
    args = settings.cluster
    direct = {getattr(pool.args, "gpu_direct", None) for pool in settings.pools.values()} - {None}
    if not isinstance(args, GkeExistingClusterArgs) or not direct:
        return
    # Of the last two, the images have one name, in two repositories.
    plugins = {
        "rdma": "nccl-plugin-gib",
        "tcpx": "gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev",
        "tcpxo": "gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev",
    }
    needed = [plugin for name, plugin in plugins.items() if name in direct]
    needed += ["nri-device-injector"] if direct != {"rdma"} else []
    running = {
        name: full_name(daemon)
        for daemon in daemons
        for container in (
            *_containers(daemon),
            *(_spec(daemon).get("initContainers") or ()),
        )
        for name in needed
        if f"/{name}" in str(container["image"])
    }
    missing = [name for name in needed if name not in running]
    if running and args.nccl_plugin == "stack":
        remedy = "set it to owner"
        if missing:
            # The owner's selects all nodes with these GPUs: the stack's cannot be beside it.
            remedy += f", and ask the cluster's owner for a DaemonSet with {' and '.join(missing)}"
        yield (
            "cluster.ncclPlugin",
            f"the cluster already has {', '.join(f'DaemonSet {name}' for name in running.values())}"
            f", which would run on the pools' nodes in addition to the stack's; {remedy}",
        )
    if missing and args.nccl_plugin == "owner":
        remedy = "ask the cluster's owner for it" + ("" if running else ", or set it to stack")
        yield (
            "cluster.ncclPlugin",
            f"no DaemonSet of the cluster has an image {' or '.join(missing)}; {remedy}",
        )


def _efa_plugins(daemons: list[Object], settings: Settings[Any]) -> Iterator[Conflict]:
    """AWS's device plugin of the cluster's owner, on nodes where the stack runs it too: each would
    remove the other's socket."""
    if not isinstance(settings.cluster, EksExistingClusterArgs):
        return
    plugins = [item for item in daemons if is_efa_plugin(item)]
    for name, item in settings.pools.items():
        running = [plugin for plugin in plugins if _runs_on(plugin, item.pool)]
        if running and item.args.efa:
            yield (
                f"gpuPools.{name}.efa",
                f"the cluster already has a device plugin for {EFA}, DaemonSet "
                f"{full_name(running[0])}, which would run on the pool's nodes in addition to the "
                "stack's; ask its owner for a node affinity that excludes nodes with the label "
                f"{POOL_LABEL}",
            )


def is_efa_plugin(daemon: Object) -> bool:
    """Whether it is AWS's device plugin for Elastic Fabric Adapters."""
    return any("/aws-efa-k8s-device-plugin" in image for image in _images(daemon))


def _runs_on(daemon: Object, pool: GpuPool) -> bool:
    """Whether its pods tolerate the pool's taints and may select its nodes, whose labels of the
    cloud are not known."""
    spec = _spec(daemon)
    labels, tolerations = {**pool.labels, **pool.node_selector}, spec.get("tolerations") or []
    return selects(spec, labels, perhaps=_by_cloud) is not False and all(
        tolerated(tolerations, key=taint.key, value=taint.value, effect=taint.effect)
        for taint in pool.taints
        if keeps_away(taint.effect)
    )


def _by_cloud(key: str) -> bool:
    return key.partition("/")[0].endswith(("kubernetes.io", "k8s.io", "k8s.aws", "amazonaws.com"))


def _tolerates(daemon: Object) -> bool:
    """Whether its pods tolerate the taint of GPU nodes."""
    tolerations = _spec(daemon).get("tolerations") or []
    return any(toleration.get("key") in (None, "nvidia.com/gpu") for toleration in tolerations)


def _autoscaler(deployments: list[Object], args: EksExistingClusterArgs) -> Iterator[Conflict]:
    if SCALERS[args.scaler].in_cluster:
        return
    about = "cluster.autoscaler"
    found = [deployment for deployment in deployments if is_autoscaler(deployment)]
    if args.autoscaler is not None:
        if found:
            yield (
                about,
                "the cluster already has a Cluster Autoscaler, Deployment "
                f"{full_name(found[0])}, and two of them would undo each other's work; remove "
                "the key",
            )
        return
    if not found:
        yield (
            about,
            "the cluster has no Cluster Autoscaler, and Karpenter and Auto Mode do not start nodes "
            "of a node group; set it to {}, which installs one",
        )
        return
    name = args.name
    own_tags = {*_OF_EKS, f"k8s.io/cluster-autoscaler/{name}", f"kubernetes.io/cluster/{name}"}
    tag_sets = [tags for deployment in found for tags in _discovered(deployment)]
    if not any(tags <= own_tags for tags in tag_sets):
        listed = " or ".join(", ".join(sorted(tags)) for tags in tag_sets) or "their names"
        yield (
            about,
            f"Deployment {full_name(found[0])} finds node groups by {listed} and would not find "
            "the pools; ask its owner for "
            f"{_DISCOVERY}k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/{name}",
        )


def _discovered(autoscaler: Object) -> Iterator[set[str]]:
    """Sets of tags; it finds groups that have all tags of a set."""
    for container in _containers(autoscaler):
        for word in (*(container.get("command") or ()), *(container.get("args") or ())):
            if word.startswith(_DISCOVERY):
                tags = word.removeprefix(_DISCOVERY).split(",")
                yield {tag.partition("=")[0] for tag in tags}


def _spec(obj: Object) -> Object:
    """The spec of its pods."""
    spec: Object = obj["spec"]["template"]["spec"]
    return spec


def _containers(obj: Object) -> list[Object]:
    return list(_spec(obj)["containers"])


def _images(obj: Object) -> list[str]:
    return [str(container["image"]).partition("@")[0] for container in _containers(obj)]
