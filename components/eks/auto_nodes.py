"""The nodes that EKS Auto Mode launches for a pool: NodeClass, and its part of the NodePool.

https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html and create-node-pool.html,
read 2026-11-24.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..catalog import eks as catalog
from ..cluster import ResolvedPool
from ..schema.outputs import MaybeOutput
from .cpu_pool_args import EksCpuPoolArgs
from .ec2_node_class import CAPACITY_TYPES, FORCED_AFTER, Site, in_order, located
from .karpenter_args import AUTO_MODE_HOURS, EksPoolKarpenterArgs
from .karpenter_pool import Nodes
from .pool_args import EksGpuNodeGroupArgs

_OLDEST = f"{AUTO_MODE_HOURS}h"
# Each node has a terminationGracePeriod, so a drifted node is drained whatever runs on it. Its
# image is at most a week old before it drifts; an empty pool has no nodes.
_DRIFTED = "0"


def gpu_nodes(resolved: ResolvedPool[EksGpuNodeGroupArgs], site: Site) -> Nodes:
    """The nodes of a GPU pool."""
    args = resolved.args
    spec = _spec(site, resolved.places, args.disk_size_gb, args.security_group_ids)
    spec["ephemeralStorage"] |= {"throughput": args.disk_throughput, "iops": args.disk_iops}
    if args.reservation is not None:
        spec["capacityReservationSelectorTerms"] = [{"id": args.reservation}]
    share, count = args.max_unavailable_percentage, args.max_unavailable
    nodes = Nodes(
        pool=resolved.pool,
        class_kind="NodeClass",
        class_spec=spec,
        instance_types=args.instance_types,
        arch=args.instance_type.arch,
        capacity_types=[CAPACITY_TYPES[way] for way in args.purchases],
        startup_taints=args.startup_taints,
        removal=_removal(args.karpenter),
        drifted=f"{share}%" if share is not None else str(count or _DRIFTED),
        forced_after=FORCED_AFTER if args.force_update else None,
    )
    return in_order(nodes, resolved)


def cpu_nodes(name: str, args: EksCpuPoolArgs, places: Sequence[str], site: Site) -> Nodes:
    """The nodes of a pool without GPUs."""
    return Nodes(
        pool=args.pool(name),
        class_kind="NodeClass",
        class_spec=_spec(site, places, args.disk_size_gb),
        instance_types=args.instance_types,
        arch=catalog.arch_of(args.instance_types[0]),
        capacity_types=["spot" if args.spot else "on-demand"],
        removal=_removal(EksPoolKarpenterArgs()),
        drifted=_DRIFTED,
    )


def _removal(given: EksPoolKarpenterArgs) -> EksPoolKarpenterArgs:
    never = given.expire_after == "Never"
    return dataclasses.replace(given, expire_after=_OLDEST) if never else given


def _spec(
    site: Site, places: Sequence[str], gib: int, security_groups: Sequence[MaybeOutput] = ()
) -> dict[str, Any]:
    return {
        "role": site.role,
        # Nodes enforce NetworkPolicies, and admit what none of them forbids.
        "networkPolicy": "DefaultAllow",
        **located(site, places, security_groups),
        "ephemeralStorage": {"size": f"{gib}Gi", **({"kmsKeyID": site.key} if site.key else {})},
        **({"tags": dict(site.tags)} if site.tags else {}),
    }
