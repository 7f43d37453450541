"""A small strict simulation of Google Cloud, with Google's own APIs."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.server import Answer, Api, ApiServer, Request
from gpu_cluster.rehearsal.simulators.google.cloud import GoogleCloud
from gpu_cluster.rehearsal.simulators.google.state import Existing

__all__ = ["Existing", "GoogleCloud", "endpoints", "methods", "serve_api"]


def serve_api(
    cloud: GoogleCloud, seen: Callable[[Request], None] = lambda request: None
) -> ApiServer:
    """Starts the cloud's APIs on loopback; `seen` is passed to `Api`."""
    return ApiServer(Api(cloud, methods(), seen), endpoints())


@cache
def methods() -> Mapping[str, Answer]:
    """Method, by its name in Google's documents -> its function: the `METHODS` of all modules."""
    return _declared("METHODS")


@cache
def endpoints() -> Mapping[str, str]:
    """The provider's name of an API -> its base path: the `ENDPOINTS` of all modules."""
    return _declared("ENDPOINTS")


def _declared(name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        found |= getattr(importlib.import_module(module.name), name, {})
    return found
