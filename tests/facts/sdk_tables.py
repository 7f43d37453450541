"""What we say of resource types, and what the program sends, beside the SDKs' own types."""

from collections.abc import Iterator

from gpu_cluster.components.platforms import WRITTEN
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.schema import (
    Problem,
    UnknownTypeError,
    fit_block,
    property_at,
    resource_schema,
)
from tests.facts import sent


def paths() -> Iterator[str]:
    """Every path of `gpu_cluster/clouds/` is an input that the SDK has."""
    for token in sorted(facts.types()):
        known, inputs = facts.of(token), resource_schema(token).inputs
        groups = known.conflicts + known.exactly_one_of + known.at_least_one_of
        listed = {
            *known.immutable,
            *known.kept_when_removed,
            *known.auto_named,
            *known.defaults,
            *known.enums,
            *known.bounds,
            *known.required_nested,
            *known.required_with,
            *(path for group in groups for path in group),
            *(path for group in known.required_with.values() for path in group),
        }
        for path in sorted(listed):
            if property_at(inputs, path.removesuffix(".*")) is None:
                yield f"{token} {path}: the SDK has no such input"


def bounds() -> Iterator[str]:
    """A bound is of the kind that the input's type has: a length of text, a range of a number."""
    for token in sorted(facts.types()):
        known, inputs = facts.of(token), resource_schema(token).inputs
        for path, bound in known.bounds.items():
            kind = property_at(inputs, path)
            for word in bound:
                number, text = kind in (int, float), kind is str
                of_a_list = not path.endswith("[]") and not (number or text)
                fits = number if word in ("min", "max") else text or of_a_list
                if not fits:
                    yield f"{token} {path} {word}: is a bound of nothing that the SDK has there"


def types_sent() -> Iterator[str]:
    """Every input that the program sends exists, with that type; all that is required is sent."""
    found = set()
    for platform in WRITTEN:
        for each in sent.registered(platform):
            package = each.type.partition(":")[0]
            if package not in ("gcp", "aws"):
                continue
            try:
                shape = resource_schema(each.type).inputs
            except UnknownTypeError as error:
                found.add(str(error))
                continue
            problems: list[Problem] = []
            fit_block(dict(each.inputs), shape, "", problems)
            found |= {f"{each.type} {problem.line}" for problem in problems}
    yield from sorted(found)


COMPARISONS = {"sdk paths": paths, "sdk bounds": bounds, "sdk types sent": types_sent}
