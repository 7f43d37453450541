"""What is wrong with a setting, as a value: where, what was given, what is allowed, what to do.

    raise refuse("maxNodes", self.max_nodes)("is below minNodes 2", remedy="raise it")
    with refusals: decode_one(...)  # refusals = Refusals(): the next check runs in any case
    except Refusal as refusal: raise refusal.under(path, name) from None

A path is relative until readers have put the keys above it in front. Nothing reads a text.
"""

import functools
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar

from ..catalog.spelling import nearest
from .outputs import UNKNOWN, is_output

UNKNOWN_KEY = "unknown-key"
"""Code of a key that its block does not have."""
EXCLUDED_KEY = "excluded-key"
"""Code of a key that its block does not have with the other settings."""
UNKNOWN_VALUE = "unknown-value"
"""Code of a word that is not one of those allowed."""
UNKNOWN_NAMESPACE = "unknown-namespace"
"""Code of a namespace, in `given`, that nothing creates; the reason shows it."""
UNKNOWN_POOL = "unknown-pool"
"""Code of a name that no GPU pool has."""
_LONG_WORD = re.compile(r"\S{200,}")
_LONGEST = 2000
"""Maximum length of a line; the longest list of allowed values has about half of that."""
_DATE = re.compile(r"'[0-9]{4}-[0-9-]{5} [0-9:]{8} [+]0000 UTC' is (?!read as)")
"""A date without quotes, as the engine passes it."""
_WORDS = re.compile("\ue000([^\ue001]*)\ue001")
OTHER = "\ue002"
"""In a reason, the place of the path of another setting: private characters, unlike words, are in
no name or value that a reason shows."""
_NOT_SHOWN = object()
P = ParamSpec("P")
T = TypeVar("T")
Keys = tuple[str | int, ...]
"""A path; its first key may be dotted."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that are allowed: at least one end is not None."""

    least: float | None
    most: float | None

    def within(self, other: "Range") -> "Range":
        """The numbers of both; these, if there are none."""
        least = max((end for end in (self.least, other.least) if end is not None), default=None)
        most = min((end for end in (self.most, other.most) if end is not None), default=None)
        none = least is not None and most is not None and least > most
        return self if none else Range(least, most)

    def __contains__(self, number: float) -> bool:
        above = self.least is None or self.least <= number
        return above and (self.most is None or number <= self.most)

    def __str__(self) -> str:
        if self.least is None or self.least == self.most:
            return f"at most {self.most}" if self.least is None else f"{self.most}"
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"


Possible = Callable[[str], Range | Sequence[Any] | None]
"""What other settings allow for a key, if anything; raises a refusal if the key is not possible."""


