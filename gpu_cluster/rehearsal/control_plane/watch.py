"""Keeps a list of Kubernetes objects up to date and passes on every change, in order.

A watch that breaks is resumed from a fresh list, so nothing is missed: whatever changed in the
meantime is reported as a change, whatever was deleted as a deletion.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Literal

import urllib3

from gpu_cluster.rehearsal.control_plane.api import Api, Object
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError

Change = Literal["ADDED", "MODIFIED", "DELETED"]
Handler = Callable[[str, Change, Object], None]

RETRY_SECONDS = 0.2
UNKNOWN_SECONDS = 3.0
"""After this, a kind that the cluster does not have is requested again: it may be new."""


class Watcher:
    """Watches several kinds, each in its own thread, until it is stopped."""

    def __init__(self, api: Api, paths: Mapping[str, str], handle: Handler) -> None:
        self._api = api
        self._handle = handle
        """Called with kind, change and object, from several threads."""
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=item, name=f"watch-{item[0]}", daemon=True)
            for item in paths.items()
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Passes on no more changes. The threads end with the API server's connections."""
        self._stopped.set()

    def _follow(self, kind: str, path: str) -> None:
        known: dict[str, Object] = {}
        while not self._stopped.is_set():
            try:
                listed = self._api.get(path)
                self._compare(kind, known, listed["items"])
                version = listed["metadata"]["resourceVersion"]
                for event in self._api.watch(path, version):
                    if self._stopped.is_set():
                        return
                    if event["type"] == "ERROR":  # usually, the version is too old
                        break
                    if event["type"] != "BOOKMARK":
                        self._apply(kind, known, event["type"], event["object"])
            except (ApiError, urllib3.exceptions.HTTPError, OSError) as error:
                unknown = isinstance(error, ApiError) and error.status == 404
                self._stopped.wait(UNKNOWN_SECONDS if unknown else RETRY_SECONDS)

    def _compare(self, kind: str, known: dict[str, Object], items: list[Object]) -> None:
        current = {item["metadata"]["uid"]: item for item in items}
        for uid in [uid for uid in known if uid not in current]:
            self._apply(kind, known, "DELETED", known[uid])
        for uid, item in current.items():
            if uid not in known:
                self._apply(kind, known, "ADDED", item)
            elif item["metadata"]["resourceVersion"] != known[uid]["metadata"]["resourceVersion"]:
                self._apply(kind, known, "MODIFIED", item)

    def _apply(self, kind: str, known: dict[str, Object], change: Change, item: Object) -> None:
        uid = item["metadata"]["uid"]
        if change == "DELETED":
            known.pop(uid, None)
        else:
            known[uid] = item
        self._handle(kind, change, item)
