"""`python version.py`: ends with 1 and a line where this Python is not one that is tried.

Runs with any Python 3, before anything is installed.
"""

import sys

OLDEST, NEWEST = (3, 11), (3, 13)


def main(version=sys.version_info):  # type: ignore[no-untyped-def]
    """What is wrong with this Python, or None."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return None
    return (
        "Python 3.11, 3.12 or 3.13 is needed, and {} is {}.{}: make ... PYTHON=python3.12".format(
            sys.executable or "this", version[0], version[1]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
