"""Limits of single settings, declared as annotations of the fields of args.

    disk_size_gb: Annotated[int, Ge(10)] = 100
    labels: Mapping[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]]

Bounds and lengths use `annotated-types`, which Hypothesis reads too; a `Limit` covers the rest. The
JSON Schema of stack files gets them from `fragment`. A class that inherits from `rules.Checked`
applies them.
"""

import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from functools import cache
from typing import Annotated, Any

from annotated_types import Ge, GroupedMetadata, Le, MaxLen, MinLen

from ..catalog import kubernetes as names
from ..catalog.spelling import camel
from ..kube import quantity
from .outputs import NAMED, OUTPUT, is_output
from .refusal import Keys, Range, Refusal, output_refusal, shown, unknown_value


@dataclass(frozen=True, slots=True, eq=False)  # Hashable, as annotations have to be.
class Limit:
    """The allowed values of a setting."""

    refusal: Callable[[Any], Refusal | str | None]
    """Called with a value; returns None if it is valid, else a clause that follows `<key>: `, or a
    refusal without a path."""
    fragment: Mapping[str, Any] = field(default_factory=dict)
    """The part of the limit that JSON Schema can express."""
    bounds: tuple[str, str] | None = None
    """The smallest and the largest value, if it is a range of amounts."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What to do about a value that violates the bounds or lengths in the same annotation."""

    text: str


@dataclass(frozen=True, slots=True)
class Example:
    """A value, in YAML, that the error about a missing key suggests."""

    text: str


def sysctl_for_pods(name: str) -> str | None:
    """Refuses kernel parameters that no pod can set: a kubelet that is to allow one does not start.

    kubernetes/kubernetes pkg/kubelet/sysctl/allowlist.go, NewAllowlist, 2026-11-24.
    """
    if re.fullmatch(r"(?:kernel[.](?:shm|msg|sem)|fs[.]mqueue[.]|net[.])[a-z0-9_.]*[*]?", name):
        return None
    return (
        f"{name!r} is not a namespaced sysctl; give one such as net.core.somaxconn, or a pattern "
        "such as net.core.*"
    )


def one_of(*values: Any, what: str = "") -> Limit:
    """One of these values, which an editor then offers. `what` describes them."""

    def refusal(value: Any) -> Refusal | None:
        if value in values:
            return None
        if what:
            return Refusal((), f"is not {what}", given=value, allowed=values)
        return unknown_value((), value, values)

    return Limit(refusal, {"enum": list(values)})


def none_of(*values: str, why: str) -> Limit:
    """Any value except these; `why` follows the refused value in the error."""
    return Limit(
        lambda value: f"{shown(value)} {why}" if value in values else None,
        {"not": {"enum": list(values)}},
    )


def matching(
    what: str,
    *patterns: re.Pattern[str],
    longest: int | None = None,
    hint: Callable[[str], str | None] = lambda value: None,
) -> Limit:
    """A string that matches one of the patterns as a whole, with at most `longest` characters.

    `what` describes the allowed values, with an example: `a zone such as us-central1-a`. `hint` is
    called with a value that does not match and returns what to write instead, if that is clear.
    """

    def refusal(value: str) -> str | None:
        if not any(pattern.fullmatch(value) for pattern in patterns):
            advice = hint(value)
            return f"{shown(value)} is not {what}" + (f"; {advice}" if advice else "")
        if longest is not None and len(value) > longest:
            return f"{shown(value)} has {len(value)} characters; allowed: at most {longest}"
        return None

    return Limit(refusal, pattern(*patterns) | ({} if longest is None else {"maxLength": longest}))


def pattern(*patterns: re.Pattern[str]) -> dict[str, Any]:
    """For JSON Schema: the whole value has to match, in ECMA-262, which has no named groups."""
    texts = [limit.pattern.removeprefix("^").removesuffix("$") for limit in patterns]
    return {"pattern": f"^(?:{re.sub('[?]P<[^>]+>', '', '|'.join(texts))})$"}


