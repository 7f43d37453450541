"""Three tables of the support matrix: what each scaler is, what stacks can have with it, and which
commands know its pools.

A cell of the second one is a stack that the settings accept or refuse. What the program declares
for each is recorded in `tests/program/declared`, for stacks with all that their scaler can do.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.scalers import SCALERS, Scaler
from gpu_cluster.components.schema.decode import NAMESPACE
from gpu_cluster.components.schema.refusal import Refusal
from gpu_cluster.components.settings.load import from_config
from quality.faults.changes import apply_changes

_TABLES: Mapping[str, Mapping[str, Mapping[str, Any]]] = yaml.safe_load(
    Path(__file__).with_name("scaler_stacks.yaml").read_text(encoding="utf-8")
)
_STACKS, _FEATURES = _TABLES["stacks"], _TABLES["features"]
CHANGED: Mapping[str, str] = {
    "node-pools": "test_change.py::test_a_change_that_replaces_a_pool",
    "cluster-autoscaler": "test_change.py::test_a_new_kubernetes_minor_goes_to_the_control_plane_"
    "and_then_to_the_nodes",
    "karpenter": "test_karpenter.py::test_a_change_waits_until_karpenter_has_replaced_its_nodes",
}
"""Scaler -> the test in `tests/rehearsal` of `rehearse --from` with its nodes."""
_NOT_OWN = "no: the nodes are the owner's"
_NO_POOL = "no: no resource is a pool"
COMMANDS: Mapping[str, Callable[[Scaler], str]] = {
    "`images`": lambda scaler: "yes",
    "`cost`: price of a GPU pool": lambda scaler: (
        _NOT_OWN
        if scaler.disks is None
        else "yes"
        if scaler.limit
        else "no: GKE bills what pods request"
    ),
    "`capacity`: GPU quotas": lambda scaler: _NOT_OWN if scaler.disks is None else "yes",
    "`ci preview-comment`: a pool is deleted": lambda scaler: "yes" if scaler.pools else _NO_POOL,
    "`ci preview-comment`: a pool's nodes are replaced": lambda scaler: (
        "yes" if any(scaler.nodes.values()) else "no: nodes stay" if scaler.nodes else _NO_POOL
    ),
    "`recover`: a pool whose creation was interrupted": lambda scaler: (
        "yes" if scaler.pools else _NO_POOL
    ),
    "`leftovers`: disks of claims": lambda scaler: (
        "yes" if scaler.disks else "no: the cluster is not deleted"
    ),
    "`rehearse --from`": lambda scaler: (
        "yes"
        if any(SCALERS[name] is scaler for name in CHANGED)
        else "yes, no test changes such a pool"
    ),
}
"""What a command does -> whether it does so with a scaler; a `no` has its reason."""


def features(platform: str) -> Mapping[str, Mapping[str, Any]]:
    """Feature -> the changes of a stack that uses it, as those of `quality/tries.yaml`."""
    return {name: {**row["all"], **row.get(platform, {})} for name, row in _FEATURES.items()}


def refused(platform: str, scaler: Scaler, change: Mapping[str, Any]) -> str:
    """Why the settings refuse the change in a small stack with the scaler; empty if they do not."""
    stack = copy.deepcopy(_STACKS[platform])
    config: dict[str, Any] = {
        **stack["others"],
        f"{NAMESPACE}:cluster": {"platform": platform, **stack["cluster"]},
        f"{NAMESPACE}:gpuPools": {"gpu": stack["pool"]},
    }
    if scaler.setting:
        config[f"{NAMESPACE}:cluster"]["scaler"] = scaler.setting
    if "gpuPools.fallback" in change:
        config[f"{NAMESPACE}:gpuPools"]["gpu"].pop("capacityType", None)
    apply_changes(config, copy.deepcopy(change))
    flat = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()
    }
    try:
        from_config(flat)
    except Refusal as error:
        return error.reason or str(error)
    return ""


def supported() -> Iterator[Sequence[str]]:
    """A row for each feature: its name, then `yes` or `refused` for each scaler."""
    platforms = {name: _platform(scaler) for name, scaler in SCALERS.items()}
    for feature in features("gke"):
        cells = [
            refused(platforms[name], scaler, features(platforms[name])[feature])
            for name, scaler in SCALERS.items()
        ]
        yield feature, *("refused" if cell else "yes" for cell in cells)


def claiming() -> Mapping[str, Scaler]:
    """Title -> scaler, of those with pools whose pods can claim their GPUs."""
    return {
        scaler.title: scaler
        for scaler in SCALERS.values()
        if not refused(_platform(scaler), scaler, _claimed(scaler))
    }


def claims() -> Iterator[Sequence[str]]:
    """A row for each feature: its name, then what becomes of it on such a pool of each scaler of
    `claiming`: `yes`, or why it is refused there; `-` if the scaler refuses it on any pool."""
    for feature in [*features("gke"), *_TABLES["claims"]]:
        cells = []
        for scaler in claiming().values():
            platform = _platform(scaler)
            change = features(platform).get(feature)
            if change is not None and refused(platform, scaler, change):
                cells.append("-")
                continue
            given = _TABLES["claims"][feature] if change is None else change
            why = refused(platform, scaler, {**_claimed(scaler), **given})
            cells.append(f"refused: {why}" if why else "yes")
        if {*cells} != {"-"}:
            yield feature, *cells


def _claimed(scaler: Scaler) -> Mapping[str, Any]:
    """The changes of a pool whose pods claim their GPUs; its size is fixed where it must be."""
    size = {"gpuPools.minNodes": 4} if scaler.node_groups else {}
    return {"gpuPools.devicePlugin": "dra", **size}


def commands() -> Iterator[Sequence[str]]:
    """A row for each entry of `COMMANDS`."""
    for name, known in COMMANDS.items():
        yield name, *(known(scaler) for scaler in SCALERS.values())


def _platform(scaler: Scaler) -> str:
    return next(platform for platform in scaler.platforms if platform in _STACKS)


def facts() -> Iterator[Sequence[str]]:
    """A row for each scaler."""
    for scaler in SCALERS.values():
        paths = [
            f"`{kind.rpartition(':')[2]}`: {', '.join(f'`{path}`' for path in paths) or 'none'}"
            for kind, paths in scaler.nodes.items()
        ]
        yield (
            scaler.title,
            f"`{scaler.setting}`" if scaler.setting else "-",
            scaler.limit or "-",
            f"`{scaler.disks}`" if scaler.disks else "the owner's",
            scaler.policies or "the owner's network plugin",
            ", ".join(f"`{key}`" for key in scaler.stay)
            + ("" if scaler.spot_stays else ", not on Spot"),
            "; ".join(paths) or "-",
        )


FACTS = (
    "scaler", "`cluster.scaler`", "a maximum is of each", "disks", "NetworkPolicies: enforced by",
    "annotation of running jobs", "changes that replace nodes",
)  # fmt: skip
"""The head of `facts`."""
TITLES = ("", *(scaler.title for scaler in SCALERS.values()))
"""The head of `supported`."""
