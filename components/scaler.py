"""Which scaler adds the nodes of a cluster, and which settings of a pool it cannot carry out.

`cluster.scaler` names it. A field of a pool's args says with `NotWith` which scalers cannot do what
it asks for, and why; the refusal, and the table in the support matrix, follow from that. Without an
SDK, as the classes of args are.
"""

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from .decode import camel, shown, type_hints
from .limits import unwrapped


class NotWith:
    """In the annotation of a pool's field: this scaler cannot do what the setting asks for.

    `reason` completes "... is not possible with cluster.scaler X: ". `but`: values that it can do,
    besides the field's default.
    """

    def __init__(self, scaler: str, reason: str, *, but: Sequence[Any] = ()) -> None:
        self.scaler = scaler
        self.reason = reason
        self.but = but


def scalers(cluster: type) -> tuple[str, ...]:
    """What `cluster.scaler` can be, by the cluster's class of args; empty if it has no such key."""
    hint = type_hints(cluster).get("scaler")
    return typing.get_args(hint)


def unsupported(pool: type) -> Mapping[str, Sequence[NotWith]]:
    """Field of a pool's args -> the scalers that cannot do it; only fields that have some."""
    found: dict[str, list[NotWith]] = {}
    for name, hint in type_hints(pool, include_extras=True).items():
        marks = [mark for mark in unwrapped(hint)[1] if isinstance(mark, NotWith)]
        if marks:
            found[name] = marks
    return found


def check_scaler(args: Any, scaler: str, cluster: type) -> None:
    """Raises ValueError, `key: what is wrong`, for a setting of the pool that the scaler of its
    cluster cannot carry out; names the scalers that can."""
    defaults = {each.name: _default(each) for each in dataclasses.fields(args)}
    for name, marks in unsupported(type(args)).items():
        value = getattr(args, name)
        if value == defaults[name]:
            continue
        cannot = {mark.scaler: mark for mark in marks if value not in mark.but}
        if (mark := cannot.get(scaler)) is None:
            continue
        able = [other for other in scalers(cluster) if other not in cannot]
        way = f", or set cluster.scaler: {' or '.join(able)}" if able else ""
        what = f"{shown(value)} is" if isinstance(value, str | int) else "is"
        raise ValueError(
            f"{camel(name)}: {what} not possible with cluster.scaler {scaler}: {mark.reason}; drop "
            f"the key{way}"
        )


def _default(each: "dataclasses.Field[Any]") -> Any:
    if each.default_factory is not dataclasses.MISSING:
        return each.default_factory()
    return each.default
