"""The size of a node group, which the autoscaler controls once the group exists.

The provider sends minimum, maximum and desired size to EKS together; the desired size is the one in
the state. If it is below the minimum or above the maximum, EKS could only refuse it, after other
updates: the preview refuses it instead, and says what to do.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_aws.eks import NodeGroupScalingConfigArgsDict

from ..lifecycle import recycling
from ..lifecycle.prefix import hook
from ..scalers import SCALERS
from ..schema.refusal import refuse
from .releases import check_version

DESIRED_SIZE = "scalingConfig.desiredSize"

_SCALER = next(row for row in SCALERS.values() if row.node_groups)


def scaling_config(
    least: int, most: int, desired: int | None = None
) -> NodeGroupScalingConfigArgsDict:
    """The group's limits. It starts with the minimum, so that creating it needs no GPU."""
    return {
        "min_size": least,
        "max_size": most,
        "desired_size": least if desired is None else desired,
    }


def ignored(desired: int | None) -> list[str]:
    """What an update ignores: the size, unless the config sets it for one update."""
    # A nested path must be in camelCase: the SDK does not translate it, and a wrong one is ignored.
    return [DESIRED_SIZE] if desired is None else []


def size_check(name: str, path: str, *others: pulumi.ResourceHook) -> pulumi.ResourceHookBinding:
    """Refuses, even in a preview, an update that EKS would refuse; warns if it recycles nodes.

    `path` is the pool's key in the config; `others` are additional checks of updates.
    """

    def check(change: pulumi.ResourceHookArgs) -> None:
        old_config = (change.old_inputs or {}).get("scalingConfig")
        inputs = change.new_inputs or {}
        check_version(f"the node group of {path}", change)
        check_size(path, inputs, changed=old_config)
        least, most = (int(inputs["scalingConfig"][key]) for key in ("minSize", "maxSize"))
        recycling.warn(path, change, _SCALER.nodes[_SCALER.pools[0]], (least, most))

    checks = hook(f"{name}-size", check)
    return pulumi.ResourceHookBinding(before_create=[checks], before_update=[checks, *others])


def check_size(path: str, inputs: Mapping[str, Any], *, changed: Any = None) -> None:
    """Raises ValueError if the size in a node group's inputs is outside its limits.

    `changed` is the previous `scalingConfig`: if its limits differ, a warning shows the new size.
    """
    scaling = inputs["scalingConfig"]
    least, most, size = (int(scaling[key]) for key in ("minSize", "maxSize", "desiredSize"))
    if not least <= size <= most:
        low = size < least
        key, bound, side = ("minNodes", least, "above") if low else ("maxNodes", most, "below")
        raise refuse((path, key), bound)(
            f"is {side} the {size} nodes that the group had at the last refresh",
            remedy="run pulumi up --refresh, and if that says the same, set desiredNodes: "
            f"{bound} for one update",
        )
    if changed and any(changed[key] != scaling[key] for key in ("minSize", "maxSize")):
        pulumi.log.warn(
            f"{path}: with its new bounds the group is set to {size} nodes, its size at the last "
            "refresh; run pulumi up --refresh if the autoscaler may have changed it since "
            "[GPUC-SIZE]"
        )
