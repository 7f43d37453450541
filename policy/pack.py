"""The policy pack: each rule with its name, its level and its configuration."""

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_policy import EnforcementLevel, Policy, Severity

from components.catalog.broad_rights import AWS_POLICIES, GOOGLE_PROJECT_ROLES, GOOGLE_ROLES
from policy import clusters, host_paths, iam, pod_security, pools, rbac, stacks, workloads
from policy.binding import Rule, Schema, on_resource, on_stack, policy
from policy.ceiling import MINIMUM, PRODUCTION, RULE, UNCONFIRMED, UNCONFIRMED_DOLLARS

_MANDATORY, _ADVISORY = EnforcementLevel.MANDATORY, EnforcementLevel.ADVISORY
_MEDIUM, _HIGH, _CRITICAL = Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL


_CEILING: Schema = {
    "dollars": {
        "type": "number",
        "default": None,
        "description": "The ceiling of every stack that `stacks` does not name. Without it, such a "
        "stack is not refused: above "
        f"${UNCONFIRMED_DOLLARS:,} a month, all pools at their maximum, `ceiling-confirmed` "
        "advises to confirm a ceiling.",
    },
    "stacks": {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "default": {},
        "description": "Pattern of stack names -> the confirmed ceiling, in dollars a month. A "
        "stack above it is refused.",
    },
}


def _texts(*default: str, about: str) -> Mapping[str, Any]:
    return {
        "type": "array",
        "items": {"type": "string"},
        "default": list(default),
        "description": about,
    }


def _prefix(default: int, about: str) -> Mapping[str, Any]:
    return {
        "type": "integer", "minimum": 0, "maximum": 32, "default": default, "description": about,
    }  # fmt: skip


def _exempt() -> Mapping[str, Any]:
    return {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
        "default": {},
        "description": "Pattern of `namespace/kind/name` -> controls that such pods need not keep.",
    }


