"""Every image that the pods of a stack run, and its name in the stack's own registry.

Without those of EKS addons and GKE's own pods, which the clouds pull from their registries.
"""

from collections.abc import Iterator
from typing import Any

from gpu_cluster.components.catalog import images
from gpu_cluster.components.eks.existing_args import controller
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.gke.settings import GkeSettings
from gpu_cluster.components.gpu.fabric import daemon_image
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.definition.settings import NOWHERE, config_of, settings_of
from gpu_cluster.stacks.outcome import Answer, ExitCode
from gpu_cluster.stacks.table import table


def answer(stack: str) -> Answer:
    """Exit code, document and text. Raises CheckError for a stack that cannot be read."""
    settings = settings_of(stack, config_of(stack), kubeconfig=NOWHERE)
    images_used = sorted(set(references(settings)))
    rows = [(image, settings.images.image(image)) for image in images_used]
    document = {
        "stack": stack,
        "images": [
            {"image": image, "digest": image.partition("@")[2] or None, "pulled": pulled}
            for image, pulled in rows
        ],
    }
    text = table(("image", "pulled as"), rows)
    if settings.images.registry:
        copies = [f"crane copy {image} {pulled}" for image, pulled in rows if image != pulled]
        text += "\n\n" + "\n".join(copies)
    return ExitCode.OK, document, text


def pulled(settings: Settings[Any]) -> list[str]:
    """The images as pods pull them: from the stack's own registry if it has one."""
    return [settings.images.image(image) for image in sorted(set(references(settings)))]


def references(settings: Settings[Any]) -> Iterator[str]:
    """The images by their original names, without preloaded ones, which are in no registry."""
    pools = [resolved.pool for resolved in settings.pools.values()]
    if any(pool.device_plugin for pool in pools):
        yield images.DEVICE_PLUGIN.reference
    for pool in pools:
        if pool.fabric and (daemon := daemon_image(pool.fabric)):
            yield daemon
    if any(pool.device_class for pool in pools):
        yield images.DRA_DRIVER.reference
    for pool in pools:
        if pool.installer:
            yield images.PAUSE.reference
            if pool.installer_image:
                yield pool.installer_image
            if pool.installer == "cos":
                yield images.PARTITION_GPUS.reference
    if settings.monitoring and settings.monitoring.source == "exporter":
        yield images.DCGM_EXPORTER.reference
    if isinstance(settings.own, GkeSettings):
        own = getattr(settings.own.cluster, "nccl_plugin", "stack") == "stack"
        directs = {pool.args.gpu_direct or "" for pool in settings.own.pools.values()} - {""}
        for direct in directs if own else ():
            yield images.PAUSE.reference
            yield images.NCCL_PLUGINS[direct].reference
            if direct in images.TCP_DAEMONS:
                yield images.DEVICE_INJECTOR.reference
    if isinstance(settings.own, EksSettings):
        if any(pool.args.efa for pool in settings.own.pools.values()):
            yield images.EFA_PLUGIN.reference
        options = controller(settings.own.cluster)
        if options is not None:
            yield options.image_for(settings.own.cluster.version)
    if settings.batch and settings.batch.job_set:
        yield images.JOBSET.reference
    if settings.batch and settings.batch.queues:
        yield images.KUEUE.reference
    for pods in settings.pod_groups:
        yield pods.image
