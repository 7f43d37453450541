"""Settings whose value is an output of another resource, which may be unknown in a preview.

The value must not decide which resources there are, nor their names. Like the args classes, this
module does without the SDK, which takes a second to import.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeVar, cast

T = TypeVar("T")
if TYPE_CHECKING:
    from pulumi import Output

    MaybeOutput = str | Output[str]
    Named = Sequence[str] | Mapping[str, T]
else:
    MaybeOutput = Annotated[str, "output"]
    Named = Annotated[Sequence[T], "named"]
"""The type of a text that may be an output: an ID, an ARN, an endpoint or a certificate; and of
several, each of which has resources. These are named after plain texts in a list, or after the
user's names in a map, whose values may be outputs: a place in a list would be that of another text
once one before it is removed."""

OUTPUT: Final = "output"
"""Annotation of such a text, for programs."""
NAMED: Final = "named"
"""Annotation of a `Named` list."""
NULLABLE: Final = "nullable"
"""Annotation of a text whose output may be None, as if the key were omitted."""
UNKNOWN: Final = "unknown until up"
"""What messages have in place of an output's value."""


def is_output(value: object) -> bool:
    """Whether the value may be known only during an update."""
    sdk = sys.modules.get("pulumi")
    return sdk is not None and isinstance(value, sdk.Output | sdk.output.Unknown)


def applied(change: Callable[..., T], *values: MaybeOutput) -> "T | Output[T]":
    """What `change` returns for these texts: at once, or once all outputs are known."""
    if not any(map(is_output, values)):
        return change(*values)
    import pulumi

    # An output without a value is refused where it is checked, with its path.
    return pulumi.Output.all(*values).apply(
        lambda known: cast("T", None) if None in known else change(*known)
    )


def keyed(
    values: "Sequence[MaybeOutput] | Mapping[str, MaybeOutput]",
) -> "list[tuple[str | int, MaybeOutput]]":
    """Each text with its key in the settings: its name, or its place in a list."""
    return [*(values.items() if isinstance(values, Mapping) else enumerate(values))]


def named(key: str | int, value: MaybeOutput, name: Callable[[str], str]) -> str:
    """A resource's name: the user's, or that of a text in a list."""
    return key if isinstance(key, str) else name(text(value))


def text(value: MaybeOutput) -> str:
    """A value in a stack file, which has no outputs."""
    assert isinstance(value, str)
    return value


def texts(values: "Iterable[MaybeOutput] | Named[MaybeOutput]") -> list[str]:
    """Those that are no outputs."""
    values = values.values() if isinstance(values, Mapping) else values
    return [value for value in values if isinstance(value, str)]
