"""The page of alerts and of the dashboards' measurements, from the catalog."""

from collections.abc import Callable, Iterable, Iterator

from gpu_cluster.components.catalog.charts_and_alerts import (
    ALERTS,
    GROUPINGS,
    MEASURES,
    alerts,
    measures,
)
from gpu_cluster.components.catalog.metrics import METRICS, Source
from gpu_cluster.tools.sections import REFERENCE, TEMPLATES, page, table

PAGE = REFERENCE / "alerts.md"


def markdown() -> str:
    """The page's text."""
    return page(
        TEMPLATES / PAGE.name,
        alerts=table(("alert", "severity", "after", "with", "meaning, and what to do"), _alerts()),
        groups=[", by ".join(GROUPINGS)],
        measures=table(("quantity", "unit", "metric", "with"), _measures()),
    )


def _alerts() -> Iterator[tuple[str, ...]]:
    for rule in ALERTS:
        after = f"{rule.minutes} minutes" if rule.minutes else "at once"
        yield f"`{rule.name}`", rule.severity, after, _sources(rule.name, alerts, "name"), rule.text


def _measures() -> Iterator[tuple[str, ...]]:
    for measure in MEASURES:
        assert measure.metric in METRICS
        sources = _sources(measure.title, measures, "title")
        yield measure.title, measure.unit, f"`{measure.metric}`", sources


def _sources(name: str, of: Callable[[Source], Iterable[object]], key: str) -> str:
    """The exporters that an alert or a measurement needs."""
    sources: tuple[Source, ...] = ("exporter", "managed")
    return ", ".join(
        source for source in sources if name in {getattr(part, key) for part in of(source)}
    )
