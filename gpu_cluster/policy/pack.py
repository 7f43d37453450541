"""The policy pack: each rule with its name, its level and its configuration."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pulumi_policy import EnforcementLevel, Policy, PolicyPack, Severity

from gpu_cluster.policy import (
    eks_pools,
    host_paths,
    pod_security,
    pools,
    rbac,
    settings,
    stacks,
    workloads,
)
from gpu_cluster.policy.binding import Rule, Schema, on_resource, on_stack, policy
from gpu_cluster.policy.ceiling import MINIMUM, PRODUCTION, RULE, UNCONFIRMED, UNCONFIRMED_DOLLARS
from gpu_cluster.policy.clouds import parts
from gpu_cluster.policy.schema import exempt, prefix, texts

_ADVISORY = EnforcementLevel.ADVISORY
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

RULES: Sequence[Rule] = (
    # Pools
    on_resource(
        "gpu-pool-taint",
        pools.taint,
        _HIGH,
        {"key": {"type": "string", "default": "nvidia.com/gpu", "description": "The taint's key."}},
    ),
    on_resource(
        MINIMUM,
        pools.minimum,
        _MEDIUM,
        {"stacks": texts(*PRODUCTION, about="Stacks whose GPU pools may keep nodes running.")},
    ),
    on_resource("autoscaler-owns-size", pools.size, _MEDIUM, level=_ADVISORY),
    on_resource(
        "secure-boot",
        "GKE nodes boot only signed software, unless the driver's module is installed by others.",
        _HIGH,
    ),
    on_resource(
        "mig-profile",
        "A GPU on GKE is only split into MIG partitions that its model supports.",
        _MEDIUM,
    ),
    on_resource(
        "instance-metadata",
        "Pods cannot get the node's own credentials from the metadata server.",
        _HIGH,
        {"hops": {"type": "integer", "default": 1, "description": "The largest hop limit."}},
    ),
    on_resource(
        "disks-encrypted",
        "Data that nodes write is encrypted; on Google Cloud, it always is.",
        _HIGH,
    ),
    # Clusters and networks
    on_resource(
        "control-plane-open",
        "The control plane is reachable only from networks that are listed explicitly.",
        _CRITICAL,
        {
            "prefix": prefix(8, "Prefix length of the largest private network that may reach it."),
            "publicPrefix": prefix(
                16, "Prefix length of the largest public network that may reach it."
            ),
        },
    ),
    on_resource("nodes-private", "Nodes have no public addresses.", _HIGH),
    on_resource(
        "firewall-open",
        "No firewall rule of the stack is open to the whole internet, in one block or in several.",
        _CRITICAL,
        {
            "publicPrefix": prefix(
                8, "Prefix length of the largest public network that may connect."
            )
        },
    ),
    on_resource(
        "secrets-encrypted",
        "Kubernetes secrets are encrypted with the owner's own key: on EKS, on GKE in some stacks.",
        _HIGH,
        {"stacks": texts(about="Stacks that must use their own key on GKE as well.")},
    ),
    on_resource(
        "old-credentials",
        "No one gets access with a certificate, a password or rules outside of Kubernetes RBAC.",
        _HIGH,
    ),
    on_resource(
        "audit-log",
        "Actions in the cluster are recorded in an audit log; on GKE, they always are.",
        _MEDIUM,
    ),
    on_resource(
        "upgrades",
        "Clusters and nodes are upgraded, and no fee for an old version comes as a surprise.",
        _MEDIUM,
    ),
    on_resource(
        "known-bad-release",
        "No release of an image, an addon or GKE is pinned that is known to do harm.",
        _MEDIUM,
        level=_ADVISORY,
    ),
    on_resource(
        "extended-channel",
        "The fee for a version whose standard support has ended is intended.",
        _MEDIUM,
        level=_ADVISORY,
    ),
    on_resource(
        "deletion-protection",
        "A production cluster is not deleted or replaced by mistake.",
        _HIGH,
        {"stacks": texts(*PRODUCTION, about="Stacks whose cluster must be protected.")},
    ),
    # Permissions
    on_resource(
        "node-identity",
        "GKE nodes use their own service account, and pods can have separate ones.",
        _HIGH,
    ),
    on_resource(
        "permissions-too-broad",
        "No role or policy grants more than its holder needs.",
        _CRITICAL,
        {key: schema for part in parts("PERMISSIONS_TOO_BROAD") for key, schema in part.items()},
    ),
    # Pods
    on_resource(
        "image-pinned",
        workloads.image,
        _MEDIUM,
        {"stacks": texts(about="Stacks whose images must be pinned by digest.")},
    ),
    on_resource("gpu-limits", workloads.gpu_limits, _MEDIUM),
    on_resource("gpu-all", workloads.all_gpus, _MEDIUM, level=_ADVISORY),
    on_resource("pod-security-baseline", pod_security.baseline, _HIGH, {"exempt": exempt()}),
    on_resource(
        "pod-security-restricted",
        pod_security.restricted,
        _MEDIUM,
        {
            "stacks": texts(about="Stacks whose pods keep the standard `restricted`."),
            "exempt": exempt(),
        },
    ),
    on_resource(
        "namespace-enforces",
        pod_security.namespaces,
        _MEDIUM,
        {
            "privileged": texts(
                "gpu-monitoring-system", about="Namespaces that may set `privileged`."
            )
        },
    ),
    on_resource(
        "host-paths",
        host_paths.host_paths,
        _HIGH,
        {
            "paths": texts(about="Directories of the node that pods may mount as well."),
            "exempt": exempt(),
        },
    ),
    on_resource(
        "rbac-too-broad",
        rbac.rbac,
        _CRITICAL,
        {"roles": texts("cluster-admin", about="Patterns of roles that are never bound.")},
    ),
    on_resource("explicit-provider", workloads.explicit_provider, _HIGH),
    on_resource(
        "kubeconfig-credentials",
        workloads.kubeconfig,
        _HIGH,
        {"commands": texts(about="Additional commands that a kubeconfig may run to sign in.")},
    ),
    # The whole stack
    on_stack("gpu-toleration", stacks.tolerations, _HIGH),
    on_stack("autoscaler-tags", eks_pools.autoscaler_tags, _HIGH),
    on_stack("one-driver", stacks.one_driver, _HIGH),
    on_stack("one-device-plugin", stacks.one_device_plugin, _HIGH),
    on_stack("gpu-software", stacks.gpu_software, _HIGH, level=_ADVISORY),
    on_stack(RULE, stacks.ceiling, _HIGH, _CEILING),
    on_stack(UNCONFIRMED, stacks.confirmed, _MEDIUM, _CEILING, reads=RULE, level=_ADVISORY),
    on_stack("price-known", stacks.priced, _MEDIUM, level=_ADVISORY),
)
"""Every rule of the pack, mandatory unless it says otherwise."""


def policies(given: Mapping[str, Mapping[str, Any]]) -> list[Policy]:
    """The rules in the engine's form; `given` are the settings of `policy/config.json`."""
    bound = []
    for rule in RULES:
        read = {key: given.get(rule.reads, {}).get(key) for key in rule.schema if rule.reads}
        changed = {key: value for key, value in read.items() if value is not None}
        bound.append(policy(rule, {**changed, **given.get(rule.name, {})}))
    return bound


def serve(file: Path) -> None:
    """Serves the pack to the engine with the settings in `file`; exits if these are invalid."""
    try:
        served = policies(settings.read_settings(RULES, file))
    except ValueError as error:
        sys.exit(f"policy: {error}")
    PolicyPack(name="gpu-cluster", policies=served)


POLICIES = policies({})
"""The pack without a user's settings."""
