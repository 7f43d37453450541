"""The result of every command: an exit code, or an error that says what to do."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """The exit code of a command."""

    OK = 0
    FINDING = 1
    """The command was completed and found a problem."""
    UNKNOWN = 2
    """The command could not be completed, or the answer is not known."""
    STOPPED = 3
    """`gpu-cluster prove` reached a limit or was interrupted; what it had created is deleted."""
    LEFT = 4
    """`gpu-cluster prove` could not delete everything that it had created."""


Answer = tuple[ExitCode, Mapping[str, Any], str]
"""The result of a query: exit code, document and text."""
INTERRUPTED, CLOSED = 130, 141
"""Exit codes after Ctrl-C, and if the reader of the output is gone: 128 and the signal, as in
shells."""


class CheckError(Exception):
    """The request cannot be carried out at all; what to do, usually in one line."""


def worst(codes: Iterable[int]) -> ExitCode:
    """The exit code for several results: problems count before unknown answers."""
    seen = set(codes)
    if ExitCode.FINDING in seen:
        return ExitCode.FINDING
    return ExitCode.UNKNOWN if seen - {ExitCode.OK} else ExitCode.OK
