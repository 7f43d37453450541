"""The simulated clouds' answers to recovery, in the shapes of their own APIs."""

from typing import Any

from rehearsal.simulators.cloud import Cloud
from stacks.recovery.aws import Aws
from stacks.recovery.clouds import LiveClouds


class FakeCloudApi(LiveClouds):
    """A sandbox's cloud. `endpoint`: where a Google Cloud answers."""

    def __init__(self, cloud: Cloud, endpoint: str | None) -> None:
        super().__init__(endpoint=endpoint)
        self._cloud: Any = cloud

    def aws(self, region: str) -> Aws:
        """The simulated account's own API."""
        return Aws(self._cloud.account.client)
