"""The project, and the identities for cloud and cluster, which differ if the provider has its own.

`gke-gcloud-auth-plugin` uses Application Default Credentials and ignores the provider's settings:
if these name another identity, the cloud and the cluster see different ones.
"""

import re
from collections.abc import Mapping

from ..schema.decode import required
from ..schema.limits import matching, refusal

PROJECT = matching(
    # Neither its name nor its number: the workload identity pool contains the ID.
    "a project's ID; allowed: 6 to 30 lowercase letters, digits and '-', a letter first (gcloud "
    "projects list has it as PROJECT_ID)",
    # IDs of an organization's old projects have its domain as a prefix.
    re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]"),
)
_CONFIG = ("credentials", "accessToken", "impersonateServiceAccount")
_ENVIRONMENT = (
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "GOOGLE_CREDENTIALS",
    "GOOGLE_CLOUD_KEYFILE_JSON",
    "GCLOUD_KEYFILE_JSON",
    "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
)
"""Variables that the provider reads: terraform-provider-google-beta,
google-beta/provider/provider.go (2026-08-21)."""


def identity_warnings(config: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """A warning for each setting of the Google provider that the credential plugin ignores.

    `config` is the engine's: `gcp:credentials` -> text.
    """
    sources = [f"gcp:{key}" for key in _CONFIG if config.get(f"gcp:{key}")]
    sources += [name for name in _ENVIRONMENT if environment.get(name)]
    return [
        f"{name}: signs in to Google Cloud but not to the cluster, for which "
        "gke-gcloud-auth-plugin accepts only Application Default Credentials; drop it, and run "
        "gcloud auth application-default login or set GOOGLE_APPLICATION_CREDENTIALS"
        for name in sources
    ]


def project_id(config: Mapping[str, str]) -> str:
    """The project in the engine's config; raises `Refusal` if there is none."""
    project = required(config, "gcp:project", "the ID of your Google Cloud project")
    if refused := refusal([PROJECT], project):
        raise refused.under("gcp:project")
    return project
