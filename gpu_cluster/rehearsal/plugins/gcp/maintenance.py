"""Translates maintenance policies between the provider and the API."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Problem

_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}")
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)


def problems(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """The provider's refusals: it only parses times and does not know GKE's rules."""
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
    for index, item in enumerate(excluded if isinstance(excluded, list) else []):
        spans.append((f"maintenanceExclusions[{index}]", item))
    for where, span in spans:
        for name in ("startTime", "endTime") if isinstance(span, Mapping) else ():
            value = span.get(name, UNKNOWN)
            if value != UNKNOWN and not _is_instant(value):
                path = f"maintenancePolicy.{where}.{name}"
                yield Problem(path, f'parsing time "{value}" as RFC3339: cannot parse')


def _is_instant(text: Any) -> bool:
    try:
        datetime.fromisoformat(str(text))
    except ValueError:
        return False
    return _RFC3339.fullmatch(str(text)) is not None


def expanded(policy: Mapping[str, Any] | None, current: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `MaintenancePolicy`; `current`: the cluster's, whose version an update must name.
    Without a policy, the exclusions stay and the window is removed."""
    version = current.get("resourceVersion")
    known = {"resourceVersion": version} if version else {}
    if not policy:
        stay = (current.get("window") or {}).get("maintenanceExclusions")
        return {**known, "window": {"maintenanceExclusions": stay} if stay else {}}
    window: dict[str, Any] = {}
    for exclusion in policy.get("maintenanceExclusions") or ():
        span = {"startTime": exclusion["startTime"], "endTime": exclusion.get("endTime", "")}
        if options := exclusion.get("exclusionOptions"):
            span["maintenanceExclusionOptions"] = {"scope": options.get("scope", "")}
            if behaviour := options.get("endTimeBehavior"):
                span["maintenanceExclusionOptions"]["endTimeBehavior"] = behaviour
                span["endTime"] = ""
        span_ = {name: value for name, value in span.items() if value}
        window.setdefault("maintenanceExclusions", {})[exclusion["exclusionName"]] = span_
    if daily := policy.get("dailyMaintenanceWindow"):
        window["dailyMaintenanceWindow"] = {"startTime": daily["startTime"]}
    elif recurring := policy.get("recurringWindow"):
        span = {"startTime": recurring["startTime"], "endTime": recurring["endTime"]}
        window["recurringWindow"] = {"window": span, "recurrence": recurring["recurrence"]}
    return {**known, "window": window}


def flattened(policy: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The provider's block; None if the cluster has no window."""
    window = (policy or {}).get("window") or {}
    exclusions = []
    for name, span in (window.get("maintenanceExclusions") or {}).items():
        entry = {"exclusionName": name, "startTime": span["startTime"]}
        if "endTime" in span:
            entry["endTime"] = span["endTime"]
        if (options := span.get("maintenanceExclusionOptions")) is not None:
            entry["exclusionOptions"] = {"scope": "NO_UPGRADES", **options}
        exclusions.append(entry)
    found: dict[str, Any] = {"maintenanceExclusions": exclusions} if exclusions else {}
    if daily := window.get("dailyMaintenanceWindow"):
        return found | {"dailyMaintenanceWindow": dict(daily)}
    if recurring := window.get("recurringWindow"):
        return found | {
            "recurringWindow": {**recurring["window"], "recurrence": recurring["recurrence"]}
        }
    return None
