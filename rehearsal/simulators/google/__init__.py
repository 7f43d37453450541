"""A small strict simulation of Google Cloud, which speaks Google's own APIs."""

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
    """Starts the cloud's APIs on loopback; `seen` as `Api` has it."""
    return ApiServer(Api(cloud, methods(), seen))


@cache
def methods() -> Mapping[str, Answer]:
    """Method, as Google's documents name it -> what answers it: the `METHODS` of every module
    here."""
    found: dict[str, Answer] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        found |= getattr(importlib.import_module(module.name), "METHODS", {})
    return found
