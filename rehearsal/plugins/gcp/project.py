"""APIs of a project, repositories, dashboards and alert policies, as the provider has them."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from rehearsal.plugins.cloud.handler import CloudError, Config, NotFoundError
from rehearsal.plugins.cloud.schema import UNKNOWN, Problem
from rehearsal.plugins.gcp.resource import KEPT, OWN_LABEL, Resource


class Service(Resource):
    """An enabled API of the project."""

    token = "gcp:projects/service:Service"
    noun = "Project Service"
    service = "SERVICE_USAGE"
    place = "projects/{project}/services"
    kept = ("deletionPolicy", "disableOnDestroy", "disableDependentServices",
            "checkIfServiceHasUsageOnDestroy")  # fmt: skip

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        service = str(inputs.get("service", UNKNOWN))
        if service == UNKNOWN or "." in service:
            return []
        return [
            Problem(
                "service", f"expected a domain such as container.googleapis.com, got '{service}'"
            )
        ]

    def path(self, identity: str) -> str:
        project, _, service = identity.partition("/")
        return f"projects/{project}/services/{service}"

    def placed(self, identity: str) -> dict[str, Any]:
        return {"project": identity.partition("/")[0]}

    def insert(self, inputs: Mapping[str, Any]) -> str:
        identity = f"{inputs['project']}/{inputs['service']}"
        answer = self.client.call(self.service, "POST", f"{self.path(identity)}:enable", {})
        self.wait(answer, "", "enabling service")
        return identity

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        if body["state"] != "ENABLED":
            raise NotFoundError(f"the API {body['config']['name']} is not enabled")
        kept = {name: known[name] for name in self.kept if name in known}
        return kept | {"service": body["config"]["name"]}

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """What can change is the provider's own."""

    def remove(self, identity: str, state: Mapping[str, Any]) -> None:
        if not state.get("disableOnDestroy"):
            return
        body = {"disableDependentServices": bool(state.get("disableDependentServices"))}
        answer = self.client.call(self.service, "POST", f"{self.path(identity)}:disable", body)
        self.wait(answer, "", "disabling service")


class Repository(Resource):
    """A repository of Artifact Registry."""

    token = "gcp:artifactregistry/repository:Repository"
    noun = "Repository"
    service = "ARTIFACT_REGISTRY"
    api = ("artifactregistry", "v1")
    schema = "Repository"
    place = "projects/{project}/locations/{location}/repositories"
    key = "repositoryId"
    renamed: ClassVar[Mapping[str, str | None]] = {
        **KEPT,
        **dict.fromkeys(("project", "location", "repositoryId", "name", "cleanupPolicies")),
        "remoteRepositoryConfig.disableUpstreamValidation": None,
    }
    _changed = ("description", "labels", "dockerConfig", "virtualRepositoryConfig",
                "cleanupPolicies", "remoteRepositoryConfig", "cleanupPolicyDryRun",
                "vulnerabilityScanningConfig")  # fmt: skip

    def completed(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        complete = super().completed(config, inputs)
        if not complete.setdefault("location", config.get("region")):
            raise CloudError("cannot determine the location: set it here, or gcp:region")
        return complete

    def same(self, path: str, old: Any, new: Any) -> bool:
        return path == "format" and str(old).upper() == str(new).upper()

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        body = super().expand(inputs)
        body["format"] = inputs["format"].upper()
        body["labels"] = (inputs.get("labels") or {}) | OWN_LABEL
        if inputs.get("cleanupPolicies"):
            body["cleanupPolicies"] = {one["id"]: one for one in inputs["cleanupPolicies"]}
        return body

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        labels = body.get("labels") or {}
        found = super().flatten({k: v for k, v in body.items() if k != "labels"}, known)
        ours = {name: labels[name] for name in known.get("labels") or {} if name in labels}
        if body.get("cleanupPolicies"):
            found["cleanupPolicies"] = list(body["cleanupPolicies"].values())
        name = body["name"].rpartition("/")[2]
        return found | {
            "name": name,
            "repositoryId": name,
            "labels": ours,
            "pulumiLabels": ours | OWN_LABEL,
            "effectiveLabels": dict(labels),
        }

    def insert(self, inputs: Mapping[str, Any]) -> str:
        place = self.place.format_map(inputs)
        query = {"repository_id": inputs["repositoryId"]}
        answer = self.client.call(self.service, "POST", place, self.expand(inputs), query)
        self.wait(answer, place, f"to create {self.noun}")
        return self.identity(inputs)

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        body, before = self.expand(new), self.expand(old)
        mask = [name for name in self._changed if body.get(name) != before.get(name)]
        if mask:
            wanted = {"cleanupPolicies": {}} | {n: body[n] for n in self._changed if n in body}
            query = {"updateMask": ",".join(mask)}
            self.client.call(self.service, "PATCH", identity, wanted, query)


class Dashboard(Resource):
    """A dashboard of Cloud Monitoring, whose body is the property `dashboardJson`."""

    token = "gcp:monitoring/dashboard:Dashboard"
    noun = "Dashboard"
    service = "MONITORING"
    place = "v1/projects/{project}/dashboards"

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

    def path(self, identity: str) -> str:
        return f"v1/{identity}"

    def placed(self, identity: str) -> dict[str, Any]:
        return {}

    def insert(self, inputs: Mapping[str, Any]) -> str:
        body = json.loads(inputs["dashboardJson"])
        place = self.place.format_map(inputs)
        return str(self.client.call(self.service, "POST", place, body)["name"])

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: known[name] for name in ("deletionPolicy", "project") if name in known}
        return kept | {
            "dashboardJson": json.dumps(body, sort_keys=True, separators=(",", ":")),
            "project": known.get("project") or body["name"].split("/")[1],
        }

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        etag = json.loads(old["dashboardJson"]).get("etag")
        wanted = {"etag": etag} | json.loads(new["dashboardJson"])
        self.client.call(self.service, "PATCH", self.path(identity), wanted)


