"""How every command ends: an exit code, or an error that says what to do."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """What a command tells the shell."""

    OK = 0
    FINDING = 1
    """It was done, and something is wrong with what it was about."""
    UNKNOWN = 2
    """It could not be done or asked, or what was asked does not know."""


Answer = tuple[ExitCode, Mapping[str, Any], str]
"""Of a command that asks something: exit code, document and text."""
INTERRUPTED, CLOSED = 130, 141
"""Exit codes after Ctrl-C, and where the reader has gone: 128 and the signal, as the shell has
it."""


class CheckError(Exception):
    """What was asked for cannot be done at all; one line that says what to do."""


def worst(codes: Iterable[int]) -> ExitCode:
    """Of several answers: what is wrong counts before what is not known."""
    found = set(codes)
    if ExitCode.FINDING in found:
        return ExitCode.FINDING
    return ExitCode.UNKNOWN if found - {ExitCode.OK} else ExitCode.OK
