"""What the provider and the API say of a cluster's maintenance policy."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from plugins.cloud.handler import CloudError
from plugins.cloud.schema import UNKNOWN, Problem

_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}")
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_ROLLING, _AVAILABLE, _CONTIGUOUS = timedelta(days=32), timedelta(hours=48), timedelta(hours=4)
_SEARCHED = 366
"""Days after the first window in which all 32 days in a row are looked at."""
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def problems(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """What the provider refuses: it reads times and knows nothing of rules."""
    policy = inputs.get("maintenancePolicy")
    if not isinstance(policy, Mapping):
        return
    daily = policy.get("dailyMaintenanceWindow")
    if isinstance(daily, Mapping) and (start := daily.get("startTime", UNKNOWN)) != UNKNOWN:
        path = "maintenancePolicy.dailyMaintenanceWindow.startTime"
        if not _CLOCK.fullmatch(str(start)):
            yield Problem(path, f"{path} ({start!r}) must be in the format HH:mm (RFC3339)")
        elif int(start[:2]) > 23:
            yield Problem(path, f"{path} ({start!r}) does not contain a valid hour (00-23)")
        elif int(start[3:]) > 59:
            yield Problem(path, f"{path} ({start!r}) does not contain a valid minute (00-59)")
    spans: list[tuple[str, Any]] = [("recurringWindow", policy.get("recurringWindow"))]
    excluded = policy.get("maintenanceExclusions")
    for index, each in enumerate(excluded if isinstance(excluded, list) else []):
        spans.append((f"maintenanceExclusions[{index}]", each))
    for where, span in spans:
        for name in ("startTime", "endTime") if isinstance(span, Mapping) else ():
            value = span.get(name, UNKNOWN)
            if value != UNKNOWN and _instant(value) is None:
                path = f"maintenancePolicy.{where}.{name}"
                yield Problem(path, f'parsing time "{value}" as RFC3339: cannot parse')


def check(policy: Mapping[str, Any]) -> None:
    """Raises CloudError where the API refuses: too few hours, or too long an exclusion."""
    for each in policy.get("maintenanceExclusions") or ():
        start, end = _instant(each["startTime"]), _instant(each.get("endTime", ""))
        scope = (each.get("exclusionOptions") or {}).get("scope", "NO_UPGRADES")
        if start is None or end is None or end <= start:
            raise _refused(f"exclusion '{each['exclusionName']}' does not end after it starts")
        if scope == "NO_UPGRADES" and end - start > timedelta(days=30):
            raise _refused(f"exclusion '{each['exclusionName']}' of NO_UPGRADES exceeds 30 days")
    window = policy.get("recurringWindow")
    if not window:
        return
    start, end = _instant(window["startTime"]), _instant(window["endTime"])
    if start is None or end is None or end <= start:
        raise _refused("recurringWindow does not end after it starts")
    rule = dict(part.partition("=")[::2] for part in window["recurrence"].split(";"))
    if rule.get("FREQ") not in ("DAILY", "WEEKLY", "MONTHLY", "YEARLY"):
        raise _refused(f"recurrence '{window['recurrence']}' has an unsupported FREQ")
    starts = _starts(start, rule)
    if starts is not None and not _enough(starts, end - start):
        raise _refused(
            "maintenance policy would go longer than 32d without 48h maintenance availability of "
            "at least 4h contiguous duration"
        )


def _starts(first: datetime, rule: Mapping[str, str]) -> list[datetime] | None:
    """The windows of a year, day by day; None for rules that a rehearsal does not expand."""
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
    """Whether each 32 days between the first and the last window have 48 hours of windows."""
    if length < _CONTIGUOUS or not starts:
        return False
    day = starts[0]
    while day + _ROLLING <= starts[0] + timedelta(days=_SEARCHED):
        if length * sum(day <= one < day + _ROLLING for one in starts) < _AVAILABLE:
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


def _refused(reason: str) -> CloudError:
    return CloudError(f"googleapi: Error 400: {reason}, badRequest")
