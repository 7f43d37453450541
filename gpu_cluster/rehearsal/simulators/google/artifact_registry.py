"""Artifact Registry's repositories, and whether nodes may pull images from them.

An inventory lists the repositories on which the nodes' account has no role. On all other
repositories in other projects it has the reader's role.
"""

import re
from collections.abc import Iterable
from typing import Any

from gpu_cluster.rehearsal.simulators.google import policies
from gpu_cluster.rehearsal.simulators.google.api.call import Call, get_operation
from gpu_cluster.rehearsal.simulators.google.collection import Collection, now
from gpu_cluster.rehearsal.simulators.google.errors import bad_request


class _Repositories(Collection):
    method = "artifactregistry.projects.locations.repositories"
    word = "repository"
    response = "devtools.artifactregistry.v1.Repository"
    immutable = ("name", "format", "mode", "kmsKeyName")

    def identity(self, call: Call) -> str:
        name = call.query.get("repositoryId", "")
        if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name):
            raise bad_request(f"invalid repository ID: '{name}'")
        return f"{call.name}/{name}"

    def check(self, state: dict[str, Any]) -> None:
        if state.get("format", "FORMAT_UNSPECIFIED") == "FORMAT_UNSPECIFIED":
            raise bad_request("the format of a repository must be given")

    def complete(self, state: dict[str, Any]) -> None:
        _, project, _, location, _, name = state["name"].split("/")
        state.setdefault("mode", "STANDARD_REPOSITORY")
        state["updateTime"] = now()
        state.setdefault("createTime", state["updateTime"])
        registry = f"{location}-{state['format'].lower()}.pkg.dev"
        state["registryUri"] = f"{registry}/{project}/{name}"


def why_not_pulled(image: str, not_granted: Iterable[str]) -> str:
    """Why nodes cannot pull this image, with containerd's message for a token that the registry
    refuses (core/remotes/docker/authorizer.go, core/remotes/errors); empty if they can."""
    if not any(image.startswith(f"{repository}/") for repository in not_granted):
        return ""
    host = image.partition("/")[0]
    return (
        f'Failed to pull image "{image}": failed to resolve reference "{image}": failed to '
        "authorize: failed to fetch oauth token: unexpected status from GET request to "
        f"https://{host}/v2/token: 403 Forbidden"
    )


def _get_policy(call: Call) -> dict[str, Any]:
    _, project, _, location, _, name = call.name.split("/")
    if f"{location}-docker.pkg.dev/{project}/{name}" in call.cloud.not_granted:
        return policies.get(call)
    accounts = call.cloud.of("iam.serviceAccounts")
    readers = [f"serviceAccount:{account.state['email']}" for account in accounts]
    binding = {"role": "roles/artifactregistry.reader", "members": readers}
    return policies.get(call) | ({"bindings": [binding]} if readers else {})


ENDPOINTS = {"ARTIFACT_REGISTRY": "artifactregistry/v1/"}
METHODS = {
    **_Repositories().methods,
    "artifactregistry.projects.locations.repositories.getIamPolicy": _get_policy,
    "artifactregistry.projects.locations.operations.get": get_operation,
}
