"""The region and identity of the AWS provider, which the kubeconfig's user has to share."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ..schema.refusal import refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsProviderArgs:
    """The settings in the provider's own config; the rest comes from the environment."""

    region: str
    """From `aws:region`."""
    profile: str | None = None
    """A profile of the AWS CLI's configuration, from `aws:profile`."""
    role: str | None = None
    """ARN of the role that is assumed, from `aws:assumeRoles`."""


ENVIRONMENT_INSTEAD: Mapping[str, str] = {
    "accessKey": "AWS_ACCESS_KEY_ID",
    "secretKey": "AWS_SECRET_ACCESS_KEY",
    "token": "AWS_SESSION_TOKEN",
    "assumeRoleWithWebIdentity": "AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE",
    "sharedConfigFiles": "AWS_CONFIG_FILE",
    "sharedCredentialsFiles": "AWS_SHARED_CREDENTIALS_FILE",
}
"""Provider setting that no other AWS client reads -> the variables that all of them read."""


def provider_args(config: Mapping[str, str], region: str) -> AwsProviderArgs:
    """Reads the provider's region and identity from the engine's config (`aws:profile` -> text).

    Raises `Refusal` for a setting that only the provider follows: `aws eks
    get-token`, which authenticates to the cluster, would use another identity, and so would
    `gpu-cluster capacity` and `recover`.
    """
    for key, variables in ENVIRONMENT_INSTEAD.items():
        if config.get(f"aws:{key}"):
            raise refuse(f"aws:{key}")(
                "only the AWS provider reads it, so that aws eks get-token could not sign in to "
                "the cluster as the same identity",
                remedy=f"remove it, and set {variables} in the environment or use aws:profile",
            )
    profile = config.get("aws:profile") or None
    return AwsProviderArgs(region=region, profile=profile, role=_assumed_role(config))


def _assumed_role(config: Mapping[str, str]) -> str | None:
    """The role that the provider assumes, if `aws eks get-token` can assume it as well."""
    text = config.get("aws:assumeRoles", "[]")
    try:
        maps = list(json.loads(text))
        roles = [str(role["roleArn"]) for role in maps]
    except (ValueError, TypeError, KeyError):
        raise refuse("aws:assumeRoles", text)(
            "is not a list of maps",
            remedy="set it with pulumi config set --path 'aws:assumeRoles[0].roleArn' ARN",
        ) from None
    if len(roles) > 1:
        raise refuse("aws:assumeRoles")(
            f"has {len(roles)} roles, and aws eks get-token can assume only one",
            remedy="give the last one, and configure the others in the profile",
        )
    # https://github.com/aws/aws-cli/issues/5942, open on 2026-11-23.
    if any(role.get("externalId") for role in maps):
        raise refuse(("aws:assumeRoles", 0, "externalId"))(
            "aws eks get-token has no option for an external ID, so that nobody could sign in to "
            "the cluster; put role_arn, external_id and source_profile into a profile of "
            "~/.aws/config, set aws:profile to its name, and remove aws:assumeRoles"
        )
    return roles[0] if roles else None
