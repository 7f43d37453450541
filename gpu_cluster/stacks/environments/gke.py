"""A new environment on GKE Standard, or on an existing cluster there."""

from gpu_cluster.components.catalog import gke
from gpu_cluster.stacks.environments.new_stack import (
    MAX_NODES,
    PROJECT,
    Choices,
    Parts,
    Question,
    added,
    capacity,
    example,
    network,
    offer_for,
    reachable,
    scalar,
)

LOCATION = "us-central1-a"
QUESTIONS = (Question("project", "Google Cloud project's ID", PROJECT),)


def provider(choices: Choices) -> list[str]:
    """Implements `Environment`."""
    project = choices.project
    return [f"  gcp:project: {scalar(project or PROJECT)}{example(project)}"]


def parts(choices: Choices) -> Parts:
    """Implements `Environment`."""
    place = choices.location or LOCATION
    offer = offer_for(choices, "google", place)
    pool = [f"machineType: {offer.machine}"]
    if gke.MACHINE_TYPES.get(offer.machine) is None:
        pool.append(f"accelerator: {offer.accelerator}")
    pool += capacity(offer)
    pool.append(f"maxNodes: {choices.max_nodes or MAX_NODES} # from 0, as pods need them")
    location = f"location: {scalar(place)}"
    if choices.existing:
        version = choices.kubernetes_version
        cluster = [f"{location}{example(choices.location)}"]
        cluster += [f"version: {scalar(version)}"] if version else []
        return added(choices, offer, "GKE"), cluster, pool, 1
    return (
        f"GKE Standard with {offer.gpu} GPUs, which cost nothing until a pod needs them",
        [location, *reachable(choices), *network(choices)],
        pool,
        1,
    )
