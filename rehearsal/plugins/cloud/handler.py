"""What an offline plugin needs to know of one resource type beyond its schema: how the cloud
simulates it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rehearsal.plugins.cloud.schema import Problem
from rehearsal.plugins.faults import Faults

Config = Mapping[str, Any]
"""The provider's own configuration, e.g. `project`, `region`, `zone`."""


class CloudError(Exception):
    """What the cloud answers when it refuses, in one line and in its own words."""


class NotFoundError(CloudError):
    """The thing does not exist (any more)."""


class InitFailedError(CloudError):
    """The cloud created or changed it, but not completely, and still has it."""

    def __init__(self, identity: str, state: Mapping[str, Any], reason: str) -> None:
        super().__init__(reason)
        self.identity, self.state = identity, state


class Handler:
    """One resource type. Properties are plain values in camelCase, as on the wire."""

    computed: tuple[str, ...] = ()
    """Inputs that the cloud fills in if they are unset: unknown in a preview of a create. Here
    are only those that `clouds/` does not name, as optional and computed or as no inputs.
    Paths such as `masterAuth.clientKey` or `rules[].id` are those of a block that is given.
    Whatever a create returns beyond its inputs must be in one of both; the server refuses it
    otherwise."""
    secrets: tuple[str, ...] = ()
    """Paths of outputs that the official provider marks secret."""
    update_seconds: float = 3600.0
    """How long the official provider waits for an update, unless the resource says otherwise."""

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        """What the provider refuses before it asks the cloud, beyond what `clouds/` has; previews
        show it. Values may be `schema.UNKNOWN`."""
        return []

    def on_create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The id and all properties of the new resource; raises CloudError, or InitFailedError if
        the state shall have it nevertheless."""
        raise NotImplementedError

    def on_read(self, config: Config, identity: str, state: dict[str, Any]) -> dict[str, Any]:
        """All properties as they are now; raises NotFoundError."""
        raise NotImplementedError

    def on_update(
        self, config: Config, identity: str, old: dict[str, Any], new: dict[str, Any]
    ) -> dict[str, Any]:
        """All properties afterwards. `new` is complete: what did not change is in it as well."""
        raise NotImplementedError

    def after_failed_update(
        self, old: Mapping[str, Any], new: Mapping[str, Any], error: CloudError
    ) -> Mapping[str, Any] | None:
        """What the state has once an update from `old` to `new` has failed, perhaps partway; None
        where the engine keeps its own."""
        return None

    def lasts(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
        """Seconds that the update from `old` to `new`, which has just succeeded, takes in life."""
        return 0.0

    def on_delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        """Raises NotFoundError if it is already gone, CloudError if something uses it."""
        raise NotImplementedError

    def same(self, path: str, old: Any, new: Any) -> bool:
        """Whether two different values at `path` mean the same thing."""
        return False

    def plan(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
        """Why the provider refuses the step from the state `old` to the inputs `new` while it plans
        it; None if it does not. Values may be `schema.UNKNOWN`; of a new resource `old` is
        empty."""
        return None

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        """Whether this change at `path` replaces although the property is not immutable; `new` is
        None if it was taken away."""
        return False

    def recomputed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
        """Outputs that an update from `old` to `new` changes, so that its preview cannot know."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that the engine asked of the cloud."""

    urn: str
    kind: str
    """create, read, update or delete."""
    started: float
    """Seconds since the epoch."""
    seconds: float
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class ProviderSettings:
    """What the offline plugin of one cloud adds to the common one."""

    package: str
    """`gcp` or `aws`: the SDK `pulumi_<package>` says what is accepted."""
    handlers: Mapping[str, Handler]
    """Resource type token -> what simulates it."""
    functions: Mapping[str, Callable[[Config, dict[str, Any]], dict[str, Any]]] = field(
        default_factory=dict
    )
    """Function token -> what answers an invoke."""
    faults: Faults = field(default_factory=Faults)
    changed: Callable[[], None] = lambda: None
    """Called after every create, update and delete that the cloud carried out."""
    check_config: Callable[[Mapping[str, Any]], list[Problem]] = lambda inputs: []
    """What is wrong with the provider's own configuration."""
