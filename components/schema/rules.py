"""Rules over several settings of an args class, and the base class that applies them.

    spare: Annotated[int, Ge(0), only(bucket=True)("needs bucket; name one, or drop the key")] = 0

A rule is in the annotation of the setting that it refuses, next to the setting's limits; a longer
one is a method with `rule`.
"""

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from string import Formatter
from typing import Any, ClassVar, TypeVar, cast

from ..catalog.spelling import camel
from .limits import limited, refusals_of, unwrapped
from .outputs import is_output
from .refusal import Range, Refusal, Refusals, collected, narrowed, refuse, spelled, unset

A = TypeVar("A")
_REFUSED = object()
"""The value of a field that is refused, and thus not set."""


@dataclass(frozen=True, slots=True)
class Order:
    """The first of two numbers of an args class is at most the second. `limit_refusals` checks
    those in the class's attribute ORDERS."""

    least: str
    most: str
    of_most: bool = False
    """Whether the refusal is of the second: raise it."""
    offered: bool = True
    """Whether the refusal may offer what the other number allows: nothing else bounds this one."""

    def check(self, args: Any) -> None:
        """Raises the refusal."""
        least, most = getattr(args, self.least), getattr(args, self.most)
        if least <= most:
            return
        if self.of_most:
            reason = f"is below {camel(self.least)} {least}; raise it"
            raise refuse(camel(self.most), most)(reason)
        reason = f"is above {camel(self.most)} {most}; lower it"
        raise refuse(camel(self.least), least)(reason)

    def possible(self, args: Any, key: str) -> Range | None:
        """What the other number allows for this one, if the refusal is of this one."""
        if not self.offered:
            return None
        if self.of_most:
            return Range(getattr(args, self.least), None) if key == camel(self.most) else None
        return Range(None, getattr(args, self.most)) if key == camel(self.least) else None


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """When a field cannot be given. See `never` and `only`."""

    reason: str
    of: Sequence[Any]
    settings: Mapping[str, Any]
    agree: bool
    """Whether it is refused if all of `settings` agree, or unless they do."""

    def check(self, args: Any, name: str) -> None:
        """Raises the refusal. Without `of`, it has the same verdict on a refused value."""
        value = getattr(args, name, _REFUSED)
        if not (value in self.of if self.of else is_given(args, name)):
            return
        values = ((getattr(args, other), wanted) for other, wanted in self.settings.items())
        if all(_agrees(value, wanted) for value, wanted in values) is self.agree:
            raise refuse(camel(name))(_text(self.reason, args, value))


def never(*, of: Sequence[Any] = (), **settings: Any) -> Callable[[str], Rule]:
    """Annotation of a field: `never(queued=True)(reason)`. It cannot be given while all of
    `settings` have these values, of which True and False stand for any value and none. With `of`,
    it concerns only these of its own values.

    The reason names values of the args as `{driver}`; its first word may be the refused value:
    `{}`, or `{!r}` in quotes.
    """
    return lambda reason: Rule(reason, of, settings, agree=True)


def only(*, of: Sequence[Any] = (), **settings: Any) -> Callable[[str], Rule]:
    """Like `never`: it can be given only while all of `settings` have these values."""
    return lambda reason: Rule(reason, of, settings, agree=False)


@dataclass(frozen=True, slots=True, eq=False)
class Fits:
    """Annotation of a field: its value is one that the method `possible` of its class allows."""

    reason: str

    def check(self, args: Any, name: str) -> None:
        """Raises the refusal, with what is allowed."""
        value = getattr(args, name)
        allowed = () if value is None else args.possible(camel(name))
        if allowed and value not in allowed:
            raise refuse(camel(name))(_text(self.reason, args, value), allowed=allowed)


def instead_of(name: str) -> Rule:
    """Annotation of a field: it cannot be given together with another one."""
    settings: Any = {name: True}
    return never(**settings)(f"cannot be combined with {camel(name)}; drop one of the two")


class _Values(dict[str, Any]):
    """The fields and properties of args, for the text of a refusal."""

    def __init__(self, args: Any) -> None:
        self.args = args

    def __missing__(self, name: str) -> Any:
        return _shown(getattr(self.args, name))


