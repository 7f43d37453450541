"""What a GPU node lacks or has twice, and the command that fixes it: label, driver, plugin, taint.

Pure, like `gpu_nodes`. One cause gives one finding: without its label, a node gets no plugin.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpu_cluster.components.catalog import images
from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.cluster import GPU_TAINT, GpuPool, Taint
from gpu_cluster.components.kube import selectors, taints
from gpu_cluster.components.kube.gpu_daemons import installs_driver
from gpu_cluster.components.lifecycle.ownership import owner_of
from gpu_cluster.stacks.live.gpu_nodes import (
    GpuNode,
    Object,
    PodState,
    installer_pods,
    labels_of,
    offers_gpus,
    plugin_pods,
    taints_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that a GPU node lacks, or has from two owners."""

    node: str
    lacks: Literal["label", "driver", "plugin", "taint", "gpus"]
    message: str
    command: str


def node_findings(
    row: GpuNode,
    node: Object,
    pods: Sequence[Object],
    daemon_sets: Sequence[Object],
    pools: Sequence[GpuPool],
) -> list[Finding]:
    """The problems of one node; `pods` are its own. Empty for a node without GPUs."""
    if row.gpu_sign is None:
        return []
    pool = next((pool for pool in pools if pool.name == row.pool), None)
    result = []
    if pool is None and (candidates := _could_be(node, pools)):
        pool = candidates[0]
        result.append(_label(row, node, candidates))
    elif not row.allocatable:
        lacking = _driver(row, node, pods, daemon_sets, pool) or _plugin(
            row, node, pods, daemon_sets, pool
        )
        result += [lacking] if lacking else []
    owners = _owners(row, node, pods, daemon_sets, pool)
    return [*result, *owners, *_taints(row, node, pool), *_unhealthy(row)]


def _owners(
    row: GpuNode,
    node: Object,
    pods: Sequence[Object],
    daemon_sets: Sequence[Object],
    pool: GpuPool | None,
) -> Iterator[Finding]:
    """Two programs with the same purpose on the node, now or after the next `pulumi up`."""
    here = f"kubectl get pods -A --field-selector spec.nodeName={row.name}"
    plugins = {_daemon(state): state for state in plugin_pods(pods)}
    installers = {_daemon(state): state for state in installer_pods(pods)}
    for lacks, what, states in (
        ("plugin", "device plugins", plugins),
        ("driver", "driver installers", installers),
    ):
        if len(states) > 1:
            both = " and ".join(sorted(f"{pod.namespace}/{pod.name}" for pod in states.values()))
            message = f"has two {what}: {both}; use only one of them"
            yield Finding(node=row.name, lacks=lacks, message=message, command=here)  # type: ignore[arg-type]
    if pool is None:
        return
    key = names.GKE_NO_DEFAULT_PLUGIN
    if missing := _missing({key: pool.labels[key]} if key in pool.labels else {}, node):
        yield Finding(
            node=row.name,
            lacks="label",
            message=f"lacks the label {_pairs(missing)}, so GKE's device plugin runs on it in "
            f"addition to the one that devicePlugin of pool {pool.name} names",
            command=_label_command(row.name, node, missing),
        )
    own = pool.device_plugin or pool.device_class
    for daemon in daemon_sets if own and len(plugins) < 2 else ():
        if _is_anothers_plugin(daemon) and _lands_on(daemon, node):
            namespace, name = daemon["metadata"]["namespace"], daemon["metadata"]["name"]
            yield Finding(
                node=row.name,
                lacks="plugin",
                message="would have two device plugins after pulumi up: somebody else's "
                f"{namespace}/{name} and this stack's; set devicePlugin of pool "
                f"{pool.name} to none, or remove that",
                command=f"kubectl -n {namespace} describe daemonset {name}",
            )


def _daemon(state: PodState) -> str:
    """The owner of the pod: during an update, a DaemonSet may have two pods on a node."""
    owners = state.pod["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid") or f"{state.namespace}/{state.name}")


def _is_anothers_plugin(daemon_set: Object) -> bool:
    unmarked = owner_of(daemon_set) is None
    return unmarked and offers_gpus(daemon_set["spec"]["template"]["spec"])


def _lands_on(daemon_set: Object, node: Object) -> bool:
    spec = daemon_set["spec"]["template"]["spec"]
    selected = selectors.selects(spec, labels_of(node), name=node["metadata"]["name"]) is True
    return selected and _untolerated(spec, node) is None