DURATION = matching(
    "a duration such as 90s or 1h30m", re.compile(r"(?:[0-9]+(?:[.][0-9]+)?(?:ns|us|ms|s|m|h))+")
)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def seconds(duration: str) -> float:
    """The length of a `DURATION`, or of one as Go writes it."""
    parts = re.findall(rf"([0-9.]+)({'|'.join(_SECONDS)})(?![a-zµ])", duration)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def between(form: Limit, amount: Callable[[str], Any], least: str, most: str) -> Limit:
    """Text of this form with an amount within a range, such as `10Mi` to `500Mi`."""

    def refusal(text: str) -> Refusal | str | None:
        if reason := form.refusal(text):
            return reason
        inside = amount(least) <= amount(text) <= amount(most)
        return None if inside else f"{text} is out of range; allowed: {least} to {most}"

    return Limit(refusal, form.fragment, (least, most))


def _repeated(values: Sequence[Any] | Mapping[str, Any]) -> str | None:
    values = [*values.values()] if isinstance(values, Mapping) else values
    again = next((value for i, value in enumerate(values) if value in values[:i]), None)
    return None if again is None else f"{shown(again)} is a duplicate; remove it"


BASE64 = matching("base64 such as LS0tLS1CRUdJTi...", re.compile(r"[A-Za-z0-9+/\n]+=*\n?"))
UNIQUE = Limit(_repeated, {"uniqueItems": True})
"""A list without duplicates."""


def _quantity(in_range: Callable[[Decimal], bool], allowed: str) -> Limit:
    def refusal(text: str) -> str | None:
        try:
            amount = quantity.parse(text)
        except ValueError as error:
            return str(error)
        return None if in_range(amount) else f"{text} is too small; allowed: {allowed}"

    return Limit(refusal, pattern(quantity.QUANTITY))


QUANTITY = _quantity(lambda amount: amount > 0, "more than 0")
QUANTITY_OR_ZERO = _quantity(lambda amount: amount >= 0, "0 or more")
SIZE = _quantity(lambda amount: amount >= 2**20, "1Mi or more, such as 10Gi")


def _dns_label(name: str) -> str | None:
    reason = names.invalid_dns_label(name)
    return reason and f"{shown(name)} {reason}"


def _subdomain(name: str) -> str | None:
    reason = names.invalid_dns_subdomain(name)
    return reason and f"{shown(name)} {reason}"


def _absolute(path: str) -> str | None:
    return None if path.startswith("/") else f"{shown(path)} is not an absolute path such as /data"


def _variable(name: str) -> str | None:
    good = name and "=" not in name
    return None if good else f"{shown(name)} is not the name of a variable such as BATCH_SIZE"


DNS_LABEL = Limit(_dns_label, {**pattern(names.DNS_LABEL), "maxLength": 63})
SUBDOMAIN = Limit(
    _subdomain,
    pattern(re.compile(rf"{names.DNS_LABEL.pattern}(?:[.]{names.DNS_LABEL.pattern})*"))
    | {"maxLength": 253},
)
POOL_NAME = matching(
    "a pool name; allowed: at most 32 lowercase letters, digits and '-', a letter first, no '-' at "
    "the end",
    re.compile("[a-z](?:[-a-z0-9]{0,30}[a-z0-9])?"),
)
"""The name of a node pool has at most 40 characters, 8 of which are a suffix."""
IMAGE = Limit(names.invalid_image, pattern(names.IMAGE))
ABSOLUTE = Limit(_absolute, {"pattern": "^/"})
VARIABLE = Limit(_variable, {"pattern": "^[^=]+$"})
CONFIG_KEY = matching("a key of a Secret or ConfigMap such as token", names.CONFIG_KEY)
Env = Mapping[Annotated[str, VARIABLE], str]
"""Environment variables."""
LABEL_KEY = Limit(
    names.invalid_label_key, pattern(re.compile(rf"(?:[^/]+/)?{names.LABEL_NAME.pattern}"))
)
LABEL_VALUE = Limit(
    names.invalid_label_value, pattern(re.compile(rf"(?:{names.LABEL_NAME.pattern})?"))
)
Labels = Mapping[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]]
"""Labels of Kubernetes objects."""


def _extended_resource(name: str) -> str | None:
    """apimachinery's IsExtendedResourceName (pkg/apis/core/v1/helper/helpers.go, 1.36), without the
    GPUs, which have keys of their own."""
    domain, slash, _ = name.partition("/")
    if re.fullmatch(r"nvidia[.]com/(gpu([.].+)?|mig-.+)", name):
        return "stands for GPUs; write gpus, or gpusPerNode of the pool"
    if not slash or "kubernetes.io/" in name or domain.startswith("requests."):
        return "is not an extended resource; give one such as rdma/hca"
    return names.invalid_label_key(f"requests.{name}")


