"""Warns, before any change, of changed settings for which the cloud replaces something.

A preview marks the resource that would be replaced; these warnings add which setting causes it, and
what is lost. A setting that cannot change at all while the cluster exists is refused in the
preview: the clouds' own providers notice that in the middle of an update. There is also a warning
about a setting that was removed but that the cloud keeps: nothing else mentions it.

Each message ends with a code in brackets that identifies it for programs, whatever its wording is:
`GPUC-REPLACE-` and what is replaced, `GPUC-KEPT`, `GPUC-IMMUTABLE`, `GPUC-CLAIMS`.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

import pulumi

from ..schema.decode import camel
from ..schema.on_change import ChangeRules, Kept, Loss, Refusal, Rule, Verdict
from ..schema.outputs import is_output
from ..schema.refusal import refuse
from .prefix import hook

_LOST: Mapping[Loss, str] = {
    "cluster": "everything in it is deleted permanently",
    "node pools": "their nodes are deleted, and the pods on them start again",
    "GPU pool": "its nodes are deleted, and the pods on them start again",
    "system pool": "its nodes are deleted, and the pods on them start again",
    "pods": "those of GPU pools start again on other nodes",
}


class LastingSettings(pulumi.ComponentResource):
    """Records these settings in the state, to be compared with those of the next run.

    `after`: the cluster and its pools. The state records the settings with which they were created:
    until an update has completed that, every preview warns again. `claims`: PersistentVolumeClaims
    in the cluster; while there are any, the cluster is not replaced.
    """

    def __init__(
        self,
        args: object,
        pools: Mapping[str, object],
        *,
        cluster: ChangeRules,
        pool: ChangeRules,
        after: Sequence[pulumi.Resource],
        claims: Collection[str] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        blocks = [("cluster", args, cluster)]
        blocks += [(f"gpuPools.{name}", pool_args, pool) for name, pool_args in pools.items()]
        remembered: dict[str, pulumi.Input[str]] = {}
        rules: dict[str, Rule] = {}
        for block_path, block, change_rules in blocks:
            for path, rule in change_rules.items():
                key = f"{block_path}.{'.'.join(map(camel, path.split('.')))}"
                remembered[key], rules[key] = valued(block, path), rule

        def compare(change: pulumi.ResourceHookArgs) -> None:
            before = (change.old_inputs or {}).get("settings") or {}
            old_claims = (change.old_inputs or {}).get("claims") or []
            after = (change.new_inputs or {}).get("settings") or {}
            known = {key: text for key, text in after.items() if isinstance(text, str)}
            for line in warnings(before, known, rules, old_claims):
                pulumi.log.warn(line, self)

        super().__init__(
            "gpu-cluster:cluster:LastingSettings",
            "lasting-settings",
            {"settings": remembered, **({"claims": list(claims)} if claims else {})},
            pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    hooks=pulumi.ResourceHookBinding(
                        before_update=[hook("lasting-settings", compare)]
                    ),
                    depends_on=list(after),
                ),
            ),
        )
        self.register_outputs({})


def warnings(
    before: Mapping[str, Any],
    after: Mapping[str, str],
    rules: Mapping[str, Rule],
    claims: Collection[str] = (),
) -> Iterator[str]:
    """A line for each setting that existed before with another value.

    Raises a refusal if one of them cannot change, unless the cluster is replaced anyway; and if a
    cluster with `claims` would be replaced, whose disks would remain and still be billed.
    """
    changed = {key: before[key] for key in after if before.get(key, after[key]) != after[key]}
    verdicts = {key: _verdict(rules[key], old, after[key]) for key, old in changed.items()}
    for key, verdict in verdicts.items():
        change = f"{changed[key]} -> {after[key]}"
        if isinstance(verdict, Kept):
            way = f"{verdict.way} [GPUC-KEPT]"
            yield f"{key}: {change} has no effect: the cloud keeps the current value; {way}"
        elif verdict == "cluster" and claims:
            raise refuse(key)(
                f"{change} replaces the cluster, and would leave the disks of volumeClaims "
                f"{', '.join(claims)} behind: first remove them and what mounts them in a separate "
                "update, which deletes the disks, or put the old value back [GPUC-CLAIMS]"
            )
        elif isinstance(verdict, str):
            code = f"GPUC-REPLACE-{verdict.replace(' ', '-').upper()}"
            yield f"{key}: {change} replaces the {verdict}: {_LOST[verdict]} [{code}]"
        elif verdict is not None and not _replaced_anyway(key, verdict.of, verdicts):
            raise refuse(key)(
                f"{change} cannot change while the {verdict.of} exists",
                remedy=f"put the old value back, {verdict.way}or give the {verdict.of} another "
                "name, which creates a new one [GPUC-IMMUTABLE]",
            )


def _replaced_anyway(key: str, what: str, verdicts: Mapping[str, Verdict]) -> bool:
    """Whether another setting replaces the cluster, or the pool to which the key belongs."""
    if "cluster" in verdicts.values():
        return True
    block = ".".join(key.split(".")[:2])
    same = [verdict for other, verdict in verdicts.items() if other.startswith(f"{block}.")]
    return what == "GPU pool" and "GPU pool" in same


def _verdict(rule: Rule, old: str, new: str) -> Verdict:
    return rule if isinstance(rule, str | Refusal) else rule(old, new)


def valued(args: object, path: str) -> pulumi.Input[str]:
    """A setting's value as text; an output, if the value or a part of it is."""
    value: Any = args
    for step in path.split("."):
        value = getattr(value, step)
    if isinstance(value, str) or is_output(value):
        return cast(pulumi.Input[str], value)
    found: list[object] = []
    text = json.dumps(plain := _plain(value), default=found.append)
    return pulumi.Output.json_dumps(plain) if found else text


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value
