"""What `pulumi up` waits for when it declares a workload."""


def awaited(wait: bool, *, seconds: int) -> dict[str, str]:
    """Annotations: wait until it is ready, at most for `seconds`; or only until it exists.

    Not skipAwait: with that, the provider does not wait for a deletion either, so that a new Job
    conflicts with the old one of the same name, and a node pool is deleted under its pods
    (https://github.com/pulumi/pulumi-kubernetes/issues/3154).
    """
    if wait:
        return {"pulumi.com/timeoutSeconds": str(seconds)}
    return {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
