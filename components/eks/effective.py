"""What EKS answers and only some seconds later does everywhere: pod identities, access policies."""

import asyncio

import pulumi

EFFECTIVE_SECONDS = 15
"""How long it is given to take effect: it "may take several seconds". A pod that is created sooner
never gets credentials, and a Kubernetes provider that starts sooner takes the cluster for
unreachable.
https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html
https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
https://github.com/aws/containers-roadmap/issues/2507
"""


def once_effective(name: str) -> pulumi.ResourceHookBinding:
    """A hook under its own name; what depends on a resource waits for it."""

    async def wait(_: pulumi.ResourceHookArgs) -> None:
        await asyncio.sleep(EFFECTIVE_SECONDS)

    return pulumi.ResourceHookBinding(after_create=[pulumi.ResourceHook(name, wait)])
