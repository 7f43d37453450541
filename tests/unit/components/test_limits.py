"""A limit that stands with a field refuses, in the program as in the JSON Schema."""

import dataclasses
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import jsonschema
import pytest
import yaml
from annotated_types import Ge, Interval, Le, Len, MaxLen, MinLen

from gpu_cluster.components.schema.decode import annotations, camel, decode, type_hints
from gpu_cluster.components.schema.limits import (
    ABSOLUTE,
    DNS_LABEL,
    IMAGE,
    QUANTITY,
    QUANTITY_OR_ZERO,
    SIZE,
    SUBDOMAIN,
    UNIQUE,
    VARIABLE,
    Example,
    Hint,
    Limit,
    fragment,
    matching,
    node_label_key,
    none_of,
    one_of,
    refusal,
    refusals_of,
    unwrapped,
)
from gpu_cluster.components.schema.rules import Checked, never, only
from quality import keys

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

LIMITS = (Limit, Ge, Le, MinLen, MaxLen)
MANY = {f"key{number}": None for number in range(100)}
TEXTS = ("", "?", "no such thing", "x" * 300)
WRONG: Sequence[Any] = (*TEXTS, [], ["a", "a"], {}, MANY, -1, 0, 2**31, -1.0)
"""Values of which each limit refuses at least one of its own type."""

