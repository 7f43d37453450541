"""A small strict simulation of Google Cloud, which speaks Google's own APIs."""

from collections.abc import Callable

from rehearsal.simulators.google.api.server import Api, ApiServer, Request
from rehearsal.simulators.google.cloud import GoogleCloud
from rehearsal.simulators.google.methods import METHODS

__all__ = ["GoogleCloud", "serve_api"]


def serve_api(
    cloud: GoogleCloud, seen: Callable[[Request], None] = lambda request: None
) -> ApiServer:
    """Starts the cloud's APIs on loopback; `seen` as `Api` has it."""
    return ApiServer(Api(cloud, METHODS, seen))
