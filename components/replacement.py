"""Warns, before anything is done, of changed settings that the cloud can only make anew.

A preview marks the resource that would be replaced; this says which setting does it, and what goes.
A setting that cannot change at all while the cluster stands is refused there: the clouds' own
providers find that out half way through an update.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Literal

import pulumi

from components.decode import camel

Lasting = Mapping[
    str,
    Literal[
        "cluster", "node pools", "node pools, if longer", "GPU pool", "system pool", "nothing",
        "next minor",
    ],
]  # fmt: skip
"""Path of a setting, `network.nodes_cidr` -> what is made anew when it changes; `nothing`: it
cannot change; `if longer`: a list that can only be added to, at its end; `next minor`: a Kubernetes
version that moves by one and never back."""

_GOES = {
    "cluster": "everything in it goes, for good",
    "node pools": "their nodes go, and the pods on them start again",
    "GPU pool": "its nodes go, and the pods on them start again",
    "system pool": "its nodes go, and the pods on them start again",
}


class LastingSettings(pulumi.ComponentResource):
    """Remembers in the state the settings that replace, to compare the next run's with."""

    def __init__(
        self,
        args: object,
        pools: Mapping[str, object],
        *,
        cluster: Lasting,
        pool: Lasting,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        blocks = [("cluster", args, cluster)]
        blocks += [(f"gpuPools.{name}", each, pool) for name, each in pools.items()]
        remembered, anew = {}, {}
        for where, block, lasting in blocks:
            for path, what in lasting.items():
                key = f"{where}.{'.'.join(map(camel, path.split('.')))}"
                remembered[key], anew[key] = valued(block, path), what

        def compare(change: pulumi.ResourceHookArgs) -> None:
            before = (change.old_inputs or {}).get("settings") or {}
            for line in warnings(before, remembered, anew):
                pulumi.log.warn(line, self)

        hook = pulumi.ResourceHook(
            "lasting-settings", compare, opts=pulumi.ResourceHookOptions(on_dry_run=True)
        )
        super().__init__(
            "gpu-cluster:cluster:LastingSettings",
            "lasting-settings",
            {"settings": remembered},
            pulumi.ResourceOptions.merge(
                pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_update=[hook])), opts
            ),
        )
        self.register_outputs({})


def warnings(
    before: Mapping[str, Any], after: Mapping[str, str], anew: Mapping[str, str]
) -> Iterator[str]:
    """A line for each setting that was there before, with another value.

    Raises ValueError where one of them cannot change, unless the cluster is made anew anyway.
    """
    changed = {key: before[key] for key in after if before.get(key, after[key]) != after[key]}
    for key, old in changed.items():
        what, values = anew[key], f"{key}: {old} -> {after[key]}"
        what, condition, _ = what.partition(", if longer")
        if what == "next minor" and _minor(after[key]) == _minor(old) + 1:
            continue
        if what in _GOES and (not condition or _is_longer(old, after[key])):
            yield f"{values} makes the {what} anew: {_GOES[what]}"
        elif all(anew[other] != "cluster" for other in changed):
            raise ValueError(
                f"{values} cannot be while the cluster stands; put the old value back, "
                + ("add at its end alone, " if condition else "")
                + ("go to the next minor alone, " if what == "next minor" else "")
                + "or give the cluster another name, for a new one beside it"
            )


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def _is_longer(old: str, new: str) -> bool:
    """Whether a list still begins with what was in it; one that was empty was not in use."""
    before, after = json.loads(old), json.loads(new)
    return bool(before) and after[: len(before)] == before


def valued(args: object, path: str) -> str:
    """A setting's value as text."""
    value: Any = args
    for step in path.split("."):
        value = getattr(value, step)
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else list(value)
