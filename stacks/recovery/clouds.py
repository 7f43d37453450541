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
        """URL of a simulated AWS."""
        self._session: Any = None

    def aws(self, region: str) -> Aws:
        import boto3
        import botocore.exceptions

        try:
            session: Any = boto3.Session(region_name=region, profile_name=self._profile)
        except botocore.exceptions.BotoCoreError as error:  # no such profile on this machine
            raise LookupError(f"AWS: {error}") from None
        return Aws(lambda service: session.client(service, endpoint_url=self._endpoint))

    def google(self, url: str) -> Mapping[str, Any]:
        import google.auth
        import google.auth.exceptions
        import google.auth.transport.requests
        import requests

        try:
            if self._session is None:
                # The one scope that all of Compute Engine, GKE and Cloud Monitoring take.
                credentials, _ = google.auth.default(
                    scopes=["https://www.googleapis.com/auth/cloud-platform"]
                )
                signed_in: Any = google.auth.transport.requests.AuthorizedSession
                self._session = signed_in(credentials)
            answer = self._session.get(url, timeout=30)
            document: Mapping[str, Any] = answer.json()
        except (google.auth.exceptions.GoogleAuthError, requests.RequestException) as error:
            raise LookupError(f"Google Cloud: {error}") from None
        if answer.status_code == requests.codes.not_found:
            return {}  # what it would be part of is not there
        if not answer.ok:
            raise LookupError(f"Google Cloud: {document['error']['message']}")
        return document
