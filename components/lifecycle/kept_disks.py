"""Refuses, before any change, an update that would delete the disk of one of `volumeClaims`.

A preview marks the object that would be replaced but does not say that data is lost. The message
ends with the code `GPUC-CLAIMS`, like those of `components/lifecycle/replacement.py`.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

from .prefix import hook


def refusing_lost_disks(
    name: str, disks: Mapping[str, Mapping[str, str]]
) -> tuple[dict[str, Any], pulumi.ResourceOptions]:
    """Properties and options of a component whose children are the disks of `volumeClaims`.

    They refuse an update that would delete a disk before any of the children changes. `name`: a
    unique name for the hook. `disks`: claim -> its settings whose change replaces the disk, which
    the state records.
    """

    def compare(change: pulumi.ResourceHookArgs) -> None:
        if reason := lost_disks((change.old_inputs or {}).get("disks", {}), disks):
            raise ValueError(reason)

    hooks = pulumi.ResourceHookBinding(before_update=[hook(name, compare)])
    return {"disks": disks}, pulumi.ResourceOptions(hooks=hooks)


def lost_disks(
    before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]
) -> str:
    """The error for an update that would delete a disk, with how to keep its data; else empty.

    Removed claims are ignored: removing a claim is how a user deletes a disk.
    """
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