def _shown(value: Any) -> Any:
    return spelled(value) if is_output(value) else value


def _text(reason: str, args: Any, value: Any) -> str:
    if value is _REFUSED:
        reason = reason.removeprefix("{} ").removeprefix("{!r} ")
    return Formatter().vformat(reason, (_shown(value),), _Values(args))


def _given(value: Any) -> bool:
    return value is not None and value not in ((), [], {})


def _agrees(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool):
        return (value if isinstance(value, bool) else _given(value)) is wanted
    return value in wanted if isinstance(wanted, tuple) else bool(value == wanted)


def is_given(args: Any, name: str) -> bool:
    """Whether a field is neither empty nor its default, or refused, and thus not set: for checks
    whose verdict is the same for every other value."""
    value, own = getattr(args, name, _REFUSED), type(args).__dataclass_fields__[name]
    default = own.default if own.default_factory is MISSING else own.default_factory()
    try:
        return _given(value) and bool(value != default)
    except AttributeError:  # A block, of which a part is refused.
        return True


def rule(check: Callable[[A], Iterable[Refusal] | None]) -> Callable[[A], None]:
    """Decorates a method of `Checked` that yields or raises refusals. It is called when the args
    are created, and ends where it reads a refused field."""
    run = collected(check)
    run.__dict__["is_rule"] = True
    return run


class Checked:
    """A block of a stack file: a dataclass that checks itself when it is created."""

    __slots__ = ()
    ORDERS: ClassVar[Sequence[Order]] = ()

    def __post_init__(self) -> None:
        refusals = limit_refusals(self)
        for name in _methods(cast("Any", type(self))):
            with refusals:
                getattr(self, name)()
        try:
            refusals.check()
        except Refusal as refusal:
            # For the traceback of a program that creates the args: no reader shows the others.
            for further in refusal.further:
                refusal.add_note(str(further))
            raise

    def possible(self, key: str) -> Range | Sequence[Any] | None:
        """What the other settings allow for this one; None if all that its limits allow."""


@cache
def _methods(kind: type) -> Sequence[str]:
    """The methods of a class and its bases with `rule`, in the order of their definition."""
    members = [item for base in reversed(kind.__mro__) for item in vars(base).items()]
    return [*{name: None for name, member in members if hasattr(member, "is_rule")}]


@cache
def _rules(kind: type) -> Sequence[tuple[str, Rule | Fits]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    marks = ((own.name, mark) for own in fields(kind) for mark in unwrapped(hints[own.name])[1])
    return [(name, mark) for name, mark in marks if isinstance(mark, Rule | Fits)]


def limit_refusals(args: Any) -> Refusals:
    """The refusals of the fields that violate their limits, and of the rules in annotations and
    ORDERS. These cannot read such a field; one with its default value counts as omitted. See
    `narrowed` for what the refusals offer."""
    refusals = Refusals()
    by_field: dict[str, list[Refusal]] = {}
    for name, (hint, default) in limited(cast("Any", type(args))).items():
        value = getattr(args, name, default)
        # A block has checked itself, and may be there in part.
        if (is_dataclass(value) and type(value) is unwrapped(hint)[0]) or value == default:
            continue
        try:
            refused = [refusal.under(camel(name)) for refusal in refusals_of(hint, value)]
        except (AttributeError, TypeError):  # An args class in a user's own program.
            plain = unwrapped(hint)[0]
            if plain in (str, int, float) and isinstance(value, plain):
                raise  # It has its type: the limit has a defect.
            needed = getattr(plain, "__name__", plain)
            refused = [refuse(camel(name))(f"{value!r} is not of type {needed}")]
        if refused:
            by_field[name] = refused
    unset(args, by_field)
    for first, *others in by_field.values():
        refusals.add(narrowed(first, args, *first.path), *others)
    for order in args.ORDERS:
        with refusals:
            order.check(args)
    for name, mark in _rules(cast("Any", type(args))):
        with refusals:
            mark.check(args, name)
    return refusals
