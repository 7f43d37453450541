"""Tags of the Auto Scaling group that tell Cluster Autoscaler what a node would look like.

EKS does not set a managed node group's labels, taints and tags on its Auto Scaling group. At zero
nodes, the group's tags are the only information: without the label's tag, the pool never grows.
"""

from dataclasses import dataclass

from ..catalog import autoscaler_tags as tags
from ..cluster import GpuPool
from .cpu_pool_args import EksCpuPoolArgs
from .pool_args import EksGpuNodeGroupArgs

Args = EksGpuNodeGroupArgs | EksCpuPoolArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerTag:
    """A tag of an Auto Scaling group."""

    name: str
    """Unique in the pool, and stable: `label-role`, `taint-nvidia.com/gpu`."""
    key: str
    value: str
    propagate: bool = False
    """Whether instances get it too. Labels do, so that a role's instances can be found in EC2 and
    on the bill; the others say nothing about a single instance."""


def autoscaler_tags(pool: GpuPool, args: Args) -> list[AutoscalerTag]:
    """All tags of the pool's group, derived from the pool itself."""
    labels = [
        AutoscalerTag(name=f"label-{key}", key=tags.label_tag(key), value=value, propagate=True)
        for key, value in pool.labels.items()
    ]
    taints = [
        AutoscalerTag(
            name=f"taint-{taint.key}",
            key=tags.taint_tag(taint.key),
            # In Kubernetes spelling; EKS's own NO_SCHEDULE would be silently dropped.
            value=f"{taint.value}:{taint.effect}",
        )
        for taint in args.node_taints
    ]
    resources = [
        AutoscalerTag(name=f"resource-{resource}", key=key, value=value)
        for resource, key, value in _resources(pool, args)
    ]
    options = [
        AutoscalerTag(
            name=f"option-{option}",
            key=f"{tags.TEMPLATE}/autoscaling-options/{option}",
            value=value,
        )
        for option, value in args.autoscaler.options().items()
    ]
    return [*labels, *taints, *resources, *options]


def resource_tags(pool: GpuPool, args: Args) -> dict[str, str]:
    """Only the `resources` tags: newer autoscalers prefer those of the node group itself."""
    return {key: value for _, key, value in _resources(pool, args)}


def _resources(pool: GpuPool, args: Args) -> list[tuple[str, str, str]]:
    requested = pool.allocatable and pool.device_class is None
    amounts = {
        # The autoscaler knows the physical GPUs of an instance type, not how they are shared.
        **({pool.resource: str(pool.allocatable)} if requested else {}),
        "ephemeral-storage": args.ephemeral_storage,
        **{name: str(number) for name, number in (pool.extended_resources or {}).items()},
    }
    # Without these, it assumes the whole instance, and starts nodes for pods that do not fit.
    if args.cpu_millis is not None:
        amounts["cpu"] = f"{args.cpu_millis}m"
    if (least := args.memory_mib[1]) is not None:
        amounts["memory"] = f"{least}Mi"
    if args.max_pods is not None:
        amounts["pods"] = str(args.max_pods)
    return [(resource, tags.resource_tag(resource), amount) for resource, amount in amounts.items()]
