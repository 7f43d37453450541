"""Pools whose nodes Karpenter or EKS Auto Mode launches: NodePools with a node class.

The definitions that both share are those of Karpenter 1.15.0 (components/crds).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi
import pulumi_kubernetes as kubernetes

from ..catalog import eks as catalog
from ..catalog import kubernetes as names
from ..cluster import Cluster, GpuPool, Taint
from ..lifecycle import recycling
from ..scalers import SCALERS, SYSTEM_NODES
from .karpenter_args import EksPoolKarpenterArgs

_CLASSES = {row.node_class[2]: row for row in SCALERS.values() if row.node_pools}
"""Kind of a node class -> the scaler whose class it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of a pool as a NodePool describes them."""

    pool: GpuPool
    """Labels, taints, limits and GPUs; also used for pools without GPUs."""
    class_kind: Literal["EC2NodeClass", "NodeClass"]
    class_spec: Mapping[str, Any]
    instance_types: Sequence[str]
    arch: catalog.Arch
    capacity_types: Sequence[str]
    """`reserved`, `spot`, `on-demand`: the first available one in this order is used."""
    zones: Sequence[str] = ()
    """Those of the node class in which nodes may be; empty for all."""
    parts: Mapping[str, "Nodes"] = field(default_factory=dict)
    """Name of a NodePool -> its nodes, in the order in which they are tried; empty if one has all
    choices."""
    startup_taints: Sequence[Taint] = ()
    removal: EksPoolKarpenterArgs = field(default_factory=EksPoolKarpenterArgs)
    drifted: str = "1"
    """How many nodes are replaced at a time after a change of settings: a number or a share."""
    forced_after: str | None = None
    """How long a node that is being removed waits for its pods; None for as long as they run."""

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.pool.name


class EksKarpenterPool(pulumi.ComponentResource):
    """A node class and NodePools that use it: one for the minimum number of nodes, and one for
    nodes that are created and removed with pods."""

    pool: GpuPool

    def __init__(
        self,
        name: str,
        nodes: Nodes,
        *,
        cluster: Cluster,
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`depends_on`: resources that must outlive the nodes."""
        super().__init__("gpu-cluster:eks:KarpenterPool", name, None, opts)
        self.pool = nodes.pool
        scaler = _CLASSES[nodes.class_kind]
        api_version = "/".join(scaler.node_class[:2])
        block = "gpuPools" if nodes.pool.allocatable else "cluster.cpuPools"
        path = "cluster.systemPool" if name == SYSTEM_NODES else f"{block}.{name}"

        def hooked(resource: str, kind: str) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(
                hooks=recycling.warning_hook(resource, path, scaler, kind, nodes.pool.bounds)
            )

        before: list[pulumi.Resource] = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-class",
                api_version=api_version,
                kind=nodes.class_kind,
                metadata={"name": name},
                spec=dict(nodes.class_spec),
                opts=pulumi.ResourceOptions.merge(
                    cluster.options(self, depends_on=depends_on),
                    hooked(f"{name}-class", f"kubernetes:{api_version}:{nodes.class_kind}"),
                ),
            )
        ]
        specs = node_pools(name, nodes)
        if nodes.pool.sharing is not None:
            before.append(
                kubernetes.apiextensions.CustomResource(
                    f"{name}-shares",
                    api_version="karpenter.sh/v1alpha1",
                    kind="NodeOverlay",
                    metadata={"name": name},
                    spec=overlay(nodes.pool, list(specs)),
                    opts=cluster.options(self, depends_on=depends_on),
                )
            )
        for pool, spec in specs.items():
            kubernetes.apiextensions.CustomResource(
                pool,
                api_version="karpenter.sh/v1",
                kind="NodePool",
                metadata={"name": pool},
                spec=spec,
                # It is deleted once its nodes are: it owns their instances, and the provider waits.
                opts=pulumi.ResourceOptions.merge(
                    cluster.options(self, depends_on=before),
                    pulumi.ResourceOptions.merge(
                        hooked(pool, "kubernetes:karpenter.sh/v1:NodePool"),
                        pulumi.ResourceOptions(
                            custom_timeouts=pulumi.CustomTimeouts(delete=DELETE_TIMEOUT)
                        ),
                    ),
                ),
            )
        self.register_outputs({})


DELETE_TIMEOUT = "30m"
"""How long an update waits until the nodes of a NodePool have been drained and terminated."""


