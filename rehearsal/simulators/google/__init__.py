"""A small strict simulation of Google Cloud, with Google's own APIs."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache

from rehearsal.simulators.google.api.server import Answer, Api, ApiServer, Request
from rehearsal.simulators.google.cloud import GoogleCloud

__all__ = ["GoogleCloud", "methods", "serve_api"]


def serve_api(
    cloud: GoogleCloud, seen: Callable[[Request], None] = lambda request: None
) -> ApiServer:
    """Starts the cloud's APIs on loopback; `seen` is passed to `Api`."""
    return ApiServer(Api(cloud, methods(), seen))


@cache
def methods() -> Mapping[str, Answer]:
    """Method, by its name in Google's documents -> its function: the `METHODS` of all modules."""
    found: dict[str, Answer] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        found |= getattr(importlib.import_module(module.name), "METHODS", {})
    return found