def _untolerated(spec: Mapping[str, Any], node: Object) -> Mapping[str, Any] | None:
    """The first of the node's taints that such a pod does not tolerate."""
    tolerations = spec.get("tolerations") or []
    for taint in taints_of(node):
        fields = {"key": taint["key"], "value": taint.get("value"), "effect": taint["effect"]}
        if taints.keeps_away(taint["effect"]) and not taints.tolerated(tolerations, **fields):
            return taint
    return None


def _could_be(node: Object, pools: Sequence[GpuPool]) -> list[GpuPool]:
    """The pools that a node without a pool may belong to, the fewest missing labels first.

    In a cloud, the node's labels name its cloud pool; another stack's nodes are ignored.
    """
    labels = labels_of(node)
    owners = (names.GKE_NODEPOOL, names.EKS_NODEGROUP, names.NODE_POOL)
    cloud_pool = next((labels[key] for key in owners if labels.get(key)), None)
    fitting = [
        pool
        for pool in pools
        if cloud_pool is None
        or cloud_pool == pool.name
        or cloud_pool.rpartition("-")[0] == pool.name
    ]
    return sorted(fitting, key=lambda pool: len(_missing(pool.node_selector, node)))


def _missing(selector: Mapping[str, str], node: Object) -> dict[str, str]:
    labels = labels_of(node)
    return {key: value for key, value in selector.items() if labels.get(key) != value}


def _label(row: GpuNode, node: Object, candidates: Sequence[GpuPool]) -> Finding:
    pool = candidates[0]
    missing = _missing(pool.node_selector, node)
    others = [
        f"{_pairs(_missing(other.node_selector, node))} for pool {other.name}"
        for other in candidates[1:]
    ]
    alternative = f" (or {' or '.join(others)})" if others else ""
    return Finding(
        node=row.name,
        lacks="label",
        message=f"looks like a GPU node ({row.gpu_sign}) but lacks the label {_pairs(missing)} "
        f"of pool {pool.name}{alternative}",
        command=_label_command(row.name, node, missing),
    )


def _driver(
    row: GpuNode,
    node: Object,
    pods: Sequence[Object],
    daemon_sets: Sequence[Object],
    pool: GpuPool | None,
) -> Finding | None:
    installers = installer_pods(pods)
    for state in installers:
        if state.word == "failing":
            message = f"its driver installer {state.namespace}/{state.name} is {state}"
            return Finding(node=row.name, lacks="driver", message=message, command=_logs(state))
    if installers or pool is None or pool.installer is None:
        return None
    sets = [daemon for daemon in daemon_sets if installs_driver(daemon["spec"]["template"]["spec"])]
    return _no_pod(row, node, sets, "driver", "driver installer")


def _plugin(
    row: GpuNode,
    node: Object,
    pods: Sequence[Object],
    daemon_sets: Sequence[Object],
    pool: GpuPool | None,
) -> Finding | None:
    if any(state.word == "starting" for state in [*installer_pods(pods), *plugin_pods(pods)]):
        return None  # Its pods are still starting.
    for state in plugin_pods(pods):
        what = "offers no GPUs: the driver is missing or does not work"
        message = f"its device plugin {state.namespace}/{state.name} " + (
            f"is {state}" if state.word == "failing" else what
        )
        lacks: Literal["plugin", "driver"] = "plugin" if state.word == "failing" else "driver"
        return Finding(node=row.name, lacks=lacks, message=message, command=_logs(state))
    sets = [obj for obj in daemon_sets if offers_gpus(obj["spec"]["template"]["spec"])]
    labels = labels_of(node)
    clouds = names.GKE_NODEPOOL in labels or labels.get(names.EKS_COMPUTE_TYPE) == "auto"
    left = pool is not None and bool(pool.left_to_others)
    own = pool is not None and (pool.device_plugin or pool.device_class)
    if pool is not None and not own and ((clouds and not left) or not sets):
        who = (
            "its owner, such as the GPU Operator," if left else "the cloud or the owner of the node"
        )
        return Finding(
            node=row.name,
            lacks="plugin",
            message=f"offers no GPUs, and its device plugin does not belong to this stack: {who} "
            "must start it",
            command=f"kubectl describe node {row.name}",
        )
    claimed = pool is not None and pool.device_class is not None
    return _no_pod(row, node, sets, "plugin", "DRA driver" if claimed else "device plugin")