def node_pools(name: str, nodes: Nodes) -> dict[str, dict[str, Any]]:
    """Name -> spec of each NodePool."""
    if nodes.parts:
        return {part: node_pools(part, choice)[part] for part, choice in nodes.parts.items()}
    least, most = nodes.pool.bounds
    specs: dict[str, dict[str, Any]] = {}
    if least:
        # A static NodePool accepts no weight, and no limits other than nodes. A drifted node's
        # successor starts first, and a node that is leaving counts too (ReserveNodeCount in
        # sigs.k8s.io/karpenter 1.15.0): the limit leaves room for as many as the budget allows.
        specs[f"{name}-static"] = {
            "replicas": least,
            "limits": {"nodes": str(least + _spare(nodes))},
            "disruption": _disruption(nodes),
            "template": _template(nodes),
        }
    if most > least:
        specs[name] = {
            "limits": {
                resource: str(amount * (most - least)) for resource, amount in _size(nodes).items()
            },
            **({"weight": nodes.removal.weight} if nodes.removal.weight is not None else {}),
            "disruption": _disruption(nodes),
            "template": _template(nodes),
        }
    return specs


def _spare(nodes: Nodes) -> int:
    """How many nodes are replaced at a time; expired ones are, even if the budget allows none."""
    number, share, _ = nodes.drifted.partition("%")
    spare = math.ceil(nodes.pool.bounds[0] * int(number) / 100) if share else int(number)
    return max(1, spare)


def _size(nodes: Nodes) -> dict[str, int]:
    """Resources that limit the number of nodes, with those of one. Before 1.11, Karpenter exceeds a
    limit of `nodes` by what it starts at a time (kubernetes-sigs/karpenter issue 2657, PR 2526)."""
    if gpus := nodes.pool.allocatable:
        return {"nodes": 1, nodes.pool.resource: gpus}
    # The settings allow only types of the catalog here.
    rows = (catalog.instance_type(name) for name in nodes.instance_types)
    return {"nodes": 1, "cpu": max(row.vcpu for row in rows if row is not None)}


def overlay(pool: GpuPool, node_pools: Sequence[str]) -> dict[str, Any]:
    """Karpenter knows the GPUs of an instance type; the overlay says how many pods share them.

    In these NodePools, it overrides the instance type's own number (pkg/cloudprovider/types.go,
    ApplyCapacityOverlay, of sigs.k8s.io/karpenter 1.15.0).
    """
    return {
        "requirements": [
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": list(node_pools)}
        ],
        "capacity": {pool.resource: str(pool.allocatable)},
    }


def _disruption(nodes: Nodes) -> dict[str, Any]:
    return {
        "consolidationPolicy": nodes.removal.consolidation_policy,
        "consolidateAfter": nodes.removal.consolidate_after,
        "budgets": [
            {"nodes": "100%", "reasons": ["Empty", "Underutilized"]},
            {"nodes": nodes.drifted, "reasons": ["Drifted"]},
        ],
    }


def _template(nodes: Nodes) -> dict[str, Any]:
    group, *_ = _CLASSES[nodes.class_kind].node_class
    required = {
        "node.kubernetes.io/instance-type": list(nodes.instance_types),
        "karpenter.sh/capacity-type": list(nodes.capacity_types),
        "kubernetes.io/arch": [nodes.arch],
        **({names.ZONE: list(nodes.zones)} if nodes.zones else {}),
        # Auto Mode does not support this label.
        **({"kubernetes.io/os": ["linux"]} if nodes.class_kind == "EC2NodeClass" else {}),
    }
    spec: dict[str, Any] = {
        "nodeClassRef": {"group": group, "kind": nodes.class_kind, "name": nodes.pool.name},
        "requirements": [
            {"key": key, "operator": "In", "values": values} for key, values in required.items()
        ],
        "taints": _taints(nodes.pool.taints),
        "expireAfter": nodes.removal.expire_after,
    }
    if nodes.startup_taints:
        spec["startupTaints"] = _taints(nodes.startup_taints)
    if nodes.forced_after is not None:
        spec["terminationGracePeriod"] = nodes.forced_after
    return {"metadata": {"labels": dict(nodes.pool.labels)}, "spec": spec}


def _taints(taints: Sequence[Taint]) -> list[dict[str, str]]:
    # The definition accepts no empty value, which is the same as none.
    fields = ({"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints)
    return [{key: value for key, value in taint.items() if value} for taint in fields]
