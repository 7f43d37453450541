"""A project's APIs, dashboards and alert policies, as far as their rows do not describe them."""

import json
from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.handler import Config, NotFoundError
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Problem
from gpu_cluster.rehearsal.plugins.gcp.resource import KEPT, Resource


class Service(Resource):
    """An enabled API of the project."""

    token = "gcp:projects/service:Service"

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        service = str(inputs.get("service", UNKNOWN))
        if service == UNKNOWN or "." in service:
            return []
        return [
            Problem(
                "service", f"expected a domain such as container.googleapis.com, got '{service}'"
            )
        ]

    def insert(self, inputs: Mapping[str, Any]) -> str:
        identity = self.identity(inputs)
        self._ask(identity, "enable", {}, "enabling service")
        return identity

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        if body["state"] != "ENABLED":
            raise NotFoundError(f"the API {body['config']['name']} is not enabled")
        kept = {name: known[name] for name in (*KEPT, *self.row.kept) if name in known}
        return kept | {"service": body["config"]["name"]}

    def remove(self, identity: str, state: Mapping[str, Any]) -> None:
        if not state.get("disableOnDestroy"):
            return
        body = {"disableDependentServices": bool(state.get("disableDependentServices"))}
        self._ask(identity, "disable", body, "disabling service")

    def _ask(self, identity: str, verb: str, body: Mapping[str, Any], doing: str) -> None:
        service = self.row.service
        answer = self.client.call(service, "POST", f"{self.path(identity)}:{verb}", body)
        self.client.wait(service, answer, "", doing)


class Dashboard(Resource):
    """A Cloud Monitoring dashboard, whose body is the property `dashboardJson`."""

    token = "gcp:monitoring/dashboard:Dashboard"

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        text = inputs.get("dashboardJson", UNKNOWN)
        if text == UNKNOWN or not isinstance(text, str):
            return []
        try:
            json.loads(text)
        except ValueError as error:
            return [Problem("dashboardJson", f'"dashboard_json" contains an invalid JSON: {error}')]
        return []

    def same(self, path: str, old: Any, new: Any) -> bool:
        if path != "dashboardJson" or new == UNKNOWN:
            return False
        wanted = json.loads(new)
        return bool(_as_in(json.loads(old), wanted) == wanted)

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        body = json.loads(inputs["dashboardJson"])
        assert isinstance(body, dict)
        return body

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: known[name] for name in ("deletionPolicy", "project") if name in known}
        return kept | {
            "dashboardJson": json.dumps(body, sort_keys=True, separators=(",", ":")),
            "project": known.get("project") or body["name"].split("/")[1],
        }

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        body, before = self.bodies(old, new)
        wanted = {"etag": before.get("etag")} | body
        self.ask("PATCH", identity, wanted, doing="updating Dashboard")


def _as_in(value: Any, wanted: Any) -> Any:
    """The value without the API's additions to `wanted`."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        return {name: _as_in(value[name], wanted[name]) for name in value if name in wanted}
    if isinstance(value, list) and isinstance(wanted, list) and len(value) == len(wanted):
        return [_as_in(*pair) for pair in zip(value, wanted, strict=True)]
    return value


class AlertPolicy(Resource):
    """A Cloud Monitoring alert policy."""

    token = "gcp:monitoring/alertPolicy:AlertPolicy"

    def on_read(self, config: Config, identity: str, state: dict[str, Any]) -> dict[str, Any]:
        # The provider reads by the name in its state; only an import takes the name from the ID.
        if state and not state.get("name"):
            raise NotFoundError(identity)
        return super().on_read(config, identity, state)

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        record = body.get("creationRecord") or {}
        found = super().flatten(body, known)
        project = known.get("project") or body["name"].split("/")[1]
        return found | {"project": project, "creationRecords": [record] if record else []}

    def bodies(
        self, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        body, before = super().bodies(old, new)
        for condition, known in zip(body["conditions"], before["conditions"], strict=False):
            if "name" in known:
                condition.setdefault("name", known["name"])
        return body, before
