"""The text of executable Python scripts, also for an interpreter whose path has blanks."""

import os
import re
import shlex
import sys

_LONGEST_FIRST_LINE = 127
"""Bytes that every kernel reads of a script's first line; it splits them at the first blank."""


def script(program: str, python: str = sys.executable, option: str = "") -> str:
    """A script that runs the program in this interpreter."""
    line = f"#!{python} {option}".rstrip()
    if not re.search(r"\s", python) and len(os.fsencode(line)) < _LONGEST_FIRST_LINE:
        return f"{line}\n{program}"
    # To Python, the shell's lines are a string. A shell takes 1 ms more, and may add variables to
    # the environment.
    return f"#!/bin/sh\n'''exec' {shlex.quote(python)} {option} \"$0\" \"$@\"\n' '''\n{program}"
