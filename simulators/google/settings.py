"""The provider's own configuration, from stack config or an explicit `gcp.Provider`."""

from collections.abc import Mapping
from typing import Any

import pulumi_gcp.provider

from plugins.cloud.schema import Problem, block, did_you_mean

_SIMULATED = frozenset(
    {
        "project",
        "region",
        "zone",
        # What only decides how the real API is reached, and by whom.
        "accessToken",
        "billingProject",
        "credentials",
        "disableGlobalProjectWarning",
        "impersonateServiceAccount",
        "pluginDownloadURL",
        "requestTimeout",
        "userProjectOverride",
        "version",
    }
)


def check_config(inputs: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a provider's configuration, or not simulated here."""
    known = block(pulumi_gcp.provider.ProviderArgs).properties
    return [
        Problem(name, f"a rehearsal does not simulate 'gcp:{name}'")
        if name in known
        else Problem(name, f"the provider has no setting 'gcp:{name}'{did_you_mean(name, known)}")
        for name in inputs
        if name not in _SIMULATED and not name.startswith("__")
    ]
