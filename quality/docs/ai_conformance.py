"""The page of CNCF's AI conformance: what each platform has of it, and the tests that show it.

The rows are in `ai_conformance.yaml`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.tools.sections import REFERENCE, TEMPLATES, page, table

PAGE = REFERENCE / "ai-conformance.md"
REQUIREMENTS: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)


def markdown() -> str:
    """The page's text."""
    return page(
        TEMPLATES / PAGE.name,
        requirements=table(("requirement", *(f"`{name}`" for name in PLATFORMS)), _rows()),
        missing=table(("requirement", "platforms", "why"), _missing()),
        tests=table(("requirement", "tests"), _tests()),
    )


def shown(requirement: str, platform: str) -> tuple[str, ...]:
    """The tests, below `tests/`, that show a requirement on a platform; none if it is missing."""
    return tuple(_cell(requirement, platform).get("tests", ()))


def _cell(requirement: str, platform: str) -> Mapping[str, Any]:
    """A cluster that exists is as one of the stack's own, unless it has a cell."""
    row = REQUIREMENTS[requirement]
    own = platform.removesuffix("-existing")
    found: Mapping[str, Any] = row.get(platform) or row.get(own) or row["elsewhere"]
    return found


def _rows() -> Iterator[tuple[str, ...]]:
    for requirement, row in REQUIREMENTS.items():
        cells = (_cell_text(requirement, platform) for platform in PLATFORMS)
        yield (f"`{requirement}`, {row['level']}: {row['means']}", *cells)


def _cell_text(requirement: str, platform: str) -> str:
    if "missing" in _cell(requirement, platform):
        return "no"
    own = platform in REQUIREMENTS[requirement]
    return "yes" if own else f"as `{platform.removesuffix('-existing')}`"


def _missing() -> Iterator[tuple[str, str, str]]:
    for requirement in REQUIREMENTS:
        reasons: dict[str, list[str]] = {}
        for platform in PLATFORMS:
            if reason := _cell(requirement, platform).get("missing"):
                reasons.setdefault(reason, []).append(f"`{platform}`")
        for reason, names in reasons.items():
            everywhere = len(names) == len(PLATFORMS)
            yield f"`{requirement}`", "all" if everywhere else ", ".join(names), reason


def _tests() -> Iterator[tuple[str, str]]:
    for requirement in REQUIREMENTS:
        names = dict.fromkeys(name for on in PLATFORMS for name in shown(requirement, on))
        if names:
            links = (
                f"[`{name.rpartition('/')[2]}`](../../tests/{name.partition('::')[0]})"
                for name in names
            )
            yield f"`{requirement}`", ", ".join(links)
