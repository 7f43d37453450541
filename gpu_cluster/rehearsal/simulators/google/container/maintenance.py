"""A cluster's maintenance policy in the API's form, and GKE's rules for it."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gpu_cluster.rehearsal.simulators.google.errors import bad_request

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_ROLLING, _AVAILABLE, _CONTIGUOUS = timedelta(days=92), timedelta(hours=48), timedelta(hours=4)
_SEARCHED = 366
"""The number of days after the first window in which all 92-day periods are checked:
docs.cloud.google.com, how-to/maintenance-window (read 2026-11-28). Older copies have 32 days."""
_NO_UPGRADES = timedelta(days=90)
"""concepts/maintenance-windows-and-exclusions, read 2026-11-28; older copies have 30 days."""
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def check(policy: Mapping[str, Any]) -> None:
    """Raises ApiError if a `MaintenancePolicy` has too few hours, or too long an exclusion."""
    window = policy.get("window") or {}
    daily = (window.get("dailyMaintenanceWindow") or {}).get("startTime")
    if daily is not None and not _CLOCK.fullmatch(daily):
        raise bad_request(f"dailyMaintenanceWindow.startTime '{daily}' is not a valid time HH:MM")
    whole: list[str] = []
    for name, exclusion in (window.get("maintenanceExclusions") or {}).items():
        start, end = _instant(exclusion.get("startTime")), _instant(exclusion.get("endTime"))
        options = exclusion.get("maintenanceExclusionOptions") or {}
        if options.get("endTimeBehavior") == "UNTIL_END_OF_SUPPORT" and start is not None:
            continue
        if start is None or end is None or end <= start:
            raise bad_request(f"exclusion '{name}' does not end after it starts")
        if options.get("scope", "NO_UPGRADES") == "NO_UPGRADES":
            whole.append(name)
            if end - start > _NO_UPGRADES:
                raise bad_request(f"exclusion '{name}' of NO_UPGRADES exceeds 90 days")
    if len(whole) > 3:
        raise bad_request(f"more than 3 exclusions of NO_UPGRADES: {', '.join(whole)}")
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
    starts = _starts(start, rule)
    if starts is not None and not _enough(starts, end - start):
        raise bad_request(
            "maintenance policy would go longer than 92d without 48h maintenance availability of "
            "at least 4h contiguous duration"
        )


def _starts(first: datetime, rule: Mapping[str, str]) -> list[datetime] | None:
    """The starts of a year's windows; None for rules that a rehearsal does not expand."""
    if rule["FREQ"] in ("MONTHLY", "YEARLY") and set(rule) <= {"FREQ", "INTERVAL", "WKST"}:
        months = int(rule.get("INTERVAL", "1")) * (12 if rule["FREQ"] == "YEARLY" else 1)
        days_after = (first + timedelta(days=day) for day in range(_SEARCHED))
        return [
            one
            for one in days_after
            if one.day == first.day
            and ((one.year - first.year) * 12 + one.month - first.month) % months == 0
        ]
    if set(rule) - {"FREQ", "INTERVAL", "BYDAY", "WKST"} or rule["FREQ"] not in ("DAILY", "WEEKLY"):
        return None
    interval, days = int(rule.get("INTERVAL", "1")), rule.get("BYDAY", "")
    wanted = days.split(",") if days else None
    if rule["FREQ"] == "DAILY":
        every = [first + timedelta(days=day) for day in range(0, _SEARCHED, interval)]
        return [one for one in every if wanted is None or _DAYS[one.weekday()] in wanted]
    wanted = wanted or [_DAYS[first.weekday()]]
    monday = first - timedelta(days=first.weekday())
    every = [first + timedelta(days=day) for day in range(_SEARCHED)]
    return [
        one
        for one in every
        if _DAYS[one.weekday()] in wanted and (one - monday).days // 7 % interval == 0
    ]


def _enough(starts: list[datetime], length: timedelta) -> bool:
    """Whether every 92 days between the first and the last window contain 48 hours of windows."""
    if length < _CONTIGUOUS or not starts:
        return False
    day = starts[0]
    while day + _ROLLING <= starts[0] + timedelta(days=_SEARCHED):
        if length * sum(day <= start < day + _ROLLING for start in starts) < _AVAILABLE:
            return False
        day += timedelta(days=1)
    return True


def _instant(text: Any) -> datetime | None:
    if not _RFC3339.fullmatch(str(text)):
        return None
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
