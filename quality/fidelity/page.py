"""Writes the page that shows the last comparisons."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.tools.sections import DOCS, REFERENCE, TEMPLATES, page, table
from quality.fidelity.packages import PACKAGES

RESULTS = DOCS / "measured" / "fidelity"
"""The results of the last comparison of each package."""
PAGE = REFERENCE / "plugin-fidelity.md"


def write_fidelity() -> None:
    """Writes the page for all packages with a result."""
    PAGE.write_text(markdown())


def markdown() -> str:
    """The page's text."""
    return page(TEMPLATES / PAGE.name, packages=_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    for name, package in PACKAGES.items():
        file = RESULTS / f"{name}.json"
        yield f"## {package.title}\n"
        if file.is_file():
            yield from _section(json.loads(file.read_text()))
        else:
            yield "Not compared yet.\n"


def _section(of: Mapping[str, Any]) -> Iterator[str]:
    versions = of["versions"]
    verdicts = ", ".join(f"{count:,} {name}" for name, count in of["verdicts"].items())
    yield (
        f"On {of['date']}: official plugin {versions['official']}, offline plugin for the SDK "
        f"{versions['sdk']}. Of {of['cases']:,} cases {of['same']} % got the same verdict."
    )
    yield (
        f"But for inputs that not all versions have, {of['same but for versions']} % did. The "
        f"official plugin's verdicts: {verdicts}."
    )
    if of["previews"]:
        yield (
            f"Of {of['previews']:,} previews of new resources {of['same outputs']} % left the same "
            "outputs unknown."
        )
    yield ""
    for title, rows in (("Kind", of["kinds"]), ("Resource type", of["types"])):
        cells = [[r["of"], f"{r['cases']:,}", str(r["differ"]), f"{r['same']}"] for r in rows]
        yield from table((title, "Cases", "Differ", "Same, %"), cells)
        yield ""
    if of["differences"]:
        yield "What differs:\n"
        yield from table(("Type", "Case", "Offline", "Official", "Why it stays"), _rows(of))
        yield ""


def _rows(of: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    seen: set[tuple[str, ...]] = set()
    for diff in of["differences"]:
        if "offline" in diff:
            row = (diff["type"], f"{diff['kind']} `{diff['path']}`", diff["offline"][:80],
                   diff["official"][:80], diff["reason"])  # fmt: skip
        else:
            unknown = ", ".join(f"`{path}`" for path in diff["unknown to one"])
            row = (diff["type"], f"preview: {unknown}", "", "", diff["reason"])
        if row not in seen:
            seen.add(row)
            yield tuple(cell.replace("\n", " ") for cell in row)