@dataclass(eq=False, repr=False)
class Refusal(ValueError):
    """The refusal of one setting, with those that were found besides in `further`.

    Its text is one line: `path: given reason; allowed: ...; remedy`.
    """

    path: Keys
    """The keys and list positions, from the outermost; the first may be a dotted path."""
    reason: str
    """A clause that follows the given value, or the path."""
    _: KW_ONLY
    given: Any = _NOT_SHOWN
    """The user's value, which the line shows, or the unknown key, which is in the path."""
    allowed: Sequence[Any] | Range = ()
    """Values or numbers, in the order in which they are listed."""
    remedy: str = ""
    """What to do, unless it follows from what is allowed."""
    code: str = ""
    """For programs: one of the constants above, or empty."""
    meant: str = ""
    """What an unknown key or word most likely means, if that is not its spelling."""
    other: Keys = ()
    """The path of another setting, whose place in the reason is OTHER."""
    further: Sequence["Refusal"] = ()

    def __post_init__(self) -> None:
        super().__init__(self.path, self.reason)

    @property
    def every(self) -> tuple["Refusal", ...]:
        """This refusal and the further ones, each on its own."""
        return (self.but(further=()), *self.further)

    @property
    def at(self) -> str:
        """The path as a user writes it: `gpu-cluster:cluster.zones[0]`."""
        return written(self.path)

    @property
    def offers(self) -> bool:
        """Whether another number or word is possible, as far as the setting's limits say."""
        return self.code == UNKNOWN_VALUE or isinstance(self.allowed, Range)

    @property
    def likely(self) -> str:
        """What an unknown key or word most likely means; empty if that is not clear."""
        if self.meant and not self.allowed:
            return self.meant
        if self.code not in (UNKNOWN_KEY, UNKNOWN_VALUE, UNKNOWN_POOL) or isinstance(
            self.allowed, Range
        ):
            return ""
        # A key that is only somewhat like one of these is another tool's.
        least = 0.8 if self.code == UNKNOWN_KEY else 0.6
        words = [*map(spelled, self.allowed)]
        return nearest(self.meant or str(self.given)[:100], words, least) or ""

    def spelled(self, names: Mapping[str, str]) -> str:
        """The line without its path, and with other names for what is `named` in it."""
        reason = _renamed(self.reason, names).replace(OTHER, written(self.other))
        reason = f"{self._shown()} {reason}" if self._shows else reason
        return "; ".join(filter(None, (reason, self.listed(), _renamed(self.remedy, names))))

    @property
    def fields(self) -> dict[str, Any]:
        """The refusal for programs, as JSON; `given` is missing if the line does not show all of
        it: a program's log, too, then lacks what a list of variables has further on."""
        allowed = self.allowed
        fields = {
            "path": self.at,
            **({"given": self.given} if self._shows and _fits(self.given) else {}),
            "allowed": asdict(allowed) if isinstance(allowed, Range) else [*allowed],
            "remedy": _renamed(self.remedy, {}),
            "code": self.code,
        }
        plain: dict[str, Any] = json.loads(json.dumps(fields, default=spelled), parse_constant=str)
        return plain

    def but(self, **fields: Any) -> "Refusal":
        """The same refusal with other fields."""
        return replace(self, **fields)

    def under(self, *path: str | int) -> "Refusal":
        """The same refusals of a setting below this path."""
        further = tuple(refusal.under(*path) for refusal in self.further)
        other = self.other and (*path, *self.other)
        return self.but(path=(*path, *self.path), other=other, further=further)

    def __str__(self) -> str:
        line = ": ".join(filter(None, (self.at, self.spelled({}))))
        line = _LONG_WORD.sub(lambda word: f"{word[0][:60]}...", line)
        if len(line) > _LONGEST:
            line = f"{line[: _LONGEST - 100]} ... {line[-90:]}"
        if _DATE.search(line):
            line += "; if the file has a date there, put it in quotes"
        # A key may contain a line break, and is shown as part of the path.
        return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line)

    @property
    def _shows(self) -> bool:
        in_path = self.code in (UNKNOWN_KEY, UNKNOWN_NAMESPACE)
        return self.given is not _NOT_SHOWN and not in_path

    def _shown(self) -> str:
        number = isinstance(self.given, float) and isinstance(self.allowed, Range)
        return f"{self.given:g}" if number else shown(self.given)

    def listed(self) -> str:
        """What is allowed, with what was most likely meant; empty if that is not known."""
        if isinstance(self.allowed, Range):
            return f"allowed: {self.allowed}"
        words = ", ".join(map(spelled, self.allowed))
        hint = f"did you mean {self.likely!r}? " if words and self.likely else ""
        return words and f"{hint}allowed: {words}"


class Refusals:
    """A context that collects refusals of checks which do not depend on each other.

    A check that reads a refused field, which is not set, has no result.
    """

    def __init__(self) -> None:
        self._by_line: dict[str, Refusal] = {}
        self._without_result: AttributeError | None = None

    def __bool__(self) -> bool:
        return bool(self._by_line)

    def __iter__(self) -> Iterator[Refusal]:
        return iter(self._by_line.values())

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        if error is None:
            return False
        if isinstance(error, Refusal):
            self.add(error)
            return True
        # A value that was read is set: only `unset` leaves out a field of a dataclass.
        known = getattr(type(getattr(error, "obj", None)), "__dataclass_fields__", ())
        if not isinstance(error, AttributeError) or error.name not in known:
            return False
        self._without_result = error
        return True

    def run(self, *checks: Callable[[], object]) -> None:
        """Makes checks that do not depend on each other."""
        for check in checks:
            with self:
                check()

    def add(self, *refusals: Refusal) -> None:
        """Adds refusals and their further ones, each once."""
        for refusal in itertools.chain.from_iterable(refusal.every for refusal in refusals):
            # If the setting as a whole is not possible, no number or word is.
            same = {line: other for line, other in self._by_line.items() if other.at == refusal.at}
            if refusal.offers and not all(other.offers for other in same.values()):
                continue
            for line in same if not refusal.offers else ():
                if same[line].offers:
                    del self._by_line[line]
            self._by_line.setdefault(str(refusal), refusal)

    def narrow(self, path: str, possible: Possible) -> None:
        """Narrows what the refusals of the settings below this path offer."""
        own = [_narrowed(item, [possible], [item.at.removeprefix(f"{path}.")]) for item in self]
        self._by_line = {str(refusal): refusal for refusal in own}

    def first(self) -> Refusal:
        """The first refusal, with the others as its further ones."""
        first, *further = self._by_line.values()
        return first.but(further=further)

    def check(self) -> None:
        """Raises the first refusal, with the others; nothing if there is none. What follows has no
        result either if a check had none."""
        if self._by_line:
            raise self.first()
        if self._without_result:
            raise self._without_result