def _no_pod(
    row: GpuNode,
    node: Object,
    daemon_sets: Sequence[Object],
    lacks: Literal["driver", "plugin"],
    what: str,
) -> Finding:
    """Why none of these DaemonSets has a pod on the node."""

    def finding(message: str, command: str) -> Finding:
        return Finding(node=row.name, lacks=lacks, message=message, command=command)

    if not daemon_sets:
        url = (
            "https://raw.githubusercontent.com/NVIDIA/k8s-device-plugin/"
            f"{images.DEVICE_PLUGIN.tag}/deployments/static/nvidia-device-plugin.yml"
        )
        return finding(
            f"the cluster has no {what}: `pulumi up --refresh` restores what the stack declares",
            f"kubectl apply -f {url}" if what == "device plugin" else "kubectl get daemonset -A",
        )
    nearest = min(daemon_sets, key=lambda daemon: len(_missing(_selector(daemon), node)))
    name = f"{nearest['metadata']['namespace']}/{nearest['metadata']['name']}"
    if missing := _missing(_selector(nearest), node):
        return finding(
            f"the {what} {name} does not select it: it lacks the label {_pairs(missing)}",
            _label_command(row.name, node, missing),
        )
    spec = nearest["spec"]["template"]["spec"]
    if selectors.selects(spec, labels_of(node), name=row.name) is False:
        return finding(
            f"the {what} {name} excludes it by its node affinity",
            f"kubectl -n {nearest['metadata']['namespace']} describe daemonset "
            f"{nearest['metadata']['name']}",
        )
    if taint := _untolerated(spec, node):
        return finding(
            f"the {what} {name} does not tolerate its taint {_taint(taint)}",
            _tolerate_command(nearest, taint, bool(spec.get("tolerations"))),
        )
    return finding(
        f"the {what} {name} has no pod on the node",
        f"kubectl -n {nearest['metadata']['namespace']} rollout restart "
        f"daemonset/{nearest['metadata']['name']}",
    )


def _selector(daemon_set: Object) -> dict[str, str]:
    """Labels of which a node needs just one more to get the DaemonSet's pods; without alternatives,
    and requirements that several labels satisfy."""
    spec = daemon_set["spec"]["template"]["spec"]
    labels = dict(spec.get("nodeSelector") or {})
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    for expression in (terms[0].get("matchExpressions") or []) if len(terms) == 1 else []:
        if expression["operator"] == "In" and len(expression["values"]) == 1:
            labels[expression["key"]] = expression["values"][0]
    return labels


def _taints(row: GpuNode, node: Object, pool: GpuPool | None) -> list[Finding]:
    """The pool's taints that the node lacks; for a GPU node without a pool, the GPU taint."""
    expected: Sequence[Taint] = pool.taints if pool is not None else (GPU_TAINT,)
    present = {(taint["key"], taint["effect"]) for taint in taints_of(node)}
    result = []
    for taint in expected:
        if (taint.key, taint.effect) in present:
            continue
        text = f"{taint.key}={taint.value}:{taint.effect}"
        result.append(
            Finding(
                node=row.name,
                lacks="taint",
                message=f"lacks the taint {text}, so pods that use no GPU may fill it",
                command=f"kubectl taint node {row.name} {text}",
            )
        )
    return result


def _unhealthy(row: GpuNode) -> list[Finding]:
    return [
        Finding(
            node=row.name,
            lacks="gpus",
            message=f"offers {allocatable} of its {capacity} {resource}: the device plugin "
            "considers the others unhealthy",
            command=f"kubectl describe node {row.name}",
        )
        for resource, (capacity, allocatable, _) in row.resources.items()
        if 0 < allocatable < capacity
    ]


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _taint(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _label_command(name: str, node: Object, labels: Mapping[str, str]) -> str:
    pairs = " ".join(shlex.quote(f"{key}={value}") for key, value in labels.items())
    replaces = " --overwrite" if any(key in labels_of(node) for key in labels) else ""
    return f"kubectl label node {name} {pairs}{replaces}"


def _tolerate_command(daemon_set: Object, taint: Mapping[str, Any], some: bool) -> str:
    toleration = {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
    path = "/spec/template/spec/tolerations" + ("/-" if some else "")
    value: Any = toleration if some else [toleration]
    patch = json.dumps([{"op": "add", "path": path, "value": value}])
    metadata = daemon_set["metadata"]
    return (
        f"kubectl -n {metadata['namespace']} patch daemonset {metadata['name']} --type=json "
        f"-p {shlex.quote(patch)}"
    )


def _logs(state: PodState) -> str:
    return f"kubectl -n {state.namespace} logs {state.name} --all-containers"
