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
from gpu_cluster.stacks.live.cluster import full_name
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

Lack = Literal["label", "driver", "plugin", "taint", "gpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that a GPU node lacks, or has from two owners."""

    node: str
    lacks: Lack
    message: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A GPU node, and what the cluster has that concerns it."""

    row: GpuNode
    node: Object
    pods: Sequence[Object]
    """The node's own."""
    daemon_sets: Sequence[Object]
    pool: GpuPool | None
    """Its pool, or the one that it may belong to."""

    def finding(self, lacks: Lack, message: str, command: str) -> Finding:
        return Finding(node=self.row.name, lacks=lacks, message=message, command=command)


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
    candidates = _could_be(node, pools) if pool is None else []
    pool = candidates[0] if candidates else pool
    seen = _Seen(row=row, node=node, pods=pods, daemon_sets=daemon_sets, pool=pool)
    result = []
    if candidates:
        result.append(_label(seen, candidates))
    elif not row.allocatable:
        lacking = _driver(seen) or _plugin(seen)
        result += [lacking] if lacking else []
    return [*result, *_owners(seen), *_taints(seen), *_unhealthy(seen)]


def _owners(seen: _Seen) -> Iterator[Finding]:
    """Two programs with the same purpose on the node, now or after the next `pulumi up`."""
    here = f"kubectl get pods -A --field-selector spec.nodeName={seen.row.name}"
    plugins = {_daemon(state): state for state in plugin_pods(seen.pods)}
    installers = {_daemon(state): state for state in installer_pods(seen.pods)}
    programs: tuple[tuple[Lack, str, Mapping[str, PodState]], ...] = (
        ("plugin", "device plugins", plugins),
        ("driver", "driver installers", installers),
    )
    for lacks, what, states in programs:
        if len(states) > 1:
            both = " and ".join(sorted(f"{pod.namespace}/{pod.name}" for pod in states.values()))
            yield seen.finding(lacks, f"has two {what}: {both}; use only one of them", here)
    if (pool := seen.pool) is None:
        return
    key = names.GKE_NO_DEFAULT_PLUGIN
    if missing := _missing({key: pool.labels[key]} if key in pool.labels else {}, seen.node):
        yield seen.finding(
            "label",
            f"lacks the label {_pairs(missing)}, so GKE's device plugin runs on it in "
            f"addition to the one that devicePlugin of pool {pool.name} names",
            _label_command(seen, missing),
        )
    own = pool.device_plugin or pool.device_class
    for daemon in seen.daemon_sets if own and len(plugins) < 2 else ():
        if _is_anothers_plugin(daemon) and _lands_on(daemon, seen.node):
            yield seen.finding(
                "plugin",
                "would have two device plugins after pulumi up: somebody else's "
                f"{full_name(daemon)} and this stack's; set devicePlugin of pool "
                f"{pool.name} to none, or remove that",
                _describe_command(daemon),
            )


def _daemon(state: PodState) -> str:
    """The owner of the pod: during an update, a DaemonSet may have two pods on a node."""
    owners = state.pod["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid") or f"{state.namespace}/{state.name}")


def _pod_spec(daemon_set: Object) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = daemon_set["spec"]["template"]["spec"]
    return spec


def _is_anothers_plugin(daemon_set: Object) -> bool:
    return owner_of(daemon_set) is None and offers_gpus(_pod_spec(daemon_set))


def _lands_on(daemon_set: Object, node: Object) -> bool:
    spec = _pod_spec(daemon_set)
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


def _label(seen: _Seen, candidates: Sequence[GpuPool]) -> Finding:
    lacking = [_missing(pool.node_selector, seen.node) for pool in candidates]
    others = [
        f"{_pairs(missing)} for pool {other.name}"
        for other, missing in zip(candidates[1:], lacking[1:], strict=True)
    ]
    alternative = f" (or {' or '.join(others)})" if others else ""
    return seen.finding(
        "label",
        f"looks like a GPU node ({seen.row.gpu_sign}) but lacks the label {_pairs(lacking[0])} "
        f"of pool {candidates[0].name}{alternative}",
        _label_command(seen, lacking[0]),
    )


def _driver(seen: _Seen) -> Finding | None:
    installers = installer_pods(seen.pods)
    for state in installers:
        if state.word == "failing":
            message = f"its driver installer {state.namespace}/{state.name} is {state}"
            return seen.finding("driver", message, _logs(state))
    if installers or seen.pool is None or seen.pool.installer is None:
        return None
    sets = [daemon for daemon in seen.daemon_sets if installs_driver(_pod_spec(daemon))]
    return _no_pod(seen, sets, "driver", "driver installer")


