"""Long-running operations, in the three forms that Google's APIs use."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from gpu_cluster.rehearsal.simulators.google.errors import ApiError, not_found

Form = Literal["compute", "container", "longrunning"]
_numbers = itertools.count(1)


@dataclass(slots=True, kw_only=True)
class Operation:
    """A long-running operation, in progress or done."""

    form: Form
    scope: str
    """The operation's location, such as `projects/p/global`, `projects/p/locations/us-central1`."""
    kind: str
    """`insert`, `CREATE_CLUSTER` and so on."""
    target: str
    """The changed resource, `projects/...`."""
    name: str
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    result: dict[str, Any] = field(default_factory=dict)
    """The response of a `longrunning` operation, with `@type`."""
    error: ApiError | None = None
    done: threading.Event = field(default_factory=threading.Event)
    simulated_seconds: float = 0.0
    """The real duration, if a client's timeout could be shorter."""
    runs: bool = False
    """Whether a thread carries it out; otherwise it is done as soon as it is polled."""

    @property
    def identity(self) -> str:
        """`projects/.../operations/<name>`."""
        return f"{self.scope}/operations/{self.name}".lstrip("/")

    def body(self, base: str) -> dict[str, Any]:
        """The operation in the form of its API; its links begin with `base`."""
        if self.form == "longrunning":
            ended = {"error": {"code": 9, "message": self.error.message}} if self.error else {
                "response": self.result
            }  # fmt: skip
            return {"name": self.identity, "done": self.done.is_set()} | (
                ended if self.done.is_set() else {}
            )
        status = "DONE" if self.done.is_set() else "RUNNING"
        shown: dict[str, Any] = {
            "name": self.name,
            "operationType": self.kind,
            "status": status,
            "selfLink": f"{base}/{self.identity}",
            "targetLink": f"{base}/{self.target}",
            "startTime": self.began.isoformat(),
        }
        place = self.scope.split("/")
        if self.form == "container":
            shown |= {"zone": place[-1], "location": place[-1]}
            if self.simulated_seconds:
                metric = {"name": "SIMULATED_SECONDS", "doubleValue": self.simulated_seconds}
                shown["progress"] = {"metrics": [metric]}
            if self.done.is_set():
                shown["endTime"] = self.began.isoformat()
                if self.error:
                    error = {"code": 13, "message": self.error.message}
                    shown |= {"error": error, "statusMessage": self.error.message}
            return shown
        if len(place) == 4:  # projects/p/regions/r
            shown[place[2].removesuffix("s")] = f"{base}/{self.scope}"
        shown |= {"kind": "compute#operation", "id": self.name.rpartition("-")[2]}
        shown["progress"] = 100 if self.done.is_set() else 0
        if self.error and self.done.is_set():
            shown |= {
                "error": {"errors": [{"code": self.error.reason, "message": self.error.message}]},
                "httpErrorStatusCode": self.error.code,
                "httpErrorMessage": self.error.status,
            }
        return shown


class Operations:
    """All operations of a cloud. Thread-safe."""

    def __init__(self) -> None:
        self._all: dict[str, Operation] = {}

    def begin(
        self,
        form: Form,
        scope: str,
        kind: str,
        target: str,
        *,
        work: Callable[[], object] | None = None,
        simulated_seconds: float = 0.0,
        result: dict[str, Any] | None = None,
    ) -> Operation:
        """Starts an operation: `work` runs in parallel with the caller, without the cloud's lock,
        and an ApiError that it raises is the operation's error. Without work, the operation is done
        when it is polled."""
        number = next(_numbers)
        operation = Operation(
            form=form,
            scope=scope,
            kind=kind,
            target=target,
            name=f"operation-{number:013}",
            result=result or {},
            simulated_seconds=simulated_seconds,
            runs=work is not None,
        )
        self._all[operation.identity] = operation
        if work is not None:
            threading.Thread(
                target=_run, args=(operation, work), name=operation.name, daemon=True
            ).start()
        return operation

    def all(self) -> list[Operation]:
        """All operations, oldest first."""
        return list(self._all.values())

    def running(self, target: str) -> Operation | None:
        """An operation that a thread carries out on the resource, its parent or its child."""
        for operation in self.all():
            short, long = sorted((f"{operation.target}/", f"{target}/"), key=len)
            if operation.runs and not operation.done.is_set() and long.startswith(short):
                return operation
        return None

    def get(self, identity: str) -> Operation:
        """The operation; raises ApiError if it does not exist."""
        operation = self._all.get(identity)
        if operation is None:
            raise not_found(identity)
        if not operation.runs:
            operation.done.set()
        return operation


def _run(operation: Operation, work: Callable[[], object]) -> None:
    try:
        work()
    except ApiError as error:
        operation.error = error
    except Exception as error:
        operation.error = ApiError(500, f"the simulator failed: {error!r}")
        raise
    finally:
        operation.done.set()
