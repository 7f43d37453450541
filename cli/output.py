"""What a command that asks something prints: a table for people or JSON for programs."""

import json
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import TextIO

from stacks.outcome import Answer, CheckError, ExitCode

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All but tab and line feed."""


def say(command: str, ask: Callable[[], Answer], *, as_json: bool) -> ExitCode:
    """Runs `ask` and prints its document or its text. Where it raises CheckError, the line goes to
    the standard error, and into the document."""
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
    """The text without control characters, if the stream is a terminal: what pods print could move
    the cursor, rename the window, or write over what is there."""
    if not stream.isatty():
        return text
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def aside(*, as_json: bool) -> AbstractContextManager[object]:
    """While a command works towards JSON, what it prints goes to the standard error."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()
