"""A stack's state, as `pulumi stack export` prints it: the one place that knows its format.

A resource is a dict as the engine writes it, since recovery writes it back with all that is in it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stacks.engine.urn import of_reference

Deployment = dict[str, Any]
"""What `pulumi stack export` prints, and `pulumi stack import` reads."""
Row = dict[str, Any]
"""A resource in it: `urn`, `type`, `custom`, `id`, `inputs`, `outputs`, `parent`, `provider`,
`dependencies`."""
ROOT_TYPE = "pulumi:pulumi:Stack"
PROVIDER_TYPE = "pulumi:providers:"
"""What the type of every provider begins with; its package follows."""

AWAITS_REPLACEMENT = "pendingReplacement"
"""The engine's mark on a row that it deletes, or has deleted, before it makes the replacement."""


def resources(deployment: Mapping[str, Any]) -> list[Row]:
    """The resources, each behind all that it depends on; empty before the first `up`."""
    rows: list[Row] = deployment["deployment"].get("resources") or []
    return rows


def pending(deployment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The operations that began and were never reported done, in the order in which they began:
    `type` (`creating`, ...) and `resource`."""
    operations: list[dict[str, Any]] = deployment["deployment"].get("pending_operations") or []
    return operations


def in_backend(folder: Path, project: str, stack: str) -> list[Row]:
    """The resources in a backend of files, `file://FOLDER`: asking the engine takes longer.

    Raises OSError, ValueError or KeyError where there is no whole state of the stack.
    """
    file = folder / ".pulumi" / "stacks" / project / f"{stack}.json"
    return resources({"deployment": json.loads(file.read_text())["checkpoint"]["latest"]})


def identities(deployment: Mapping[str, Any], type_token: str) -> set[str]:
    """The cloud's names of all resources of a type that the state has, without those that were
    deleted to be replaced: a replacement may have the same name."""
    return {
        row["id"]
        for row in resources(deployment)
        if row["type"] == type_token and row.get("id") and not row.get(AWAITS_REPLACEMENT)
    }


def waits_for(row: Mapping[str, Any]) -> list[str]:
    """URNs of what has to be there before the engine makes the resource."""
    provider, _ = of_reference(row.get("provider") or "")
    return [*(row.get("dependencies") or ()), *([provider] if provider else [])]


def needs(row: Mapping[str, Any]) -> set[str]:
    """URNs of the parent, the provider and everything else that a resource depends on."""
    parent = row.get("parent")
    return {*waits_for(row), *([parent] if parent else [])}
