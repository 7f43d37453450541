"""Upstream Karpenter with its KWOK provider, as the autoscaler of the cloud's node groups.

Of a group it sees what that cloud's autoscaler would know about a node that does not exist yet: the
group's `template`. What really joins is decided elsewhere.
"""

import json
import re
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu_cluster import tools
from gpu_cluster.clouds.read import long_yaml
from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.components.kube import quantity
from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.pods import GPU, STARTING, holds
from gpu_cluster.rehearsal.nodes.bounds import NODE_CLAIMS, Bounds
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.processes import Processes, free_port
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, NodeTemplate

NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
NODE_CLASS = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/rehearsal"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

TYPE = "node.kubernetes.io/instance-type"
ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
NOWHERE = "rehearsal"
"""The zone of groups whose template has none, because Karpenter requires one."""
EMPTY_SECONDS = 5
"""How long a node stays empty before Karpenter removes it, within two more seconds; 10 minutes in a
real cluster. Long enough to look at the node of a completed job."""


def pool_name(group: str) -> str:
    """A group's name in a form that is valid for a Kubernetes object."""
    return re.sub(r"[^a-z0-9.-]+", "-", group.lower()).strip("-.")


class Autoscaler:
    """One Karpenter process and the NodePools that it reads."""

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        *,
        bounds: Bounds | None = None,
        idle: bool = False,
        absent: bool = False,
    ) -> None:
        """`bounds` keeps every pool at its maximum; without it, only Karpenter's limit applies.
        `absent`: the cluster has its own Karpenter, with its own resource definitions."""
        self._bounds = bounds
        self._absent = absent
        self._idle = idle
        """Whether no Karpenter runs: pools that start at zero stay there."""
        self._types_file = folder / "instance-types.json"
        self._processes = processes
        self._pools: dict[str, dict[str, Any]] = {}
        """The manifests applied last, by name."""
        self._types = ""

    def install(self, api: Api, cancelled: threading.Event) -> None:
        """Creates Karpenter's resource definitions and waits until they are served."""
        if self._absent:
            return
        names = []
        for file in tools.crds("karpenter"):
            definition = long_yaml(file.read_text())
            names.append(definition["metadata"]["name"])
            api.create(CRDS, definition)
        while names and not cancelled.wait(0.05):
            if holds(api.get(f"{CRDS}/{names[0]}"), "Established"):
                names.pop(0)
        if self._bounds is not None:
            self._bounds.install(api)
        _apply_ready(api, NODE_CLASS, {
            "apiVersion": "karpenter.kwok.sh/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": "rehearsal"},
        }, "Ready")  # fmt: skip

    def sync(
        self, api: Api, kubeconfig: Path, groups: Sequence[NodeGroup], frozen: Mapping[str, int]
    ) -> None:
        """Writes the NodePools of `groups` for Karpenter.

        `frozen`: the most autoscaled nodes of groups that cannot grow, because the cloud refuses or
        nothing scales them up.
        """
        if self._absent:
            return
        scaled = [group for group in groups if group.autoscaled and group.machines is None]
        names, weights = instance_types(scaled), pool_weights(scaled)
        types = json.dumps(types_document(scaled, names), indent=1)
        wanted = {
            pool_name(group.name): node_pool(
                group, names[group.name], frozen.get(group.name), weights[group.name]
            )
            for group in scaled
        }
        if self._bounds is not None:
            self._bounds.limits = {
                pool_name(group.name): room(group, frozen.get(group.name)) for group in scaled
            }
        # The first choice first, so that a pod always gets the best of the existing pools.
        for name, pool in sorted(wanted.items(), key=lambda entry: -entry[1]["spec"]["weight"]):
            if self._pools.get(name) != pool:
                _apply_ready(
                    api, f"{NODE_POOLS}/{name}", pool,
                    "Ready", "NodeClassReady", "ValidationSucceeded",
                )  # fmt: skip
        if types != self._types and any(not group.unscaled for group in scaled):
            # Karpenter reads this file once, when it starts. Earlier it would only find pods that
            # it cannot help, and not look at them again for 10 s.
            self._types = types
            self._types_file.write_text(types)
            self._start(kubeconfig)
        for name in [name for name in self._pools if name not in wanted]:
            api.delete(f"{NODE_POOLS}/{name}")
        self._pools = wanted

    def start_node(self, api: Api, group: NodeGroup) -> None:
        """Has Karpenter start a node of the group for which it sees no need."""
        name = pool_name(group.name)
        pool = api.get(f"{NODE_POOLS}/{name}")
        template, owner = pool["spec"]["template"], pool["metadata"]
        spec = template["spec"]
        own = {"key": "karpenter.sh/nodepool", "operator": "In", "values": [name]}
        api.create(NODE_CLAIMS, {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {
                "name": f"{name}-{uuid.uuid4().hex[:5]}",
                "labels": {**template["metadata"]["labels"], "karpenter.sh/nodepool": name},
                "ownerReferences": [{
                    "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": name,
                    "uid": owner["uid"], "blockOwnerDeletion": True,
                }],
            },
            "spec": {
                **spec,
                "requirements": [*spec["requirements"], own],
                "resources": {"requests": {"cpu": "1m"}},
            },
        })  # fmt: skip

    def _start(self, kubeconfig: Path) -> None:
        if self._idle:
            return
        self._processes.stop("karpenter", grace=1.0)
        self._processes.start("karpenter", [tools.binary("karpenter")], {
            "KUBECONFIG": str(kubeconfig),
            "INSTANCE_TYPES_FILE_PATH": str(self._types_file),
            "DISABLE_LEADER_ELECTION": "true",
            # Otherwise it starts no node for a pod with ResourceClaims. It looks only at the pod's
            # other requests, and the scheduler at whether the node offers what is claimed.
            "IGNORE_DRA_REQUESTS": "false",
            "SYSTEM_NAMESPACE": "kube-system",
            "METRICS_PORT": str(free_port()),
            "HEALTH_PROBE_PORT": str(free_port()),
            "BATCH_IDLE_DURATION": "300ms",
            "BATCH_MAX_DURATION": "2s",
        }, no_listen=True)  # fmt: skip

    def stop(self) -> None:
        """Forgets everything: the next cluster starts with another API server."""
        self._processes.stop("karpenter", grace=0.2)
        self._pools, self._types = {}, ""


