"""The errors that a rehearsal's cloud and cluster make on purpose."""

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
    """Resource type token (of AWS: operation, e.g. `eks:CreateNodegroup`) -> errors that its next
    creates answer with, in turn."""
    no_capacity: list[str] = field(default_factory=list)
    """Offerings that the cloud has run out of, as `TYPE/ZONE/MARKET` with wildcards."""
    halfway: dict[str, list[str]] = field(default_factory=dict)
    """Kind of a long-running operation of GKE's, e.g. `CREATE_NODE_POOL` -> what its next ones end
    with, in turn; "" is success. What they began to create stays, in the state ERROR, and what they
    changed is changed."""
    gpus_late: float = 0.0
    """Seconds by which driver and device plugin of every GPU node are held back."""
    around: Callable[[str, str], AbstractContextManager[None]] = _unhurt
    """(`create`, `update` or `delete`; URN) -> what the operation runs in. Where it raises on the
    way in, nothing was done; on the way out, the cloud did it and the answer is lost."""

    @property
    def hit_operations(self) -> bool:
        """Whether a proxy must run between the engine and its plugins."""
        return self.around is not _unhurt
