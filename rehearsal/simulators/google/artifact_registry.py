"""Repositories of Artifact Registry."""

import re
from typing import Any

from rehearsal.simulators.google.api.call import Call, get_operation
from rehearsal.simulators.google.collection import Collection, now
from rehearsal.simulators.google.errors import bad_request


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


METHODS = {
    **_Repositories().methods,
    "artifactregistry.projects.locations.operations.get": get_operation,
}
