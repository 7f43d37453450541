"""What the rules on the clusters of all clouds have in common."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpu_cluster.policy.networks import too_wide
from gpu_cluster.policy.reading import UNKNOWN, Resource, is_one_of


def open_to(
    resource: Resource, blocks: Sequence[Any], *, listed: bool, prefix: float, publicPrefix: float
) -> Iterator[str]:
    """What is wrong with the networks that reach a control plane. `listed`: only `blocks` do;
    `prefix`: of the largest private network; `publicPrefix`: of the largest on the internet."""
    if not listed:
        yield (
            f"cluster {resource.name} opens its control plane to the whole internet; name the "
            "networks that may"
        )
    for wide in too_wide(blocks, private=prefix, public=publicPrefix):
        yield (
            f"cluster {resource.name} lets {wide} reach its control plane; allowed: private "
            f"networks of /{prefix:g} and public ones of /{publicPrefix:g}, or smaller"
        )


def let_in(resource: Resource, blocks: Sequence[Any], *, publicPrefix: float) -> Iterator[str]:
    """The networks that a firewall rule lets in and that are too large."""
    for wide in too_wide(blocks, private=0, public=publicPrefix):
        yield f"{resource.name} lets {wide} in; name the networks that need access"


def unprotected(resource: Resource, protection: Any, *, stacks: Sequence[str]) -> Iterator[str]:
    """What lets a cluster in `stacks` be deleted; `protection`: the cloud's own setting."""
    if not is_one_of(resource.stack, stacks):
        return
    if protection is False:
        yield (
            f"cluster {resource.name} has deletionProtection off, which stack {resource.stack} "
            "must have on; set it to true"
        )
    elif not resource.protect and protection is not UNKNOWN:
        yield (
            f"cluster {resource.name} is not protected in Pulumi, so its pools would be deleted "
            "before the cloud refuses to delete it; set the resource option protect"
        )