def _apply_ready(api: Api, path: str, manifest: dict[str, Any], *conditions: str) -> None:
    """Applies an object with these conditions true, as Karpenter would set them after validation.

    Karpenter validates all pools in parallel and ignores those that it has not validated yet: a pod
    that fits several would go to the first ready one, and one that fits a single pool would wait 10
    s for the next attempt.
    """
    metadata = api.apply(path, manifest)["metadata"]
    api.patch(f"{path}/status", {"status": {"conditions": [
        {
            "type": condition,
            "status": "True",
            "reason": condition,
            "message": "",
            "lastTransitionTime": metadata["creationTimestamp"],
            "observedGeneration": metadata["generation"],
        }
        for condition in conditions
    ]}})  # fmt: skip


def remove_node(api: Api, node: Mapping[str, Any]) -> None:
    """Removes a node that Karpenter created, with its NodeClaim."""
    for owner in node["metadata"].get("ownerReferences") or []:
        if owner["kind"] == "NodeClaim":
            api.delete(f"{NODE_CLAIMS}/{owner['name']}")
            return
    claim = (node["metadata"].get("labels") or {}).get("kubernetes.io/hostname", "")
    try:
        # Before its registration, a node's only link to its claim is this one.
        api.get(f"{NODE_CLAIMS}/{claim}")
        api.delete(f"{NODE_CLAIMS}/{claim}")
    except ApiError as error:
        if error.status != 404:
            raise
    api.delete(f"/api/v1/nodes/{node['metadata']['name']}")


def instance_types(groups: Sequence[NodeGroup]) -> dict[str, str]:
    """Group name -> name of its instance type in Karpenter's file.

    Groups share a type if its name and its size are the same. If the sizes differ, as for the same
    machine type with and without a GPU, each has its own type.
    """
    sizes: dict[str, set[str]] = {}
    for group in groups:
        sizes.setdefault(_type_label(group), set()).add(_size(group.template))
    return {
        group.name: _type_label(group)
        if len(sizes[_type_label(group)]) == 1
        else f"{_type_label(group)}.{group.name}"
        for group in groups
    }


