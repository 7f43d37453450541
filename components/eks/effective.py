"""A delay for changes that EKS confirms seconds before they apply: pod identities, access."""

import asyncio

import pulumi

from ..lifecycle.prefix import hook

EFFECTIVE_SECONDS = 15
"""How long EKS gets to apply a change: it "may take several seconds". A pod that is created sooner
never gets credentials, and a Kubernetes provider that starts sooner considers the cluster
unreachable.
https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html
https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
https://github.com/aws/containers-roadmap/issues/2507"""


def once_effective(name: str) -> pulumi.ResourceHookBinding:
    """A hook with this name that delays everything that depends on a resource."""

    async def wait(_: pulumi.ResourceHookArgs) -> None:
        await asyncio.sleep(EFFECTIVE_SECONDS)

    return pulumi.ResourceHookBinding(after_create=[hook(name, wait, in_previews=False)])
