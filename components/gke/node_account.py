"""The service account of a cluster's nodes: its ID, and the registries that it cannot read."""

import hashlib
import json
import re
from collections.abc import Mapping

_ARTIFACT_REGISTRY = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[a-z0-9.:-]+)/(?P<repository>[a-z0-9_-]+)"
    r"(?:/.*)?"
)


def foreign_repository(registry: str | None, project: str) -> tuple[str, str, str] | None:
    """Location, project and name of the repository in `images.registry`, if it is in the Artifact
    Registry of another project, in which `NODE_ROLES` grant the nodes nothing."""
    match = _ARTIFACT_REGISTRY.fullmatch(registry or "")
    if match is None or match["project"] == project:
        return None
    return match["location"], match["project"], match["repository"]


def grant_command(repository: tuple[str, str, str], node_account: str) -> str:
    """The command that lets the nodes pull from a repository of another project."""
    location, owner, name = repository
    return (
        f"gcloud artifacts repositories add-iam-policy-binding {name} --project {owner} --location "
        f"{location} --member serviceAccount:{node_account} --role roles/artifactregistry.reader"
    )


def registry_warnings(config: Mapping[str, str], project: str, account: str) -> list[str]:
    """A warning if the stack's images are in a repository of another project; `config`: the
    engine's, with `images` not checked yet; `account`: the ID of the nodes' service account."""
    try:
        registry = json.loads(config.get("gpu-cluster:images") or "{}")["registry"]
        repository = foreign_repository(registry, project)
    except (ValueError, TypeError, KeyError):
        return []
    if repository is None:
        return []
    account = f"{account}@{project}.iam.gserviceaccount.com"
    return [
        f"images.registry: it is in project {repository[1]}, where the nodes' service account has "
        "no role, so that no pod of the stack could pull its image; once the account exists, "
        f"run: {grant_command(repository, account)}"
    ]


def account_id(cluster: str, stack: str = "") -> str:
    """The ID of a cluster's node service account: 6 to 30 characters, ends in a letter or digit.

    If the name is too long, a hash distinguishes clusters with the same first characters; and
    stacks, if `stack`, `<project>/<stack>`, is one of several with nodes in the cluster.
    """
    if len(cluster) <= 24 and not stack:
        return f"{cluster}-nodes"
    digest = hashlib.sha256(f"{cluster}{stack}".encode()).hexdigest()[:6]
    return f"{cluster[:17].rstrip('-')}-{digest}-nodes"
