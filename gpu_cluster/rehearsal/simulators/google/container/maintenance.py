"""A cluster's maintenance policy in the API's form, and GKE's rules for it."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import accumulate
from math import ceil, floor
from typing import Any

from dateutil.rrule import rrulestr

from gpu_cluster.rehearsal.simulators.google.errors import bad_request

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_Period = tuple[datetime, datetime]
_ROLLING, _AVAILABLE, _CONTIGUOUS = timedelta(days=92), timedelta(hours=48), timedelta(hours=4)
"""Notes of 2026-09 on how-to/maintenance-window (read 2026-11-28); stored copies have 32 days."""
_NO_UPGRADES = timedelta(days=90)
"""The same notes on concepts/maintenance-windows-and-exclusions; stored copies have 30 days."""
_CELL = timedelta(minutes=15)


def check_maintenance(policy: Mapping[str, Any]) -> None:
    """Raises ApiError if a `MaintenancePolicy` has too few hours, or too long an exclusion."""
    window = policy.get("window") or {}
    daily = (window.get("dailyMaintenanceWindow") or {}).get("startTime")
    if daily is not None and not _CLOCK.fullmatch(daily):
        raise bad_request(f"dailyMaintenanceWindow.startTime '{daily}' is not a valid time HH:MM")
    whole: dict[str, _Period] = {}
    for name, exclusion in (window.get("maintenanceExclusions") or {}).items():
        start, end = _instant(exclusion.get("startTime")), _instant(exclusion.get("endTime"))
        options = exclusion.get("maintenanceExclusionOptions") or {}
        if options.get("endTimeBehavior") == "UNTIL_END_OF_SUPPORT" and start is not None:
            continue
        if start is None or end is None or end <= start:
            raise bad_request(f"exclusion '{name}' does not end after it starts")
        if options.get("scope", "NO_UPGRADES") == "NO_UPGRADES":
            whole[name] = start, end
            if end - start > _NO_UPGRADES:
                raise bad_request(f"exclusion '{name}' of NO_UPGRADES exceeds 90 days")
    if len(whole) > 3:
        raise bad_request(f"more than 3 exclusions of NO_UPGRADES: {', '.join(whole)}")
    if whole:
        first = min(start for start, _ in whole.values()) - _ROLLING
        last = max(end for _, end in whole.values()) + _ROLLING
        _check_available((first, last), [(first, last)], [*whole.values()])
    if recurring := window.get("recurringWindow"):
        _check_recurring(recurring)


def _check_recurring(recurring: Mapping[str, Any]) -> None:
    window, recurrence = recurring.get("window") or {}, recurring.get("recurrence", "")
    start, end = _instant(window.get("startTime")), _instant(window.get("endTime"))
    if start is None or end is None or end <= start:
        raise bad_request("recurringWindow does not end after it starts")
    rule = dict(part.partition("=")[::2] for part in recurrence.split(";"))
    if rule.get("FREQ") not in ("DAILY", "WEEKLY", "MONTHLY", "YEARLY"):
        raise bad_request(f"recurrence '{recurrence}' has an unsupported FREQ")
    if not rule.get("INTERVAL", "1").strip("0"):
        raise bad_request(f"recurrence '{recurrence}' has no valid INTERVAL")
    last = start + timedelta(days=2 * 366)
    try:
        starts = rrulestr(recurrence, dtstart=start).between(start, last, inc=True)
    except ValueError as error:
        raise bad_request(f"recurrence '{recurrence}' is not valid: {error}") from None
    long_enough = end - start >= _CONTIGUOUS
    windows = [(moment, moment + (end - start)) for moment in starts if long_enough]
    _check_available((start, last), windows, [])


def _check_available(
    examined: _Period, windows: Iterable[_Period], exclusions: Iterable[_Period]
) -> None:
    """Raises ApiError unless 48 hours of every 92 days are in a window and in no exclusion."""
    first = examined[0]
    cells = bytearray((examined[1] - first) // _CELL)
    for opened, periods in ((True, windows), (False, exclusions)):
        for start, end in periods:
            # A cell that is open in part is closed.
            low, high = (start - first) / _CELL, min((end - first) / _CELL, len(cells))
            low, high = (ceil(low), floor(high)) if opened else (floor(low), ceil(high))
            cells[low:high] = bytes([opened]) * (high - low)
    totals, span = [0, *accumulate(cells)], _ROLLING // _CELL
    spans = zip(totals, totals[span:], strict=False)
    if any(later - total < _AVAILABLE // _CELL for total, later in spans):
        raise bad_request(
            "maintenance policy would go longer than 92d without 48h maintenance availability of "
            "at least 4h contiguous duration"
        )


def _instant(text: Any) -> datetime | None:
    if not _RFC3339.fullmatch(str(text)):
        return None
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
