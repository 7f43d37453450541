"""The SDK's class of a kind's inputs; a custom resource has none."""

import functools

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.kubernetes.objects import Kind


@functools.cache
def input_class(token: str) -> type | None:
    """The class of a resource's inputs, by type token; None if the SDK has none."""
    _, module_name, name = token.split(":")
    group, _, version = module_name.rpartition("/")
    try:
        resource, init_args, args = sdk.members(
            f"pulumi_kubernetes.{group.split('.')[0]}.{version}",
            name,
            f"{name}InitArgs",
            f"{name}Args",
        )
    except ImportError:
        return None
    if getattr(resource, "pulumi_type", None) != token:
        return None  # a custom resource whose group only starts like a built-in one
    found = init_args or args
    return found if isinstance(found, type) else None


def class_of(kind: Kind) -> type | None:
    """The class of a kind's inputs; None if it is not a built-in kind."""
    return input_class(f"kubernetes:{kind.group or 'core'}/{kind.version}:{kind.kind}")
