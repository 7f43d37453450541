"""The simulated clouds' answers to recovery, in the shapes of their own APIs."""

from collections.abc import Mapping
from typing import Any

import urllib3

from simulators.cloud import Cloud
from stacks.recovery.aws import Aws


class FakeCloudApi:
    """Implements `stacks.recovery.command.Clouds` on a sandbox's cloud."""

    def __init__(self, cloud: Cloud, endpoint: str | None) -> None:
        """`endpoint`: where a Google Cloud answers."""
        self._cloud: Any = cloud
        self._endpoint = endpoint

    def aws(self, region: str) -> Aws:
        """The simulated account's own API."""
        return Aws(self._cloud.account.client)

    def google(self, url: str) -> Mapping[str, Any]:
        """What the simulated APIs answer to a GET, empty where there is no such thing."""
        service, _, path = url.removeprefix("https://").partition(".googleapis.com/")
        if service == "compute":
            path = path.removeprefix("compute/")
        answer = urllib3.request("GET", f"{self._endpoint}/{service}/{path}")
        if answer.status == 404:
            return {}
        body = answer.json()
        if answer.status != 200:
            raise LookupError(body["error"]["message"])
        assert isinstance(body, dict)
        return body