def types_document(groups: Sequence[NodeGroup], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Karpenter's instance types file."""
    types: dict[str, dict[str, Any]] = {}
    for group in groups:
        labels = group.template.labels
        entry = types.setdefault(
            names[group.name],
            {
                "name": names[group.name],
                "architecture": labels.get(ARCH, "amd64"),
                "operatingSystems": [labels.get(OS, "linux")],
                "resources": dict(group.template.capacity),
                "offerings": [],
            },
        )
        offering = {
            "Price": group.on_demand_per_hour or _guessed_price(group.template),
            "Available": True,
        }
        for zone in _zones(group):
            where = [_in(CAPACITY_TYPE, _capacity_type(group)), _in(ZONE, zone)]
            if (offer := {**offering, "Requirements": where}) not in entry["offerings"]:
                entry["offerings"].append(offer)
    return list(types.values())


def pool_weights(groups: Sequence[NodeGroup]) -> dict[str, int]:
    """Group name -> Karpenter's weight, 100 to 1: the cheapest of those with the fewest GPUs first.

    Karpenter compares prices only among the instance types of one pool; of the pools that fit a pod
    it uses the one with the greatest weight. Clouds use the smallest node that fits, unless an
    order is given; Spot is only for pods that request it.
    """

    def size(group: NodeGroup) -> tuple[int, int, float, int, bool]:
        price = group.on_demand_per_hour or _guessed_price(group.template)
        cpu = _milli(group.template.capacity["cpu"])
        return group.place, _gpus(group.template), price, cpu, group.spot

    order = sorted({size(group) for group in groups})

    def position(group: NodeGroup) -> int:
        if group.choice is not None and not group.known_as:
            # Pods of a compute class fit no group outside it.
            return group.choice.rank
        return order.index(size(group))

    return {group.name: max(100 - position(group), 1) for group in groups}


def room(group: NodeGroup, frozen: int | None) -> int:
    """How many nodes the autoscaler may add to those that the cloud keeps in the group."""
    elastic = max(group.max_nodes - group.target_nodes, 0)
    return elastic if frozen is None else min(elastic, frozen)


def node_pool(
    group: NodeGroup, type_name: str, frozen: int | None, weight: int = 1
) -> dict[str, Any]:
    """The NodePool that lets Karpenter add nodes of this group and of no other."""
    template = group.template
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": pool_name(group.name)},
        "spec": {
            "weight": weight,
            "template": {
                "metadata": {
                    "labels": {
                        key: value for key, value in template.labels.items() if not reserved(key)
                    }
                },
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.kwok.sh",
                        "kind": "KWOKNodeClass",
                        "name": "rehearsal",
                    },
                    "requirements": [
                        _in(TYPE, type_name),
                        _in(CAPACITY_TYPE, _capacity_type(group)),
                        _in(ZONE, *_zones(group)),
                    ],
                    "taints": list(map(asdict, template.taints)),
                    "startupTaints": [STARTING],
                    "expireAfter": "Never",
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": f"{EMPTY_SECONDS}s",
                # Clouds relabel a pool's nodes in place or replace the pool; nothing drifts.
                "budgets": [{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "100%"}]
                # A scaler that cannot add a node cannot remove one.
                if not group.unscaled
                else [{"nodes": "0"}],
            },
            "limits": {"cpu": _times(template.capacity["cpu"], room(group, frozen))},
        },
    }


def reserved(key: str) -> bool:
    """Whether Karpenter refuses this label in a pool: it derives it from the instance type."""
    domain = key.partition("/")[0] if "/" in key else ""
    if domain.endswith(("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")):
        return key == TYPE
    return domain.endswith(("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.kwok.sh"))


def _type_label(group: NodeGroup) -> str:
    return group.template.labels.get(TYPE, group.name)


def _size(shape: NodeTemplate) -> str:
    return json.dumps(dict(shape.capacity), sort_keys=True)


def _guessed_price(shape: NodeTemplate) -> float:
    """A price that grows with the size, so that the smallest node that fits is the cheapest."""
    return 0.03 * _milli(shape.capacity["cpu"]) / 1000 + 1.0 * _gpus(shape)


def _gpus(shape: NodeTemplate) -> int:
    """The number of GPUs; 0 if a tag's value is not a number, which Karpenter refuses."""
    text = shape.capacity.get(GPU, "0")
    return int(text) if text.isdigit() else 0


def _zones(group: NodeGroup) -> Sequence[str]:
    """The zones in which a node may start; those of a queued group are chosen for its requests."""
    if group.zones and not group.queued:
        return group.zones
    return [group.template.labels.get(ZONE, NOWHERE)]


def _capacity_type(group: NodeGroup) -> str:
    return "spot" if group.spot else "on-demand"


def _in(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def _times(cpu: str, nodes: int) -> str:
    """A CPU quantity times a number of nodes."""
    return f"{_milli(cpu) * nodes}m"


def _milli(cpu: str) -> int:
    """A CPU quantity in thousandths of a core."""
    return int(quantity.parse(cpu) * 1000)
