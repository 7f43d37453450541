"""A rule, which is a plain function over plain data, as a policy of the engine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.policy import ReportViolation
from pulumi_policy.proxy import UnknownValueError

from policy.reading import UNKNOWN, Resource
from policy.stacks import Finding

Schema = Mapping[str, Mapping[str, Any]]
"""A rule's keyword arguments, each with its JSON schema and a default."""
ResourceRule = Callable[..., Iterator[str]]
StackRule = Callable[..., Iterator[Finding]]

DECLARED: dict[str, Mapping[str, Any]] = {}
"""URN -> inputs, as the engine showed them for each resource before it shows the whole stack.

To the rules over the stack it shows outputs, and for Kubernetes objects of a cluster that does not
exist yet these are empty: without the inputs such a rule would be silent in the first preview.
"""


def plain(value: Any) -> Any:
    """What the engine gave as plain maps and lists, with `UNKNOWN` for what is not known."""
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


def resource_rule(
    name: str,
    rule: ResourceRule,
    level: EnforcementLevel,
    severity: Severity,
    schema: Schema | None = None,
) -> ResourceValidationPolicy:
    """A policy that sees one resource at a time. What it is for is the rule's docstring."""
    defaults = _defaults(schema)

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = Resource(
            type=args.resource_type,
            name=args.name,
            props=plain(args.props),
            urn=args.urn,
            protect=args.opts.protect,
            ignore_changes=tuple(args.opts.ignore_changes),
            provider=args.provider.name if args.provider else None,
        )
        DECLARED[resource.urn] = resource.props
        for message in rule(resource, **{**defaults, **(args.get_config() or {})}):
            report(message, None)

    return ResourceValidationPolicy(
        name=name,
        description=_says(rule),
        validate=validate,
        enforcement_level=level,
        severity=severity,
        config_schema=_schema(schema),
    )


def stack_rule(
    name: str,
    rule: StackRule,
    level: EnforcementLevel,
    severity: Severity,
    schema: Schema | None = None,
) -> StackValidationPolicy:
    """A policy that sees all resources together."""
    defaults = _defaults(schema)

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        resources = [
            Resource(
                type=each.resource_type,
                name=each.name,
                props={**plain(each.props), **DECLARED.get(each.urn, {})},
                urn=each.urn,
                protect=each.opts.protect,
                ignore_changes=tuple(each.opts.ignore_changes),
                provider=each.provider.name if each.provider else None,
                uses={
                    key: [used.urn for used in uses]
                    for key, uses in each.property_dependencies.items()
                },
            )
            for each in args.resources
        ]
        for message, resource in rule(resources, **{**defaults, **(args.get_config() or {})}):
            report(message, resource.urn if resource else None)

    return StackValidationPolicy(
        name=name,
        description=_says(rule),
        validate=validate,
        enforcement_level=level,
        severity=severity,
        config_schema=_schema(schema),
    )


def _says(rule: Callable[..., object]) -> str:
    """What the rule is for: the first line of its docstring."""
    assert rule.__doc__ is not None
    return rule.__doc__.partition("\n")[0]


def _defaults(schema: Schema | None) -> dict[str, Any]:
    return {key: field["default"] for key, field in (schema or {}).items()}


def _schema(schema: Schema | None) -> PolicyConfigSchema | None:
    if schema is None:
        return None
    return PolicyConfigSchema(properties={key: dict(field) for key, field in schema.items()})
