"""The contents of the engine's requests and the provider's responses, apart from properties."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_cluster.rehearsal.plugins.kubernetes.differences import Change
from gpu_cluster.rehearsal.plugins.kubernetes.properties import Properties
from gpu_cluster.stacks.engine.urn import Urn


class ProviderError(Exception):
    """An operation failed, and nothing of it belongs in the state."""


class InitializationFailed(Exception):
    """The object exists but is not ready; the engine keeps it and retries next time."""

    def __init__(
        self, id: str, state: Properties, reasons: list[str], inputs: Properties | None = None
    ) -> None:
        """Without `inputs` the engine keeps its own."""
        super().__init__(reasons[0])
        self.id = id
        self.state = state
        self.inputs = inputs
        self.reasons = reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The resource that a request refers to."""

    urn: str
    timeout: float = 0.0
    """Seconds, from customTimeouts; 0: not set."""
    preview: bool = False
    ignore_changes: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        """The type without its parents: `kubernetes:apps/v1:DaemonSet`."""
        return Urn.parse(self.urn).type

    @property
    def name(self) -> str:
        """The resource's name in the program."""
        return Urn.parse(self.urn).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The changes of an update."""

    changes: Mapping[str, tuple[Change, bool]]
    """Path -> the kind of change, and whether it replaces."""
    replaces: list[str]
    delete_before_replace: bool
