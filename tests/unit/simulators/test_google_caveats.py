"""Each caveat of a page about GKE is simulated, or the page says that no rehearsal shows it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parent
PAGES = FOLDER.parents[2] / "docs" / "how-to"
CAVEATS = yaml.safe_load((FOLDER / "google_caveats.yaml").read_text(encoding="utf-8"))


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
    assert f"\ndef {name}(" in (FOLDER / file).read_text(encoding="utf-8")


def test_every_page_about_gke_has_caveats() -> None:
    """A new page about GKE begins with a row."""
    about = {path.name for path in PAGES.glob("*gke*.md")}
    assert about <= {caveat["page"] for caveat in CAVEATS}
