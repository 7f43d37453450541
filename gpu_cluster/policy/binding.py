"""Converts a rule, a plain function over plain data, into a policy of the engine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyResource,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.policy import ReportViolation
from pulumi_policy.proxy import UnknownValueError

from gpu_cluster.policy.clouds import parts
from gpu_cluster.policy.reading import UNKNOWN, Resource
from gpu_cluster.policy.schema import LEVEL
from gpu_cluster.policy.stacks import Finding

Schema = Mapping[str, Mapping[str, Any]]
"""A rule's keyword arguments, each with its JSON schema and a default; None leaves it unset."""
ResourceRule = Callable[..., Iterator[str]]
StackRule = Callable[..., Iterator[Finding]]

DECLARED: dict[str, Mapping[str, Any]] = {}
"""URN -> inputs of each resource, recorded before the engine passes the whole stack to rules.

Rules over the stack get outputs, which are empty for Kubernetes objects of a cluster that does not
exist yet: without the inputs, such a rule would find nothing in the first preview.
"""


def plain(value: Any) -> Any:
    """The engine's values as plain maps and lists, with `UNKNOWN` for values that are not known."""
    if isinstance(value, Mapping):
        return {key: _known(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_known(value, position) for position in range(len(value))]
    return value


def _known(container: Any, key: Any) -> Any:
    try:
        return plain(container[key])
    except UnknownValueError:
        return UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of the pack. The first line of its function's docstring is its description."""

    name: str
    check: Callable[..., Iterator[Any]]
    """A `ResourceRule`, or with `whole` a `StackRule`."""
    level: EnforcementLevel
    severity: Severity
    schema: Schema
    whole: bool
    """Whether it gets all resources together, or one at a time."""
    reads: str = ""
    """The rule whose settings this one uses; empty for a rule with its own."""

    @property
    def settings(self) -> Schema:
        """The settings that a user can change in addition to the level."""
        return {} if self.reads else self.schema

    @property
    def reason(self) -> str:
        """Its purpose, in one line."""
        assert self.check.__doc__ is not None
        return self.check.__doc__.partition("\n")[0]


def on_resource(
    name: str,
    check: ResourceRule | str,
    severity: Severity,
    schema: Schema | None = None,
    *,
    level: EnforcementLevel = EnforcementLevel.MANDATORY,
) -> Rule:
    """A rule that gets one resource at a time; `check` is its purpose if its parts, functions of
    its name, are in the clouds' modules."""
    if isinstance(check, str):
        check = _of_clouds(name.replace("-", "_"), check)
    return Rule(
        name=name, check=check, level=level, severity=severity, schema=schema or {}, whole=False
    )


def _of_clouds(name: str, reason: str) -> ResourceRule:
    assert parts(name), f"no module of a cloud has a function {name}"

    def check(resource: Resource, **settings: Any) -> Iterator[str]:
        for part in parts(name):
            yield from part(resource, **settings)

    check.__doc__ = reason
    return check


def on_stack(
    name: str,
    check: StackRule,
    severity: Severity,
    schema: Schema | None = None,
    *,
    level: EnforcementLevel = EnforcementLevel.MANDATORY,
    reads: str = "",
) -> Rule:
    """A rule that gets all resources of a stack together."""
    return Rule(
        name=name,
        check=check,
        level=level,
        severity=severity,
        schema=schema or {},
        whole=True,
        reads=reads,
    )


def policy(rule: Rule, given: Mapping[str, Any]) -> Policy:
    """The rule as a policy of the engine; `given`: settings that replace defaults."""
    defaults = _defaults(rule.schema, given)

    def on_one(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = _resource(args, plain(args.props), uses={})
        DECLARED[resource.urn] = resource.props
        for message in rule.check(resource, **{**defaults, **(args.get_config() or {})}):
            report(message, None)

    def on_all(args: StackValidationArgs, report: ReportViolation) -> None:
        resources = [
            _resource(
                resource,
                {**plain(resource.props), **DECLARED.get(resource.urn, {})},
                uses={
                    key: [used.urn for used in uses]
                    for key, uses in resource.property_dependencies.items()
                },
            )
            for resource in args.resources
        ]
        for message, resource in rule.check(resources, **{**defaults, **(args.get_config() or {})}):
            report(message, resource.urn if resource else None)

    common: dict[str, Any] = {
        "name": rule.name,
        "description": rule.reason,
        "enforcement_level": EnforcementLevel(given.get(LEVEL, rule.level)),
        "severity": rule.severity,
        "config_schema": _schema(rule.schema, given),
    }
    if rule.whole:
        return StackValidationPolicy(validate=on_all, **common)
    return ResourceValidationPolicy(validate=on_one, **common)


def _resource(
    given: ResourceValidationArgs | PolicyResource,
    props: Mapping[str, Any],
    *,
    uses: Mapping[str, Sequence[str]],
) -> Resource:
    return Resource(
        type=given.resource_type,
        name=given.name,
        props=props,
        urn=given.urn,
        protect=given.opts.protect,
        ignore_changes=tuple(given.opts.ignore_changes),
        provider=given.provider.name if given.provider else None,
        uses=uses,
    )


def _defaults(schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: given.get(key, field["default"]) for key, field in schema.items()}


def _schema(schema: Schema, given: Mapping[str, Any]) -> PolicyConfigSchema | None:
    if not schema:
        return None
    properties = {}
    for key, default in _defaults(schema, given).items():
        properties[key] = {**schema[key], "default": default}
        if default is None:  # It has no value of the setting's type.
            del properties[key]["default"]
    return PolicyConfigSchema(properties=properties)
