"""What a stack may be called: its name becomes part of paths and of commands."""

import re

from stacks.outcome import CheckError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class StackError(CheckError):
    """The stack or its file cannot be used; the message says what to do."""


def stack_name(text: str) -> str:
    """The name as it was given; raises StackError where no stack can be called that.

    The engine takes letters, digits, hyphens, underscores and periods, 100 at most; a name that
    begins with a period or a hyphen, or has two periods in a row, would be a path or a flag here.
    """
    if not NAME.fullmatch(text) or ".." in text:
        raise StackError(
            f"{text!r} is not a valid stack name: give letters, digits, hyphens, underscores and "
            "single periods, a letter or digit first, such as dev"
        )
    return text
