"""What every command line here has in common: one line for what is wrong, and a quiet end."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from stacks.names import StackError, stack_name

WRONG = 2
"""The exit code where what was given cannot be used."""
CLOSED = 141
"""The exit code of a command whose reader has gone, as the shell has it: 128 and SIGPIPE."""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with a command line, and ends with 2."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (--help says what it takes)", file=sys.stderr)
        raise SystemExit(WRONG)

    def add_stack(self, *names: str, **options: Any) -> None:
        """The argument `stack`, which only takes what a stack can be called."""
        self.add_argument(*names or ("stack",), type=stack, **options)


def stack(text: str) -> str:
    """For argparse: a stack's name."""
    try:
        return stack_name(text)
    except StackError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(main: Callable[[], int | None]) -> int:
    """The exit code of a command, also where nobody reads its output to the end."""
    try:
        code = main() or 0
        sys.stdout.flush()
    except BrokenPipeError:
        # Else the interpreter complains once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except KeyboardInterrupt:
        return 130
    return code
