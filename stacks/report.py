"""What every check prints and how it ends: a table for people, JSON for machines, an exit code."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

FINE = 0
FINDING = 1
NOT_ASKED = 2
"""What had to be asked did not answer, or answered that it does not know."""


class CheckError(Exception):
    """The check cannot be made at all; one line that says what to do."""


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; None shows as `-`. Cells of numbers align right."""
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    columns = list(zip(*rows, strict=True)) or [()] * len(head)
    numeric = [
        any(cell is not None for cell in column)
        and all(isinstance(cell, int | float | None) for cell in column)
        for column in columns
    ]
    widths = [max(len(row[at]) for row in [list(head), *cells]) for at in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [list(head), *cells]
    ]
    return "\n".join(lines)


def amount(value: float | None) -> int | float | None:
    """A quota's number as people write it: 16, not 16.0."""
    return int(value) if value is not None and value == int(value) else value


def end(check: str, ask: Callable[[], tuple[int, Mapping[str, Any], str]], *, as_json: bool) -> int:
    """Runs `ask`, which gives exit code, document and text, and prints one of the two."""
    try:
        code, document, text = ask()
    except CheckError as error:
        code, document, text = NOT_ASKED, {"error": str(error)}, ""
        print(f"{check}: {error}", file=sys.stderr)
    if as_json:
        print(json.dumps({"check": check, "exit": code, **document}, indent=1))
    elif text:
        print(text)
    return code
