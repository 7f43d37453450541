"""`python nearest.py NAME COMMAND KNOWN...`: suggests a make target's variable for an unknown one.

Standard library only: it runs before anything is installed.
"""

import difflib
import sys
from collections.abc import Sequence


def instead(name: str, command: str, known: Sequence[str]) -> str:
    """One line: that the command has no such variable, the most similar one, and all of them."""
    near = difflib.get_close_matches(name.upper(), known, 1, 0.7)
    meant = f": did you mean {near[0]}?" if near else ";"
    return (
        f"{command.strip()} takes no {name}{meant} it takes {', '.join(known)} "
        "(variables of the environment stand before `make`)"
    )


if __name__ == "__main__":
    print(instead(sys.argv[1], sys.argv[2], sys.argv[3:]))
