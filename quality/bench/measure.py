"""Two ways of doing the same thing, measured in turn, and the ratio of their medians."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Sample = Mapping[str, float]
"""What one run took, by quantity."""

BOUND_SLACK = 1.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One row of the benchmark's table."""

    what: str
    unit: str
    ours: Sequence[float]
    theirs: Sequence[float]
    limit: float | None = None
    """The ratio of medians stays at or below it; None: for information only."""
    bound: float | None = None
    """What no program could get under, where that is above the limit: then 3% more is allowed."""

    @property
    def ratio(self) -> float:
        """Median of ours by median of theirs."""
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
        """For machines."""
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
    """One of the benchmark's questions with its answers."""

    letter: str
    title: str
    ours: str
    """What the column of ours holds."""
    theirs: str
    """What the other column holds."""
    rows: Sequence[Comparison]
    notes: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {
            "letter": self.letter,
            "title": self.title,
            "ours": self.ours,
            "theirs": self.theirs,
            "rows": [row.document() for row in self.rows],
            "notes": list(self.notes),
        }


def read(document: Mapping[str, Any]) -> Section:
    """A section as `Section.document` wrote it."""
    rows = [
        Comparison(**{name: row[name] for name in Comparison.__dataclass_fields__})
        for row in document["rows"]
    ]
    names = ("letter", "title", "ours", "theirs", "notes")
    return Section(rows=rows, **{name: document[name] for name in names})


def alternately(
    runs: int, ours: Callable[[], Sample], theirs: Callable[[], Sample]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Runs A B A B ... after one of each that does not count; quantity -> its values, per side.

    In turn, so that whatever else the machine does meets both; which comes first changes.
    """
    ours(), theirs()
    kept: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
    for run in range(runs):
        sides = [(ours, kept[0]), (theirs, kept[1])]
        for measure, values in sides if run % 2 == 0 else reversed(sides):
            for quantity, value in measure().items():
                values.setdefault(quantity, []).append(value)
    return kept
