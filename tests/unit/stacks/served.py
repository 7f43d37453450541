"""Servers on loopback in place of a cloud's API or a cluster's, and the kubeconfig of one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from threading import Thread
from typing import Any


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    """Its URL, until the end of the block."""
    with server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def kubeconfig_of(url: str, user: dict[str, Any] | None = None) -> str:
    """Of the cluster whose API server is there; nobody signs in without a `user`."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": user or {}}, {"name": "other", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )
