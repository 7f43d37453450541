"""All methods that are simulated, of all of Google's APIs."""

from collections.abc import Mapping

from simulators.google import compute
from simulators.google.api.server import Answer

METHODS: Mapping[str, Answer] = {**compute.METHODS}
"""Method, as Google's documents name it -> what answers it."""
