"""What recovery asks of the clouds, and of the module of each."""

from collections.abc import Mapping
from typing import Any, Protocol

from gpu_cluster.stacks.recovery.aws_resources import Aws
from gpu_cluster.stacks.recovery.state import Interrupted


class Clouds(Protocol):
    """The clouds that can be queried."""

    def aws(self, region: str) -> Aws: ...

    def google(self, service: str, path: str) -> Mapping[str, Any]:
        """The answer to a GET of an API, such as `compute`, empty if the resource does not exist;
        raises LookupError with Google's message."""


class Recovers(Protocol):
    """The module that `Cloud.recovers` names."""

    def names(self, operation: Interrupted, clouds: Clouds) -> list[str] | None:
        """The cloud's names of what may have been created; none if there is no such thing, None if
        neither type nor inputs tell. Raises LookupError, NotOursError."""

    def described(self, resource: Mapping[str, Any], clouds: Clouds) -> Mapping[str, Any]:
        """A cluster or node pool of the state as the cloud describes it; empty if there is none.
        Raises LookupError."""
