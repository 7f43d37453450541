"""A new environment on GKE Autopilot."""

from gpu_cluster.stacks.environments.gke import QUESTIONS, provider
from gpu_cluster.stacks.environments.new_stack import (
    Choices,
    Parts,
    capacity,
    network,
    offer_for,
    reachable,
    scalar,
)

__all__ = ["LOCATION", "QUESTIONS", "parts", "provider"]
LOCATION = "us-central1"


def parts(choices: Choices) -> Parts:
    """Implements `Environment`."""
    place = choices.location or LOCATION
    offer = offer_for(choices, "google", place, autopilot=True)
    return (
        f"GKE Autopilot: a pod gets a node with {offer.gpu} GPUs while it runs",
        [f"location: {scalar(place)}", *reachable(choices), *network(choices)],
        [
            f"accelerator: {offer.accelerator}",
            # A compute class has nodes of one size; without one, each pod gets its own.
            *([f"gpusPerNode: {offer.gpus}"] if choices.scaler else []),
            *capacity(offer),
        ],
        offer.gpus,
    )
