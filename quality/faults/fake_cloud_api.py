"""The simulated clouds' answers to recovery, in the shapes of their own APIs."""

import json
import re
from collections.abc import Mapping
from typing import Any

from simulators.cloud import Cloud
from stacks.recovery.aws import Aws
from stacks.recovery.google import COMPUTE, CONTAINER, IAM, MONITORING


class FakeCloudApi:
    """Implements `stacks.recovery.command.Clouds` on a sandbox's cloud."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud: Any = cloud

    def aws(self, region: str) -> Aws:
        """The simulated account's own API."""
        return Aws(self._cloud.account.client)

    def google(self, url: str) -> Mapping[str, Any]:
        """The few lists and resources that recovery reads."""
        path = url.removeprefix(f"{COMPUTE}/").removeprefix(f"{CONTAINER}/")
        path = path.removeprefix(f"{IAM}/v1/")
        with self._cloud.lock:
            resources = {
                name: dict(resource.state) for name, resource in self._cloud.resources.items()
            }
        if url.startswith(MONITORING):
            kind = path.rpartition("/")[2]
            found = {name: row for name, row in resources.items() if f"/{kind}/" in name}
            return {kind: [{"name": name, **_titled(row)} for name, row in found.items()]}
        if "/clusters/" in path and path in resources:
            return {"resourceLabels": resources[path].get("effectiveLabels")}
        if "/serviceAccounts/" in path:
            return resources.get(path) or {}
        if re.search("/(routers|subnetworks)/", path):
            return _with_gateways(path, resources) if path in resources else {}
        rows = [row for name, row in resources.items() if name.rpartition("/")[0] == path]
        return {"nodePools" if path.endswith("/nodePools") else "items": rows}


def _with_gateways(path: str, resources: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """A router has its NAT gateways."""
    project, _, region, _, router = path.split("/")[1:6]
    prefix = f"{project}/{region}/{router}/"
    nats = [row for name, row in resources.items() if name.startswith(prefix)]
    return {**resources[path], "nats": nats}


def _titled(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A dashboard or an alert policy, as far as it tells whose it is."""
    text = row.get("dashboardJson")
    shown: Mapping[str, Any] = json.loads(text) if text else row
    return {key: shown[key] for key in ("displayName", "labels", "userLabels") if key in shown}
