"""The clouds themselves, asked with whatever credentials the person has signed in with."""

from collections.abc import Mapping
from typing import Any

from stacks.recovery.aws import Aws


class LiveClouds:
    """Implements `stacks.recovery.command.Clouds`. Each SDK is loaded when it is needed."""

    def __init__(self, *, profile: str | None = None, endpoint: str | None = None) -> None:
        self._profile = profile
        """AWS's, as the stack has it."""
        self._endpoint = endpoint
        """URL of a simulator of the cloud."""
        self._google: Any = None

    def aws(self, region: str) -> Aws:
        import boto3
        import botocore.exceptions

        try:
            session: Any = boto3.Session(region_name=region, profile_name=self._profile)
        except botocore.exceptions.BotoCoreError as error:  # no such profile on this machine
            raise LookupError(f"AWS: {error}") from None
        return Aws(lambda service: session.client(service, endpoint_url=self._endpoint))

    def google(self, service: str, path: str) -> Mapping[str, Any]:
        from stacks.capacity.google_api import GoogleApi
        from stacks.capacity.verdict import Unknown

        if self._google is None:
            # The one scope that all of Compute Engine, GKE and Cloud Monitoring take.
            scope = "https://www.googleapis.com/auth/cloud-platform"
            self._google = GoogleApi(self._endpoint, [scope])
        found = self._google.found(service, path)
        if isinstance(found, Unknown):
            raise LookupError(f"Google Cloud: {found.reason}")
        return found or {}  # what it would be part of is not there