class _Because(Protocol):
    def __call__(
        self,
        reason: str,
        *,
        allowed: Sequence[Any] | Range = ...,
        remedy: str = ...,
        code: str = ...,
        meant: str = ...,
        other: Keys = ...,
    ) -> Refusal: ...


def keys_of(path: str | Keys) -> Keys:
    """The path; a text is its only key."""
    return (path,) if isinstance(path, str) else path


def refuse(path: str | Keys, given: Any = _NOT_SHOWN) -> _Because:
    """The refusal of the setting at `path`, and of the value that its line shows, for the reason
    with which the result is called: in the order in which a user reads it."""
    return functools.partial(Refusal, keys_of(path), given=given)


def named(words: str) -> str:
    """The words of a reason or remedy for which `spelled` may have other names."""
    return f"\ue000{words}\ue001"


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _WORDS.sub(lambda words: names.get(words[1], words[1]), text)


def narrowed(refusal: Refusal, args: Any, *path: str | int) -> Refusal:
    """The refusal of a setting below args, which is not set in them, with what their other settings
    allow of the numbers or words that it offers: ORDERS of the class, and its method `possible`."""
    orders = getattr(args, "ORDERS", ())
    checks: list[Possible] = [functools.partial(order.possible, args) for order in orders]
    checks += [args.possible] if hasattr(args, "possible") else []
    return _narrowed(refusal, checks, path)


def _narrowed(refusal: Refusal, checks: Sequence[Possible], path: Sequence[str | int]) -> Refusal:
    if not refusal.allowed:
        return refusal
    whole = Refusals()
    for check in checks:
        with whole:
            possible, allowed = check(written(path)), refusal.allowed
            if isinstance(possible, Range) and isinstance(allowed, Range):
                refusal = refusal.but(allowed=allowed.within(possible))
            elif possible and not isinstance(possible, Range):
                words = () if isinstance(allowed, Range | str) else allowed
                left = [word for word in words if word in possible]
                refusal = refusal.but(allowed=left or possible)
    same = (other for other in whole if other.at == written(path))
    return next((other.but(path=refusal.path) for other in same), refusal)


def collected(check: Callable[P, Iterable[Refusal] | None]) -> Callable[P, None]:
    """Decorates a check that yields refusals: a call raises all of them together. It ends where it
    reads a refused field."""

    @functools.wraps(check)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        refusals = Refusals()
        with refusals:
            for refusal in check(*args, **kwargs) or ():
                refusals.add(refusal)
        refusals.check()

    return run


def raised(check: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Refusal]:
    """The refusals that a check raises, for one that yields its own."""
    refusals = Refusals()
    with refusals:
        check(*args, **kwargs)
    yield from refusals


def known_only(kind: type[T], **known: Any) -> T:
    """An object of a dataclass of which only some fields are known: a check that reads another one
    has no result."""
    args = object.__new__(kind)
    for name, value in known.items():
        object.__setattr__(args, name, value)
    return args


def unset(args: Any, names: Collection[str]) -> None:
    """Takes refused values from args that will not be used: a check that reads one fails with
    AttributeError, and has no result."""
    for name in names:
        if hasattr(args, name):
            object.__delattr__(args, name)


def written(path: Sequence[str | int]) -> str:
    """A path as a user writes it."""
    text = ""
    for key in path:
        part = spelled(key)
        text += f"[{part}]" if isinstance(key, int) else f".{part}" if text else part
    return text


def output_refusal(path: str | Keys) -> Refusal:
    """The refusal of an output as the value of a setting that takes none."""
    return refuse(path)(
        "is an output, whose value may only be known during an update, but it decides which "
        "resources are declared",
        remedy="give a plain value",
    )


def unknown_value(path: str | Keys, given: Any, allowed: Collection[Any]) -> Refusal:
    """The refusal of a word that is not one of those allowed."""
    words = sorted(allowed, key=str)
    return refuse(path, given)("is not known", allowed=words, code=UNKNOWN_VALUE)


def unknown(word: str, allowed: Collection[str], otherwise: str = "") -> str:
    """Suggests the `allowed` word nearest to `word`, and lists all of them; or, if there is none,
    what to do."""
    return unknown_value((), word, allowed).listed() or otherwise


def spelled(value: object) -> str:
    """The value as text in a list of them."""
    return UNKNOWN if is_output(value) else str(value)


def _fits(value: object) -> bool:
    return len(value if isinstance(value, str) else json.dumps(value, default=spelled)) <= 95


def shown(value: object) -> str:
    """The value as the user wrote it, shortened to fit into a line."""
    try:
        if isinstance(value, str):
            text = repr(value[:100])
        else:
            text = UNKNOWN if is_output(value) else json.dumps(value, default=spelled)
    except RecursionError:
        text = "a value nested too deeply"
    return text if len(text) <= 100 else text[:97] + "..."
