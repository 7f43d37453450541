"""Refuses inputs of the right types that the provider would refuse: enums, bounds, exclusions."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.facts import Facts
from gpu_cluster.rehearsal.plugins.cloud.patterns import blocks, common_parent, given, values
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Problem

_ARN = re.compile(
    r"arn:aws(-[a-z]+)*:[^:]+:([a-z]{2}(-[a-z]+)+-\d{1,2})?:"
    r"(aws[a-z-]*|third-party|\d{12}|cw.{10})?:.+"
)
"""hashicorp/terraform-provider-aws, internal/verify/validate.go."""


def breaches(inputs: Mapping[str, Any], facts: Facts, *, new: bool = True) -> list[Problem]:
    """Problems that the provider reports before a request: enums, bounds, exclusions. `new`:
    whether the resource does not exist yet."""
    found: list[Problem] = []
    tree = dict(inputs)
    for path, allowed in facts.enums.items():
        for shown, value in values(tree, path):
            if value not in (UNKNOWN, *allowed):
                words = ", ".join(str(word) for word in allowed if word != "")
                found.append(
                    Problem(shown, f"expected {shown} to be one of {words}, got {value!r}")
                )
    for path in facts.not_inputs:
        for shown, _ in values(tree, path):
            words = f"value for unconfigurable attribute: only the cloud decides '{shown}'"
            found.append(Problem(shown, words))
    for path, bounds in facts.bounds.items():
        for shown, value in values(tree, path):
            if value != UNKNOWN and (reason := _outside(value, bounds)):
                found.append(Problem(shown, f"expected {shown} to be {reason}, got {value!r}"))
    for path, pattern in facts.patterns.items():
        for shown, value in values(tree, path):
            if value != UNKNOWN and not re.fullmatch(pattern, str(value)):
                words = f"value of '{shown}' ('{value}') doesn't match regexp ^(?:{pattern})$"
                found.append(Problem(shown, words))
    for paths, misfit in ((facts.arns, _not_an_arn), (facts.networks, _not_a_network)):
        for path in sorted(paths):
            for shown, value in values(tree, path):
                if value not in (UNKNOWN, "") and (reason := misfit(str(value))):
                    found.append(Problem(shown, f"expected {shown} to be {reason}, got {value!r}"))
    for path in facts.required_nested:
        found += _missing(tree, path)
    for kind in ("conflicts", "exactly_one_of"):
        for group in getattr(facts, kind):
            found += _group(tree, kind, group)
    for path, others in facts.required_with.items():
        if given(tree, path) and (lacking := [o for o in others if not given(tree, o)]):
            found.append(Problem(path, f"'{path}' needs '{lacking[0]}' as well"))
    for rule in facts.only_with if new else (r for r in facts.only_with if not r.get("new")):
        path, other, values_ = rule["path"], inputs.get(rule["other"]), rule["values"]
        if inputs.get(path) not in (None, False, 0, [], UNKNOWN) and other not in (
            UNKNOWN,
            *values_,
        ):
            words = f"'{path}' is not supported with {rule['other']} = {other!r}"
            found.append(Problem(path, words))
    return found


def lacking(inputs: Mapping[str, Any], facts: Facts) -> list[Problem]:
    """Blocks that are given but empty. The provider checks this before it fills in its defaults."""
    groups = (_group(dict(inputs), "at_least_one_of", group) for group in facts.at_least_one_of)
    return [problem for found in groups for problem in found]


def _outside(value: Any, bounds: Mapping[str, float]) -> str | None:
    if isinstance(value, str | list):
        least, most = bounds.get("min_length", 0), bounds.get("max_length", float("inf"))
        words = f"at least {least}" if most == float("inf") else f"{least} to {most}"
        return None if least <= len(value) <= most else f"of length {words}"
    if not isinstance(value, int | float):
        return None
    least, most = bounds.get("min", float("-inf")), bounds.get("max", float("inf"))
    if least <= value <= most:
        return None
    return f"at least {least}" if most == float("inf") else f"in the range {least} to {most}"


def _not_an_arn(value: str) -> str | None:
    return None if _ARN.fullmatch(value) else "an ARN, such as arn:aws:iam::123456789012:role/name"


def _not_a_network(value: str) -> str | None:
    """What a text should be that is no network in CIDR notation, or has bits beyond its prefix."""
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError:
        return "a network in CIDR notation"
    return None if str(network) == value else f"the network {network}"


def _missing(tree: dict[str, Any], path: str) -> list[Problem]:
    parent, _, name = path.rpartition(".")
    return [
        Problem(f"{shown}.{name}", f"missing required property '{shown}.{name.removesuffix('[]')}'")
        for shown, block_ in blocks(tree, parent)
        if block_.get(name.removesuffix("[]")) is None
    ]


def _group(tree: dict[str, Any], kind: str, group: Sequence[str]) -> list[Problem]:
    parent = common_parent(group)
    relative = [path.removeprefix(f"{parent}.") if parent else path for path in group]
    found = []
    for shown, block_ in blocks(tree, parent):
        present = [path for path in relative if given(block_, path)]
        names = [f"{shown}.{path}" if shown else path for path in (present or relative)]
        listed = ", ".join(f"'{name.removesuffix('[]')}'" for name in names)
        if kind == "conflicts" and len(present) > 1:
            found.append(Problem(names[0], f"{listed} exclude each other: give only one of them"))
        elif kind == "exactly_one_of" and len(present) != 1:
            found.append(Problem(names[0], f"exactly one of {listed} must be given"))
        elif kind == "at_least_one_of" and not present:
            found.append(Problem(names[0], f"at least one of {listed} must be given"))
    return found
