"""The windows of a maintenance rule are expanded once, and a search for none of them ends soon."""

import time
from typing import Any

import pytest
from dateutil.rrule import rrulestr

from gpu_cluster.components.gke import maintenance_args
from gpu_cluster.components.gke.maintenance_args import GkeMaintenanceArgs

WINDOW: dict[str, Any] = {"start": "2026-01-03T02:00:00Z", "end": "2026-01-03T10:00:00Z"}


@pytest.mark.parametrize("rule", ["FREQ=DAILY;BYMONTH=2;BYMONTHDAY=31", "FREQ=DAILY;INTERVAL=9999"])
def test_a_rule_that_hardly_ever_happens_is_refused_soon(rule: str) -> None:
    """To the year 9999, it is a search of three seconds, twenty on a busy machine."""
    begun = time.process_time()
    with pytest.raises(ValueError, match="gives GKE 0 hours in 92 days"):
        GkeMaintenanceArgs(**WINDOW, recurrence=rule)
    assert time.process_time() - begun < 1.5


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TU,WE",
        "FREQ=MONTHLY;BYDAY=1MO,-1FR,2SA,3SU",
        "FREQ=YEARLY;BYWEEKNO=1,20,53;BYDAY=SA",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=28,29",
        "FREQ=DAILY;UNTIL=20270315T020000Z",
        "FREQ=DAILY;UNTIL=24000229T020000Z",
    ],
)
def test_windows_are_those_of_the_rule(rule: str) -> None:
    """The calendar of the cycle in which they are searched is today's."""
    first = maintenance_args._utc(WINDOW["start"])
    last = first.replace(year=2030)
    expected = rrulestr(rule, dtstart=first).between(first, last, inc=True)
    assert maintenance_args._starts(rule, first, last) == expected


def test_check_and_warning_expand_a_rule_once() -> None:
    """However often a cluster's warnings are asked for."""
    maintenance_args._starts.cache_clear()
    args = GkeMaintenanceArgs(**WINDOW, recurrence="FREQ=WEEKLY;BYDAY=SA")
    assert args.warnings() == args.warnings()
    assert (len(args.warnings()), maintenance_args._starts.cache_info().misses) == (1, 1)
