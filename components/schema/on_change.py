"""The effect of changing a setting while the cluster exists: the rules that fields declare.

Like the args classes, this module does without an SDK.
"""

import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Literal

from .limits import unwrapped

Loss = Literal["cluster", "node pools", "GPU pool", "system pool", "pods"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The cloud cannot make this change while the cluster, or the GPU pool, exists."""

    way: str = ""
    """What can be done instead; it precedes "or give the cluster another name"."""
    of: Literal["cluster", "GPU pool"] = "cluster"


@dataclass(frozen=True, slots=True)
class Kept:
    """The cloud keeps the old value, and nothing changes."""

    way: str
    """How to make the change take effect."""


Verdict = Loss | Refusal | Kept | None
"""None means that the change is made in place."""
Judge = Callable[[str, str], Verdict]
"""Called with the old and the new value, as text."""
Rule = Loss | Refusal | Judge
"""The effect of changing a setting, either fixed or depending on the values."""
ChangeRules = Mapping[str, Rule]
"""Path of a setting, such as `network.nodes_cidr`, or of a property of the args that several
settings decide together -> the effect of changing it."""

NEVER = Refusal()


@dataclass(frozen=True, slots=True, eq=False)
class OnChange:
    """Annotation of a field: the effect of changing the setting while the cluster exists."""

    rule: Rule


def change_rules(kind: type, prefix: str = "") -> ChangeRules:
    """The rules in the annotations of an args class and of the classes of its fields."""
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
    """For a list to which values may only be appended; a list that was empty was not in use."""

    def rule(old: str, new: str) -> Verdict:
        before, after = json.loads(old), json.loads(new)
        grown = bool(before) and after[: len(before)] == before
        return loss if grown else Refusal("add only at its end, ")

    return rule


def kept(way: str) -> Judge:
    """For a setting that the cloud keeps after it, or an entry of it, has been removed."""

    def rule(old: str, new: str) -> Verdict:
        return Kept(way) if _taken_away(old, new) else None

    return rule


def _taken_away(old: str, new: str) -> bool:
    if new in ("null", "[]"):
        return old not in ("null", "[]")
    if not (old.startswith("{") and new.startswith("{")):
        return False
    return bool(json.loads(old).keys() - json.loads(new).keys())
