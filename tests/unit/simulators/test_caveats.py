"""Each caveat of a how-to page is simulated, or the page says that no rehearsal shows it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

TESTS = Path(__file__).parents[2]
PAGES = TESTS.parent / "docs" / "how-to"
ROWS = yaml.safe_load(Path(__file__).with_name("caveats.yaml").read_text(encoding="utf-8"))
CAVEATS = [row for row in ROWS if "none" not in row]


@pytest.mark.parametrize("caveat", CAVEATS, ids=lambda caveat: caveat["caveat"])
def test_a_caveat_is_simulated_or_named_as_not_shown(caveat: dict[str, Any]) -> None:
    """By a test of the simulated cloud's rule, or by words on the same page."""
    page = " ".join((PAGES / caveat["page"]).read_text(encoding="utf-8").split())
    assert caveat["caveat"] in page
    if "unseen" in caveat:
        assert caveat["unseen"] in page
        assert "test" not in caveat
        return
    file, _, name = caveat["test"].partition("::")
    assert f"\ndef {name}(" in (TESTS / file).read_text(encoding="utf-8")


def test_every_page_has_caveats_or_says_what_it_has_instead() -> None:
    """A new page begins with a row."""
    without = {row["page"] for row in ROWS if "none" in row}
    about = {caveat["page"] for caveat in CAVEATS}
    assert {path.name for path in PAGES.glob("*.md")} == about | without
    assert not about & without
