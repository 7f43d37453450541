"""A stack's state, as `pulumi stack export` prints it: the only module that knows its format.

A resource is a dict as the engine writes it, because recovery writes it back unchanged.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_cluster.stacks.engine.urn import of_reference

Deployment = dict[str, Any]
"""The output of `pulumi stack export`, and the input of `pulumi stack import`."""
Row = dict[str, Any]
"""A resource in it: `urn`, `type`, `custom`, `id`, `inputs`, `outputs`, `parent`, `provider`,
`dependencies`."""
ROOT_TYPE = "pulumi:pulumi:Stack"
PROVIDER_TYPE = "pulumi:providers:"
"""The prefix of the type of every provider, followed by its package."""

AWAITS_REPLACEMENT = "pendingReplacement"
"""The engine's mark on a resource that it deletes, or has deleted, before replacing it."""


def resources(deployment: Mapping[str, Any]) -> list[Row]:
    """The resources, each after all of its dependencies; empty before the first `up`."""
    rows: list[Row] = deployment["deployment"].get("resources") or []
    return rows


def pending(deployment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The operations that were started but not reported as done, in the order in which they were
    started: `type` (`creating`, ...) and `resource`."""
    operations: list[dict[str, Any]] = deployment["deployment"].get("pending_operations") or []
    return operations


def in_backend(folder: Path, stack: str) -> list[Row]:
    """The resources in a file backend of one project, `file://FOLDER`, faster than by the engine.

    Raises OSError, ValueError or KeyError if there is no complete state of the stack.
    """
    (file,) = (folder / ".pulumi" / "stacks").glob(f"*/{stack}.json")
    return resources({"deployment": json.loads(file.read_text())["checkpoint"]["latest"]})


def identities(deployment: Mapping[str, Any], type_token: str) -> set[str]:
    """The cloud's names of all resources of a type in the state, without those that were deleted to
    be replaced: a replacement may have the same name."""
    return {
        row["id"]
        for row in resources(deployment)
        if row["type"] == type_token and row.get("id") and not row.get(AWAITS_REPLACEMENT)
    }


def waits_for(row: Mapping[str, Any]) -> list[str]:
    """URNs of the resources that must exist before the engine creates this one."""
    provider, _ = of_reference(row.get("provider") or "")
    return [*(row.get("dependencies") or ()), *([provider] if provider else [])]


def needs(row: Mapping[str, Any]) -> set[str]:
    """URNs of the parent, the provider and all other dependencies of a resource."""
    parent = row.get("parent")
    return {*waits_for(row), *([parent] if parent else [])}
