"""The policy pack: each rule with its name, its weight and its configuration."""

from collections.abc import Mapping
from typing import Any

from pulumi_policy import EnforcementLevel, Severity

from policy import clusters, iam, pools, stacks, workloads
from policy.binding import resource_rule, stack_rule

_MANDATORY, _ADVISORY = EnforcementLevel.MANDATORY, EnforcementLevel.ADVISORY
_MEDIUM, _HIGH, _CRITICAL = Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL


_PRODUCTION = ("prod", "prod-*", "production", "*-prod")


def _texts(*default: str, about: str) -> Mapping[str, Any]:
    return {
        "type": "array",
        "items": {"type": "string"},
        "default": list(default),
        "description": about,
    }


POLICIES = [
    # Pools
    resource_rule(
        "gpu-pool-taint",
        pools.taint,
        _MANDATORY,
        _HIGH,
        {"key": {"type": "string", "default": "nvidia.com/gpu", "description": "The taint's key."}},
    ),
    resource_rule(
        "gpu-pool-minimum",
        pools.minimum,
        _MANDATORY,
        _MEDIUM,
        {"stacks": _texts(*_PRODUCTION, about="Stacks whose GPU pools may keep nodes running.")},
    ),
    resource_rule("autoscaler-owns-size", pools.size, _ADVISORY, _MEDIUM),
    resource_rule("secure-boot", pools.secure_boot, _MANDATORY, _HIGH),
    resource_rule(
        "instance-metadata",
        pools.metadata,
        _MANDATORY,
        _HIGH,
        {"hops": {"type": "integer", "default": 1, "description": "The largest hop limit."}},
    ),
    resource_rule("disks-encrypted", pools.disks, _MANDATORY, _HIGH),
    # Clusters and networks
    resource_rule(
        "control-plane-open",
        clusters.open_control_plane,
        _MANDATORY,
        _CRITICAL,
        {"prefix": {"type": "integer", "default": 8, "description": "Of the largest network."}},
    ),
    resource_rule("nodes-private", clusters.private_nodes, _MANDATORY, _HIGH),
    resource_rule("firewall-open", clusters.open_firewall, _MANDATORY, _CRITICAL),
    resource_rule(
        "secrets-encrypted",
        clusters.secrets_encrypted,
        _MANDATORY,
        _HIGH,
        {"stacks": _texts(about="Stacks that must bring a key of their own on GKE too.")},
    ),
    resource_rule("old-credentials", clusters.old_credentials, _MANDATORY, _HIGH),
    resource_rule("audit-log", clusters.audit_log, _MANDATORY, _MEDIUM),
    resource_rule("upgrades", clusters.upgrades, _MANDATORY, _MEDIUM),
    resource_rule(
        "deletion-protection",
        clusters.deletion_protection,
        _MANDATORY,
        _HIGH,
        {"stacks": _texts(*_PRODUCTION, about="Stacks whose cluster must be protected.")},
    ),
    # Permissions
    resource_rule("node-identity", iam.node_identity, _MANDATORY, _HIGH),
    resource_rule(
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
    resource_rule(
        "image-pinned",
        workloads.image,
        _MANDATORY,
        _MEDIUM,
        {"stacks": _texts(about="Stacks whose images must be pinned by digest.")},
    ),
    resource_rule("gpu-limits", workloads.gpu_limits, _MANDATORY, _MEDIUM),
    resource_rule("gpu-all", workloads.all_gpus, _ADVISORY, _MEDIUM),
    resource_rule(
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
    resource_rule("explicit-provider", workloads.explicit_provider, _MANDATORY, _HIGH),
    # The whole stack
    stack_rule("gpu-toleration", stacks.tolerations, _MANDATORY, _HIGH),
    stack_rule("autoscaler-tags", stacks.autoscaler_tags, _MANDATORY, _HIGH),
    stack_rule("one-driver", stacks.one_driver, _MANDATORY, _HIGH),
    stack_rule("one-device-plugin", stacks.one_device_plugin, _MANDATORY, _HIGH),
    stack_rule("gpu-software", stacks.gpu_software, _ADVISORY, _HIGH),
    stack_rule(
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
    stack_rule("price-known", stacks.priced, _ADVISORY, _MEDIUM),
]
"""Every policy of the pack."""
