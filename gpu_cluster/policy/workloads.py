"""Rules on pods: images, GPUs, privileges, and the target cluster."""

import re
from collections.abc import Iterator, Sequence

import yaml

from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.kube import credentials
from gpu_cluster.policy.pods import Pods, asks_for_gpu, container_name, gpus_in, pods_of, variables
from gpu_cluster.policy.reading import UNKNOWN, Resource, get, is_one_of, items

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_SEES_ALL = (_VISIBLE, "DP_DISABLE_HEALTHCHECKS")
"""Environment variables of pods that need the node's GPUs and not just their own."""


def image(resource: Resource, *, stacks: Sequence[str]) -> Iterator[str]:
    """The same declaration always runs the same program; `stacks` must use digests."""
    for pods in pods_of(resource):
        for container in pods.containers:
            reference = get(container, "image")
            if not isinstance(reference, str) or _DIGEST.search(reference):
                continue
            who = f"{pods.title}: container {container_name(container)}"
            tag = reference.partition("@")[0].rpartition("/")[2].partition(":")[2]
            if tag in ("", "latest"):
                what = "has no tag" if not tag else "has the tag latest"
                yield f"{who} runs {reference}, which {what}; pin a version or a digest"
            elif is_one_of(resource.stack, stacks) and _pulled(get(container, "imagePullPolicy")):
                yield (
                    f"{who} runs {reference} by its tag, and stack {resource.stack} pins digests; "
                    "append @sha256:..."
                )


def gpu_limits(resource: Resource) -> Iterator[str]:
    """A pod on GPU nodes sets the number of its GPUs in its limits."""
    for pods in pods_of(resource):
        for container in pods.containers:
            requests, limits = gpus_in(container, "requests"), gpus_in(container, "limits")
            for name, amount in (requests or {}).items():
                if limits is None or UNKNOWN in (amount, limits.get(name)):
                    continue
                if limits.get(name) != amount:
                    yield (
                        f"{pods.title}: container {container_name(container)} requests {amount} "
                        f"{name} and has {limits.get(name, 'none')} in its limits; put the same "
                        "number in its limits"
                    )
        if _goes_to_gpus(pods) and asks_for_gpu(pods) is False and _meant(pods) is False:
            yield (
                f"{pods.title} tolerates {names.GPU_RESOURCE} and asks for none, so it occupies "
                "GPU nodes, and their runtime may expose the GPUs of other pods to it; put "
                f"{names.GPU_RESOURCE} in its limits"
            )


def all_gpus(resource: Resource) -> Iterator[str]:
    """A pod that sees every GPU of its node shares them with the pods that own them."""
    for pods in pods_of(resource):
        if pods.kind == "DaemonSet":
            continue
        whole = {
            container_name(container): name
            for container, name, value in variables(pods)
            if name == _VISIBLE and value == "all"
        }
        for name, variable in whole.items():
            yield (
                f"{pods.title}: container {name} sets {variable}=all and sees every GPU of its "
                "node, including those of other pods; drop it, or accept that they share GPUs"
            )
        hinted = [
            name
            for _, name, value in variables(pods)
            if name in _SEES_ALL and value not in ("none", "void", "", UNKNOWN)
        ]
        if not whole and hinted and asks_for_gpu(pods) is False:
            yield (
                f"{pods.title} sets {hinted[0]} and has no GPU in its limits: it sees every GPU "
                "of its node, including those of other pods; give it limits, or accept that they "
                "share GPUs"
            )


def explicit_provider(resource: Resource) -> Iterator[str]:
    """Kubernetes objects are created in the stack's cluster, not the kubeconfig's current one."""
    provider = resource.provider
    if not resource.type.startswith("kubernetes:") or provider is None:
        return
    if provider == "default" or provider.startswith("default_"):
        yield (
            f"{resource.type.rpartition(':')[2]} {resource.name} is created in whatever cluster "
            "the machine's kubeconfig names; give it the cluster's provider"
        )


def kubeconfig(resource: Resource, *, commands: Sequence[str]) -> Iterator[str]:
    """A kubeconfig can neither run programs nor read files that its author chose.

    `commands` are also allowed, with any arguments.
    """
    text = get(resource.props, "kubeconfig")
    if resource.type != "pulumi:providers:kubernetes" or not isinstance(text, str):
        return
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return  # The provider reports that itself.
    users = document.get("users") if isinstance(document, dict) else None
    for entry in users if isinstance(users, list) else ():
        user = get(entry, "user")
        if isinstance(user, dict) and (reason := credentials.unsafe(user, commands)):
            yield f"the kubeconfig of provider {resource.name} {reason}"


def _goes_to_gpus(pods: Pods) -> bool:
    if pods.kind == "DaemonSet":
        return False
    return any(
        get(toleration, "key") == names.GPU_RESOURCE
        for toleration in items(pods.spec, "tolerations")
    )


def _meant(pods: Pods) -> bool | None:
    """Whether the pod is configured to see GPUs without requesting any; `all_gpus` warns."""
    names_known = all(
        variable is not UNKNOWN and get(variable, "name") is not UNKNOWN
        for container in pods.containers
        for variable in items(container, "env")
    )
    if any(name in _SEES_ALL for _, name, _ in variables(pods)):
        return True
    return False if names_known else None


def _pulled(policy: object) -> bool:
    return policy not in ("Never", UNKNOWN)
