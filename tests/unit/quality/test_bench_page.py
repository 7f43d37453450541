"""The benchmark's picture says how each ratio stands to its limit."""

from xml.etree import ElementTree

import pytest

from quality.bench import page
from quality.bench.measure import Comparison, Section
from rehearsal.timeline import FAILED, GPU_NODE, NODE, PENDING

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("ratio", "limit", "bound", "colour", "words"),
    [
        (0.7, 0.8, None, GPU_NODE, "0.70"),
        (0.93, 0.8, 0.92, PENDING, "0.93 over its limit"),
        (0.93, 0.8, None, FAILED, "0.93 over its limit"),
        (1.05, None, None, NODE, "1.05 more than there"),
        (0.33, None, None, NODE, "0.33"),
    ],
)
def test_a_row_over_its_limit_is_marked(
    ratio: float, limit: float | None, bound: float | None, colour: str, words: str
) -> None:
    """In colour and in words; the legend explains every colour, and nothing has a backtick."""
    row = Comparison(
        what="`up` of dev", unit="s", ours=[ratio], theirs=[1.0], limit=limit, bound=bound
    )
    section = Section(letter="d", title="`up`", ours="program", theirs="module", rows=[row])
    root = ElementTree.fromstring(page.picture([section]))
    texts = [each.text or "" for each in root.iter(f"{SVG}text")]
    bars = [each for each in root.iter(f"{SVG}rect") if each.get("x") == str(page.LEFT)]
    assert [bar.get("fill") for bar in bars] == [colour]
    assert words in texts
    assert {*page.COLOURS, "the limit", "d. up: program / module"} <= set(texts)
    assert [text for text in texts if "`" in text] == []
