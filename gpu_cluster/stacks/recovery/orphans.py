"""Orphaned resources: a run created them but got an error, so they are not in the state.

Only the program names them. A provider that stops waiting forgets what it created, and the state
has no trace of it. The next `up` finds the name taken, or creates another under a new name.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.stacks.engine.state import Deployment, identities, needs, pending, resources
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.stacks.recovery.aws_resources import Aws
from gpu_cluster.stacks.recovery.state import NotOursError

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""The engine's placeholder for a value that is known only during an update."""


def with_orphans(deployment: Deployment, preview: Mapping[str, Any]) -> Deployment:
    """The state in which all that `pulumi preview --json` would create is a started operation.

    Without resources that cannot exist, because their inputs, parent or provider do not exist yet.
    """
    urns = {row["urn"] for row in resources(deployment)}
    begun = [*pending(deployment)]
    taken = urns | {operation["resource"]["urn"] for operation in begun}
    for step in preview.get("steps") or ():
        row = step.get("newState") or {}
        if step["op"] != "create" or row["urn"] in taken or not row.get("custom"):
            continue
        if not row.get("provider"):  # It is a provider, which no cloud creates.
            continue
        if needs(row) <= urns and UNKNOWN not in json.dumps([row["inputs"], row["provider"]]):
            begun.append({"type": "creating", "resource": row, "orphaned": True})
    body = {**deployment["deployment"], "pending_operations": begun}
    return {**deployment, "deployment": body}


def duplicates(deployment: Deployment, aws: Mapping[str, Aws]) -> Iterator[str]:
    """A line for each resource in AWS that looks like one of the stack's and is not in the state.

    `aws`: region -> the client for it.
    """
    seen = set()
    for resource in resources(deployment):
        region = str((resource.get("outputs") or {}).get("region"))
        if not resource["type"].startswith("aws:") or region not in aws:
            continue
        try:
            names = aws[region].find(resource["type"], resource.get("inputs") or {}) or ()
        except NotOursError:  # A resource of another stack is not a duplicate.
            continue
        except LookupError as error:  # The state is correct; only this question has no answer.
            if (line := f"{resource['type']}: {error}") not in seen:
                seen.add(line)
                yield line
            continue
        for name in names:
            if name not in identities(deployment, resource["type"]) and name not in seen:
                seen.add(name)
                like = Urn.parse(resource["urn"]).name
                yield f"{resource['type']} {name} looks like {like}, but is not in the state"
