"""What hits one operation of a run: the engine is killed there, or the cloud answers with an error.

A cloud and its provider see each operation twice: asked, and done. A strike chooses the moment.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from rehearsal.provider.handler import CloudError

Moment = Literal["asked", "done"]
"""Before the cloud did anything, or after it did what was asked and before anybody heard of it."""

QUIET_SECONDS = 0.2
"""Without an operation for so long, a killed run's last ones have ended."""
SETTLE_SECONDS = 30.0


class Strike:
    """Counts a run's operations and hits those that it is told to. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._last = 0.0
        self._hits: Callable[[int, str, str], bool] = _nothing
        self._moment: Moment = "asked"
        self.count = 0
        """Operations since it was armed."""
        self.hit: list[str] = []
        """URNs of what was hit since then."""

    def arm(
        self,
        hits: Callable[[int, str, str], bool],
        moment: Moment,
        act: Callable[[], None],
        *,
        error: Callable[[str], str] = lambda urn: "the engine was killed",
    ) -> None:
        """Counts from one again. Of the operations that `hits` (number, kind, URN) names, `act` is
        called at `moment`; then they fail with what `error` says of the URN."""
        with self._lock:
            self._hits, self._moment, self._act, self._error = hits, moment, act, error
            self.count, self.hit = 0, []

    def disarm(self) -> None:
        """Hits nothing any more."""
        with self._lock:
            self._hits = _nothing

    @contextmanager
    def around(self, kind: str, urn: str) -> Iterator[None]:
        """For `rehearsal.cloud.Faults.around`."""
        with self._lock:
            self.count += 1
            self._running += 1
            hit, moment = self._hits(self.count, kind, urn), self._moment
            if hit:
                self.hit.append(urn)
        try:
            if hit and moment == "asked":
                self._strike(urn)
            yield
            if hit and moment == "done":
                self._strike(urn)
        finally:
            with self._lock:
                self._running -= 1
                self._last = time.monotonic()

    def _strike(self, urn: str) -> None:
        self._act()
        raise CloudError(self._error(urn))

    def settle(self) -> None:
        """Returns when the cloud has finished what it was asked: it goes on without the engine."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            with self._lock:
                quiet = not self._running and time.monotonic() - self._last > QUIET_SECONDS
            if quiet:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"operations were still running after {SETTLE_SECONDS:.0f} s")
            time.sleep(0.02)


def _nothing(number: int, kind: str, urn: str) -> bool:
    return False


def kill_at(number: int) -> Callable[[int, str, str], bool]:
    """Hits the operation with this number, counted from 1."""
    return lambda count, kind, urn: count == number
