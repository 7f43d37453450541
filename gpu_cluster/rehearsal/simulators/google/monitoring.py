"""Cloud Monitoring's dashboards and alert policies, which get their names from the API."""

import itertools
from collections.abc import Sequence
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.collection import Collection
from gpu_cluster.rehearsal.simulators.google.compute.resources import fingerprint
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request
from gpu_cluster.rehearsal.simulators.google.resource import PROJECT_NUMBER

_numbers = itertools.count(1)
_LAYOUTS = ("gridLayout", "mosaicLayout", "rowLayout", "columnLayout")


class _Numbered(Collection):
    def name(self, call: Call) -> str:
        """The full name with the project's number, as in responses; calls may use its ID."""
        return "/".join(["projects", PROJECT_NUMBER, *call.name.split("/")[2:]])

    def identity(self, call: Call) -> str:
        return f"{self.name(call)}/{next(_numbers):08}"


class _Dashboards(_Numbered):
    method = "monitoring.projects.dashboards"
    word = "dashboard"

    def mask(self, call: Call, state: dict[str, Any]) -> Sequence[str]:
        """A patch replaces the whole dashboard."""
        if call.body.get("etag") not in (None, "", state["etag"]):
            raise ApiError(409, "The dashboard was changed since it was read", status="ABORTED")
        return [*state, *call.body]

    def check(self, state: dict[str, Any]) -> None:
        layouts = [name for name in _LAYOUTS if name in state]
        if not state.get("displayName") or len(layouts) > 1:
            raise bad_request(
                "a dashboard needs a displayName and at most one of gridLayout, mosaicLayout, "
                "rowLayout, columnLayout"
            )

    def complete(self, state: dict[str, Any]) -> None:
        state["etag"] = fingerprint(state | {"etag": ""})


class _AlertPolicies(_Numbered):
    method = "monitoring.projects.alertPolicies"
    word = "alert policy"

    def check(self, state: dict[str, Any]) -> None:
        for name in ("displayName", "combiner", "conditions"):
            if not state.get(name):
                raise bad_request(f"Field alert_policy.{name} is required")
        for index, condition in enumerate(state["conditions"]):
            kinds = [name for name in condition if name.startswith("condition")]
            if len(kinds) != 1:
                raise bad_request(
                    f"Field alert_policy.conditions[{index}] needs exactly one kind of condition, "
                    f"got {len(kinds)}"
                )

    def complete(self, state: dict[str, Any]) -> None:
        record = {"mutateTime": "2026-01-01T00:00:00Z"}
        if "creationRecord" not in state:
            state |= {"enabled": state.get("enabled", True)}
            state |= {"creationRecord": record, "mutationRecord": record}
        for number, condition in enumerate(state["conditions"], 1):
            condition.setdefault("name", f"{state['name']}/conditions/{number:08}")


ENDPOINTS = {"MONITORING": "monitoring/"}
METHODS = {**_Dashboards().methods, **_AlertPolicies().methods}
