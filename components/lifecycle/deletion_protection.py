"""Makes `pulumi destroy` fail before it deletes anything, while the deletion protection is on.

The engine checks `protect` when it reaches a resource, and it reaches the cluster, or the
definitions of Kueue and JobSet, last: only a preview finds out in time, and `--skip-preview` skips
that. So one protected resource depends on all others and would be the first to be deleted.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import pulumi

from .replacement import LastingSettings


class DeletionProtection(pulumi.ComponentResource):
    """A component without children. It is also declared when unprotected: the engine never deletes
    a protected resource, not even one that the program no longer declares."""

    def __init__(
        self,
        name: str,
        protect: bool,
        resources: list[pulumi.Resource],
        parent: pulumi.Resource | None = None,
    ) -> None:
        """`resources`: every resource of the stack, in any order. `parent`: the stack's component.

        Without protection it depends on none of them: it has to be registered as unprotected even
        in an update that ends early because some workload of the stack fails.
        """
        settings = next((row for row in resources if isinstance(row, LastingSettings)), None)
        others = [resource for resource in resources if isinstance(resource, pulumi.CustomResource)]
        super().__init__(
            "gpu-cluster:cluster:DeletionProtection",
            name,
            {},
            pulumi.ResourceOptions(
                # Depending on a component means depending on its children, and the settings have
                # none.
                parent=settings or parent,
                depends_on=others if protect else [],
                protect=protect,
            ),
        )
        self.register_outputs({})


def recording(found: list[pulumi.Resource]) -> pulumi.ResourceTransformation:
    """A transformation that adds every resource to `found`.

    Of a resource's explicit dependencies, it keeps only those that no other one implies. When a
    deletion is refused or fails, the engine follows every path from there through provider,
    dependencies and `deletedWith`, even to resources already visited; their number grows
    exponentially with the stack's depth. A stack of 159 resources had 1.4 billion: `pulumi destroy`
    never ended. pulumi/pulumi pkg/resource/graph/dependency_graph.go, markAsDependency, 2026-11-28.

    Only the parent of a resource is not followed again. So what many resources wait for is a
    dependency of their component: a child is registered after its parent, and deleted before it.

    Deletions in one update are ordered by direct dependencies: two resources lose their order if
    the resource between them stays. That can be the provider, which is deleted with the cluster, or
    a component, whose children then do not wait to be deleted before, for instance, a namespace.
    """
    children: dict[pulumi.Resource, list[pulumi.Resource]] = {}
    implied: dict[pulumi.Resource, set[pulumi.Resource]] = {}

    def custom(resources: Any) -> Iterator[pulumi.Resource]:
        """Expands components as the SDK does: depending on one means depending on its children."""
        for resource in resources if isinstance(resources, Sequence) else [resources]:
            if isinstance(resource, pulumi.ComponentResource):
                yield from custom(children.get(resource, ()))
            else:
                yield resource

    def record(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        opts = copy.copy(args.opts)
        found.append(args.resource)
        if opts.parent:
            children.setdefault(opts.parent, []).append(args.resource)
        waits = {row for row in (opts.provider, opts.deleted_with, opts.parent) if row in implied}
        waits.update(*(implied[wait] for wait in waits))
        wanted = [row for row in dict.fromkeys(custom(opts.depends_on or [])) if row not in waits]
        further = set[pulumi.Resource]().union(*(implied.get(resource, ()) for resource in wanted))
        opts.depends_on = [item for item in wanted if item not in further]
        implied[args.resource] = waits | further | set(wanted)
        return pulumi.ResourceTransformationResult(args.props, opts)

    return record
