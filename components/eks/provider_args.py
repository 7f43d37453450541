"""Where the AWS provider works, and as whom: the kubeconfig's user has to be the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsProviderArgs:
    """What the provider's own config says; the rest is the environment's."""

    region: str
    """From `aws:region`."""
    profile: str | None = None
    """Of the AWS CLI's configuration, from `aws:profile`."""
    role: str | None = None
    """ARN of the role that is assumed, from `aws:assumeRoles`."""


def assumed_role(config: Mapping[str, str]) -> str | None:
    """The role that the provider assumes.

    Raises ValueError, in one line, for what `aws eks get-token` could not do as well.
    """
    text = config.get("aws:assumeRoles", "[]")
    try:
        roles = [str(role["roleArn"]) for role in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"aws:assumeRoles: {text!r} is not a list of maps; set it with pulumi config set "
            "--path 'aws:assumeRoles[0].roleArn' ARN"
        ) from None
    if len(roles) > 1:
        raise ValueError(
            f"aws:assumeRoles: has {len(roles)} roles, and aws eks get-token assumes one; give the "
            "last, and put those before it into the profile"
        )
    return roles[0] if roles else None
