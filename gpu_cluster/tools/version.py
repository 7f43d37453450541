"""`python version.py`: exits with 1 and a message if this Python version is not tested.

Runs with any Python 3, before anything is installed.
"""

import sys

OLDEST, NEWEST = (3, 11), (3, 13)


def wrong(version: "tuple[int, ...]") -> str:
    """The reason why this Python version is not supported; empty if it is."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return ""
    return (
        f"Python 3.11, 3.12 or 3.13 is needed, and {sys.executable} is {version[0]}.{version[1]}: "
        "make ... PYTHON=python3.12"
    )


if __name__ == "__main__":
    sys.exit(wrong(sys.version_info[:2]) or 0)
