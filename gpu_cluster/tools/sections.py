"""Pages of docs/, and their sections, that are generated from code or from results."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
REFERENCE = DOCS / "reference"
TEMPLATES = ROOT / "quality" / "docs" / "pages"
BENCHMARKS = DOCS / "explanation" / "benchmarks.md"
RELIABILITY = DOCS / "explanation" / "reliability.md"
IMMUTABLE = REFERENCE / "immutable-settings.md"
REHEARSE = DOCS / "getting-started" / "rehearse.md"


def between(text: str, section: str) -> str:
    """The text between `<!-- section -->` and `<!-- /section -->`."""
    (found,) = re.findall(f"<!-- {section} -->\n(.*?)<!-- /{section} -->", text, re.DOTALL)
    return str(found)


def filled(text: str, section: str, content: str) -> str:
    """`text` with the section's content between its markers replaced; ValueError without them."""
    start, end = f"<!-- {section} -->\n", f"<!-- /{section} -->"
    if start not in text or end not in text:
        raise ValueError(f"there is no section {section}")
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}{content}{end}{after}"


def fill(page: Path, section: str, content: str) -> None:
    """Replaces the content between the section's markers of a page."""
    page.write_text(filled(page.read_text(), section, f"\n{content.strip()}\n\n"))


def page(template: Path, **sections: Iterable[str]) -> str:
    """A page from its template, with the lines of each section instead of `<!-- section -->`."""
    text = template.read_text()
    for section, lines in sections.items():
        before, marker, rest = text.partition(f"<!-- {section} -->")
        if not marker:
            raise ValueError(f"{template} has no section {section}")
        text = before + "\n".join(lines) + rest
    return text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
