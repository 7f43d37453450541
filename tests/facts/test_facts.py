"""Our tables say what others maintain, or a row of `differences.yaml` says why they do not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.facts import aws_catalog, aws_tables, google_tables, kubernetes_tables, sdk_tables

COMPARISONS = {
    name: compare
    for tables in (aws_tables, aws_catalog, google_tables, sdk_tables, kubernetes_tables)
    for name, compare in tables.COMPARISONS.items()
}
ROWS: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("differences.yaml").read_text())


def explained(comparison: str) -> list[str]:
    """The differences that have a row."""
    return [line for row in ROWS.get(comparison, ()) for line in row["lines"]]


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_every_difference_has_a_row_and_every_row_a_difference(comparison: str) -> None:
    """A table that is wrong fails here, and so does a row that no longer applies."""
    found = list(COMPARISONS[comparison]())
    rows = explained(comparison)
    without_row = [line for line in found if line not in rows]
    gone = [line for line in rows if line not in found]
    # In the message, which pytest prints whole: these lines are to be copied into the table.
    assert not without_row, "\n".join(["differences without a row:", *without_row])
    assert not gone, "\n".join(["rows whose difference is gone:", *gone])


def test_every_row_says_why() -> None:
    """With the source and the day; and is of a comparison that exists, once."""
    assert set(ROWS) <= set(COMPARISONS)
    for comparison, groups in ROWS.items():
        lines = explained(comparison)
        assert len(lines) == len(set(lines)), comparison
        for row in groups:
            assert row.keys() == {"why", "source", "read", "lines"}, row
            assert row["why"]
            assert row["source"]
            assert row["read"].year >= 2026
