"""Refuses `pulumi destroy` before it deletes anything, while the deletion protection is on.

The engine looks at `protect` when it comes to a resource, and it comes to the cluster, or to the
definitions of Kueue and JobSet, last: only a preview finds out in time, and `--skip-preview` leaves
that out. So one protected resource depends on all others and is the first to be deleted.
"""

import pulumi

from components.replacement import LastingSettings


class DeletionProtection(pulumi.ComponentResource):
    """It has no children. It is declared unprotected too: the engine deletes no protected resource,
    not even one that has left the program."""

    def __init__(self, name: str, protect: bool, resources: list[pulumi.Resource]) -> None:
        """`resources`: every resource of the stack, in any order.

        Without protection it waits for none of them: it has to be registered unprotected even in an
        update that ends early, because some workload of the stack fails.
        """
        settings = next((one for one in resources if isinstance(one, LastingSettings)), None)
        others = [one for one in resources if isinstance(one, pulumi.CustomResource)]
        super().__init__(
            "gpu-cluster:cluster:DeletionProtection",
            name,
            {},
            pulumi.ResourceOptions(
                # A dependency on a component is one on its children, and the settings have none.
                parent=settings,
                depends_on=others if protect else [],
                protect=protect,
            ),
        )
        self.register_outputs({})


def recorded() -> list[pulumi.Resource]:
    """A list that every resource that is declared from here on is added to."""
    found: list[pulumi.Resource] = []

    def record(args: pulumi.ResourceTransformationArgs) -> None:
        found.append(args.resource)

    pulumi.runtime.register_stack_transformation(record)
    return found
