"""The size of a node group, which belongs to the autoscaler once the group stands.

The provider sends minimum, maximum and desired size to EKS together, the last as the state has it.
So a minimum above it, or a maximum below it, could only fail, after other updates: it is refused
in the preview instead, with the way to do it.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_aws.eks import NodeGroupScalingConfigArgsDict

from .. import recycling

DESIRED_SIZE = "scalingConfig.desiredSize"

RECYCLES = ("launchTemplate.version", "version", "releaseVersion")
"""https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html: "When you update your
node group to a different version of your launch template, all nodes in the group are recycled"."""


def scaling_config(
    least: int, most: int, desired: int | None = None
) -> NodeGroupScalingConfigArgsDict:
    """The group's bounds. It starts at its minimum: no GPU has to be had for it to be made."""
    return {
        "min_size": least,
        "max_size": most,
        "desired_size": least if desired is None else desired,
    }


def ignored(desired: int | None) -> list[str]:
    """What an update does not change: the size, unless the config sets it for a single update."""
    # A nested path must be in camelCase: the SDK passes it on as it is, and a wrong one is ignored.
    return [DESIRED_SIZE] if desired is None else []


def size_check(name: str, path: str, *others: pulumi.ResourceHook) -> pulumi.ResourceHookBinding:
    """Refuses, in the preview already, an update of a node group that EKS could only refuse, and
    warns of one that recycles its nodes.

    `path` is the pool's key in the config; `others` are checks of updates as well.
    """

    def check(change: pulumi.ResourceHookArgs) -> None:
        known = (change.old_inputs or {}).get("scalingConfig")
        inputs = change.new_inputs or {}
        check_size(path, inputs, changed=known)
        least, most = (int(inputs["scalingConfig"][key]) for key in ("minSize", "maxSize"))
        recycling.warn(path, change, RECYCLES, (least, most))

    hook = pulumi.ResourceHook(
        f"{name}-size", check, opts=pulumi.ResourceHookOptions(on_dry_run=True)
    )
    return pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook, *others])


def check_size(path: str, inputs: Mapping[str, Any], *, changed: Any = None) -> None:
    """Raises ValueError if the size of a node group's inputs is outside its bounds.

    `changed` is the `scalingConfig` that was there before: where its bounds were others, a warning
    says which size goes to EKS.
    """
    scaling = inputs["scalingConfig"]
    least, most, size = (int(scaling[key]) for key in ("minSize", "maxSize", "desiredSize"))
    if not least <= size <= most:
        way = least if size < least else most
        bound = f"minNodes: {least} is above" if size < least else f"maxNodes: {most} is below"
        raise ValueError(
            f"{path}.{bound} the {size} nodes that the group had at the last refresh; run pulumi "
            f"up --refresh, and if that says the same, set desiredNodes: {way} for one update"
        )
    if changed and any(changed[key] != scaling[key] for key in ("minSize", "maxSize")):
        pulumi.log.warn(
            f"{path}: with its new bounds the group is set to {size} nodes, its size at the last "
            "refresh; run pulumi up --refresh if the autoscaler may have changed it since "
            "[GPUC-SIZE]"
        )