def _plugin(seen: _Seen) -> Finding | None:
    pool, plugins = seen.pool, plugin_pods(seen.pods)
    if any(state.word == "starting" for state in [*installer_pods(seen.pods), *plugins]):
        return None  # Its pods are still starting.
    for state in plugins:
        name = f"{state.namespace}/{state.name}"
        if state.word == "failing":
            return seen.finding("plugin", f"its device plugin {name} is {state}", _logs(state))
        what = "offers no GPUs: the driver is missing or does not work"
        return seen.finding("driver", f"its device plugin {name} {what}", _logs(state))
    sets = [daemon for daemon in seen.daemon_sets if offers_gpus(_pod_spec(daemon))]
    labels = labels_of(seen.node)
    clouds = names.GKE_NODEPOOL in labels or labels.get(names.EKS_COMPUTE_TYPE) == "auto"
    left = pool is not None and bool(pool.left_to_others)
    own = pool is not None and (pool.device_plugin or pool.device_class)
    if pool is not None and not own and ((clouds and not left) or not sets):
        who = (
            "its owner, such as the GPU Operator," if left else "the cloud or the owner of the node"
        )
        return seen.finding(
            "plugin",
            f"offers no GPUs, and its device plugin does not belong to this stack: {who} "
            "must start it",
            f"kubectl describe node {seen.row.name}",
        )
    claimed = pool is not None and pool.device_class is not None
    return _no_pod(seen, sets, "plugin", "DRA driver" if claimed else "device plugin")


def _no_pod(seen: _Seen, daemon_sets: Sequence[Object], lacks: Lack, what: str) -> Finding:
    """Why none of these DaemonSets has a pod on the node."""
    if not daemon_sets:
        url = (
            "https://raw.githubusercontent.com/NVIDIA/k8s-device-plugin/"
            f"{images.DEVICE_PLUGIN.tag}/deployments/static/nvidia-device-plugin.yml"
        )
        return seen.finding(
            lacks,
            f"the cluster has no {what}: `pulumi up --refresh` restores what the stack declares",
            f"kubectl apply -f {url}" if what == "device plugin" else "kubectl get daemonset -A",
        )
    nearest = min(daemon_sets, key=lambda daemon: len(_missing(_selector(daemon), seen.node)))
    program, spec = f"the {what} {full_name(nearest)}", _pod_spec(nearest)
    if missing := _missing(_selector(nearest), seen.node):
        message = f"{program} does not select it: it lacks the label {_pairs(missing)}"
        return seen.finding(lacks, message, _label_command(seen, missing))
    if selectors.selects(spec, labels_of(seen.node), name=seen.row.name) is False:
        message = f"{program} excludes it by its node affinity"
        return seen.finding(lacks, message, _describe_command(nearest))
    if taint := _untolerated(spec, seen.node):
        message = f"{program} does not tolerate its taint {_taint(taint)}"
        command = _tolerate_command(nearest, taint, bool(spec.get("tolerations")))
        return seen.finding(lacks, message, command)
    metadata = nearest["metadata"]
    return seen.finding(
        lacks,
        f"{program} has no pod on the node",
        f"kubectl -n {metadata['namespace']} rollout restart daemonset/{metadata['name']}",
    )


def _selector(daemon_set: Object) -> dict[str, str]:
    """Labels of which a node needs just one more to get the DaemonSet's pods; without alternatives,
    and requirements that several labels satisfy."""
    spec = _pod_spec(daemon_set)
    labels = dict(spec.get("nodeSelector") or {})
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    for expression in (terms[0].get("matchExpressions") or []) if len(terms) == 1 else []:
        if expression["operator"] == "In" and len(expression["values"]) == 1:
            labels[expression["key"]] = expression["values"][0]
    return labels


def _taints(seen: _Seen) -> Iterator[Finding]:
    """The pool's taints that the node lacks; for a GPU node without a pool, the GPU taint."""
    expected: Sequence[Taint] = seen.pool.taints if seen.pool is not None else (GPU_TAINT,)
    present = {(taint["key"], taint["effect"]) for taint in taints_of(seen.node)}
    for taint in expected:
        if (taint.key, taint.effect) not in present:
            text = f"{taint.key}={taint.value}:{taint.effect}"
            message = f"lacks the taint {text}, so pods that use no GPU may fill it"
            yield seen.finding("taint", message, f"kubectl taint node {seen.row.name} {text}")


def _unhealthy(seen: _Seen) -> Iterator[Finding]:
    for resource, (capacity, allocatable, _) in seen.row.resources.items():
        if 0 < allocatable < capacity:
            yield seen.finding(
                "gpus",
                f"offers {allocatable} of its {capacity} {resource}: the device plugin "
                "considers the others unhealthy",
                f"kubectl describe node {seen.row.name}",
            )


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _taint(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _label_command(seen: _Seen, labels: Mapping[str, str]) -> str:
    pairs = " ".join(shlex.quote(f"{key}={value}") for key, value in labels.items())
    replaces = " --overwrite" if any(key in labels_of(seen.node) for key in labels) else ""
    return f"kubectl label node {seen.row.name} {pairs}{replaces}"


def _describe_command(daemon_set: Object) -> str:
    metadata = daemon_set["metadata"]
    return f"kubectl -n {metadata['namespace']} describe daemonset {metadata['name']}"


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
