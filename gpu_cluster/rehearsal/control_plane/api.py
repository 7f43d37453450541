"""Plain JSON access to a Kubernetes API server: objects are dicts, and a watch is an iterator.

`rehearsal.plugins.kubernetes.api_error` says why this is not the official client.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import urllib3

from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Api:
    """One user's access to one API server. Thread-safe."""

    def __init__(self, endpoint: str, ca: Path, token: str) -> None:
        self._base = f"https://{endpoint}"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(maxsize=24, ca_certs=str(ca), retries=False)

    def as_pod_of(self, account: str, node: str) -> "Api":
        """The access of a pod with this service account, `namespace:name`, on this node, as the API
        server sees its token."""
        other = copy.copy(self)
        own = {
            "Impersonate-User": f"system:serviceaccount:{account}",
            "Impersonate-Extra-authentication.kubernetes.io%2Fnode-name": node,
        }
        vars(other)["_headers"] = {**self._headers, **own}
        return other

    def get(self, path: str, **query: str) -> Object:
        """Returns an object or a list; `path` starts with `/api`."""
        return self._call("GET", path, query=query)

    def items(self, path: str) -> list[Object]:
        """Returns the objects of a list."""
        items: list[Object] = self.get(path)["items"]
        return items

    def text(self, path: str) -> str:
        """Returns a response that is not an object, such as a container's log."""
        reply = self._pool.request(
            "GET", f"{self._base}{path}", headers=self._headers, timeout=30.0
        )
        if reply.status >= 400:
            raise ApiError.of(reply.status, reply.reason, reply.data, request=f"GET {path}")
        return reply.data.decode(errors="replace")

    def create(self, path: str, manifest: Object) -> Object:
        """Creates an object and returns the result; raises ApiError."""
        return self._call("POST", path, manifest)

    def patch(self, path: str, patch: Object, kind: str = MERGE) -> Object:
        """Merges into an object and returns the result; raises ApiError."""
        return self._call("PATCH", path, patch, content=kind)

    def put(self, path: str, manifest: Object) -> Object:
        """Replaces an object as a whole; raises ApiError."""
        return self._call("PUT", path, manifest)

    def apply(self, path: str, manifest: Object, *, manager: str = "rehearsal") -> Object:
        """Server-side apply as a field manager that wins every conflict."""
        query = {"fieldManager": manager, "force": "true"}
        return self._call("PATCH", path, manifest, content=APPLY, query=query)

    def delete(self, path: str, *, grace: int | None = None) -> None:
        """Deletes an object; no error if it does not exist."""
        options: Object = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            self._call("DELETE", path, options)
        except ApiError as error:
            if error.status != 404:
                raise

    def ready(self) -> bool:
        """Whether the server reports that it is ready; False if no server is listening."""
        try:
            reply = self._pool.request(
                "GET", f"{self._base}/readyz", headers=self._headers, timeout=2.0
            )
        except urllib3.exceptions.HTTPError:
            return False
        return reply.status == 200

    def watch(self, path: str, version: str) -> Iterator[Object]:
        """Yields changes after `version`, as `{"type": ..., "object": ...}`, until the server
        ends."""
        reply = self._pool.request(
            "GET",
            f"{self._base}{path}",
            headers=self._headers,
            fields={"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"},
            preload_content=False,
            timeout=urllib3.Timeout(connect=5.0, read=None),
        )
        try:
            if reply.status != 200:
                raise ApiError.of(reply.status, reply.reason, b"", request=f"watch of {path}")
            rest = b""
            while chunk := reply.read1():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        finally:
            reply.close()

    def _call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        fields = "?" + "&".join(f"{key}={value}" for key, value in query.items()) if query else ""
        reply = self._pool.request(
            method,
            f"{self._base}{path}{fields}",
            headers={**self._headers, "Content-Type": content},
            body=None if body is None else json.dumps(body).encode(),
            timeout=30.0,
        )
        if reply.status >= 400:
            raise ApiError.of(reply.status, reply.reason, reply.data, request=f"{method} {path}")
        answer: Object = json.loads(reply.data) if reply.data[:1] == b"{" else {}
        return answer
