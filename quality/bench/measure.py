"""Two ways of doing the same thing, measured alternately, and the ratio of their medians."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Sample = Mapping[str, float]
"""The measurements of one run, by quantity."""

BOUND_SLACK = 1.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One row of the benchmark's table."""

    what: str
    unit: str
    ours: Sequence[float]
    theirs: Sequence[float]
    limit: float | None = None
    """The maximum of the ratio of medians; None: for information only."""
    bound: float | None = None
    """The least ratio that any program can reach, if above the limit: then 3% more is allowed."""

    @property
    def ratio(self) -> float:
        """The median of our values divided by that of theirs."""
        return median(self.ours) / median(self.theirs)

    @property
    def ok(self) -> bool:
        if self.limit is None or self.ratio <= self.limit:
            return True
        return self.bound is not None and self.ratio <= self.bound * BOUND_SLACK

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        if self.ok and self.ratio > self.limit:
            return f"at the cloud's own bound, {self.bound:.2f}"
        return "pass" if self.ok else "MISS"

    def document(self) -> dict[str, Any]:
        """The comparison for JSON."""
        return {
            "what": self.what,
            "unit": self.unit,
            "ours": list(self.ours),
            "theirs": list(self.theirs),
            "ratio": round(self.ratio, 4),
            "limit": self.limit,
            "bound": None if self.bound is None else round(self.bound, 4),
            "ok": self.ok,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One of the benchmark's questions with its results."""

    letter: str
    title: str
    ours: str
    """The heading of our column."""
    theirs: str
    """The heading of the other column."""
    rows: Sequence[Comparison]
    notes: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """The section for JSON."""
        return {
            "letter": self.letter,
            "title": self.title,
            "ours": self.ours,
            "theirs": self.theirs,
            "rows": [row.document() for row in self.rows],
            "notes": list(self.notes),
        }


def read(document: Mapping[str, Any]) -> Section:
    """Reads a section that `Section.document` wrote."""
    rows = [
        Comparison(**{name: row[name] for name in Comparison.__dataclass_fields__})
        for row in document["rows"]
    ]
    names = ("letter", "title", "ours", "theirs", "notes")
    return Section(rows=rows, **{name: document[name] for name in names})


def alternately(
    runs: int, ours: Callable[[], Sample], theirs: Callable[[], Sample]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Runs A B A B ... after one uncounted run of each, unless each is run only once; returns
    quantity -> its values, per side.

    Alternately, so that other load on the machine affects both; which one is first changes.
    """
    if runs > 1:
        ours(), theirs()
    kept: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
    for run in range(runs):
        sides = [(ours, kept[0]), (theirs, kept[1])]
        for measure, values in sides if run % 2 == 0 else reversed(sides):
            for quantity, value in measure().items():
                values.setdefault(quantity, []).append(value)
    return kept
