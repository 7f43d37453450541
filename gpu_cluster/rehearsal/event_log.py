"""Events of a rehearsal with their times: in memory for the report, in a file for users."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event."""

    at: float
    """Seconds since the rehearsal began."""
    kind: str
    """`node`, `pod`, `engine`, `cloud` or `finding`."""
    subject: str
    """The node's name, the pod's `namespace/name`, the engine's operation, the group."""
    what: str
    """For example `joined`, `gpus`, `left`; `pending`, `bound`, `running`, `succeeded`."""
    detail: dict[str, Any] = field(default_factory=dict)


class EventLog:
    """Events in the order in which they were recorded. Thread-safe."""

    def __init__(self, file: Path | None = None) -> None:
        self._began = time.monotonic()
        self._file = file
        self._events: list[Event] = []
        self._listeners: list[Callable[[Event], None]] = []
        self._lock = threading.Lock()

    @property
    def now(self) -> float:
        """Seconds since the rehearsal began."""
        return time.monotonic() - self._began

    @property
    def events(self) -> list[Event]:
        """All events so far."""
        with self._lock:
            return list(self._events)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Registers a function that is called with every event from now on."""
        self._listeners.append(listener)

    def record(self, kind: str, subject: str, what: str, **detail: Any) -> None:
        """Adds an event and passes it to the listeners."""
        with self._lock:
            event = Event(
                at=round(self.now, 3), kind=kind, subject=subject, what=what, detail=detail
            )
            self._events.append(event)
            if self._file is not None:
                with self._file.open("a") as file:
                    file.write(json.dumps(asdict(event)) + "\n")
        for listener in self._listeners:
            listener(event)

    def finding(self, subject: str, message: str) -> None:
        """Records a finding, which fails the rehearsal; each only once."""
        if not any(e.kind == "finding" and e.what == message for e in self.events):
            self.record("finding", subject, message)

    @property
    def findings(self) -> list[str]:
        """The findings that fail the rehearsal, one line each."""
        return [event.what for event in self.events if event.kind == "finding"]
