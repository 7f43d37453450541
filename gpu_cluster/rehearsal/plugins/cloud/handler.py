"""How an offline plugin handles one resource type, in addition to its schema."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.schema import Problem
from gpu_cluster.rehearsal.plugins.faults import Faults

Config = Mapping[str, Any]
"""The provider's own configuration, such as `project`, `region`, `zone`."""


class CloudError(Exception):
    """The cloud's refusal: its message, in one line."""


class NotFoundError(CloudError):
    """The resource does not exist, or no longer exists."""


class InitFailedError(CloudError):
    """The cloud created or changed the resource only partly, and still has it."""

    def __init__(self, identity: str, state: Mapping[str, Any], reason: str) -> None:
        super().__init__(reason)
        self.identity, self.state = identity, state


class Handler:
    """One resource type. Properties are plain values in camelCase, as on the wire."""

    computed: tuple[str, ...] = ()
    """Inputs that the cloud fills in if they are unset: unknown in the preview of a create. Lists
    only those that `clouds/` does not name, as optional and computed or as not inputs at all. Paths
    such as `masterAuth.clientKey` or `rules[].id` belong to blocks that are given. The server
    refuses anything else that a create returns beyond its inputs."""
    secrets: tuple[str, ...] = ()
    """Paths of outputs that the official provider marks secret."""
    update_seconds: float = 3600.0
    """How long the official provider waits for an update, unless the resource says otherwise."""

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        """Problems that the provider reports before a request, in addition to those in `clouds/`;
        previews show them. Values may be `schema.UNKNOWN`."""
        return []

    def on_create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Returns the ID and all properties of the new resource; raises CloudError, or
        InitFailedError if the resource should be in the state nevertheless."""
        raise NotImplementedError

    def on_read(self, config: Config, identity: str, state: dict[str, Any]) -> dict[str, Any]:
        """Returns all current properties; raises NotFoundError."""
        raise NotImplementedError

    def on_update(
        self, config: Config, identity: str, old: dict[str, Any], new: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns all properties after the update. `new` is complete, with unchanged ones."""
        raise NotImplementedError

    def after_failed_update(
        self, old: Mapping[str, Any], new: Mapping[str, Any], error: CloudError
    ) -> Mapping[str, Any] | None:
        """The state after a failed, perhaps partial, update; None if the engine keeps its own."""
        return None

    def lasts(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
        """The real duration, in seconds, of the successful update from `old` to `new`."""
        return 0.0

    def on_delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        """Deletes the resource; raises NotFoundError if it is gone, CloudError if it is in use."""
        raise NotImplementedError

    def same(self, path: str, old: Any, new: Any) -> bool:
        """Whether two different values at `path` mean the same thing."""
        return False

    def plan(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
        """Why the provider refuses the change from the state `old` to the inputs `new` during
        planning; None if it accepts it. Values may be `schema.UNKNOWN`; for a new resource `old` is
        empty."""
        return None

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        """Whether this change at `path` replaces although the property is not immutable; `new` is
        None if it was removed."""
        return False

    def recomputed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
        """Outputs that an update from `old` to `new` changes, and that are unknown in its
        preview."""
        return ()


@dataclass(slots=True, kw_only=True)
class ProviderSettings:
    """The parts of an offline plugin that are specific to one cloud."""

    package: str
    """`gcp` or `aws`: the SDK `pulumi_<package>` defines the accepted inputs."""
    handlers: Mapping[str, Handler]
    """Resource type token -> its handler."""
    functions: Mapping[str, Callable[[Config, dict[str, Any]], dict[str, Any]]] = field(
        default_factory=dict
    )
    """Function token -> the function that answers an invoke."""
    faults: Faults = field(default_factory=Faults)
    changed: Callable[[], None] = lambda: None
    """Called after every successful create, update and delete."""
    check_config: Callable[[Mapping[str, Any]], list[Problem]] = lambda inputs: []
    """Returns the problems of the provider's own configuration."""
