"""Warns, before anything is changed, of updates for which the cloud recycles a pool's nodes.

A preview shows an update in place of a node pool or a launch template; for that, the cloud drains
and replaces every node, and the pods on it start again. The warning ends with a code that
identifies it for programs: `GPUC-RECYCLE-GPU-POOL` or `GPUC-RECYCLE-SYSTEM-POOL`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pulumi
from pulumi.runtime import rpc

from ..scalers import Scaler
from .prefix import hook

_SECRET = rpc._special_sig_key  # noqa: SLF001 - the SDK exports no name for it
"""A map with this key is a secret or an asset, and must not be inspected."""


_ONE_BY_ONE = (
    "recycles its nodes, {least} to {most} of them and one at a time: each is drained and "
    "replaced, and its pods start again"
)
_DRIFT = (
    "replaces those of its nodes that no longer match, of {least} to {most}: each is drained "
    "once its jobs have ended, and its pods start again"
)
_KEPT = "is for nodes that start from then on: those that run stay as they are until they are empty"


def warning_hook(
    name: str, path: str, scaler: Scaler, kind: str, nodes: tuple[int, int]
) -> pulumi.ResourceHookBinding:
    """A hook that warns, even in a preview, of an update that replaces a pool's nodes, or keeps
    them as they are although a class changes.

    `path` is the pool's key in the config, `kind` the resource's type, a key of `scaler.nodes`,
    `nodes` the pool's minimum and maximum number of nodes.
    """

    def compare(change: pulumi.ResourceHookArgs) -> None:
        if not (paths := scaler.nodes[kind]):
            warn(path, change, ("spec",), nodes, _KEPT, code="NEW-NODES")
        else:
            text = _DRIFT if scaler.in_cluster else _ONE_BY_ONE
            warn(path, change, paths, nodes, text, scaler.in_place)
        warn_of_zones(path, change)

    return pulumi.ResourceHookBinding(before_update=[hook(f"{name}-recycling", compare)])


def warn(
    path: str,
    change: pulumi.ResourceHookArgs,
    properties: Sequence[str],
    nodes: tuple[int, int],
    effect: str = _ONE_BY_ONE,
    in_place: Sequence[str] = (),
    code: str = "",
) -> None:
    """Warns if the update of a pool changes one of these properties, or a part of one, such as
    `nodeConfig`, except for changes `in_place`, such as `nodeConfig.labels`.

    `path` is the pool's key in the config, `nodes` its minimum and maximum number of nodes,
    `effect` completes "an update of ...", `code` is for programs.
    """
    old, new = change.old_inputs, change.new_inputs
    if old is None or new is None:  # The pool is being created.
        return
    differ = [
        # AWS sets the number of a template's version, which is unknown in a preview: without it,
        # preview and update show the same text.
        f"{path}{'' if path == 'launchTemplate.version' else _values(before, after)}"
        for root in properties
        for path, before, after in _changed(root, _at(old, root), _at(new, root), in_place)
    ]
    if differ:
        least, most = nodes
        pool = "GPU-POOL" if path.startswith("gpuPools.") else "SYSTEM-POOL"
        pulumi.log.warn(
            f"{path}: an update of {', '.join(differ)} {effect.format(least=least, most=most)} "
            f"[GPUC-{code or f'RECYCLE-{pool}'}]"
        )


def warn_of_zones(path: str, change: pulumi.ResourceHookArgs) -> None:
    """Warns if the update of a pool or cluster takes zones from its nodes.

    `locations` of NodePool in GKE's API: "changing node pool locations will result in nodes being
    added and/or removed" (https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/
    projects.locations.clusters.nodePools, read 2026-11-28).
    """
    before, after = (_at(inputs or {}, "nodeLocations") for inputs in
                     (change.old_inputs, change.new_inputs))  # fmt: skip
    if not (isinstance(before, list) and isinstance(after, list)):
        return
    if removed := sorted({*before} - {*after}):
        pool = "GPU-POOL" if path.startswith("gpuPools.") else "SYSTEM-POOL"
        pulumi.log.warn(
            f"{path}: an update of nodeLocations removes {', '.join(removed)}: GKE deletes the "
            f"nodes there, and their pods start again in other zones [GPUC-RECYCLE-{pool}]"
        )


def _changed(
    path: str, before: Any, after: Any, in_place: Sequence[str]
) -> Iterator[tuple[str, Any, Any]]:
    """The differences at this path: path, old value, new value."""
    if before == after or path in in_place:
        return
    if isinstance(before, Mapping) or isinstance(after, Mapping):
        before, after = ({} if value is None else value for value in (before, after))
    if not all(isinstance(value, Mapping) and _SECRET not in value for value in (before, after)):
        yield path, before, after
        return
    for key in dict.fromkeys([*before, *after]):
        yield from _changed(f"{path}.{key}", before.get(key), after.get(key), in_place)


def _values(before: Any, after: Any) -> str:
    """Both values, if they are scalars, which secrets and unknown values never are."""
    if not all(
        value is None or type(value) in (str, bool, int, float) for value in (before, after)
    ):
        return ""
    old, new = ("none" if value is None else f"{value:g}" if type(value) is float else str(value)
                for value in (before, after))  # fmt: skip
    return "" if rpc.UNKNOWN in (old, new) else f" ({old} -> {new})"


def _at(inputs: Mapping[str, Any], path: str) -> Any:
    """The value at the path; a value that is not known yet, as in a preview, counts as missing."""
    value: Any = inputs
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
