"""Roles and policies that grant far more than one task needs: settings and policies refuse them.

Sources, read on 2026-11-23: Google Cloud, "IAM roles and permissions index"
(docs.cloud.google.com/iam/docs/roles-permissions); AWS, "AWS managed policies for job functions"
(docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_job-functions.html).
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

GOOGLE_ROLES = (
    "roles/owner",
    "roles/editor",
    "roles/viewer",
    "roles/*.admin",
    "roles/*Admin",
    "roles/*Admin.v1",
    "roles/iam.serviceAccountTokenCreator",
    "roles/iam.serviceAccountOpenIdTokenCreator",
    "roles/iam.serviceAccountUser",
)
"""Patterns: basic roles, administrators of a service, and impersonation of other accounts."""
GOOGLE_PROJECT_ROLES = (
    "roles/iam.workloadIdentityUser",
    "roles/cloudbuild.builds.editor",
    "roles/deploymentmanager.editor",
)
"""Patterns of roles that are too broad only for a whole project, folder or organization: the first
gets tokens of every service account there (on one account, that is its purpose), a build runs as
Cloud Build's service account, and a deployment as Google's, which is an editor of the project."""
AWS_POLICIES = ("AdministratorAccess*", "PowerUserAccess", "*FullAccess*", "*Administrator")
"""Patterns of names of managed policies."""


def too_broad(right: str, patterns: Sequence[str]) -> str | None:
    """Why this role, or policy (name or ARN), is never granted; None if no pattern matches it."""
    kind, name = ("policy", right.rpartition("/")[2]) if "roles/" not in right else ("role", right)
    if not any(fnmatchcase(name, pattern) for pattern in patterns):
        return None
    return f"{name} grants far more permissions than one task needs; choose a narrower {kind}"
