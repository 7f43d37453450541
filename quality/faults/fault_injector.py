"""Injects a fault into one operation of a run: kills the engine, or makes the cloud return an
error.

An operation is reported twice: asked, and done. An injector chooses the moment.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError

Moment = Literal["asked", "done"]
"""Before the cloud has done anything, or after it has and before the response is received."""

QUIET_SECONDS = 0.2
"""After this long without an operation, a killed run's last operations have ended."""
SETTLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionPoint:
    """The point at which a run is killed."""

    number: int
    """The operation's position in a run without faults, from 1."""
    kind: str
    """`create`, `update` or `delete`."""
    urn: str
    moment: Moment


class FaultInjector:
    """Records a run's operations and injects faults into selected ones. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._last = 0.0
        self._hits: Callable[[int, str, str], bool] = _nothing
        self._moment: Moment = "asked"
        self.operations: list[tuple[str, str]] = []
        """Type and URN of each operation since the injector was armed, in order."""
        self.hit: list[str] = []
        """URNs of the operations with faults since then."""

    def arm(
        self,
        hits: Callable[[int, str, str], bool],
        moment: Moment,
        act: Callable[[], None],
        *,
        error: Callable[[str], str] = lambda urn: "the engine was killed",
    ) -> None:
        """Starts over. For the operations that `hits` (number, kind, URN) selects, `act` is called
        at `moment`; then they fail with the message that `error` returns for the URN."""
        with self._lock:
            self._hits, self._moment, self._act, self._error = hits, moment, act, error
            self.operations, self.hit = [], []

    def disarm(self) -> None:
        """Stops injecting faults."""
        with self._lock:
            self._hits = _nothing

    @contextmanager
    def around(self, kind: str, urn: str) -> Iterator[None]:
        """Implements `rehearsal.simulators.cloud.Faults.around`."""
        with self._lock:
            self.operations.append((kind, urn))
            self._running += 1
            hit, moment = self._hits(len(self.operations), kind, urn), self._moment
            if hit:
                self.hit.append(urn)
        try:
            if hit and moment == "asked":
                self._inject(urn)
            yield
            if hit and moment == "done":
                self._inject(urn)
        finally:
            with self._lock:
                self._running -= 1
                self._last = time.monotonic()

    def _inject(self, urn: str) -> None:
        self._act()
        raise CloudError(self._error(urn))

    def settle(self) -> None:
        """Returns when the cloud has finished its operations, which continue without the engine."""
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


def kill_at(points: Iterable[InjectionPoint]) -> Callable[[int, str, str], bool]:
    """Selects these operations, whatever their order."""
    wanted = {(point.kind, point.urn) for point in points}
    return lambda number, kind, urn: (kind, urn) in wanted
