"""What a single setting may be beyond its type, as JSON Schema has it: patterns, bounds, lists.

Each follows from a constant of the class that checks the setting, or from the catalog. What several
settings decide together is not here: no schema says it in words that help.
"""

import re
from collections.abc import Mapping
from typing import Any

from components import addresses, limits
from components.catalog import gke, kubernetes
from components.catalog.gke_shapes import CPU_MACHINE_TYPES
from components.eks.regions import REGION
from components.gke.cluster_args import LABEL
from components.gke.maintenance_args import INSTANT, TIME_OF_DAY
from components.gke.sign_in import PROJECT

Fragment = Mapping[str, Any]


def matching(pattern: re.Pattern[str], *others: re.Pattern[str]) -> dict[str, Any]:
    """The whole value matches one of these, written as ECMA-262 has it: no named groups."""
    return limits.pattern(pattern, *others)


def between(least: int | None, most: int | None = None) -> dict[str, Any]:
    """A number that is neither below nor above these."""
    return {
        key: value for key, value in (("minimum", least), ("maximum", most)) if value is not None
    }


def one_of(*words: Any) -> dict[str, Any]:
    """One of these, which an editor then offers."""
    return {"enum": list(words)}


def names(fragment: Fragment) -> dict[str, Any]:
    """A map whose keys are so."""
    return {"propertyNames": dict(fragment)}


def values(fragment: Fragment) -> dict[str, Any]:
    """A map whose values are so."""
    return {"additionalProperties": dict(fragment)}


def items(fragment: Fragment, **more: Any) -> dict[str, Any]:
    """A list whose entries are so."""
    return {"items": dict(fragment), **more}


def cidr(least: int, most: int, *, private: bool = False) -> Fragment:
    """An IPv4 network with a prefix of so many bits."""
    return addresses.cidr(least, most, private=private).fragment


DNS_LABEL = {**matching(kubernetes.DNS_LABEL), "maxLength": 63}
IMAGE = matching(kubernetes.IMAGE)
_N1 = re.compile(r"(?:n1-)?custom-[0-9]+-[0-9]+")
_GPU_MACHINES = [
    *(name for name, row in gke.MACHINE_TYPES.items() if row.gpus == int(row.gpus)),
    *(name for name in CPU_MACHINE_TYPES if name.startswith("n1-")),
]
"""With their GPUs built in, or to attach some to."""
_LABELS = {
    **names(matching(re.compile(rf"(?:[^/]+/)?{kubernetes.LABEL_NAME.pattern}"))),
    **values(matching(re.compile(rf"(?:{kubernetes.LABEL_NAME.pattern})?"))),
}

LIMITS: Mapping[str, Mapping[str, Fragment]] = {
    "GkeControlPlaneArgs": {
        "name": matching(gke.CLUSTER_NAME),
        "location": matching(gke.REGION, gke.ZONE),
        "authorized_networks": values(cidr(8, 32)),
        "secrets_encryption_key": {"pattern": "/cryptoKeys/"},
        "labels": {**names({**matching(LABEL), "minLength": 1}), **values(matching(LABEL))},
    },
    "GkeAutopilotArgs": {"location": matching(gke.REGION)},
    "GkeClusterArgs": {"zones": items(matching(gke.ZONE))},
    "GkeMaintenanceArgs": {
        "start": matching(TIME_OF_DAY, INSTANT),
        "end": matching(INSTANT),
        "recurrence": {"pattern": "(^|;)FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)(;|$)"},
        "exclusions": {"maxProperties": 20},
    },
    "GkeMaintenanceExclusionArgs": {"start": matching(INSTANT), "end": matching(INSTANT)},
    "GkeSystemPoolArgs": {
        "machine_type": {"not": one_of(*gke.MACHINE_TYPES)},
        "min_nodes": between(1),
        "max_nodes": between(1, gke.MAX_POOL_NODES_PER_ZONE),
        "disk_size_gb": between(gke.MIN_DISK_GB, gke.MAX_DISK_GB),
    },
    "GkeGpuMachineArgs": {
        "machine_type": {"anyOf": [one_of(*_GPU_MACHINES), matching(_N1)]},
        "accelerator": one_of(*(n for n, row in gke.ACCELERATORS.items() if not row.retired)),
        "gpus_per_node": between(1),
    },
    "GkeGpuNodePoolArgs": {
        "min_nodes": between(0),
        "max_nodes": between(1),
        "zones": items(matching(gke.ZONE)),
        "labels": _LABELS,
        "installer_image": IMAGE,
        "disk_size_gb": between(gke.MIN_DISK_GB, gke.MAX_DISK_GB),
        "disk_type": one_of(*gke.DISK_TYPES),
        "max_run_duration_seconds": between(1, gke.MAX_RUN_SECONDS),
    },
    "GkeAutopilotPoolArgs": {
        "accelerator": one_of(*(n for n, row in gke.ACCELERATORS.items() if row.autopilot_counts)),
        "gpus_per_node": between(1),
    },
    "GkeSharingArgs": {"replicas": between(1, gke.MAX_SHARED_CLIENTS)},
    "ExistingClusterArgs": {"name": DNS_LABEL},
    "ExistingGpuPoolArgs": {
        "node_selector": {"minProperties": 1},
    },
}
"""Class -> field -> what its value may be. A class that derives from another has its limits too."""

PROVIDERS: Mapping[str, Fragment] = {
    "gcp:project": PROJECT.fragment,
    "aws:region": matching(REGION),
}
"""Keys of the providers' own config that the program reads, strings all."""

ASSUMED_ROLES: Fragment = {
    "type": "array",
    "maxItems": 1,
    "items": {"type": "object", "required": ["roleArn"], "properties": {"externalId": False}},
}
"""`aws:assumeRoles`, of which `aws eks get-token` can assume one."""
