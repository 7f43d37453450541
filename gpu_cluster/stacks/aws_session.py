"""The AWS session of every command: the account and identity that the stack's provider uses."""

import os
from typing import Any

import boto3
import botocore.config
import botocore.credentials
import botocore.session

from gpu_cluster.components.eks.provider_args import AwsProviderArgs
from gpu_cluster.components.settings.endpoints import on_this_machine

_SIMULATED = {"aws_access_key_id": "rehearsal", "aws_secret_access_key": "rehearsal"}
"""Keys for signing requests to a simulator: boto3 sends none without a key."""
_SESSION_NAME = "gpu-cluster"


def session(provider: AwsProviderArgs, endpoint: str | None = None) -> boto3.Session:
    """Authenticates like the provider: `aws:profile`, then the role of `aws:assumeRoles`, whose
    credentials are renewed before they expire. Nothing is requested before the first call.

    `endpoint`: the URL of a simulator; one on this machine gets no real credentials, but the keys
    of the environment if `AWS_ENDPOINT_URL` is set. Raises botocore's BotoCoreError for a profile
    that does not exist.
    """
    pointed = on_this_machine(os.environ.get("AWS_ENDPOINT_URL"))
    if pointed or on_this_machine(endpoint):
        # `gpu-cluster simulate` prints keys with the address, which identify the client.
        keys = {} if pointed and os.environ.get("AWS_ACCESS_KEY_ID") else _SIMULATED
        direct = botocore.session.Session()
        # botocore would otherwise ask a proxy of the environment, even for a loopback address.
        direct.set_default_client_config(botocore.config.Config(proxies={}))
        return boto3.Session(region_name=provider.region, botocore_session=direct, **keys)
    signed_in = boto3.Session(region_name=provider.region, profile_name=provider.profile)
    if provider.role is None:
        return signed_in
    assumed = botocore.session.Session()
    # No other provider is tried: another identity would answer for another account.
    assumed.get_component("credential_provider").providers = [
        _AssumedRole(signed_in, provider.role)
    ]
    return boto3.Session(region_name=provider.region, botocore_session=assumed)


class _AssumedRole:
    """A role to assume, as one of botocore's credential providers."""

    METHOD = "assume-role"

    def __init__(self, identity: boto3.Session, role: str) -> None:
        self._identity = identity
        self._role = role

    def load(self) -> Any:
        source = self._identity.get_credentials()
        if source is None:
            return None
        fetcher = botocore.credentials.AssumeRoleCredentialFetcher(
            client_creator=self._identity.client,
            source_credentials=source,
            role_arn=self._role,
            extra_args={"RoleSessionName": _SESSION_NAME},
        )
        return botocore.credentials.DeferredRefreshableCredentials(
            refresh_using=fetcher.fetch_credentials, method=self.METHOD
        )