EXTENDED_RESOURCE = Limit(
    _extended_resource, pattern(re.compile(rf"[^/]+/{names.LABEL_NAME.pattern}"))
)
ExtendedResources = Mapping[Annotated[str, EXTENDED_RESOURCE], Annotated[int, Ge(1)]]
"""Extended resource, such as `rdma/hca` -> how many."""


def node_label_key(
    cloud: str, *taken: str, domains: Sequence[str] = (), by_kubelets: bool = False
) -> Limit:
    """A label key that neither Kubernetes nor the cloud nor this stack sets on its nodes.

    `taken`: keys of this stack; `domains`: those of the cloud, each including its subdomains;
    `by_kubelets`: whether the cloud accepts keys of Kubernetes' domains that kubelets do.
    """
    reserved = "|".join((*names.RESERVED_DOMAINS, *domains)).replace(".", "[.]")
    ours = "|".join((*taken, *names.KUBELET_LABELS)).replace(".", "[.]")
    but = rf"(?!{names.KUBELET_DOMAINS.pattern}/)" if by_kubelets else ""
    keys = re.compile(f"{ours}|{but}(?:[^/]+[.])?(?:{reserved})/.*")

    def refusal(key: str) -> str | None:
        if not keys.fullmatch(key):
            return None
        of_kubernetes = re.match("(?:[^/]+[.])?(?:kubernetes|k8s)[.]io/", key)
        if not of_kubernetes or key in names.KUBELET_LABELS:
            return f"is set by {cloud} or by this stack; choose another key"
        # ValidateKubeletFlags in cmd/kubelet/app/options/options.go of kubernetes, 2026-11-28.
        then = (
            "a kubelet that is given such a label does not start, and its node does not join"
            if by_kubelets
            else f"{cloud} accepts no such label for a node"
        )
        return f"belongs to Kubernetes: {then}; choose another key"

    return Limit(refusal, {"not": pattern(keys)})


