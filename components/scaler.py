"""The scaler that adds the nodes of a cluster, and the pool settings that it does not support.

`cluster.scaler` names it. `NotWith` on a field of a pool's args names a scaler that does not
support the setting, and the reason; the error, and the table in the support matrix, follow from
that. Like the args classes, this module does without an SDK.
"""

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from .decode import camel, type_hints
from .limits import unwrapped
from .refusal import Refusal


class NotWith:
    """Annotation of a pool's field: this scaler does not support the setting.

    `reason` completes "... is not possible with cluster.scaler X: ". `but`: values that it does
    support, in addition to the field's default.
    """

    def __init__(self, scaler: str, reason: str, *, but: Sequence[Any] = ()) -> None:
        self.scaler = scaler
        self.reason = reason
        self.but = but


def scalers(cluster: type) -> tuple[str, ...]:
    """The allowed values of `cluster.scaler` in the cluster's args class; may be empty."""
    hint = type_hints(cluster).get("scaler")
    return typing.get_args(hint)


def unsupported(pool: type) -> Mapping[str, Sequence[NotWith]]:
    """Field of a pool's args -> the scalers that do not support it, if there are any."""
    by_field: dict[str, list[NotWith]] = {}
    for name, hint in type_hints(pool, include_extras=True).items():
        marks = [mark for mark in unwrapped(hint)[1] if isinstance(mark, NotWith)]
        if marks:
            by_field[name] = marks
    return by_field


def check_scaler(args: Any, scaler: str, cluster: type, *, needs: str = "") -> None:
    """Raises ValueError, `key: what is wrong`, for a setting of the pool that its cluster's scaler
    does not support; names the scalers that do, and what else of the pool they do not support.
    `needs`: further settings that the pool must have with another scaler."""
    defaults = {field.name: _default(field) for field in dataclasses.fields(args)}
    refused = {
        name: {mark.scaler: mark for mark in marks if getattr(args, name) not in mark.but}
        for name, marks in unsupported(type(args)).items()
        if getattr(args, name) != defaults[name]
    }
    for name, cannot in refused.items():
        if (mark := cannot.get(scaler)) is None:
            continue
        ways: dict[str, list[str]] = {}
        for other in scalers(cluster):
            if other not in cannot:
                drop = " and ".join(camel(key) for key in refused if other in refused[key])
                ways.setdefault(f"drop {drop} and " if drop else "", []).append(other)
        first = min(ways, key=len, default="")
        way = f", or {first}set cluster.scaler: {' or '.join(ways[first])}{needs}" if ways else ""
        value = getattr(args, name)
        refusal = Refusal(
            camel(name),
            f"is not possible with cluster.scaler {scaler}: {mark.reason}",
            remedy=f"drop the key{way}",
        )
        raise refusal.but(given=value) if isinstance(value, str | int) else refusal


def _default(each: "dataclasses.Field[Any]") -> Any:
    if each.default_factory is not dataclasses.MISSING:
        return each.default_factory()
    return each.default
