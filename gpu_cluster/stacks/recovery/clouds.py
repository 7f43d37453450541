"""The real clouds, queried with the user's own credentials."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.stacks.recovery.aws_resources import Aws
from gpu_cluster.stacks.recovery.protocols import Recovers


def recovers(package: str) -> Recovers | None:
    """The module of the package's cloud."""
    named = (cloud.recovers for cloud in CLOUDS.values() if cloud.package == package)
    module = next(filter(None, named), None)
    return cast(Recovers, import_module(module)) if module else None


class LiveClouds:
    """Implements `stacks.recovery.protocols.Clouds`. Each SDK is imported on first use."""

    def __init__(
        self, *, config: Mapping[str, str] | None = None, endpoint: str | None = None
    ) -> None:
        self.config = config or {}
        self.endpoint = endpoint
        self._google: Any = None

    def aws(self, region: str) -> Aws:
        import botocore.exceptions

        from gpu_cluster.components.eks.provider_args import provider_args
        from gpu_cluster.stacks.aws_session import session
        from gpu_cluster.stacks.definition.files import PLACEHOLDER

        for key in ("aws:profile", "aws:assumeRoles"):
            if PLACEHOLDER in self.config.get(key, ""):
                raise LookupError(
                    f"AWS: {key} is encrypted, so the stack's account is unknown; it does not "
                    "need to be a secret: set it in plain text with pulumi config set"
                )
        try:
            signed_in: Any = session(provider_args(self.config, region), self.endpoint)
        except (botocore.exceptions.BotoCoreError, ValueError) as error:  # no such profile here
            raise LookupError(f"AWS: {error}") from None
        return Aws(lambda service: signed_in.client(service, endpoint_url=self.endpoint))

    def google(self, service: str, path: str) -> Mapping[str, Any]:
        from gpu_cluster.stacks.capacity.google_api import GoogleApi
        from gpu_cluster.stacks.capacity.questions import simulator
        from gpu_cluster.stacks.capacity.verdict import Unknown

        if self._google is None:
            # The one scope that is enough for Compute Engine, GKE and Cloud Monitoring.
            scope = "https://www.googleapis.com/auth/cloud-platform"
            self._google = GoogleApi(self.endpoint or simulator("google"), [scope])
        body = self._google.found(service, path)
        if isinstance(body, Unknown):
            raise LookupError(f"Google Cloud: {body.reason}")
        return body or {}  # The resource that it would be part of does not exist.
