"""All methods that are simulated, of all of Google's APIs."""

from collections.abc import Mapping

from rehearsal.simulators.google import (
    artifact_registry,
    buckets,
    compute,
    container,
    iam,
    monitoring,
    projects,
)
from rehearsal.simulators.google.api.server import Answer

METHODS: Mapping[str, Answer] = {
    **compute.METHODS,
    **container.METHODS,
    **iam.METHODS,
    **projects.METHODS,
    **artifact_registry.METHODS,
    **monitoring.METHODS,
    **buckets.METHODS,
}
"""Method, as Google's documents name it -> what answers it."""
