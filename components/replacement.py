"""Warns, before anything is done, of changed settings for which the cloud replaces something.

A preview marks the resource that would be replaced; this says which setting does it, and what is
lost. A setting that cannot change at all while the cluster stands is refused there: the clouds' own
providers find that out half way through an update. A setting that was taken away and that the cloud
keeps is named as well: neither the provider nor the preview would say a word.

Each message ends with a code in brackets, by which programs know it whatever its words are:
`GPUC-REPLACE-` and what is replaced, `GPUC-KEPT`, `GPUC-IMMUTABLE`, `GPUC-CLAIMS`.
"""

import json
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Literal

import pulumi

from components.decode import camel
from components.limits import unwrapped
from components.renamed import present

Loss = Literal["cluster", "node pools", "GPU pool", "system pool"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The cloud cannot make this change while the cluster, or the GPU pool, stands."""

    way: str = ""
    """What is possible instead, in front of "or give the cluster another name"."""
    of: Literal["cluster", "GPU pool"] = "cluster"


@dataclass(frozen=True, slots=True)
class Kept:
    """The cloud keeps the old value, and nothing changes."""

    way: str
    """What to do for a change."""


Verdict = Loss | Refusal | Kept | None
"""None: the change is made in place."""
Judge = Callable[[str, str], Verdict]
"""Gets the old value and the new one, as text."""
Rule = Loss | Refusal | Judge
"""What a change of a setting means, whatever the values or by them."""
Lasting = Mapping[str, Rule]
"""Path of a setting, such as `network.nodes_cidr`, or of a property of the args that settings
decide together -> what its change means."""

NEVER = Refusal()


@dataclass(frozen=True, slots=True, eq=False)
class OnChange:
    """In the annotation of a field: what a change of the setting means while the cluster stands."""

    rule: Rule


def lasting(kind: type, prefix: str = "") -> Lasting:
    """The rules that stand with the fields of a class of args and of the classes of its fields."""
    found: dict[str, Rule] = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        inner, annotations = unwrapped(hint)
        rules = [each.rule for each in annotations if isinstance(each, OnChange)]
        if rules:
            found[f"{prefix}{name}"] = rules[0]
        elif is_dataclass(inner):
            found |= lasting(typing.cast("type", inner), f"{prefix}{name}.")
    return found


_LOST: Mapping[Loss, str] = {
    "cluster": "everything in it is deleted, for good",
    "node pools": "their nodes are deleted, and the pods on them start again",
    "GPU pool": "its nodes are deleted, and the pods on them start again",
    "system pool": "its nodes are deleted, and the pods on them start again",
}


def if_longer(loss: Loss) -> Judge:
    """A list that may only be added to, at its end; one that was empty was not in use."""

    def rule(old: str, new: str) -> Verdict:
        before, after = json.loads(old), json.loads(new)
        grown = bool(before) and after[: len(before)] == before
        return loss if grown else Refusal("add at its end alone, ")

    return rule


def next_minor(old: str, new: str) -> Verdict:
    """A Kubernetes version that moves by one minor, and forward."""
    minor, other = (int(version.split(".")[1]) for version in (old, new))
    return None if other == minor + 1 else Refusal("go to the next minor alone, ")


def kept(way: str) -> Judge:
    """A setting that the cloud keeps once it is taken away, whole or an entry of it."""

    def rule(old: str, new: str) -> Verdict:
        return Kept(way) if _taken_away(old, new) else None

    return rule


def _taken_away(old: str, new: str) -> bool:
    if new in ("null", "[]"):
        return old not in ("null", "[]")
    if not (old.startswith("{") and new.startswith("{")):
        return False
    return bool(json.loads(old).keys() - json.loads(new).keys())


class LastingSettings(pulumi.ComponentResource):
    """Remembers these settings in the state, to compare the next run's with.

    `after`: the cluster and its pools. What is remembered is what they were made with: while an
    update has not got so far, every preview warns again. `claims`: PersistentVolumeClaims in the
    cluster; while there are any, it is not replaced.
    """

    def __init__(
        self,
        args: object,
        pools: Mapping[str, object],
        *,
        cluster: Lasting,
        pool: Lasting,
        after: Sequence[pulumi.Resource],
        claims: Collection[str] = (),
    ) -> None:
        blocks = [("cluster", args, cluster)]
        blocks += [(f"gpuPools.{name}", each, pool) for name, each in pools.items()]
        remembered: dict[str, str] = {}
        rules: dict[str, Rule] = {}
        for where, block, lasting in blocks:
            for path, rule in lasting.items():
                key = f"{where}.{'.'.join(map(camel, path.split('.')))}"
                remembered[key], rules[key] = valued(block, path), rule

        def compare(change: pulumi.ResourceHookArgs) -> None:
            remembers = (change.old_inputs or {}).get("settings") or {}
            before = {present(key): value for key, value in remembers.items()}
            held = (change.old_inputs or {}).get("claims") or []
            for line in warnings(before, remembered, rules, held):
                pulumi.log.warn(line, self)

        hook = pulumi.ResourceHook(
            "lasting-settings", compare, opts=pulumi.ResourceHookOptions(on_dry_run=True)
        )
        super().__init__(
            "gpu-cluster:cluster:LastingSettings",
            "lasting-settings",
            {"settings": remembered, **({"claims": list(claims)} if claims else {})},
            pulumi.ResourceOptions(
                hooks=pulumi.ResourceHookBinding(before_update=[hook]), depends_on=list(after)
            ),
        )
        self.register_outputs({})


def warnings(
    before: Mapping[str, Any],
    after: Mapping[str, str],
    rules: Mapping[str, Rule],
    claims: Collection[str] = (),
) -> Iterator[str]:
    """A line for each setting that was there before, with another value.

    Raises ValueError where one of them cannot change, unless the cluster is replaced anyway; and
    where the cluster would be replaced that holds `claims`, whose disks would stay and bill.
    """
    changed = {key: before[key] for key in after if before.get(key, after[key]) != after[key]}
    verdicts = {key: _verdict(rules[key], old, after[key]) for key, old in changed.items()}
    for key, verdict in verdicts.items():
        values = f"{key}: {changed[key]} -> {after[key]}"
        if isinstance(verdict, Kept):
            way = f"{verdict.way} [GPUC-KEPT]"
            yield f"{values} changes nothing: the cloud keeps what it has; {way}"
        elif verdict == "cluster" and claims:
            raise ValueError(
                f"{values} replaces the cluster, and would leave the disks of volumeClaims "
                f"{', '.join(claims)} behind: take them and what mounts them out of the stack in "
                "an update before, which deletes the disks, or put the old value back [GPUC-CLAIMS]"
            )
        elif isinstance(verdict, str):
            code = f"GPUC-REPLACE-{verdict.replace(' ', '-').upper()}"
            yield f"{values} replaces the {verdict}: {_LOST[verdict]} [{code}]"
        elif verdict is not None and not _replaced_anyway(key, verdict.of, verdicts):
            raise ValueError(
                f"{values} cannot be while the {verdict.of} stands; put the old value back, "
                f"{verdict.way}or give the {verdict.of} another name, for a new one beside it "
                "[GPUC-IMMUTABLE]"
            )


def _replaced_anyway(key: str, what: str, verdicts: Mapping[str, Verdict]) -> bool:
    """Whether another setting replaces the cluster, or the pool that the key is of."""
    if "cluster" in verdicts.values():
        return True
    block = ".".join(key.split(".")[:2])
    same = [one for other, one in verdicts.items() if other.startswith(f"{block}.")]
    return what == "GPU pool" and "GPU pool" in same


def _verdict(rule: Rule, old: str, new: str) -> Verdict:
    return rule if isinstance(rule, str | Refusal) else rule(old, new)


def valued(args: object, path: str) -> str:
    """A setting's value as text."""
    value: Any = args
    for step in path.split("."):
        value = getattr(value, step)
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return dict(value) if isinstance(value, Mapping) else list(value)
