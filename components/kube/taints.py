"""Taints, in the spelling of Kubernetes and of the clouds, and the tolerations that match them.

Rules as in k8s.io/api core/v1 toleration.go (read 2026-11-21), including `Gt` and `Lt`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from .partial import UNKNOWN, any_of, get

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

CLOUD_EFFECTS: Final[Mapping[Effect, str]] = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}
"""Effect -> its spelling in the GKE and EKS APIs. Node objects and autoscaler tags use the key."""
_EFFECTS: Final[Mapping[str, Effect]] = {cloud: effect for effect, cloud in CLOUD_EFFECTS.items()}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def from_cloud(effect: Any) -> Any:
    """The effect in Kubernetes spelling; anything else is returned unchanged."""
    return _EFFECTS.get(effect, effect) if isinstance(effect, str) else effect


def keeps_away(effect: Any) -> bool:
    """Whether a taint with this effect keeps pods away, rather than being only a preference."""
    return effect in ("NoSchedule", "NoExecute")


def tolerated(tolerations: Sequence[Any], *, key: Any, value: Any, effect: Any) -> bool | None:
    """Whether one of a pod's tolerations matches the taint; None if not known.

    `value` is None or empty for a taint without a value.
    """
    if UNKNOWN in (key, value, effect):
        return None
    return any_of(_matches(toleration, key, value or "", effect) for toleration in tolerations)


def _matches(toleration: Any, key: str, value: str, effect: str) -> bool | None:
    fields = [get(toleration, field) for field in ("key", "operator", "value", "effect")]
    if UNKNOWN in fields or toleration is UNKNOWN:
        return None
    its_key, operator, its_value, its_effect = (field or "" for field in fields)
    if its_effect not in ("", effect) or its_key not in ("", key):
        return False
    match operator:
        case "" | "Equal":
            return bool(its_value == value)
        case "Exists":
            return True
        case "Gt" | "Lt" if _INTEGER.fullmatch(str(its_value)) and _INTEGER.fullmatch(value):
            bound, label = int(its_value), int(value)
            return label > bound if operator == "Gt" else label < bound
        case _:
            return False
