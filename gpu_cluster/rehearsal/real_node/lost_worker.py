"""A training job on the real node that loses its worker and continues from its last checkpoint.

Progress is read from the output of examples/training/train.py.
"""

import re
from collections.abc import Callable
from typing import Any

from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.cluster_cache import ClusterCache
from gpu_cluster.rehearsal.control_plane.pods import phase
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.real_node.status import View
from gpu_cluster.rehearsal.scenario import Failure
from gpu_cluster.rehearsal.verify.workers import JOB_SET

SECONDS = 180.0
"""How long a worker may take until its first checkpoint, or from its start to its end."""
_STEP = re.compile(r"^step (\d+): loss ([0-9.]+)", re.MULTILINE)
_WROTE = re.compile(r"^step (\d+): wrote ", re.MULTILINE)
_RESUMED = re.compile(r"^resumed from step (\d+)$", re.MULTILINE)
_DONE = re.compile(r"^done: ", re.MULTILINE)


class LostWorker:
    """One job that has one worker at a time."""

    def __init__(
        self,
        job: str,
        view: View,
        cache: ClusterCache,
        api: Api,
        until: Callable[[Callable[[], bool], Callable[[], str], float], Any],
    ) -> None:
        """`until` waits for a condition, at most so many seconds, and else fails with a reason."""
        self._job, self._view, self._cache = job, view, cache
        self._api, self._until = api, until
        self.logs: dict[str, str] = {}
        """Worker -> its log so far, or its complete log."""

    def resumes(self) -> str:
        """Deletes the worker and returns a line about the next one. Raises Failure if the job
        learns nothing or starts over."""
        first = self._worker(_WROTE)
        before = self.logs[first]
        # Like a lost machine: a worker with time to shut down could finish first.
        self._api.delete(f"/api/v1/namespaces/default/pods/{first}", grace=1)
        return verdict(before, self.logs[self._worker(_DONE, other_than=first)])

    def _worker(self, says: re.Pattern[str], other_than: str = "") -> str:
        """The newest worker, once its log matches."""
        last = ""

        def matches() -> bool:
            nonlocal last
            last = self._newest()
            if not last or last == other_than:
                return False
            if phase(self._view.pod(last)) in ("pending", "bound"):
                return False
            try:
                self.logs[last] = self._view.log(last)
            except ApiError:  # its container does not exist yet, or any more
                return False
            return bool(says.search(self.logs[last]))

        def why() -> str:
            words = " | ".join(self.logs.get(last, "").strip().splitlines()[-3:])
            return f"{self._view.not_running([last]) if last else self._job}: {words}"

        self._until(matches, why, SECONDS)
        return last

    def _newest(self) -> str:
        found = [
            (str(pod["metadata"]["creationTimestamp"]), str(pod["metadata"]["name"]))
            for pod in self._cache.pods
            if pod["metadata"].get("labels", {}).get(JOB_SET) == self._job
        ]
        return max(found)[1] if found else ""


def verdict(before: str, after: str) -> str:
    """Compares the logs of the lost worker and its successor."""
    resumed = _RESUMED.search(after)
    if resumed is None:
        raise Failure("the second worker started over, although the first had written a checkpoint")
    (begin, first), (end, last) = _STEP.findall(before)[0], _STEP.findall(after)[-1]
    if float(last) >= float(first):
        raise Failure(
            f"the loss does not decrease: loss {first} at step {begin}, {last} at step {end}"
        )
    return (
        f"loss {first} at step {begin}, its worker deleted after step "
        f"{max(map(int, _WROTE.findall(before)))}, resumed from step {resumed[1]}, loss {last} at "
        f"step {end}"
    )
