"""`python nearest.py NAME COMMAND KNOWN...`: what to give to a make target instead of a variable.

Standard library only: it runs before anything is installed.
"""

import difflib
import sys
from collections.abc import Sequence


def instead(name: str, command: str, known: Sequence[str]) -> str:
    """One line: that the command takes no such variable, the nearest that it takes, and all."""
    near = difflib.get_close_matches(name.upper(), known, 1, 0.7)
    meant = f": did you mean {near[0]}?" if near else ";"
    return (
        f"{command.strip()} takes no {name}{meant} it takes {', '.join(known)} "
        "(variables of the environment stand before `make`)"
    )


if __name__ == "__main__":
    print(instead(sys.argv[1], sys.argv[2], sys.argv[3:]))
