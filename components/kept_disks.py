"""Refuses, before anything is done, an update that would delete the disk of one of `volumeClaims`.

A preview marks the object that would be replaced and does not say that data is lost. The message
ends with the code `GPUC-CLAIMS`, as the codes of `components/replacement.py` do.
"""

from collections.abc import Collection, Mapping
from typing import Any

import pulumi


def refusing_lost_disks(
    name: str, disks: Mapping[str, Mapping[str, str]], *, by_stack: Collection[str] = ()
) -> tuple[dict[str, Any], pulumi.ResourceOptions]:
    """Properties and options of a component whose children are the disks of `volumeClaims`.

    They refuse, before any of the children changes, an update that would delete a disk.
    `name`: a unique name for the hook. `disks`: claim -> its settings whose change replaces the
    disk, which the state remembers. `by_stack`: claims whose disk the stack itself creates; a state
    that remembers nothing is of a revision that left it to the driver to create them.
    """

    def compare(change: pulumi.ResourceHookArgs) -> None:
        before = (change.old_inputs or {}).get("disks")
        if reason := lost_disks(before, disks, by_stack):
            raise ValueError(reason)

    hook = pulumi.ResourceHook(name, compare, opts=pulumi.ResourceHookOptions(on_dry_run=True))
    hooks = pulumi.ResourceHookBinding(before_update=[hook])
    return {"disks": disks}, pulumi.ResourceOptions(hooks=hooks)


def lost_disks(
    before: Mapping[str, Mapping[str, str]] | None,
    after: Mapping[str, Mapping[str, str]],
    by_stack: Collection[str] = (),
) -> str:
    """Which disk an update would delete, and how to keep its data; empty if it deletes none.

    A claim that is no longer in the settings is not mentioned: removing it is how a user deletes a
    disk.
    """
    if before is None:
        if not by_stack:
            return ""
        return (
            f"volumeClaims {', '.join(sorted(by_stack))}: the EBS CSI driver created these disks, "
            "and now that the stack creates them itself, this update would delete them with their "
            "data; keep the data as 'A disk that the driver created' in "
            "docs/how-to/give-jobs-data.md describes, or delete it: remove the claims and what "
            "mounts them, run pulumi up, and add them again [GPUC-CLAIMS]"
        )
    for claim, settings in after.items():
        for key, new in settings.items():
            old = before.get(claim, {}).get(key, new)
            if old != new:
                return (
                    f"volumeClaims.{claim}.{key}: {old or 'none'} -> {new or 'none'} would delete "
                    "the disk with its data; put the old value back, add a claim with another "
                    f"name, copy the data to it, and remove {claim} [GPUC-CLAIMS]"
                )
    return ""
