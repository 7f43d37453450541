"""What `pulumi up` waits for of a workload."""


def awaited(wait: bool, *, seconds: int) -> dict[str, str]:
    """Annotations: wait until it is up, for so long; or until it is there, which is at once.

    Not skipAwait: with that the provider does not wait for its end either, so a Job that is made
    again meets the old one's name, and a node pool is deleted under its pods
    (https://github.com/pulumi/pulumi-kubernetes/issues/3154).
    """
    if wait:
        return {"pulumi.com/timeoutSeconds": str(seconds)}
    return {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
