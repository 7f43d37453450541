"""The simulated clouds' answers to recovery, in the shapes of their own APIs."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from simulators.cloud import Cloud
from stacks.recovery.aws import Aws
from stacks.recovery.google import COMPUTE, CONTAINER, MONITORING


class FakeCloudApi:
    """Implements `stacks.recovery.command.Clouds` on a sandbox's cloud."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud: Any = cloud

    def aws(self, region: str) -> Aws:
        """moto's API, and what moto's lacks."""
        account = self._cloud.account

        def associations(params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
            cluster = params["url_path"].split("/")[2]
            query = params["query_string"]
            wanted = (query["namespace"], query["serviceAccount"])
            with account.lock:
                parts = account.clusters.get(cluster)
                found = dict(parts.associations) if parts else {}
            rows = [
                {"associationId": row["associationId"]}
                for key, row in found.items()
                if key == wanted
            ]
            return SimpleNamespace(status_code=200), {"associations": rows}

        def client(service: str) -> Any:
            made = account.client(service)
            if service == "eks":
                event = "before-call.eks.ListPodIdentityAssociations"
                made.meta.events.register(event, associations, unique_id="associations")
            return made

        return Aws(client)

    def google(self, url: str) -> Mapping[str, Any]:
        """The few lists that recovery reads."""
        path = url.removeprefix(f"{COMPUTE}/").removeprefix(f"{CONTAINER}/")
        with self._cloud.lock:
            resources = {
                name: dict(resource.state) for name, resource in self._cloud.resources.items()
            }
        if url.startswith(MONITORING):
            kind = path.rpartition("/")[2]
            found = {name: _title(row) for name, row in resources.items() if f"/{kind}/" in name}
            return {kind: [{"name": name, "displayName": found[name]} for name in found]}
        if "/clusters/" in path and path in resources:
            return {"resourceLabels": resources[path].get("effectiveLabels")}
        if path in resources:  # a router, which has its gateways
            project, _, region, _, router = path.split("/")[1:6]
            prefix = f"{project}/{region}/{router}/"
            return {"nats": [row for name, row in resources.items() if name.startswith(prefix)]}
        rows = [row for name, row in resources.items() if name.rpartition("/")[0] == path]
        return {"nodePools" if path.endswith("/nodePools") else "items": rows}


def _title(row: Mapping[str, Any]) -> str:
    """What a dashboard or an alert policy is called."""
    text = row.get("dashboardJson")
    return str(json.loads(text)["displayName"] if text else row["displayName"])
