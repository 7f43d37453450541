"""Compute Engine's advice on Spot machines and on future reservations, by zone; read-only.

Queries `advice.calendarMode` of v1, and `advice.capacity` of beta: v1 has it too since November
2026, but "the v1 backend rejects SPOT" (github.com/google/skills, compute-spot-capacity-advice, as
skills.sh has it; 2026-11). They change nothing, but accept only a scope that could.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gpu_cluster.components.catalog import gke as catalog
from gpu_cluster.stacks.capacity.advice import Advice, Estimate, Wanted, time_text
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.verdict import Unknown

_SCOPE = "https://www.googleapis.com/auth/compute"
_MOST_SPOT, _MOST_RESERVED = 1000, 80
"""The most machines of a request: docs.cloud.google.com/compute/docs/instances, "View the
availability of Spot VMs" and "Create a future reservation request in calendar mode"."""
_CALENDAR = ("a3", "a4", "a4x")
"""Families of machines that are reserved in calendar mode: "currently offered for A3+ GPUs and TPUs
only" (discovery document of beta, Reservation.reservationMode)."""
_EARLIEST, _LATEST = timedelta(hours=88), timedelta(days=60)
"""When a reservation in calendar mode can begin: at least 87 hours, and at most 60 days, after the
request ("About future reservation requests in calendar mode", read 2026-11-29)."""

_STATUSES = {
    "RECOMMENDED": "can be reserved too",
    "NO_CAPACITY": "cannot be reserved: no capacity in the next 60 days",
    "NOT_SUPPORTED": "cannot be reserved: not offered",
}
"""Status of a zone that the advice does not choose -> what it means (FutureResourcesRecommendation-
OtherLocation)."""


class GoogleAdvice:
    """Asks with the credentials of `api`."""

    def __init__(self, api: GoogleApi, project: str, region: str) -> None:
        self._api = api
        self._path = f"projects/{project}/regions/{region}/advice"

    def advise(self, wanted: Wanted) -> Advice | None:
        """The answer about a pool's machines; None if Google gives no advice on such
        machines."""
        if not wanted.types:
            return Advice(
                wanted=wanted, unasked="GKE chooses machine and zone of its nodes on Autopilot"
            )
        estimates = self._spot(wanted) if wanted.way == "spot" else self._calendar(wanted)
        return None if estimates is None else Advice(wanted=wanted, estimates=estimates)

    def _spot(self, wanted: Wanted) -> tuple[Estimate, ...] | Unknown:
        """A request for each zone: a recommendation has one score, whatever its zones."""
        (machine,) = wanted.types
        selection: dict[str, Any] = {"machineTypes": [machine]}
        if wanted.attached:
            name, count = wanted.attached
            selection["guestAccelerators"] = [{"acceleratorType": name, "acceleratorCount": count}]
        estimates = []
        for zone in wanted.zones:
            answer = self._ask("compute beta", "capacity", {
                "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
                "instanceFlexibilityPolicy": {"instanceSelections": {"pool": selection}},
                "distributionPolicy": {
                    "targetShape": "ANY_SINGLE_ZONE", "zones": [{"zone": f"zones/{zone}"}],
                },
                "size": min(wanted.nodes, _MOST_SPOT),
            })  # fmt: skip
            if isinstance(answer, Unknown):
                return answer
            rows = [row.get("scores") or {} for row in answer.get("recommendations") or ()]
            estimates.append(_scored(zone, rows[0] if rows else {}))
        return tuple(estimates)

    def _calendar(self, wanted: Wanted) -> tuple[Estimate, ...] | Unknown | None:
        """When the machines could be reserved for a day."""
        machine = catalog.machine_type(wanted.types[0])
        if machine is None or machine.family not in _CALENDAR:
            return None
        now = datetime.now(UTC)
        answer = self._ask("compute", "calendarMode", {"futureResourcesSpecs": {"pool": {
            "targetResources": {"specificSkuResources": {
                "machineType": machine.name,
                "instanceCount": str(min(wanted.nodes, _MOST_RESERVED)),
            }},
            "timeRangeSpec": {
                "startTimeNotEarlierThan": _rfc3339(now + _EARLIEST),
                "startTimeNotLaterThan": _rfc3339(now + _LATEST),
                "minDuration": "86400s", "maxDuration": "86400s",
            },
        }}})  # fmt: skip
        if isinstance(answer, Unknown):
            return answer
        rows = answer.get("recommendations") or ()
        specs = [row["pool"] for item in rows if (row := item.get("recommendationsPerSpec"))]
        return tuple(estimate for spec in specs for estimate in _reservable(spec))

    def _ask(
        self, service: str, method: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | Unknown:
        self._api = self._api.scoped(_SCOPE)
        return self._api.post(service, f"{self._path}/{method}", body)


def _scored(zone: str, scores: Mapping[str, Any]) -> Estimate:
    """`scores`: a CapacityAdviceResponseRecommendationScores; empty without a recommendation."""
    if "obtainability" not in scores:
        return Estimate(zone=zone, words="no recommendation")
    seconds = float(str(scores.get("estimatedUptime", "0s")).removesuffix("s"))
    return Estimate(
        zone=zone,
        words=f"obtainability {scores['obtainability']:g} of 1, most run {seconds / 60:g} min",
        figures={
            "obtainability": scores["obtainability"], "estimatedUptimeSeconds": seconds,
        },
    )  # fmt: skip


def _reservable(row: Mapping[str, Any]) -> list[Estimate]:
    """`row`: a FutureResourcesRecommendation."""
    estimates = []
    if zone := row.get("location", "").rpartition("/")[2]:
        start, end = (datetime.fromisoformat(row[key]) for key in ("startTime", "endTime"))
        estimates = [Estimate(
            zone=zone,
            words=f"can be reserved from {time_text(start)} to {time_text(end)}",
            figures={"start": start.isoformat(), "end": end.isoformat()},
        )]  # fmt: skip
    for place, other in (row.get("otherLocations") or {}).items():
        zone, status = place.rpartition("/")[2], str(other.get("status"))
        words = _STATUSES.get(status, status)
        estimates.append(Estimate(zone=zone, words=words, figures={"status": status}))
    return estimates


def _rfc3339(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"
