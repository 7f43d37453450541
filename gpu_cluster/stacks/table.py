"""A table of plain text, the same on a terminal and in a pipe."""

from collections.abc import Sequence

COLUMNS = 80
"""Width of a default terminal, for which tables and paragraphs are formatted."""


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; None is shown as `-`. Numbers are right-aligned."""
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
