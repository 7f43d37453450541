"""`python version.py`: ends with 1 and a line where this Python is not one that is tried.

Runs with any Python 3, before anything is installed.
"""

import sys

OLDEST, NEWEST = (3, 11), (3, 13)


def wrong(version: "tuple[int, ...]") -> str:
    """What is wrong with this Python; empty if nothing is."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return ""
    return (
        f"Python 3.11, 3.12 or 3.13 is needed, and {sys.executable} is {version[0]}.{version[1]}: "
        "make ... PYTHON=python3.12"
    )


if __name__ == "__main__":
    sys.exit(wrong(sys.version_info[:2]) or 0)
