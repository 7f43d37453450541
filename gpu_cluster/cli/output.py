"""Prints a command's answer: a table for people or JSON for programs."""

import json
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import TextIO

from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All control characters except tab and line feed."""


def say(command: str, ask: Callable[[], Answer], *, as_json: bool) -> ExitCode:
    """Runs `ask` and prints its document or its text. The line of a CheckError is printed to
    standard error, and is part of the document."""
    try:
        code, document, text = ask()
    except CheckError as error:
        code, document, text = ExitCode.UNKNOWN, {"error": str(error)}, ""
        print(for_terminal(f"gpu-cluster {command}: {error}", sys.stderr), file=sys.stderr)
    if as_json:
        print(json.dumps({"command": command, "exit": code, **document}, indent=1))
    elif text:
        print(for_terminal(text, sys.stdout))
    return code


def for_terminal(text: str, stream: TextIO) -> str:
    """The text without control characters, if the stream is a terminal: output of pods could move
    the cursor, rename the window, or overwrite other output."""
    if not stream.isatty():
        return text
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def aside(*, as_json: bool) -> AbstractContextManager[object]:
    """While a command collects JSON, everything that it prints goes to standard error."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()
