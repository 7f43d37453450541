"""The policy pack: each rule with its name, its weight and its configuration.

A rule is a plain function over plain data; here it becomes a policy of the engine.
"""

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

from policy import clusters, iam, pools, stacks, workloads
from policy.reading import UNKNOWN, Resource

Schema = Mapping[str, Mapping[str, Any]]
ResourceRule = Callable[..., Iterator[str]]
StackRule = Callable[..., Iterator[stacks.Finding]]

_MANDATORY, _ADVISORY = EnforcementLevel.MANDATORY, EnforcementLevel.ADVISORY
_MEDIUM, _HIGH, _CRITICAL = Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL


def _texts(*default: str, about: str) -> Mapping[str, Any]:
    return {
        "type": "array",
        "items": {"type": "string"},
        "default": list(default),
        "description": about,
    }


_declared: dict[str, Mapping[str, Any]] = {}
"""URN -> inputs, as the engine showed them for each resource before it shows the whole stack.

To the rules over the stack it shows outputs, and for Kubernetes objects of a cluster that does not
exist yet these are empty: without the inputs such a rule would be silent in the first preview.
"""

_PRODUCTION = ("prod", "prod-*", "production", "*-prod")


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


def _resource_rule(
    name: str,
    rule: ResourceRule,
    level: EnforcementLevel,
    severity: Severity,
    schema: Schema | None = None,
) -> ResourceValidationPolicy:
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
        _declared[resource.urn] = resource.props
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


def _stack_rule(
    name: str,
    rule: StackRule,
    level: EnforcementLevel,
    severity: Severity,
    schema: Schema | None = None,
) -> StackValidationPolicy:
    defaults = _defaults(schema)

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        resources = [
            Resource(
                type=each.resource_type,
                name=each.name,
                props={**plain(each.props), **_declared.get(each.urn, {})},
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


POLICIES = [
    # Pools
    _resource_rule(
        "gpu-pool-taint",
        pools.taint,
        _MANDATORY,
        _HIGH,
        {"key": {"type": "string", "default": "nvidia.com/gpu", "description": "The taint's key."}},
    ),
    _resource_rule(
        "gpu-pool-minimum",
        pools.minimum,
        _MANDATORY,
        _MEDIUM,
        {"stacks": _texts(*_PRODUCTION, about="Stacks whose GPU pools may keep nodes running.")},
    ),
    _resource_rule("autoscaler-owns-size", pools.size, _ADVISORY, _MEDIUM),
    _resource_rule("secure-boot", pools.secure_boot, _MANDATORY, _HIGH),
    _resource_rule(
        "instance-metadata",
        pools.metadata,
        _MANDATORY,
        _HIGH,
        {"hops": {"type": "integer", "default": 1, "description": "The largest hop limit."}},
    ),
    _resource_rule("disks-encrypted", pools.disks, _MANDATORY, _HIGH),
    # Clusters and networks
    _resource_rule(
        "control-plane-open",
        clusters.open_control_plane,
        _MANDATORY,
        _CRITICAL,
        {"prefix": {"type": "integer", "default": 8, "description": "Of the largest network."}},
    ),
    _resource_rule("nodes-private", clusters.private_nodes, _MANDATORY, _HIGH),
    _resource_rule("firewall-open", clusters.open_firewall, _MANDATORY, _CRITICAL),
    _resource_rule(
        "secrets-encrypted",
        clusters.secrets_encrypted,
        _MANDATORY,
        _HIGH,
        {"stacks": _texts(about="Stacks that must bring a key of their own on GKE too.")},
    ),
    _resource_rule("old-credentials", clusters.old_credentials, _MANDATORY, _HIGH),
    _resource_rule("audit-log", clusters.audit_log, _MANDATORY, _MEDIUM),
    _resource_rule("upgrades", clusters.upgrades, _MANDATORY, _MEDIUM),
    _resource_rule(
        "deletion-protection",
        clusters.deletion_protection,
        _MANDATORY,
        _HIGH,
        {"stacks": _texts(*_PRODUCTION, about="Stacks whose cluster must be protected.")},
    ),
    # Permissions
    _resource_rule("node-identity", iam.node_identity, _MANDATORY, _HIGH),
    _resource_rule(
        "permissions-too-broad",
        iam.too_broad,
        _MANDATORY,
        _CRITICAL,
        {
            "roles": _texts(
                "roles/owner",
                "roles/editor",
                "roles/viewer",
                "roles/*.admin",
                about="Patterns of Google Cloud roles that nobody is granted.",
            ),
            "policies": _texts(
                "AdministratorAccess*",
                "PowerUserAccess",
                "IAMFullAccess",
                "*FullAccess",
                about="Patterns of AWS managed policies that nothing has.",
            ),
            "unscoped": _texts(
                "*:Describe*",
                "*:List*",
                "ec2:Get*",
                "ecr:GetAuthorizationToken",
                "sts:GetCallerIdentity",
                about="Patterns of AWS actions that may have resource *.",
            ),
        },
    ),
    # Pods
    _resource_rule(
        "image-pinned",
        workloads.image,
        _MANDATORY,
        _MEDIUM,
        {"stacks": _texts(about="Stacks whose images must be pinned by digest.")},
    ),
    _resource_rule("gpu-limits", workloads.gpu_limits, _MANDATORY, _MEDIUM),
    _resource_rule("gpu-all", workloads.all_gpus, _ADVISORY, _MEDIUM),
    _resource_rule(
        "privileged-pods",
        workloads.privileged,
        _MANDATORY,
        _HIGH,
        {
            "namespaces": _texts(
                "kube-system", "gpu-monitoring-system", about="Where pods may have such powers."
            )
        },
    ),
    _resource_rule("explicit-provider", workloads.explicit_provider, _MANDATORY, _HIGH),
    # The whole stack
    _stack_rule("gpu-toleration", stacks.tolerations, _MANDATORY, _HIGH),
    _stack_rule("autoscaler-tags", stacks.autoscaler_tags, _MANDATORY, _HIGH),
    _stack_rule("one-driver", stacks.one_driver, _MANDATORY, _HIGH),
    _stack_rule("one-device-plugin", stacks.one_device_plugin, _MANDATORY, _HIGH),
    _stack_rule("gpu-software", stacks.gpu_software, _ADVISORY, _HIGH),
    _stack_rule(
        "monthly-ceiling",
        stacks.ceiling,
        _MANDATORY,
        _HIGH,
        {
            "dollars": {
                "type": "number",
                "default": 10_000,
                "description": "What all pools at their maximum may cost in a month.",
            },
            "stacks": {
                "type": "object",
                "additionalProperties": {"type": "number"},
                "default": {},
                "description": "Pattern of stack names -> their own ceiling, in dollars.",
            },
        },
    ),
    _stack_rule("price-known", stacks.priced, _ADVISORY, _MEDIUM),
]
"""Every policy of the pack."""