BUCKET = matching(
    "a bucket such as data",
    re.compile("[a-z]+"),
    hint=lambda value: f"write {value.lower()}" if value.isalpha() else None,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pool(Checked):
    size_gb: Annotated[int, Interval(ge=10, le=20)] = 10
    nodes: Annotated[int, Ge(0)] = 0
    share: Annotated[float, Le(1)] | None = None
    zones: Annotated[Sequence[Annotated[str, one_of("a", "b")]], MinLen(1), UNIQUE] = ("a",)
    pair: Annotated[Sequence[str], Len(2, 3)] = ("x", "y")
    disk_gb: Annotated[int, Ge(50), Hint("images are large")] = 100
    command: Annotated[Sequence[str], Len(1, 2), Hint("name the script")] = ()
    minor: Annotated[str, one_of("1.9", "1.10", what="a minor")] = "1.9"
    image: Annotated[str, none_of("al2", why="is gone")] = "al2023"
    name: Annotated[str, matching("a name such as a-b", re.compile("[a-c-]+"), longest=3)] = "a"
    bucket: Annotated[str | None, BUCKET] = None
    spare: Annotated[int, Le(5), only(bucket=True)("{!r} needs a bucket")] = 0
    mode: Annotated[str, never(of=("fast",), share=True)("{} shares nothing")] = "slow"
    labels: Mapping[Annotated[str, one_of("k")], Annotated[str, MaxLen(1)]] = dataclasses.field(
        default_factory=dict
    )


@pytest.mark.parametrize(
    ("given", "says"), TABLE["test_a_value_beyond_its_limit_is_refused_by_its_path"]
)
def test_a_value_beyond_its_limit_is_refused_by_its_path(given: dict[str, Any], says: str) -> None:
    """With what was given and what is allowed, in one line."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        decode("pool", Pool, given)
    assert str(refused.value) == says


def test_what_is_empty_is_refused_with_what_to_give() -> None:
    """The hint takes the place of the number of entries, which says less."""
    assert str(refusal([MinLen(1), Hint("name the script")], ())) == "is empty; name the script"


def test_values_within_their_limits_are_accepted() -> None:
    """Bounds belong to the range, and what is left out, or has its default, is not looked at."""
    assert decode("pool", Pool, {"sizeGb": 20, "zones": ["a", "b"], "command": []}).size_gb == 20
    # A rule concerns only the words that it names, and only beside the other setting.
    for given in ({"mode": "fast"}, {"mode": "even", "share": 0.5}, {"share": 0.5}):
        assert decode("pool", Pool, given).mode == given.get("mode", "slow")


def limits_of(hint: Any, where: str) -> Iterator[tuple[str, Any, Sequence[Any]]]:
    """Each limited part of a type: where it is, its type, and the limits."""
    kind, annotations = unwrapped(hint)
    limits = [annotation for annotation in annotations if isinstance(annotation, LIMITS)]
    if limits:
        yield where, kind, limits
    for part in typing.get_args(kind):
        yield from limits_of(part, f"{where}[]") if part is not Ellipsis else ()


def classes(kind: type) -> Iterator[type]:
    """A class of args and those of its fields."""
    yield kind
    for hint in typing.get_type_hints(kind).values():
        inner, _ = keys.nested(hint)
        if inner is not None:
            yield from classes(inner)


LIMITED = {
    f"{owner.__name__}.{where}": (owner, name, inner, limits)
    for table in keys.TABLES.values()
    for owner in classes(table)
    for name, hint in typing.get_type_hints(owner, include_extras=True).items()
    for where, inner, limits in limits_of(hint, name)
}
"""Where a limit is -> its class and field, what is limited, and the limits."""


@pytest.mark.parametrize("where", LIMITED)
def test_program_and_schema_refuse_the_same(where: str) -> None:
    """What JSON Schema can say of a limit refuses no more than the limit itself."""
    _, _, kind, limits = LIMITED[where]
    origin = typing.get_origin(kind) or kind
    of_its_type = values_of(kind, limits)
    wrong = [value for value in of_its_type if refusal(limits, value)]
    assert wrong, f"{where}: none of {of_its_type} is refused"
    words = {Mapping: "Properties", str: "Length"}.get(origin, "Items")
    schema = jsonschema.Draft7Validator(fragment(limits, words))
    assert [each for each in of_its_type if each not in wrong and not schema.is_valid(each)] == []
    if fragment(limits, words):
        assert any(not schema.is_valid(each) for each in wrong)


@pytest.mark.parametrize("where", LIMITED)
def test_a_class_with_limits_applies_them(where: str) -> None:
    """A class that annotates a field and forgets `Checked` would refuse nothing."""
    kind, name, _, _ = LIMITED[where]
    args = object.__new__(kind)
    object.__setattr__(args, name, beyond(typing.get_type_hints(kind, include_extras=True)[name]))
    with pytest.raises(ValueError, match=f"^{camel(name)}"):
        args.__post_init__()


def test_a_key_without_a_value_is_refused() -> None:
    """Every key of every class: `warmPool:` could mean {}, or that there is none."""
    owners = {owner for table in keys.TABLES.values() for owner in classes(table)}
    found = {(owner, f.name) for owner in owners for f in dataclasses.fields(owner) if f.init}
    assert len(found) > 300
    for owner, name in found:
        with pytest.raises(ValueError, match=rf"^block\.{camel(name)}: has no value; set it"):
            decode("block", owner, {camel(name): None})


EXAMPLES = {
    f"{owner.__name__}.{field.name}": (owner, field.name, mark.text)
    for table in keys.TABLES.values()
    for owner in classes(table)
    for field in dataclasses.fields(owner)
    for mark in annotations(owner, field.name)
    if isinstance(mark, Example)
}


@pytest.mark.parametrize("where", EXAMPLES)
def test_the_example_of_a_missing_key_is_accepted(where: str) -> None:
    """Who writes what the refusal says is not refused again."""
    owner, name, text = EXAMPLES[where]
    value = yaml.safe_load(text)
    inner, _ = keys.nested(type_hints(owner)[name])
    if inner is not None:
        decode("example", inner, value)
    assert [*refusals_of(type_hints(owner, include_extras=True)[name], value)] == []


def values_of(kind: Any, limits: Sequence[Any]) -> Sequence[Any]:
    """Values of a type, of which its limits refuse some."""
    origin = typing.get_origin(kind) or kind
    if origin is typing.Literal:
        return typing.get_args(kind)
    found = {Sequence: list, Mapping: dict}.get(origin, origin)
    values = (*WRONG, *fragment(limits).get("not", {}).get("enum", ()))
    return [value for value in values if isinstance(value, found)]


def beyond(hint: Any) -> Any:
    """A value that some limit of the type refuses, itself or in what it holds."""
    kind, limits = unwrapped(hint)
    origin, parts = typing.get_origin(kind) or kind, typing.get_args(kind)
    for value in values_of(kind, limits):
        if refusal(limits, value):
            return value
    if origin is Sequence:
        return [beyond(parts[0])]
    key, value = parts
    return {beyond(key): "a"} if unwrapped(key)[1] else {"a": beyond(value)}


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [
        (IMAGE, "", "is empty; give an image with a tag or digest"),
        (IMAGE, "nvidia/cuda: 12", "'nvidia/cuda: 12' contains a space; remove it"),
        (
            IMAGE,
            "nvidia/CUDA:12",
            "'nvidia/CUDA:12' is not an image; allowed: [registry/]repository[:tag]"
            "[@sha256:digest], the repository in lower case",
        ),
        (QUANTITY, "8 GB", "'8 GB' is not a quantity such as 200m, 1.5, 512Mi or 2G; write 8G"),
        (QUANTITY, "0", "0 is too small; allowed: more than 0"),
        (QUANTITY, "1m", None),
        (QUANTITY_OR_ZERO, "-1Gi", "-1Gi is too small; allowed: 0 or more"),
        (QUANTITY_OR_ZERO, "0", None),
        (SIZE, "100m", "100m is too small; allowed: 1Mi or more, such as 10Gi"),
        (SIZE, "10", "10 is too small; allowed: 1Mi or more, such as 10Gi"),
        (SIZE, "1Mi", None),
        (ABSOLUTE, "usr/local", "'usr/local' is not an absolute path such as /data"),
        (VARIABLE, "A=B", "'A=B' is not the name of a variable such as BATCH_SIZE"),
        (
            DNS_LABEL,
            "My_NS",
            "'My_NS' must be lowercase letters, digits and hyphens, with a letter or digit at "
            "each end",
        ),
        (
            SUBDOMAIN,
            "a.-b",
            "'a.-b' must be lowercase letters, digits, hyphens and dots, with a letter or digit "
            "at both ends of each part",
        ),
    ],
)
def test_a_limit_that_classes_share_says_what_to_write(
    limit: Limit, value: str, says: str | None
) -> None:
    """Its clause follows the key."""
    assert limit.refusal(value) == says


def test_a_limit_of_its_own_says_why() -> None:
    """Its clause follows the key."""
    even = Limit(lambda value: None if value % 2 == 0 else f"{value} is odd; give an even number")
    assert str(refusal([even], 3)) == "3 is odd; give an even number"
    assert refusal([even], 4) is None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Typed(Checked):
    """Args of a program of one's own, which no stack file's types have been checked for."""

    most: Annotated[int, Ge(1)] = 2
    name: Annotated[str, DNS_LABEL] = "a"
    names: Annotated[Sequence[str], MinLen(1)] = ("a",)
    broken: Annotated[int, Limit(lambda value: value.missing)] = 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"most": "8"}, "most: '8' is not of type int"),
        ({"name": 8}, "name: 8 is not of type str"),
        ({"names": 8}, "names: 8 is not of type Sequence"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_key(given: dict[str, Any], says: str) -> None:
    """Not by the operator that could not compare it; a defect of a limit is no refusal."""
    with pytest.raises(ValueError, match=re.escape(says)):
        Typed(**given)
    with pytest.raises(AttributeError, match="missing"):
        Typed(broken=1)


@pytest.mark.parametrize(
    ("key", "taken"),
    [
        ("kubernetes.io/hostname", True),
        ("node.kubernetes.io/instance-type", True),
        ("node.kubernetes.io/purpose", False),
        ("a.kubelet.kubernetes.io/purpose", False),
        ("topology.kubernetes.io/zone", True),
        ("node-role.kubernetes.io/gpu", True),
        ("cloud.google.com/gke-accelerator", True),
        ("k8s.io/x", True),
        ("eks.amazonaws.com/nodegroup", True),
        ("ours/pool", True),
        ("ours/pools", False),
        ("notkubernetes.io/x", False),
        ("kubernetes-io/x", False),
        ("nvidia.com/gpu.present", False),
        ("kubernetes.io", False),
        ("role", False),
    ],
)
def test_keys_of_labels_that_others_set_are_refused(key: str, taken: bool) -> None:
    """A domain with its subdomains, and the keys of this stack; in the JSON Schema too."""
    limit = node_label_key("EKS", "ours/pool", domains=("amazonaws.com",), by_kubelets=True)
    assert (limit.refusal(key) is not None) == taken
    assert jsonschema.Draft7Validator(fragment([limit])).is_valid(key) != taken


_UNIT = {" days": 86_400, " hours": 3_600, " minutes": 60}
_AMOUNT = rf"([0-9]+(?:[a-zA-Z]+)?)({'|'.join(_UNIT)})?"
_RANGE = re.compile(rf"\b{_AMOUNT} to {_AMOUNT}\b")
_END = re.compile(rf"\b(?:at most|at least|up to) {_AMOUNT}\b")
ELSEWHERE = {
    "GkeMaintenanceExclusionArgs.end": "the class compares start and end",
    "GkeMaintenanceArgs.recurrence": "a warning",
    "GkeGpuNodePoolArgs.max_run_duration_seconds": "the end depends on capacityType",
    "GkeKubeletArgs.container_log_max_size": "the share depends on the disk",
    "GkeLinuxArgs.hugepages_1g": "the share depends on the machine",
    "GkeGpuNodePoolArgs.disk_size_gb": "the size of images, no limit",
    "GkeSharingArgs.replicas": "MIG allows 1",
    "ExistingSharingArgs.replicas": "the end depends on the strategy",
    "EksGpuNodeGroupArgs.disk_iops": "the ratio depends on diskThroughput and diskSizeGb",
    "EksGpuNodeGroupArgs.fallback": "minutes of the autoscaler, no limit",
    "ThresholdsArgs.matmul": "the power of a GPU, no limit",
    "ThresholdsArgs.fp32": "the power of a GPU, no limit",
}
"""Field -> why a number in its docstring is not a bound of its annotation."""


def amounts(text: str) -> set[str]:
    """The numbers in a docstring that are ends of a range, in seconds if they have a unit."""
    pairs = [match for found in _RANGE.findall(text) for match in (found[:2], found[2:])]
    pairs += _END.findall(text)
    return {str(int(number) * _UNIT[unit]) if unit else number for number, unit in pairs}


def bounds(hint: Any) -> set[str]:
    """The ends of the ranges in an annotation, and in those of its parts."""
    kind, limits = unwrapped(hint)
    ends = [
        getattr(limit, name, None)
        for limit in limits
        for name in ("ge", "le", "min_length", "max_length")
    ]
    ends += [end for limit in limits for end in getattr(limit, "bounds", None) or ()]
    known = {str(end) for end in ends if end is not None}
    inner = typing.get_args(kind) if typing.get_origin(kind) in (Mapping, Sequence) else ()
    return known.union(*(bounds(part) for part in inner))


def test_every_range_in_a_docstring_is_a_limit() -> None:
    """Both ends of it, for all settings of all platforms."""
    owners = {owner for table in keys.TABLES.values() for owner in classes(table)}
    missing = {
        f"{owner.__name__}.{name}": sorted(lacking)
        for owner in owners
        for name, text in keys.meanings(owner).items()
        if name in (hints := typing.get_type_hints(owner, include_extras=True))
        if (lacking := amounts(text) - bounds(hints[name]))
    }
    assert {where: ends for where, ends in missing.items() if where not in ELSEWHERE} == {}
    assert sorted(ELSEWHERE.keys() - missing.keys()) == []
