"""Waits until an object is ready, or deleted; a cancelled update ends every wait at once."""

import threading
import time
from dataclasses import dataclass
from typing import Any

from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.plugins.kubernetes.cluster import Cluster
from gpu_cluster.rehearsal.plugins.kubernetes.objects import (
    SKIP_AWAIT,
    Kind,
    Object,
    is_true,
    kind_of,
    name_of,
    namespace_of,
    timeout_seconds,
)
from gpu_cluster.rehearsal.plugins.kubernetes.readiness import (
    READY,
    SKIPS_WAIT_ON_DELETE,
    Verdict,
    default_seconds,
    pod,
    rule_for,
)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5
"""Seconds between two checks; most objects are ready either soon or late."""


class Unready(Exception):
    """An object exists but did not become ready (or disappear) in time; it belongs in the state."""

    def __init__(self, summary: str, reasons: list[str], live: Object) -> None:
        super().__init__(summary)
        self.reasons = reasons
        self.live = live


@dataclass(frozen=True, slots=True)
class Waiter:
    """Waits for objects in one cluster, for one provider."""

    cluster: Cluster
    cancelled: threading.Event

    def until_ready(self, live: Object, inputs: Object, custom_timeout: float) -> Object:
        """Returns the object once it is ready; raises Unready if it fails or the time is over."""
        rule = None if is_true(inputs, SKIP_AWAIT) else rule_for(inputs)
        if rule is None:
            return live
        seconds = timeout_seconds(inputs, custom_timeout) or default_seconds(inputs)
        deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while True:
            verdict = rule(live, self.cluster)
            if verdict.ready:
                return live
            if verdict.failed:
                raise self._unready(live, f"{_shown(live)} failed", verdict)
            if time.monotonic() >= deadline:
                raise self._unready(
                    live, f"'{name_of(live)}' timed out waiting to be Ready", verdict
                )
            if self.cancelled.wait(min(pause, max(0.0, deadline - time.monotonic()))):
                raise self._unready(
                    live, f"Resource operation was cancelled for '{name_of(live)}'", verdict
                )
            pause = min(pause * 1.5, _LONGEST_PAUSE)
            try:
                live = self.cluster.get(kind_of(live), namespace_of(live), name_of(live))
            except ApiError as error:
                if not error.passing:
                    raise

    def now(self, live: Object, inputs: Object) -> Verdict:
        """Whether the object is ready at this moment."""
        rule = None if is_true(inputs, SKIP_AWAIT) else rule_for(inputs)
        return READY if rule is None else rule(live, self.cluster)

    def until_gone(self, live: Object, inputs: Object, custom_timeout: float) -> None:
        """Returns when the object is gone; raises Unready if that takes too long."""
        kind = kind_of(live)
        if is_true(inputs, SKIP_AWAIT) and (kind.group, kind.kind) in SKIPS_WAIT_ON_DELETE:
            return
        seconds = timeout_seconds(inputs, custom_timeout) or default_seconds({})
        deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
        uid = live["metadata"].get("uid")
        while True:
            try:
                live = self.cluster.get(kind, namespace_of(live), name_of(live))
            except ApiError as error:
                if error.status == 404:
                    return
                if not error.passing:
                    raise
            if live["metadata"].get("uid") != uid:
                return  # another client created a new one of the same name
            if time.monotonic() >= deadline:
                finalizers = ", ".join(live["metadata"].get("finalizers") or []) or "none"
                raise Unready(
                    f"'{name_of(live)}' timed out waiting to be deleted",
                    [f"Timed out waiting for deletion of {kind} \"{name_of(live)}\"; "
                     f"its finalizers: {finalizers}"],
                    live,
                )  # fmt: skip
            if self.cancelled.wait(pause):
                raise Unready(f"Resource operation was cancelled for '{name_of(live)}'", [], live)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _unready(self, live: Object, summary: str, verdict: Verdict) -> Unready:
        return Unready(summary, [verdict.reason, *self._pod_reasons(live)], live)

    def _pod_reasons(self, live: Object) -> list[str]:
        """Why a workload's pods are not ready, for example because they tolerate no node."""
        spec = live.get("spec") or {}
        selector = spec.get("selector") if kind_of(live).group in ("apps", "batch") else None
        labels: dict[str, Any] = (selector or {}).get("matchLabels") or {}
        if not labels:
            return []
        try:
            pods = self.cluster.list(
                Kind("", "v1", "Pod"),
                namespace_of(live),
                ",".join(f"{name}={value}" for name, value in labels.items()),
            )
        except ApiError as error:
            return [f"its Pods cannot be listed: {error}"]
        return [
            f"[Pod {namespace_of(item)}/{name_of(item)}]: {verdict.reason}"
            for item in pods
            if not (verdict := pod(item, self.cluster)).ready
        ]


def _shown(live: Object) -> str:
    return f"{kind_of(live).kind} '{name_of(live)}'"