@cache
def limited(kind: Any) -> Mapping[str, tuple[Any, Any]]:
    """Field of an args class -> its annotated type and its default."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: (hints[field.name], field.default) for field in fields(kind)}


def refusals_of(hint: Any, value: Any) -> Iterator[Refusal]:
    """The refusals of a value and of what is below it."""
    if value is None or (isinstance(value, str) and words(hint)):
        return
    origin, inner, bounds = _declared(hint)
    if is_output(value):
        if OUTPUT not in unwrapped(hint)[1]:
            yield refused_output(hint)
        return
    names = NAMED in unwrapped(hint)[1]
    if names and isinstance(value, Mapping):
        origin, inner = Mapping, (Annotated[str, DNS_LABEL], *inner)
    if refused := _refusal(bounds, value):
        yield refused
        return
    if origin is Mapping:
        for key, item in value.items():
            for part, content in zip(inner, (key, item), strict=True):
                yield from (below.under(key) for below in refusals_of(part, content))
    elif origin is Sequence:
        for position, item in enumerate(value):
            if names and is_output(item):
                yield Refusal(
                    (position,),
                    "is an output in a list, whose resources would be named after its place",
                    remedy="write a map instead, from a name of yours to each of them: "
                    "{ NAME: OUTPUT }",
                )
                continue
            yield from (below.under(position) for below in refusals_of(inner[0], item))


def refused_output(hint: Any) -> Refusal:
    """The refusal of an output as a value of this type, which takes none."""
    kind, marks = unwrapped(hint)
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is not Sequence or OUTPUT not in unwrapped(inner[0])[1]:
        return output_refusal(())
    return Refusal(
        (),
        "is an output, and the length of a list must be known before an update",
        remedy="give a map from a name of yours to each of its elements: { NAME: values[0] }"
        if NAMED in marks
        else "give a list of its elements: [values[0], values[1]]",
    )


def outputs_in(path: Keys, value: Any, hint: Any = Any) -> Iterator[tuple[Keys, Any, Any]]:
    """The outputs among the settings of args, and the lists of values that have some: their path,
    their annotated type, themselves."""
    if is_output(value):
        yield path, hint, value
    elif is_dataclass(value):
        for name, (inner, _) in limited(typing.cast("Any", type(value))).items():
            yield from outputs_in((*path, camel(name)), getattr(value, name), inner)
    elif isinstance(value, Mapping | list | tuple):
        inner = (_declared(hint)[1] or (Any,))[-1 if isinstance(value, Mapping) else 0]
        items = [*(value.items() if isinstance(value, Mapping) else enumerate(value))]
        for key, item in items:
            yield from outputs_in((*path, key), item, inner)
        if any(is_output(item) for _, item in items):
            yield path, hint, [item for _, item in items]


@cache
def _declared(hint: Any) -> tuple[Any, Sequence[Any], "_Bounds"]:
    """The origin and the parts of an annotated type, and what limits its values."""
    kind, limits = unwrapped(hint)
    return typing.get_origin(kind), typing.get_args(kind), _bounds(limits)


@cache  # Cached, because checking whether an annotation is of a protocol is slow.
def unwrapped(hint: Any) -> tuple[Any, Sequence[Any]]:
    """A type without `| None` and without its annotations, and the annotations. Of the two forms
    that `words` tells apart, the second."""
    limits: list[Any] = []
    while True:
        if typing.get_origin(hint) is Annotated:
            hint, *annotations = typing.get_args(hint)
            for annotation in annotations:
                limits += annotation if isinstance(annotation, GroupedMetadata) else [annotation]
        elif typing.get_origin(hint) in (types.UnionType, typing.Union):
            *_, hint = [part for part in typing.get_args(hint) if part is not types.NoneType]
        else:
            return hint, limits


def words(hint: Any) -> tuple[Any, Any] | None:
    """The two forms of a type such as `Literal["a", "b"] | Args`, whose words are each short for a
    map, or `Literal["all"] | int`: the words and the rest; None for other types."""
    while typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) not in (types.UnionType, typing.Union):
        return None
    parts = [part for part in typing.get_args(hint) if part is not types.NoneType]
    if len(parts) == 1 or typing.get_origin(parts[0]) is not typing.Literal:
        return None
    return parts[0], parts[-1]


def refusal(limits: Sequence[Any], value: Any) -> Refusal | None:
    """The refusal of a value that violates these limits, without a path; None if it does not."""
    return _refusal(_bounds(limits), value)


@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """The bounds, lengths and other limits among the annotations of a type."""

    least: Any
    most: Any
    fewest: int | None
    longest: int | None
    hint: str | None
    others: Sequence[Limit]


def _bounds(limits: Sequence[Any]) -> _Bounds:
    names = ((Ge, "ge"), (Le, "le"), (MinLen, "min_length"), (MaxLen, "max_length"), (Hint, "text"))
    least, most, fewest, longest, hint = (
        next((getattr(limit, name) for limit in limits if isinstance(limit, kind)), None)
        for kind, name in names
    )
    others = [limit for limit in limits if isinstance(limit, Limit)]
    return _Bounds(least, most, fewest, longest, hint, others)


def _refusal(bounds: _Bounds, value: Any) -> Refusal | None:
    reason = _reason(bounds, value)
    return Refusal((), reason) if isinstance(reason, str) else reason


def _reason(bounds: _Bounds, value: Any) -> Refusal | str | None:
    least, most, hint = bounds.least, bounds.most, bounds.hint
    if (least is not None and value < least) or (most is not None and value > most):
        reason = f"is {_outside(least, most)}"
        return Refusal((), reason, given=value, allowed=Range(least, most), remedy=hint or "")
    fewest, longest = bounds.fewest, bounds.longest
    if (fewest is not None and len(value) < fewest) or (
        longest is not None and len(value) > longest
    ):
        allowed = Range(fewest, longest)
        if not value:
            return f"is empty; {hint or f'give {allowed}'}"
        return f"has {len(value)}; allowed: {allowed}{f'; {hint}' if hint else ''}"
    reasons = (limit.refusal(value) for limit in bounds.others)
    return next((reason for reason in reasons if reason), None)


def _outside(least: Any, most: Any) -> str:
    if least is not None and most is not None:
        return "out of range"
    if least is None:
        return "too large"
    return "negative" if least == 0 else "too small"


def fragment(limits: Sequence[Any], entries: str = "Items") -> dict[str, Any]:
    """The part of the limits that JSON Schema can express; `entries`: the suffix of its keywords
    for lengths: `Items`, `Properties` or `Length`."""
    bounds = _bounds(limits)
    ends = {
        "minimum": bounds.least,
        "maximum": bounds.most,
        f"min{entries}": bounds.fewest,
        f"max{entries}": bounds.longest,
    }
    schema = {key: value for key, value in ends.items() if value is not None}
    for limit in bounds.others:
        schema |= limit.fragment
    return schema
