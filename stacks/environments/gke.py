"""A new environment on GKE Standard, or on an existing cluster there."""

from components.catalog import gke
from stacks.environments.new_stack import (
    PROJECT,
    YOURS,
    Choices,
    Parts,
    Question,
    added,
    capacity,
    network,
    offer_for,
    reachable,
    scalar,
)

LOCATION = "us-central1-a"
QUESTIONS = (Question("project", "Google Cloud project's ID", PROJECT),)


def provider(choices: Choices) -> list[str]:
    """Implements `Environment`."""
    yours = YOURS if choices.project == PROJECT else ""
    return [f"  gcp:project: {scalar(choices.project)}{yours}"]


def parts(choices: Choices) -> Parts:
    """Implements `Environment`."""
    offer = offer_for(choices, "google")
    pool = [f"machineType: {offer.machine}"]
    if gke.MACHINE_TYPES.get(offer.machine) is None:
        pool.append(f"accelerator: {offer.accelerator}")
    pool += capacity(offer)
    pool.append(f"maxNodes: {choices.max_nodes} # from 0, as pods need them")
    location = f"location: {scalar(choices.location)}"
    if choices.existing:
        yours = YOURS if choices.location == LOCATION else ""
        return added(choices, offer, "GKE"), [f"{location}{yours}"], pool, 1
    return (
        f"GKE Standard with {offer.gpu} GPUs, which cost nothing until a pod needs them",
        [location, *reachable(choices), *network(choices)],
        pool,
        1,
    )
