"""When GKE may upgrade a cluster and its nodes, and when it may not."""

import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate, pairwise
from typing import Annotated, Any, Literal

from annotated_types import MaxLen
from dateutil.rrule import rrulestr

from ..schema.effect import Sent
from ..schema.limits import Example, Limit, matching, pattern
from ..schema.refusal import Refusal, refuse, shown
from ..schema.rules import Checked, rule

_TIME_OF_DAY = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_INSTANT = re.compile(
    r"(?:19[7-9]|20[0-9])[0-9]-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
"""https://www.rfc-editor.org/rfc/rfc3339, as the Google provider parses it."""
_FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
"""The API says: "the FREQ values of HOURLY, MINUTELY, and SECONDLY are not supported"."""
_DAY = "(?:MO|TU|WE|TH|FR|SA|SU)"


def _list(item: str) -> str:
    return f"{item}(?:,{item})*"


_PARTS = (
    f"FREQ=(?:{'|'.join(_FREQUENCIES)})", "INTERVAL=0*[1-9][0-9]*", "COUNT=0*[1-9][0-9]*",
    "UNTIL=[0-9]{8}T[0-9]{6}Z", f"WKST={_DAY}", f"BYDAY={_list(f'(?:[+-]?[1-9][0-9]?)?{_DAY}')}",
    f"BYMONTH={_list('(?:[1-9]|1[0-2])')}",
    f"BYMONTHDAY={_list('[+-]?(?:[1-9]|[12][0-9]|3[01])')}",
    f"BY(?:YEARDAY|WEEKNO|SETPOS)={_list('[+-]?[1-9][0-9]{0,2}')}",
)  # fmt: skip
"""https://www.rfc-editor.org/rfc/rfc5545#section-3.3.10, without the time of day."""
_LEAST_WINDOW = timedelta(hours=4)
_ENOUGH = 48
_ROLLING_DAYS, _FORMER_DAYS = 92, 32
"""48 hours of contiguous windows of four hours or more in a rolling period: 92 days in notes of
September 2026 on Google's pages, 32 days in stored copies of how-to/maintenance-window and in the
API's messages that users quote (read 2026-11-28; the page of today was not). The laxer refuses."""
_MOST_NO_UPGRADES = timedelta(days=90)
"""The same notes; stored copies of concepts/maintenance-windows-and-exclusions have 30 days."""
_MOST_EXCLUSIONS = 3
"""Those copies: "a maximum of three maintenance exclusions that exclude all upgrades", which "must
be configured to allow for at least 48 hours of maintenance availability". They do not say whether
only the hours of a window count, so exclusions are refused if they leave too few of all hours."""
_DAILY = timedelta(hours=4)
"""The same: the length of a window that has only a time of day."""
_ROLLING, _SEARCHED = timedelta(days=_ROLLING_DAYS), timedelta(days=2 * 366)
"""How long after its first window a rule is examined."""
_CYCLES = 19 * 400
"""Years to the last whole cycle of the calendar, whose dates and weekdays repeat, that datetime
has. Rules are expanded there: dateutil searches one that never happens to the year 9999."""

_Period = tuple[datetime, datetime]
Scope = Literal["no-upgrades", "no-minor-upgrades", "no-minor-or-node-upgrades"]


def _not_an_instant(text: str) -> str | None:
    if reason := _yaml_date(text):
        return reason
    try:
        if _INSTANT.fullmatch(text) and _utc(text):
            return None
    except (ValueError, OverflowError):
        pass  # For instance, February 31, or the first hours of year 1.
    return f"{shown(text)} is not an RFC 3339 time such as 2026-01-03T02:00:00Z"


def _not_a_start(text: str) -> str | None:
    if _TIME_OF_DAY.fullmatch(text):
        return None
    reason = _not_an_instant(text)
    if reason is None or reason == _yaml_date(text):
        return reason
    return (
        f"{shown(text)} is neither a time of day such as 03:00 nor an RFC 3339 time such as "
        "2026-01-03T02:00:00Z"
    )


def _yaml_date(text: str) -> str | None:
    """Why an unquoted time is refused: YAML parses it as a date, which the engine reformats."""
    return (
        f"{text!r} is read as a date by YAML; put the time in quotes"
        if text.endswith(" UTC")
        else None
    )


_START = Limit(_not_a_start, pattern(_TIME_OF_DAY, _INSTANT))
_TIME = Limit(_not_an_instant, pattern(_INSTANT))
_PART = "|".join(_PARTS)
_RULE = matching(
    "a recurrence rule that GKE accepts; give one such as FREQ=WEEKLY;BYDAY=SA,SU, with FREQ one "
    f"of {', '.join(_FREQUENCIES)} and INTERVAL, if any, 1 or more",
    re.compile(
        rf"(?=(?:.*;)?FREQ=(?:{'|'.join(_FREQUENCIES)})(?:;|$))(?:{_PART})(?:;(?:{_PART}))*"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeMaintenanceExclusionArgs(Checked):
    """A period in which GKE does not upgrade the cluster."""

    start: Annotated[
        str,
        _TIME,
        Sent("Cluster maintenancePolicy.maintenanceExclusions[].startTime"),
        Example('"2026-12-20T00:00:00Z"'),
    ]
    """The start in RFC 3339 format: `2026-12-20T00:00:00Z`."""
    end: Annotated[
        str,
        _TIME,
        Sent("Cluster maintenancePolicy.maintenanceExclusions[].endTime"),
        Example('"2027-01-04T00:00:00Z"'),
    ]
    """The end in RFC 3339 format. With scope `no-upgrades`, at most 90 days after the start."""
    scope: Annotated[
        Scope, Sent("Cluster maintenancePolicy.maintenanceExclusions[].exclusionOptions.scope")
    ] = "no-upgrades"
    """What is excluded: all upgrades; minor upgrades; or minor and all node upgrades."""

    @rule
    def _check_end(self) -> None:
        start, end = _utc(self.start), _utc(self.end)
        if end <= start:
            raise refuse("end", self.end)(f"is not after start {self.start}; swap them")
        if self.scope == "no-upgrades" and end - start > _MOST_NO_UPGRADES:
            raise refuse("end", self.end)(
                f"is more than 90 days after start {self.start}, which scope no-upgrades does "
                "not allow; end it earlier, or use scope no-minor-or-node-upgrades"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeMaintenanceArgs(Checked):
    """When GKE may upgrade control plane and nodes; upgrading a node terminates the pods on it."""

    start: Annotated[
        str,
        _START,
        Sent(
            "Cluster maintenancePolicy.dailyMaintenanceWindow.startTime",
            "Cluster maintenancePolicy.recurringWindow.startTime",
        ),
        Example('"03:00"'),
    ]
    """Either a time of day in UTC, `03:00`, for a daily window whose length GKE chooses; or the
    start of the first window in RFC 3339, `2026-01-03T02:00:00Z`, with `end` and `recurrence`."""
    end: Annotated[str | None, _TIME, Sent("Cluster maintenancePolicy.recurringWindow.endTime")] = (
        None
    )
    """The end of the first window in RFC 3339 format, at least four hours after its start."""
    recurrence: Annotated[
        str | None, _RULE, Sent("Cluster maintenancePolicy.recurringWindow.recurrence")
    ] = None
    """RFC 5545 rule for the starts of the windows, such as `FREQ=WEEKLY;BYDAY=SA,SU`. The windows
    must add up to at least 48 hours in any 92 days."""
    exclusions: Annotated[Mapping[str, GkeMaintenanceExclusionArgs], MaxLen(20)] = field(
        default_factory=dict
    )
    """Name -> a period without upgrades, for instance during a long training run."""

    @rule
    def _check_exclusions(self) -> None:
        whole = [name for name, span in self.exclusions.items() if span.scope == "no-upgrades"]
        if len(whole) > _MOST_EXCLUSIONS:
            raise refuse("exclusions")(
                f"{', '.join(whole)} have scope no-upgrades; allowed: at most {_MOST_EXCLUSIONS}; "
                "give others scope no-minor-or-node-upgrades"
            )
        closed = self._closed()
        if closed and (hours := _least([_around(closed)], closed, _ROLLING_DAYS)) < _ENOUGH:
            raise refuse("exclusions")(
                f"{', '.join(whole)} leave GKE {hours:g} hours in {_ROLLING_DAYS} days; "
                f"allowed: {_ENOUGH} or more; leave more time between them"
            )

    @rule
    def _check_window(self) -> Iterator[Refusal]:
        daily = _TIME_OF_DAY.fullmatch(self.start)
        for key, value in (("end", self.end), ("recurrence", self.recurrence)):
            if daily and value is not None:
                yield refuse(key)(
                    f"cannot be combined with start {self.start!r}, which is a time of day",
                    remedy="drop it, or give start with a date, such as 2026-01-03T02:00:00Z",
                )
            if not daily and value is None:
                yield refuse(key)("is missing", remedy="a start with a date needs it")

    @rule
    def _check_recurring(self) -> None:
        if _TIME_OF_DAY.fullmatch(self.start) or self.end is None or self.recurrence is None:
            return
        length = _utc(self.end) - _utc(self.start)
        if length < _LEAST_WINDOW:
            raise refuse("end", self.end)(
                f"is less than four hours after start {self.start}, and GKE does not count "
                "shorter windows; end it later"
            )
        first = _utc(self.start)
        try:
            windows = self._windows((first, first + _SEARCHED))
        except ValueError as error:
            raise refuse("recurrence")(f"is not a rule of RFC 5545: {error}") from None
        if (hours := _least(windows, [], _ROLLING_DAYS)) < _ENOUGH:
            raise refuse("recurrence", self.recurrence)(
                f"gives GKE {hours:g} hours in {_ROLLING_DAYS} days; allowed: {_ENOUGH} or more; "
                "make the windows longer or more frequent"
            )

    def _closed(self) -> list[_Period]:
        """The periods in which GKE upgrades nothing."""
        return [
            (_utc(exclusion.start), _utc(exclusion.end))
            for exclusion in self.exclusions.values()
            if exclusion.scope == "no-upgrades"
        ]

    def _windows(self, examined: _Period) -> list[_Period]:
        """The windows that begin in a period, between two empty ones at its ends."""
        rule, first, length = "FREQ=DAILY", examined[0], _DAILY
        if self.recurrence is not None and self.end is not None:
            rule, first = self.recurrence, _utc(self.start)
            length = _utc(self.end) - first
        starts = _starts(rule, first, examined[1])
        windows = [(start, start + length) for start in starts if start >= examined[0]]
        return [(examined[0], examined[0]), *windows, (examined[1], examined[1])]

    def warnings(self) -> list[str]:
        """A warning about windows and exclusions that GKE's stricter rule refuses."""
        closed = self._closed()
        periods = [_around(closed)] if closed else []
        if self.recurrence is not None:
            first = _utc(self.start)
            periods.append((first, first + _SEARCHED))
        if not periods:
            return []
        examined = max(start for start, _ in periods), max(end for _, end in periods)
        hours = _least(self._windows(examined), closed, _FORMER_DAYS)
        if hours >= _ENOUGH:
            return []
        return [
            f"maintenance: gives GKE {hours:g} hours in {_FORMER_DAYS} days, counting windows "
            "outside exclusions of scope no-upgrades; copies of Google's page disagree whether "
            f"{_ENOUGH} hours are needed in {_FORMER_DAYS} or in {_ROLLING_DAYS} days, so GKE may "
            "refuse it"
        ]

    def policy(self) -> dict[str, Any]:
        """`maintenancePolicy` of `gcp.container.Cluster`."""
        if self.recurrence is None:
            window: dict[str, Any] = {"daily_maintenance_window": {"start_time": self.start}}
        else:
            recurring = {
                "start_time": self.start,
                "end_time": self.end,
                "recurrence": self.recurrence,
            }
            window = {"recurring_window": recurring}
        return {
            **window,
            "maintenance_exclusions": [
                {
                    "exclusion_name": name,
                    "start_time": exclusion.start,
                    "end_time": exclusion.end,
                    "exclusion_options": {"scope": exclusion.scope.upper().replace("-", "_")},
                }
                for name, exclusion in self.exclusions.items()
            ],
        }


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@cache
def _starts(recurrence: str, first: datetime, last: datetime) -> Sequence[datetime]:
    """The starts of a rule's windows up to a time."""

    def moved(moment: datetime, years: int) -> datetime:
        return moment.replace(year=moment.year + years)

    rrulestr(recurrence, dtstart=first)  # What it refuses, it quotes.
    # A rule may end later than datetime does; 9996 has a February 29.
    later = re.sub(
        "(?<=UNTIL=)[0-9]{4}", lambda year: str(min(int(year[0]) + _CYCLES, 9996)), recurrence
    )
    rule = rrulestr(later, dtstart=moved(first, _CYCLES))
    found = rule.between(moved(first, _CYCLES), moved(last, _CYCLES), inc=True)
    return [moved(start, -_CYCLES) for start in found]


def _around(periods: Sequence[_Period]) -> _Period:
    """The time that these periods can take hours from."""
    starts, ends = zip(*periods, strict=True)
    return min(starts) - _ROLLING, max(ends) + _ROLLING


def _least(windows: Sequence[_Period], closed: Sequence[_Period], days: int) -> float:
    """The fewest hours that the windows have in any so many days, between the start of the first
    and the end of the last, outside of what is closed."""
    edges = sorted(
        (moment, opens * sign, closes * sign)
        for periods, opens, closes in ((windows, 1, 0), (closed, 0, 1))
        for period in periods
        for moment, sign in zip(period, (1, -1), strict=True)
    )
    pieces: list[_Period] = []
    opened = excluded = 0
    for (moment, opens, closes), (later, _, _) in pairwise(edges):
        opened, excluded = opened + opens, excluded + closes
        if opened and not excluded and later - moment >= _LEAST_WINDOW:
            pieces.append((moment, later))
    ends = [end for _, end in pieces]
    totals = [timedelta(), *accumulate(end - start for start, end in pieces)]

    def passed(moment: datetime) -> timedelta:
        index = bisect(ends, moment)
        begun = moment - pieces[index][0] if index < len(pieces) else timedelta()
        return totals[index] + max(begun, timedelta())

    # The hours are fewest in a period that begins when a window has just ended.
    span, until = timedelta(days=days), windows[-1][1]
    periods = [(start, start + span) for start in (windows[0][0], *ends) if start + span <= until]
    return min(passed(end) - passed(start) for start, end in periods).total_seconds() / 3600
