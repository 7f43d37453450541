"""The nodes on which a pod may run: its node selector and its required node affinity.

Rules as in k8s.io/component-helpers scheduling/corev1/nodeaffinity (read 2026-11-21): terms are
alternatives, all requirements of a term have to be met, and a term without any, or with one that
cannot be parsed, selects nothing.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..catalog.kubernetes import invalid_label_value
from .partial import UNKNOWN, all_of, any_of, entries, get, items

REQUIRED: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
"""Path, in a pod's spec, of the required node affinity."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")

Perhaps = Callable[[str], bool]
"""Whether a node may have a label with this key that is not listed."""


def _never(key: str) -> bool:
    return False


def selects(
    spec: Mapping[str, Any],
    labels: Mapping[str, Any],
    *,
    name: str | None = None,
    perhaps: Perhaps = _never,
) -> bool | None:
    """Whether a pod's selector and affinity match a node with these labels; None if not known.

    `labels`: a value may be `UNKNOWN`. `name`: the node's name, None if it has none yet.
    """
    selector = entries(spec, "nodeSelector")
    if selector is None:
        return None
    verdicts = [_equal(_value(labels, key, perhaps), value) for key, value in selector.items()]
    return all_of([*verdicts, affine(spec, labels, name=name, perhaps=perhaps)])


def affine(
    spec: Mapping[str, Any],
    labels: Mapping[str, Any],
    *,
    name: str | None = None,
    perhaps: Perhaps = _never,
) -> bool | None:
    """Whether a pod's required node affinity, if it has one, matches a node with these labels."""
    required = get(spec, *REQUIRED)
    if required is None:
        return True
    return any_of(
        None if term is UNKNOWN else _term(term, labels, name, perhaps)
        for term in items(required, "nodeSelectorTerms")
    )


def _term(term: Any, labels: Mapping[str, Any], name: str | None, perhaps: Perhaps) -> bool | None:
    expressions, fields = items(term, "matchExpressions"), items(term, "matchFields")
    if not expressions and not fields:
        return False
    return all_of([
        *(requirement(expression, labels, perhaps) for expression in expressions),
        *(_field(field, name) for field in fields),
    ])  # fmt: skip


def requirement(term: Any, labels: Mapping[str, Any], perhaps: Perhaps = _never) -> bool | None:
    """Whether one of `matchExpressions` matches these labels; None if not known."""
    key, operator, values = get(term, "key"), get(term, "operator"), items(term, "values")
    if term is UNKNOWN or UNKNOWN in (key, operator) or UNKNOWN in values:
        return None
    if not _readable(operator, values):
        return False
    label = _value(labels, key, perhaps)
    if label is UNKNOWN:
        # A label with an unknown value exists nevertheless.
        return {"Exists": True, "DoesNotExist": False}.get(operator) if key in labels else None
    match operator:
        case "In":
            return bool(label in values)
        case "NotIn":
            return bool(label not in values)
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
        case _ if not _INTEGER.fullmatch(str(label)):
            return False
        case _:
            number, bound = int(label), int(values[0])
            return number > bound if operator == "Gt" else number < bound


def _readable(operator: Any, values: list[Any]) -> bool:
    match operator:
        case "In" | "NotIn":
            return bool(values) and not any(invalid_label_value(str(value)) for value in values)
        case "Exists" | "DoesNotExist":
            return not values
        case "Gt" | "Lt":
            return len(values) == 1 and bool(_INTEGER.fullmatch(str(values[0])))
        case _:
            return False


def _field(term: Any, name: str | None) -> bool | None:
    """Whether one of `matchFields` matches; only `metadata.name` is supported."""
    key, operator, values = get(term, "key"), get(term, "operator"), items(term, "values")
    if term is UNKNOWN or UNKNOWN in (key, operator) or UNKNOWN in values:
        return None
    if operator not in ("In", "NotIn") or len(values) != 1:
        return False
    if name is None:
        return None
    field: Any = name if key == "metadata.name" else ""
    return (operator == "In") is bool(field == values[0])


def _value(labels: Mapping[str, Any], key: str, perhaps: Perhaps) -> Any:
    if key in labels:
        return labels[key]
    return UNKNOWN if perhaps(key) else None


def _equal(found: Any, wanted: Any) -> bool | None:
    return None if UNKNOWN in (found, wanted) else bool(found == wanted)
