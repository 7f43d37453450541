"""What to do instead of a key that the platform does not have, or that has another place.

It reads the tables of all platforms and blocks; `load` reads the settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin

from ..cluster import POOL_LABEL
from ..platforms import PLATFORMS
from ..scalers import default_scaler, scaler_refusals, scalers
from ..schema.decode import NAMESPACE, camel, no_such_key, type_hints
from ..schema.limits import unwrapped
from ..schema.refusal import UNKNOWN_KEY, UNKNOWN_POOL, Range, Refusal, refuse
from .blocks import BLOCKS
from .remaining import steps

_ADDONS = "the stack changes no addons there; drop it, and ask its owner for the addon"
_NOT_WITH_EXISTING = {
    "name": "that is the cluster's name; drop it",
    "systemPool": (
        "system pods run on its owner's nodes; drop it, and declare other nodes without GPUs in "
        "cpuPools"
    ),
    "metricsServer": _ADDONS,
    "addonVersions": _ADDONS,
    "scaler": (
        "pools are node pools, since a ComputeClass has no maxNodes; drop it, or create a "
        "ComputeClass and a CapacityQuota of its nodes (a preview of GKE) yourself, as "
        "docs/how-to/not-included.md describes, and use platform: existing"
    ),
}
"""Key of a new cluster -> why an existing one does not have it; of every other key, its owner
decides."""


_TEAMS = f"list people and groups in {NAMESPACE}:teams, or give them"
_IAM = "an IAM role such as roles/container."
_INSTEAD = {
    ("gke-autopilot", "maxNodes"): (
        "drop it, and limit the GPUs by nominalQuota of batch.queues, gpus of teams, or the GPU "
        "quota of your Google Cloud project"
    ),
    **dict.fromkeys(
        [("gke-autopilot", "localStorage"), ("gke-autopilot", "localSsdCount")],
        "drop it: GKE chooses the machines, and decides what their local SSDs are for",
    ),
    ("gke", "users"): f"{_TEAMS} {_IAM}viewer",
    ("gke-autopilot", "users"): f"{_TEAMS} {_IAM}viewer",
    ("existing", "users"): f"{_TEAMS} RoleBindings of your own",
    ("gke", "admins"): f"give them {_IAM}admin",
    ("gke-autopilot", "admins"): f"give them {_IAM}admin",
    ("existing", "admins"): "the cluster's owner decides who administers it; drop it",
}
"""(platform, key of other platforms) -> what to use there."""


def misplaced_key(path: str, key: str, platform: str) -> Refusal | None:
    """The refusal of a key that belongs in a block without named entries; None if none has it."""
    kinds = {name: block.args for name, block in BLOCKS.items() if block.names is None}
    if platform in PLATFORMS:
        kinds = {"cluster": PLATFORMS[platform].settings.CLUSTER, **kinds}
    for name, kind in kinds.items():
        if _has_key(kind, [key]):
            remedy = f"move it into {NAMESPACE}:{name}"
            return refuse(path)(f"is a key of {name}", remedy=remedy)
    refusal = no_such_key((f"{NAMESPACE}:cluster", key), key, ())
    elsewhere = _on_other_platforms(refusal, platform) if platform in PLATFORMS else refusal
    if elsewhere is refusal:
        return None
    return elsewhere.but(path=(path,), reason=f"cluster.{key} {elsewhere.reason}")


def explain(refusal: Refusal, blocks: Mapping[str, Any], platform: str) -> Refusal:
    """The refusal, with a reason that only the whole config shows."""
    cluster = blocks["cluster"]
    block, *inner = steps(refusal.path)
    if block == "gpuPools" and refusal.allowed and len(inner) == 2 and platform in PLATFORMS:
        row, pool = PLATFORMS[platform].settings, blocks[block][inner[0]]
        written = isinstance(cluster, dict)
        given = cluster.get("scaler") if written else getattr(cluster, "scaler", None)
        scaler = given or default_scaler(row.CLUSTER)
        if scaler in scalers(row.CLUSTER) and isinstance(pool, dict):
            keys = {camel(field.name): field.name for field in fields(row.POOL)}
            values = {keys[key]: value for key, value in pool.items() if key in keys}
            for other in scaler_refusals(row.POOL, values, scaler, row.CLUSTER):
                if other.path == (inner[1],):
                    return other.but(path=refusal.path)
            own = getattr(row.POOL, "POSSIBLE_WITH", {}).get(scaler, {}).get(inner[1])
            if own and isinstance(refusal.allowed, Range):
                return refusal.but(allowed=refusal.allowed.within(own))
    if refusal.code == UNKNOWN_KEY:
        elsewhere = _on_other_platforms(refusal, platform)
        return _in_the_other_block(refusal, platform) if elsewhere is refusal else elsewhere
    if refusal.code == UNKNOWN_POOL:
        args = isinstance(cluster, dict)
        cpu_pools = cluster.get("cpuPools") if args else getattr(cluster, "cpu_pools", ())
        if isinstance(cpu_pools, Mapping) and refusal.given in cpu_pools:
            return refusal.but(
                allowed=(),
                reason="is a CPU pool, and what the stack runs needs GPUs",
                remedy="choose a pool of gpuPools, or create the pod yourself, with the "
                f"nodeSelector {POOL_LABEL}: {refusal.given}",
            )
    return refusal


def owner_keys(platform: str, cluster: Any) -> Mapping[str, str]:
    """`existing` where it does not exist, and keys of a cluster that the stack creates, if the
    cluster is an existing one -> why they are refused."""
    entry = PLATFORMS[platform]
    if not isinstance(cluster, Mapping):
        return {}
    if entry.instead_of_existing and "existing" in cluster:
        return {"existing": f"on platform {platform}; {entry.instead_of_existing}"}
    if not entry.added:
        return {}
    owned = PLATFORMS[platform.removesuffix("-existing")].settings.CLUSTER
    keys, own = (
        {camel(field.name) for field in fields(args)} for args in (entry.settings.CLUSTER, owned)
    )
    default = "the cluster's owner decides it; drop it"
    return {
        key: f"with existing: {_NOT_WITH_EXISTING.get(key, default)}"
        for key in cluster
        if key in own - keys
    }


def _on_other_platforms(refusal: Refusal, platform: str) -> Refusal:
    """The refusal of an unknown key, which says so if other platforms have it at this place."""
    block, *inner = steps(refusal.path)
    part, keys = ("CLUSTER", inner) if block == "cluster" else ("POOL", inner[1:])
    have = [name for name, row in PLATFORMS.items() if _has_key(getattr(row.settings, part), keys)]
    if not have or block not in ("cluster", "gpuPools"):
        return refusal
    here = platform.removesuffix("-existing")
    names = [
        f"{name} without existing"
        if f"{name}-existing" == platform
        else name.replace("-existing", " with existing")
        for name in have
        if name.removesuffix("-existing") not in {*have} - {name}
    ]
    own = f"use {refusal.meant} on {here}" if refusal.meant else "drop it"
    return refusal.but(
        reason=f"is only available on {' and '.join(names)}",
        allowed=(),
        remedy=_INSTEAD.get((here, f"{keys[-1]}"), own),
    )


def _in_the_other_block(refusal: Refusal, platform: str) -> Refusal:
    """The refusal of an unknown key, which says so if a pool's is in `cluster`, or the reverse."""
    block, *inner = steps(refusal.path)
    other, part, depth = {
        "cluster": ("gpuPools", "POOL", 1), "gpuPools": ("cluster", "CLUSTER", 2)
    }.get(f"{block}", ("", "", 0))  # fmt: skip
    if len(inner) != depth or platform not in PLATFORMS or refusal.likely or refusal.remedy:
        return refusal
    if not other or not _has_key(getattr(PLATFORMS[platform].settings, part), inner[-1:]):
        return refusal
    remedy = "move it there, or drop it"
    return refusal.but(reason=f"is a key of {other}", allowed=(), remedy=remedy)


def _has_key(kind: Any, keys: Sequence[str | int]) -> bool:
    """Whether a class of args, or what a field of one holds, has the key at this path."""
    kind = unwrapped(kind)[0]
    inner = get_args(kind)
    if not keys:
        return True
    if get_origin(kind) is Mapping:
        return _has_key(inner[1], keys[1:])
    if get_origin(kind) is Sequence:
        return _has_key(inner[0], keys[1:])
    hints = {camel(field.name): field.name for field in fields(kind)} if is_dataclass(kind) else {}
    name = hints.get(f"{keys[0]}")
    return name is not None and _has_key(type_hints(kind)[name], keys[1:])
