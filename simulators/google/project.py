"""What a project holds beside network, accounts and clusters: APIs, registries, monitoring."""

import json
from collections.abc import Mapping
from typing import Any

from plugins.cloud.handler import CloudError, Config
from plugins.cloud.schema import UNKNOWN, Problem
from simulators.google.kind import Kind
from simulators.google.resource import PROJECT_NUMBER, CloudResource


class Service(Kind):
    """An enabled API of the project; a delete leaves it enabled."""

    token = "gcp:projects/service:Service"
    display_name = "enabled API"
    computed = ("project",)

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        service = str(inputs.get("service", UNKNOWN))
        if service == UNKNOWN or "." in service:
            return []
        return [
            Problem(
                "service", f"expected a domain such as container.googleapis.com, got '{service}'"
            )
        ]

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        return f"{inputs['project']}/{inputs['service']}"


class Repository(Kind):
    """A repository of Artifact Registry."""

    token = "gcp:artifactregistry/repository:Repository"
    display_name = "repository"
    computed = ("project", "location")

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        location = inputs.get("location") or config.get("region")
        if not location:
            raise CloudError("cannot determine the location: set it here, or gcp:region")
        parent = f"projects/{inputs['project']}/locations/{location}"
        return f"{parent}/repositories/{inputs['repositoryId']}"

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        location = state.setdefault("location", config.get("region"))
        state["name"] = state["repositoryId"]
        host = f"{location}-docker.pkg.dev"
        state["registryUri"] = f"{host}/{state['project']}/{state['repositoryId']}"

    def same(self, path: str, old: Any, new: Any) -> bool:
        return path == "format" and str(old).upper() == str(new).upper()


class _Numbered(Kind):
    """Resources that the API names by itself."""

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        taken = {resource.identity for resource in self.cloud.of(self.token)}
        return next(one for one in map(self.numbered, range(1, 10_000)) if one not in taken)

    def numbered(self, number: int) -> str:
        raise NotImplementedError


class Dashboard(_Numbered):
    """A dashboard of Cloud Monitoring. Refused: more than one layout, no name."""

    token = "gcp:monitoring/dashboard:Dashboard"
    display_name = "dashboard"
    computed = ("project",)

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        text = inputs.get("dashboardJson", UNKNOWN)
        if text == UNKNOWN or not isinstance(text, str):
            return []
        try:
            json.loads(text)
        except ValueError as error:
            return [Problem("dashboardJson", f'"dashboard_json" contains an invalid JSON: {error}')]
        return []

    def numbered(self, number: int) -> str:
        return f"projects/{PROJECT_NUMBER}/dashboards/{number:08}"

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        dashboard = json.loads(state["dashboardJson"])
        layouts = {"gridLayout", "mosaicLayout", "rowLayout", "columnLayout"} & set(dashboard)
        if not dashboard.get("displayName") or len(layouts) > 1:
            raise CloudError(
                "googleapi: Error 400: a dashboard needs a displayName and at most one of "
                "gridLayout, mosaicLayout, rowLayout, columnLayout"
            )

    def same(self, path: str, old: Any, new: Any) -> bool:
        return path == "dashboardJson" and new != UNKNOWN and json.loads(old) == json.loads(new)


class AlertPolicy(_Numbered):
    """An alert policy of Cloud Monitoring. Refused: a condition with no kind, or two."""

    token = "gcp:monitoring/alertPolicy:AlertPolicy"
    display_name = "alert policy"
    computed = ("project",)

    def numbered(self, number: int) -> str:
        return f"projects/{PROJECT_NUMBER}/alertPolicies/{number:08}"

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        for index, condition in enumerate(state["conditions"]):
            kinds = [name for name in condition if name.startswith("condition")]
            if len(kinds) != 1:
                raise CloudError(
                    f"googleapi: Error 400: Field alert_policy.conditions[{index}] needs exactly "
                    f"one kind of condition, got {len(kinds)}"
                )
        state["name"] = old.identity if old else self.identity(config, state)
        state["creationRecords"] = []
