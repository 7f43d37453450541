"""Errors that are injected into a rehearsal's cloud and cluster."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field


def _unhurt(kind: str, urn: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(slots=True, kw_only=True)
class Faults:
    """Faults that tests inject; a plain rehearsal has none."""

    quota: dict[str, int] = field(default_factory=dict)
    """Limits that replace the simulator's generous ones: metric name -> units."""
    errors: dict[str, list[str]] = field(default_factory=dict)
    """Resource type token (for AWS: operation, such as `eks:CreateNodegroup`) -> errors of its next
    creates, in this order."""
    no_capacity: list[str] = field(default_factory=list)
    """Offerings that have no capacity, as `TYPE/ZONE/MARKET` with wildcards."""
    halfway: dict[str, list[str]] = field(default_factory=dict)
    """Type of a long-running GKE operation, such as `CREATE_NODE_POOL` -> the results of its next
    ones, in this order; "" is success. A partial create leaves the resource in the state ERROR, and
    a partial update remains in effect."""
    gpus_late: float = 0.0
    """Seconds by which driver and device plugin of every GPU node are delayed."""
    around: Callable[[str, str], AbstractContextManager[None]] = _unhurt
    """(`create`, `update` or `delete`; URN) -> a context manager around the operation. If it raises
    on entry, nothing was done; if on exit, the cloud did it and the response is lost."""

    @property
    def hit_operations(self) -> bool:
        """Whether a proxy must run between the engine and its plugins."""
        return self.around is not _unhurt
