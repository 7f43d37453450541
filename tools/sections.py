"""Generated sections of a page: what stands between `<!-- name -->` and `<!-- /name -->`."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def between(text: str, section: str) -> str:
    """The content of the page's section; raises ValueError where the page has none, or two."""
    (found,) = re.findall(f"<!-- {section} -->\n(.*?)<!-- /{section} -->", text, re.DOTALL)
    return str(found)


def filled(text: str, section: str, content: str) -> str:
    """`text` with other content between the section's markers."""
    start, end = f"<!-- {section} -->\n", f"<!-- /{section} -->"
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}{content}{end}{after}"