RULES: Sequence[Rule] = (
    # Pools
    on_resource(
        "gpu-pool-taint",
        pools.taint,
        _MANDATORY,
        _HIGH,
        {"key": {"type": "string", "default": "nvidia.com/gpu", "description": "The taint's key."}},
    ),
    on_resource(
        MINIMUM,
        pools.minimum,
        _MANDATORY,
        _MEDIUM,
        {"stacks": _texts(*PRODUCTION, about="Stacks whose GPU pools may keep nodes running.")},
    ),
    on_resource("autoscaler-owns-size", pools.size, _ADVISORY, _MEDIUM),
    on_resource("secure-boot", pools.secure_boot, _MANDATORY, _HIGH),
    on_resource("mig-profile", pools.mig_profile, _MANDATORY, _MEDIUM),
    on_resource(
        "instance-metadata",
        pools.metadata,
        _MANDATORY,
        _HIGH,
        {"hops": {"type": "integer", "default": 1, "description": "The largest hop limit."}},
    ),
    on_resource("disks-encrypted", pools.disks, _MANDATORY, _HIGH),
    # Clusters and networks
    on_resource(
        "control-plane-open",
        clusters.open_control_plane,
        _MANDATORY,
        _CRITICAL,
        {
            "prefix": _prefix(8, "Prefix length of the largest private network that may reach it."),
            "publicPrefix": _prefix(
                16, "Prefix length of the largest public network that may reach it."
            ),
        },
    ),
    on_resource("nodes-private", clusters.private_nodes, _MANDATORY, _HIGH),
    on_resource(
        "firewall-open",
        clusters.open_firewall,
        _MANDATORY,
        _CRITICAL,
        {
            "publicPrefix": _prefix(
                8, "Prefix length of the largest public network that may connect."
            )
        },
    ),
    on_resource(
        "secrets-encrypted",
        clusters.secrets_encrypted,
        _MANDATORY,
        _HIGH,
        {"stacks": _texts(about="Stacks that must use their own key on GKE as well.")},
    ),
    on_resource("old-credentials", clusters.old_credentials, _MANDATORY, _HIGH),
    on_resource("audit-log", clusters.audit_log, _MANDATORY, _MEDIUM),
    on_resource("upgrades", clusters.upgrades, _MANDATORY, _MEDIUM),
    on_resource("extended-channel", clusters.extended_channel, _ADVISORY, _MEDIUM),
    on_resource(
        "deletion-protection",
        clusters.deletion_protection,
        _MANDATORY,
        _HIGH,
        {"stacks": _texts(*PRODUCTION, about="Stacks whose cluster must be protected.")},
    ),
    # Permissions
    on_resource("node-identity", iam.node_identity, _MANDATORY, _HIGH),
    on_resource(
        "permissions-too-broad",
        iam.too_broad,
        _MANDATORY,
        _CRITICAL,
        {
            "roles": _texts(
                *GOOGLE_ROLES, about="Patterns of Google Cloud roles that are never granted."
            ),
            "projectRoles": _texts(
                *GOOGLE_PROJECT_ROLES,
                about="Patterns of roles that must not be granted on a project, folder or "
                "organization.",
            ),
            "policies": _texts(
                *AWS_POLICIES, about="Patterns of AWS managed policies that are never attached."
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
    on_resource(
        "image-pinned",
        workloads.image,
        _MANDATORY,
        _MEDIUM,
        {"stacks": _texts(about="Stacks whose images must be pinned by digest.")},
    ),
    on_resource("gpu-limits", workloads.gpu_limits, _MANDATORY, _MEDIUM),
    on_resource("gpu-all", workloads.all_gpus, _ADVISORY, _MEDIUM),
    on_resource(
        "pod-security-baseline",
        pod_security.baseline,
        _MANDATORY,
        _HIGH,
        {"exempt": _exempt()},
    ),
    on_resource(
        "pod-security-restricted",
        pod_security.restricted,
        _MANDATORY,
        _MEDIUM,
        {
            "stacks": _texts(about="Stacks whose pods keep the standard `restricted`."),
            "exempt": _exempt(),
        },
    ),
    on_resource(
        "namespace-enforces",
        pod_security.namespaces,
        _MANDATORY,
        _MEDIUM,
        {
            "privileged": _texts(
                "gpu-monitoring-system", about="Namespaces that may set `privileged`."
            )
        },
    ),
    on_resource(
        "host-paths",
        host_paths.host_paths,
        _MANDATORY,
        _HIGH,
        {
            "paths": _texts(about="Directories of the node that pods may mount as well."),
            "exempt": _exempt(),
        },
    ),
    on_resource(
        "rbac-too-broad",
        rbac.rbac,
        _MANDATORY,
        _CRITICAL,
        {"roles": _texts("cluster-admin", about="Patterns of roles that are never bound.")},
    ),
    on_resource("explicit-provider", workloads.explicit_provider, _MANDATORY, _HIGH),
    on_resource(
        "kubeconfig-credentials",
        workloads.kubeconfig,
        _MANDATORY,
        _HIGH,
        {"commands": _texts(about="Additional commands that a kubeconfig may run to sign in.")},
    ),
    # The whole stack
    on_stack("gpu-toleration", stacks.tolerations, _MANDATORY, _HIGH),
    on_stack("autoscaler-tags", stacks.autoscaler_tags, _MANDATORY, _HIGH),
    on_stack("one-driver", stacks.one_driver, _MANDATORY, _HIGH),
    on_stack("one-device-plugin", stacks.one_device_plugin, _MANDATORY, _HIGH),
    on_stack("gpu-software", stacks.gpu_software, _ADVISORY, _HIGH),
    on_stack(RULE, stacks.ceiling, _MANDATORY, _HIGH, _CEILING),
    on_stack(UNCONFIRMED, stacks.confirmed, _ADVISORY, _MEDIUM, _CEILING, reads=RULE),
    on_stack("price-known", stacks.priced, _ADVISORY, _MEDIUM),
)
"""Every rule of the pack."""


def policies(settings: Mapping[str, Mapping[str, Any]]) -> list[Policy]:
    """The rules in the engine's form; `settings` are those of `policy/config.json`."""
    bound = []
    for rule in RULES:
        read = {key: settings.get(rule.reads, {}).get(key) for key in rule.schema if rule.reads}
        changed = {key: value for key, value in read.items() if value is not None}
        bound.append(policy(rule, {**changed, **settings.get(rule.name, {})}))
    return bound


POLICIES = policies({})
"""The pack without a user's settings."""
