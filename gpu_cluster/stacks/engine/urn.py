"""A resource's URN, `urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME`: the only module that parses it.

https://www.pulumi.com/docs/iac/concepts/resources/names/#urns
"""

from dataclasses import dataclass
from typing import Self

_START, _BETWEEN, _WITHIN = "urn:pulumi:", "::", "$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Urn:
    """The parts of a URN. `str` returns the URN again."""

    stack: str
    project: str
    parents: tuple[str, ...] = ()
    """Types of the enclosing components, the outermost first, without the stack."""
    type: str
    name: str
    """May contain anything, even the separators."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError if the text is not a URN."""
        parts = text.removeprefix(_START).split(_BETWEEN, 3)
        if not text.startswith(_START) or len(parts) < 4:
            raise ValueError(f"{text!r} is not a valid URN: urn:pulumi:STACK::PROJECT::TYPE::NAME")
        stack, project, types, name = parts
        *parents, own = types.split(_WITHIN)
        return cls(stack=stack, project=project, parents=tuple(parents), type=own, name=name)

    def __str__(self) -> str:
        types = _WITHIN.join((*self.parents, self.type))
        return f"{_START}{_BETWEEN.join((self.stack, self.project, types, self.name))}"

    @property
    def package(self) -> str:
        """The package, such as `gcp` for `gcp:container/cluster:Cluster`."""
        return self.type.partition(":")[0]

    @property
    def label(self) -> str:
        """Type and name, as shown to people."""
        return f"{self.type} {self.name}"


def reference(provider: str, identity: str) -> str:
    """The form in which a resource's `provider` refers to it: its URN and its ID."""
    return f"{provider}{_BETWEEN}{identity}"


def of_reference(text: str) -> tuple[str, str]:
    """The URN of the provider and its ID; an empty URN if this is not a reference."""
    urn, _, identity = text.rpartition(_BETWEEN)
    return urn, identity
