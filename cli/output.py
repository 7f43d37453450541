"""What a command that asks something prints: a table for people or JSON for programs."""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout

from stacks.outcome import Answer, CheckError, ExitCode


def say(command: str, ask: Callable[[], Answer], *, as_json: bool) -> ExitCode:
    """Runs `ask` and prints its document or its text. Where it raises CheckError, the line goes to
    the standard error, and into the document."""
    try:
        code, document, text = ask()
    except CheckError as error:
        code, document, text = ExitCode.UNKNOWN, {"error": str(error)}, ""
        print(f"gpu-cluster {command}: {error}", file=sys.stderr)
    if as_json:
        print(json.dumps({"command": command, "exit": code, **document}, indent=1))
    elif text:
        print(text)
    return code


def aside(*, as_json: bool) -> AbstractContextManager[object]:
    """While a command works towards JSON, what it prints goes to the standard error."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()
