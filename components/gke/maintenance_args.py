"""When GKE may upgrade a cluster and its nodes, and when it may not."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from annotated_types import MaxLen

from ..schema.decode import shown
from ..schema.effect import Sent
from ..schema.limits import Example, Limit, limit_refusals, matching, pattern
from ..schema.refusal import Refusal

_TIME_OF_DAY = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
"""https://www.rfc-editor.org/rfc/rfc3339, as the Google provider parses it."""
_FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
"""The API says: "the FREQ values of HOURLY, MINUTELY, and SECONDLY are not supported"."""
_PARTS = (
    "FREQ", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYMONTH", "BYSETPOS",
    "WKST",
)  # fmt: skip
"""https://www.rfc-editor.org/rfc/rfc5545#section-3.3.10, without INTERVAL, which is a
number, and without the time of day."""
_A_QUARTER = {"MONTHLY": 3, "YEARLY": 0}
"""The fewest such windows in any 92 days, which July, August and September have."""
_LEAST_WINDOW = timedelta(hours=4)
_LEAST_AVAILABLE = timedelta(hours=48)
_ROLLING_DAYS, _FORMER_DAYS = 92, 32
"""https://docs.cloud.google.com/kubernetes-engine/docs/how-to/maintenance-window: 48 hours of
contiguous windows of four hours or more in a rolling period, which is 92 days there and 32 days in
copies of the same page on cloud.google.com (read 2026-11-28). The laxer rule refuses."""
_MOST_NO_UPGRADES, _FORMER_NO_UPGRADES = timedelta(days=90), timedelta(days=30)
"""concepts/maintenance-windows-and-exclusions has 90 days, copies of it have 30 (read 2026-11-28,
both for a single exclusion). The laxer rule refuses."""
_MOST_EXCLUSIONS = 3
"""The same page: "a maximum of three maintenance exclusions that exclude all upgrades"."""

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
_PART = f"INTERVAL=0*[1-9][0-9]*|(?:{'|'.join(_PARTS)})=[^;]+"
_RULE = matching(
    "a recurrence rule that GKE accepts; give one such as FREQ=WEEKLY;BYDAY=SA,SU, with FREQ one "
    f"of {', '.join(_FREQUENCIES)} and INTERVAL, if any, 1 or more",
    re.compile(
        rf"(?=(?:.*;)?FREQ=(?:{'|'.join(_FREQUENCIES)})(?:;|$))(?:{_PART})(?:;(?:{_PART}))*"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeMaintenanceExclusionArgs:
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

    def __post_init__(self) -> None:
        refusals = limit_refusals(self)
        with refusals:
            start, end = _utc(self.start), _utc(self.end)
            if end <= start:
                raise Refusal("end", f"is not after start {self.start}; swap them", given=self.end)
            if self.scope == "no-upgrades" and end - start > _MOST_NO_UPGRADES:
                raise Refusal(
                    "end",
                    f"is more than 90 days after start {self.start}, which scope no-upgrades does "
                    "not allow; end it earlier, or use scope no-minor-or-node-upgrades",
                    given=self.end,
                )
        refusals.check()


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeMaintenanceArgs:
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

    def __post_init__(self) -> None:
        refusals = limit_refusals(self)
        with refusals:
            whole = [name for name, one in self.exclusions.items() if one.scope == "no-upgrades"]
            if len(whole) > _MOST_EXCLUSIONS:
                raise Refusal(
                    "exclusions",
                    f"{', '.join(whole)} have scope no-upgrades; allowed: at most "
                    f"{_MOST_EXCLUSIONS}; give others scope no-minor-or-node-upgrades",
                )
        with refusals:
            if _TIME_OF_DAY.fullmatch(self.start):
                for key in ("end", "recurrence"):
                    if getattr(self, key) is not None:
                        raise Refusal(
                            key,
                            f"cannot be combined with start {self.start!r}, which is a time of day",
                            remedy="drop it, or give start with a date, such as "
                            "2026-01-03T02:00:00Z",
                        )
            else:
                self._check_recurring()
        refusals.check()

    def _check_recurring(self) -> None:
        for key in ("end", "recurrence"):
            if getattr(self, key) is None:
                raise Refusal(key, "is missing", remedy="a start with a date needs it")
        assert self.end is not None
        assert self.recurrence is not None
        length = _utc(self.end) - _utc(self.start)
        if length < _LEAST_WINDOW:
            raise Refusal(
                "end",
                f"is less than four hours after start {self.start}, and GKE does not count "
                "shorter windows; end it later",
                given=self.end,
            )
        available = self._available(_ROLLING_DAYS)
        if available is not None and available < _LEAST_AVAILABLE:
            raise Refusal(
                "recurrence",
                f"gives GKE {_hours(available)} hours in {_ROLLING_DAYS} days; allowed: 48 or "
                "more; make the windows longer or more frequent",
                given=self.recurrence,
            )

    def _available(self, days: int) -> timedelta | None:
        """The shortest time for maintenance in any period of so many days; None if it is too
        complex to tell."""
        if self.recurrence is None or self.end is None:
            return None
        times = _occurrences(_rule(self.recurrence), days)
        return None if times is None else (_utc(self.end) - _utc(self.start)) * times

    def warnings(self) -> list[str]:
        """Warnings about windows and exclusions that Google's older rules refuse."""
        lines = [
            f"maintenance.exclusions.{name}.end: is more than 30 days after start {one.start}; "
            "copies of Google's page disagree whether scope no-upgrades may last 30 days or 90, so "
            "GKE may refuse it"
            for name, one in self.exclusions.items()
            if one.scope == "no-upgrades" and _utc(one.end) - _utc(one.start) > _FORMER_NO_UPGRADES
        ]
        available = self._available(_FORMER_DAYS)
        if available is None or available >= _LEAST_AVAILABLE:
            return lines
        return [
            *lines,
            f"maintenance.recurrence: {self.recurrence} gives GKE {_hours(available)} hours in "
            f"{_FORMER_DAYS} days; copies of Google's page disagree whether 48 hours are needed in "
            f"{_FORMER_DAYS} or in {_ROLLING_DAYS} days, so GKE may refuse it",
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


def _rule(text: str) -> dict[str, str]:
    """The parts of a recurrence rule."""
    return dict(part.split("=", 1) for part in text.split(";"))


def _hours(length: timedelta) -> str:
    return f"{length.total_seconds() / 3600:g}"


def _occurrences(rule: Mapping[str, str], days: int) -> int | None:
    """The minimum number of windows in any so many days; None if the rule is too complex."""
    interval = int(rule.get("INTERVAL", "1"))
    if set(rule) <= {"FREQ", "INTERVAL", "WKST"} and rule["FREQ"] in _A_QUARTER:
        return _A_QUARTER[rule["FREQ"]] * days // _ROLLING_DAYS // interval
    if set(rule) - {"FREQ", "INTERVAL", "BYDAY", "WKST"}:
        return None
    if rule["FREQ"] == "DAILY" and "BYDAY" not in rule:
        return days // interval
    if rule["FREQ"] == "WEEKLY":
        return days // (7 * interval) * len(rule.get("BYDAY", "MO").split(","))
    return None