def _as_in(value: Any, wanted: Any) -> Any:
    """The value without what the API added to the one that is wanted."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        return {name: _as_in(value[name], wanted[name]) for name in value if name in wanted}
    if isinstance(value, list) and isinstance(wanted, list) and len(value) == len(wanted):
        return [_as_in(*pair) for pair in zip(value, wanted, strict=True)]
    return value


class AlertPolicy(Resource):
    """An alert policy of Cloud Monitoring."""

    token = "gcp:monitoring/alertPolicy:AlertPolicy"
    noun = "AlertPolicy"
    service = "MONITORING"
    api = ("monitoring", "v3")
    schema = "AlertPolicy"
    place = "v3/projects/{project}/alertPolicies"
    renamed: ClassVar[Mapping[str, str | None]] = {
        **KEPT,
        "project": None,
        "alertStrategy.notificationChannelStrategies": "notificationChannelStrategy",
    }
    _masked = ("displayName", "combiner", "enabled", "conditions", "notificationChannels",
               "alertStrategy", "userLabels", "severity", "documentation")  # fmt: skip

    def on_read(self, config: Config, identity: str, state: dict[str, Any]) -> dict[str, Any]:
        # The provider asks for the name in its state; only an import takes that from the id.
        if state and not state.get("name"):
            raise NotFoundError(identity)
        return super().on_read(config, identity, state)

    def path(self, identity: str) -> str:
        return f"v3/{identity}"

    def placed(self, identity: str) -> dict[str, Any]:
        return {}

    def insert(self, inputs: Mapping[str, Any]) -> str:
        place = self.place.format_map(inputs)
        return str(self.client.call(self.service, "POST", place, self.expand(inputs))["name"])

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        record = body.get("creationRecord") or {}
        found = super().flatten(body, known)
        project = known.get("project") or body["name"].split("/")[1]
        return found | {"project": project, "creationRecords": [record] if record else []}

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        body, before = self.expand(new), self.expand(old)
        for condition, known in zip(body["conditions"], before["conditions"], strict=False):
            if "name" in known:
                condition.setdefault("name", known["name"])
        mask = [field for field in self._masked if body.get(field) != before.get(field)]
        if mask:
            query = {"updateMask": ",".join(mask)}
            self.client.call(self.service, "PATCH", self.path(identity), body, query)
