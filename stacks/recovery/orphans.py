"""Orphaned resources: a run made them and was told that it failed, so the state has none of them.

Only the program names them. A provider that gives up waiting forgets what it made; the state then
has no trace of it. The next `up` finds the name taken, or makes another one under another name.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stacks.engine.state import Deployment, identities, needs, pending, resources
from stacks.engine.urn import Urn
from stacks.recovery.aws import Aws
from stacks.recovery.state import NotOursError

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""How the engine writes a value that only an update will know."""


def with_orphans(deployment: Deployment, preview: Mapping[str, Any]) -> Deployment:
    """The state with everything that `pulumi preview --json` would create as if it had begun.

    Left out is what cannot have been made: its inputs, its parent or its provider are not there.
    """
    known = {row["urn"] for row in resources(deployment)}
    begun = [*pending(deployment)]
    taken = known | {operation["resource"]["urn"] for operation in begun}
    for step in preview.get("steps") or ():
        row = step.get("newState") or {}
        if step["op"] != "create" or row["urn"] in taken or not row.get("custom"):
            continue
        if not row.get("provider"):  # a provider itself, which no cloud makes
            continue
        if needs(row) <= known and UNKNOWN not in json.dumps([row["inputs"], row["provider"]]):
            begun.append({"type": "creating", "resource": row, "orphaned": True})
    body = {**deployment["deployment"], "pending_operations": begun}
    return {**deployment, "deployment": body}


def duplicates(deployment: Deployment, aws: Mapping[str, Aws]) -> Iterator[str]:
    """A line for each thing on AWS that looks like one of the stack's and is not in the state.

    `aws`: region -> what asks there.
    """
    seen = set()
    for row in resources(deployment):
        region = str((row.get("outputs") or {}).get("region"))
        if not row["type"].startswith("aws:") or region not in aws:
            continue
        try:
            found = aws[region].find(row["type"], row.get("inputs") or {}) or ()
        except NotOursError:  # another stack's is not a twin of this one's
            continue
        except LookupError as error:  # the state is in order; this is only not known
            if (line := f"{row['type']}: {error}") not in seen:
                seen.add(line)
                yield line
            continue
        for name in found:
            if name not in identities(deployment, row["type"]) and name not in seen:
                seen.add(name)
                like = Urn.parse(row["urn"]).name
                yield f"{row['type']} {name} looks like {like}, but is not in the state"
