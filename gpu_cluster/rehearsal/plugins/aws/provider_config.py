"""The AWS provider's own configuration: accepted settings and default tags."""

import json
from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, Config
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Problem, block, unread

_SIMULATED = frozenset(
    {
        "region",
        "defaultTags",
        # Settings that only determine how the real API is reached, and with which credentials.
        "profile",
        "allowedAccountIds",
        "maxRetries",
        "retryMode",
        "skipCredentialsValidation",
        "skipMetadataApiCheck",
        "skipRegionValidation",
        "skipRequestingAccountId",
        "version",
    }
)


def check_config(inputs: Mapping[str, Any]) -> list[Problem]:
    """Problems of a provider's configuration, including settings that are not simulated."""
    import pulumi_aws.provider  # takes half a second, which most callers do not need

    known = block(pulumi_aws.provider.ProviderArgs).properties
    problems = unread("aws", known, _SIMULATED, inputs)
    if not inputs.get("region"):
        problems.append(Problem("region", "'aws:region' is not set: set it, e.g. to us-east-1"))
    if not problems and UNKNOWN not in inputs.values():
        try:
            default_tags(inputs)
        except CloudError as error:
            problems.append(Problem("defaultTags", str(error)))
    return problems


def default_tags(config: Config) -> dict[str, str]:
    """The provider's `defaultTags.tags`; the engine passes nested settings as JSON."""
    given = config.get("defaultTags") or {}
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise CloudError(f"'aws:defaultTags' contains an invalid JSON: {error}") from None
    tags = given.get("tags", {}) if isinstance(given, Mapping) else None
    if not isinstance(tags, Mapping) or set(given) - {"tags"}:
        raise CloudError("'aws:defaultTags' is an object with one key, 'tags': a map of strings")
    return {str(key): str(value) for key, value in tags.items()}
