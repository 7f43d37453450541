"""A resource as the rules see it: plain wire names and values, some of which are not known yet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from gpu_cluster.components.kube.partial import UNKNOWN as UNKNOWN
from gpu_cluster.components.kube.partial import entries as entries
from gpu_cluster.components.kube.partial import get as get
from gpu_cluster.components.kube.partial import items as items


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource of the stack: its inputs, and for rules over the whole stack also its outputs."""

    type: str
    name: str
    """The logical name."""
    props: Mapping[str, Any]
    """Property names in camelCase; secrets in plain text, `UNKNOWN` for unknown values."""
    urn: str = ""
    protect: bool = False
    ignore_changes: Sequence[str] = ()
    provider: str | None = None
    """Name of the provider resource; None if it is not known."""
    uses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Property -> URNs of the resources that its value comes from."""

    @property
    def stack(self) -> str:
        """The name of the stack."""
        return self.urn.split(":")[2] if self.urn else ""


def differs(value: Any, *allowed: Any) -> bool:
    """Whether the value is known and is not one of the allowed ones."""
    return value is not UNKNOWN and value not in allowed


def is_on(value: Any) -> bool:
    """Whether this is known to be true, also as a string in AWS structures."""
    return value is True or value == "true"


def is_off(value: Any) -> bool:
    """Whether this is known not to be true: false, or not set."""
    return value is not UNKNOWN and not is_on(value)


def number(value: Any) -> float | None:
    """The number if it is known; otherwise None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None


def is_one_of(stack: str, patterns: Sequence[str]) -> bool:
    """Whether the stack's name matches one of the patterns such as `prod-*`."""
    return any(fnmatchcase(stack, pattern) for pattern in patterns)


def known(values: Sequence[Any]) -> bool:
    """Whether all of these are known."""
    return not any(value is UNKNOWN for value in values)


def of_type(resources: Sequence[Resource], *types: str) -> Iterator[Resource]:
    """The resources of these types."""
    return (resource for resource in resources if resource.type in types)
