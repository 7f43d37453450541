"""What a change of a setting means while the cluster exists: the rules that fields declare.

Without an SDK, as the classes of args are.
"""

import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Literal

from .limits import unwrapped

Loss = Literal["cluster", "node pools", "GPU pool", "system pool"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The cloud cannot make this change while the cluster, or the GPU pool, exists."""

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
ChangeRules = Mapping[str, Rule]
"""Path of a setting, such as `network.nodes_cidr`, or of a property of the args that settings
decide together -> what its change means."""

NEVER = Refusal()


@dataclass(frozen=True, slots=True, eq=False)
class OnChange:
    """In the annotation of a field: what a change of the setting means while the cluster exists."""

    rule: Rule


def change_rules(kind: type, prefix: str = "") -> ChangeRules:
    """The rules in the annotations of a class of args and of the classes of its fields."""
    rules_by_path: dict[str, Rule] = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        inner, annotations = unwrapped(hint)
        rules = [annotation.rule for annotation in annotations if isinstance(annotation, OnChange)]
        if rules:
            rules_by_path[f"{prefix}{name}"] = rules[0]
        elif is_dataclass(inner):
            rules_by_path |= change_rules(typing.cast("type", inner), f"{prefix}{name}.")
    return rules_by_path


def if_longer(loss: Loss) -> Judge:
    """A list that may only be added to, at its end; one that was empty was not in use."""

    def rule(old: str, new: str) -> Verdict:
        before, after = json.loads(old), json.loads(new)
        grown = bool(before) and after[: len(before)] == before
        return loss if grown else Refusal("add only at its end, ")

    return rule


def next_minor(old: str, new: str) -> Verdict:
    """A Kubernetes version that moves by one minor, and forward."""
    minor, other = (int(version.split(".")[1]) for version in (old, new))
    return None if other == minor + 1 else Refusal("move only to the next minor, ")


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
