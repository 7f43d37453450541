"""What GKE allows: accelerators, machine types, locations, names, enums and first versions.

Read on 2026-11-21 in google-cloud-container 2.67.0 and pulumi-gcp 10.2, unless a line names another
source. The rows are in `gke_accelerators`, `gke_machines`, `gke_shapes` and `gke_zones`.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from . import room
from .gke_accelerators import ACCELERATORS as ACCELERATORS
from .gke_accelerators import DRA_NAMES as DRA_NAMES
from .gke_accelerators import Accelerator as Accelerator
from .gke_families import DISK_TYPES as DISK_TYPES
from .gke_machines import ANY_PROVISIONING, Provisioning
from .gke_machines import GPU_DIRECT as GPU_DIRECT
from .gke_machines import GPU_DIRECT_GBPS as GPU_DIRECT_GBPS
from .gke_machines import GPU_INTERFACES as GPU_INTERFACES
from .gke_machines import MACHINE_TYPES as MACHINE_TYPES
from .gke_machines import GpuDirect as GpuDirect
from .gke_machines import MachineType as MachineType
from .gke_shapes import CPU_MACHINE_TYPES as CPU_MACHINE_TYPES
from .gke_shapes import FAMILIES as FAMILIES
from .gke_shapes import N1_ATTACH_LIMITS as N1_ATTACH_LIMITS
from .gke_shapes import gpu_counts_for as gpu_counts_for
from .gke_shapes import largest_with as largest_with
from .gke_shapes import machine_type as machine_type
from .gke_shapes import n1_attach_limit as n1_attach_limit
from .gke_zones import ACCELERATOR_ZONES as ACCELERATOR_ZONES
from .gke_zones import MACHINE_ZONES as MACHINE_ZONES
from .gke_zones import REGIONS as REGIONS
from .spelling import nearest

AUTOPILOT_DISK: Final = "1Gi"
"""The disk of a container on Autopilot that requests none (cloud.google.com, autopilot-resource-
requests, "Default resource requests", read 2026-11-28)."""
AUTOPILOT_SURE_DISK: Final = "10Gi"
"""The disk of a pod that Autopilot's admission has been seen to refuse more than: "higher than the
Autopilot maximum of '10Gi'". Which GPUs' nodes have more is not known here (read 2026-11-28)."""
_AUTOPILOT_MOST: Final[Mapping[tuple[str, int], tuple[int, int]]] = {
    ("nvidia-tesla-a100", 1): (11_000, 74 * 1024)
}
"""(accelerator, GPUs of a pod) -> the most CPU, in thousandths of a core, and MiB that Autopilot
admits if that is known to be less than the node has for pods: argoproj/argo-workflows issue 13073.
"""

CLUSTER_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
"""For `fullmatch`: at most 40 of a-z, 0-9 and hyphens, from a letter to a letter or digit."""
CLUSTER_NAME_MAX: Final = 40
NODE_POOL_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
"""For `fullmatch`: like cluster names, according to the API's error (pulumi-gcp issue 1510)."""
NODE_POOL_NAME_MAX: Final = 40
"""Limit of the physical name. Auto-naming appends a hyphen and 7 characters to the logical name."""
AUTO_NAME_SUFFIX: Final = 8
COMPUTE_NAME: Final = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
"""RFC 1035, which Compute Engine uses for all names."""
PROJECT_ID: Final = r"(?:[a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]"

ZONES_OF_A_REGION: Final = 3
"""The number of zones that GKE chooses for the nodes of a regional cluster that names none."""

UBUNTU_DRIVERS: Final[Mapping[str, str]] = {
    "R525": "525.105.17",
    "R535": "535.161.07",
    "R550": "550.90.12",
    "R570": "570.124.06",
}
"""Branch -> the version for the installer of Ubuntu nodes (container-engine-accelerators
nvidia-driver-installer/ubuntu/daemonset-preloaded-R*.yaml, 2026-11-24)."""
MIN_DISK_GB: Final = 10
MAX_DISK_GB: Final = 65536
"""Limit of Persistent Disk and Hyperdisk Balanced (cloud.google.com/compute/docs/disks, 64 TiB)."""
MAX_POOL_NODES_PER_ZONE: Final = 1000
"""Limit of a node pool (cloud.google.com/kubernetes-engine/quotas, "Nodes per node pool zone")."""
SHARING_STRATEGIES: Final = ("TIME_SHARING", "MPS")

MIN_SHARED_CLIENTS: Final = 2
MAX_SHARED_CLIENTS: Final = 48
"""Maximum number of pods per GPU with either sharing strategy (gkeas)."""
MIN_RUN_SECONDS: Final = 30
MAX_RUN_SECONDS: Final = 120 * 86_400
MIN_FLEX_RUN_SECONDS: Final = 600
MAX_FLEX_RUN_SECONDS: Final = 7 * 86_400
"""Limits of the lifetime of a node with a limited run time, and of a flex-start node.
https://cloud.google.com/compute/docs/instances/limit-vm-runtime and
GoogleCloudPlatform/cluster-autoscaler 7d250507, pkg/autoprovisioning/injection.go, 2026-11-24."""

GLOBAL_GPU_QUOTA: Final = "GPUS_ALL_REGIONS"
"""The quota for GPUs of the whole project; 0 in many new projects."""

FIRST_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "total-node-limits": ("1.24.1",),
        "location-policy": ("1.24.1",),
        "driver-by-default": ("1.30.1-gke.1156000",),
        "driver-by-default-in-auto-provisioned-pools": ("1.32.2-gke.1297000",),
        "flex-start": ("1.33.0-gke.1712000",),
        "flex-start-queued": ("1.32.2-gke.1652000",),
        "consolidation-delay": ("1.34.1-gke.2364000",),
        "compute-class-node-labels": ("1.34.1-gke.3084002",),
        # docs.cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass, 2026-11-29.
        "compute-class-location": ("1.33.1-gke.1545000",),
        "autopilot-gpu-pods-share-a-machine": ("1.29.2-gke.1355000",),
        "managed-dranet": ("1.34.1-gke.1829001",),
        # cluster-autoscaler 7d250507, pkg/config/options/tracking/field_dra.go.
        "dra": ("1.34.0-gke.0",),
        # Cluster Autoscaler compares a new node with the pool's template, before 1.35 even if there
        # are nodes (processors/customresources/dra_processor.go, read 2026-11-29), so it does not
        # wait for GPUs that are none of `DRA_NAMES`.
        "dra-growth-by-nodes": ("1.35.0-gke.0",),
        "data-cache": ("1.32.3-gke.1440000",),
        "gpudirect-tcpxo": (
            "1.28.15-gke.3163000",
            "1.29.15-gke.2467000",
            "1.30.14-gke.1922000",
            "1.31.14-gke.1243000",
            "1.32.11-gke.1174000",
        ),
    }
)
"""Feature -> the first version that has it, in each minor that received it (cluster-toolkit 1.95.0
and the GKE documentation)."""

CHANNEL_MINORS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {"rapid": (34, 37), "regular": (34, 37), "stable": (34, 36), "extended": (32, 37)}
)
"""Channel -> its oldest and newest Kubernetes minor, 1.x, for new clusters:
docs.cloud.google.com/kubernetes-engine/docs/release-notes.md.txt, to 2026-10-20."""

CHANNEL_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "RAPID": "1.36.4-gke.1391000",
        "REGULAR": "1.35.8-gke.1225000",
        "STABLE": "1.34.8-gke.1000000",
        "EXTENDED": "1.35.8-gke.1225000",
    }
)
"""Default versions of 2026-10-20 (release notes); of the channel stable, mid-2026. Only for
estimates and rehearsals; `getServerConfig` returns the current ones."""

SPELLINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "k80": "nvidia-tesla-k80",
        "p4": "nvidia-tesla-p4",
        "p100": "nvidia-tesla-p100",
        "v100": "nvidia-tesla-v100",
        "t4": "nvidia-tesla-t4",
        "l4": "nvidia-l4",
        "l4-24gb": "nvidia-l4",
        "a100": "nvidia-tesla-a100",
        "a100-40gb": "nvidia-tesla-a100",
        "a100-80gb": "nvidia-a100-80gb",
        "h100": "nvidia-h100-80gb",
        "h100-80gb": "nvidia-h100-80gb",
        "h100-mega": "nvidia-h100-mega-80gb",
        "h100-mega-80gb": "nvidia-h100-mega-80gb",
        "h200": "nvidia-h200-141gb",
        "h200-141gb": "nvidia-h200-141gb",
        "b200": "nvidia-b200",
        "b200-180gb": "nvidia-b200",
        "gb200": "nvidia-gb200",
        "gb300": "nvidia-gb300",
        "rtx-pro-6000": "nvidia-rtx-pro-6000",
        "rtx-6000": "nvidia-rtx-pro-6000",
        "rtx6000": "nvidia-rtx-pro-6000",
    }
)
"""Common name of a GPU, without `nvidia-` and `tesla-` -> its GKE name."""

REGION: Final = re.compile(r"[a-z]+-[a-z]+[0-9]+")
ZONE: Final = re.compile(rf"({REGION.pattern})-[a-z][a-z0-9]*")
_VERSION: Final = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)(?:-gke\.([0-9]+))?")


def spelling(name: str) -> str | None:
    """The GKE name that `name` most likely means; None if that is not clear."""
    plain = re.sub(r"[\s_]+", "-", name.strip().lower())
    plain = plain.removeprefix("nvidia-").removeprefix("tesla-")
    return SPELLINGS.get(plain)


def is_region(location: str) -> bool:
    """Whether the location has the form of a region, such as `us-central1`."""
    return REGION.fullmatch(location) is not None


def is_zone(location: str) -> bool:
    """Whether the location has the form of a zone, such as `us-central1-a` or `us-south1-ai1b`."""
    return ZONE.fullmatch(location) is not None


def region_of(location: str) -> str:
    """The region of a zone; a region is returned unchanged. Raises ValueError for anything else."""
    if is_region(location):
        return location
    zone = ZONE.fullmatch(location)
    if zone is None:
        raise ValueError(f"'{location}' is neither a region nor a zone of Google Cloud")
    return zone[1]


def meant_location(location: str) -> str | None:
    """The most likely meaning of a location with an unknown region; None if that is not clear.

    A region with a known name and another number may have opened since the catalog was read.
    """
    region = region_of(location)
    names = {region_name.rstrip("0123456789") for region_name in REGIONS}
    if region in REGIONS or region.rstrip("0123456789") in names:
        return None
    close = nearest(region, REGIONS, 0.8)
    return location.replace(region, close, 1) if close else None


def zones_of(region: str) -> str:
    """Text about the known zones of `region`, for messages."""
    rows = [*ACCELERATOR_ZONES.values(), *MACHINE_ZONES.values()]
    found = sorted({zone for zones in rows for zone in zones if region_of(zone) == region})
    return f"zones there: {', '.join(found)}" if found else f"give one such as {region}-a"


def zones_with(accelerator: str, region: str) -> tuple[str, ...]:
    """The zones of `region` that are known to have `accelerator`, sorted."""
    return tuple(
        sorted(zone for zone in ACCELERATOR_ZONES.get(accelerator, ()) if region_of(zone) == region)
    )


def autopilot_provisioning(accelerator: str, gpus: int | None = None) -> tuple[Provisioning, ...]:
    """How Autopilot can provision nodes with `gpus` of these GPUs; None stands for any number."""
    if ACCELERATORS[accelerator].machine_family == "n1":
        return ANY_PROVISIONING
    machines = [
        machine
        for machine in MACHINE_TYPES.values()
        if machine.autopilot and machine.accelerator == accelerator and gpus in (None, machine.gpus)
    ]
    return tuple(
        way for way in ANY_PROVISIONING if any(way in machine.provisioning for machine in machines)
    )


def meets(version: str, first: tuple[str, ...]) -> bool | None:
    """Whether GKE `version` is at least the one that `first` lists for its minor.

    An unlisted minor passes if it is newer than all that are listed, and fails if it is older than
    any. None if `version` is not exact, as `latest` or `1.33`, and its minor does not decide.
    """
    minimums = sorted(_numbers(minimum) for minimum in first)
    minor = re.match(r"([0-9]+)\.([0-9]+)(?:\.|$)", version)
    if minor is None:
        return None
    minor_numbers = (int(minor[1]), int(minor[2]))
    if minor_numbers > minimums[-1][:2]:
        return True
    same = [minimum for minimum in minimums if minimum[:2] == minor_numbers]
    if not same:
        return False
    return _numbers(version) >= same[0] if _VERSION.fullmatch(version) else None


def in_words(first: tuple[str, ...]) -> str:
    """What `first` asks for; of several minors, one with `.0-gke.0` has it in all versions."""
    every = [version.removesuffix(".0-gke.0") for version in first if version.endswith(".0-gke.0")]
    some = [version for version in first if not version.endswith(".0-gke.0")]
    if not every or not some:
        return " or ".join(first)
    return f"any {every[0]} to {every[-1]}, or from {' / '.join(some)} on"


def _numbers(version: str) -> tuple[int, ...]:
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"'{version}' is not an exact GKE version such as 1.33.0-gke.1712000")
    return tuple(int(part or 0) for part in match.groups())


def autopilot_room(accelerator: str, gpus: int) -> tuple[int, int]:
    """The most CPU, in thousandths of a core, and MiB that a pod with `gpus` GPUs can request on
    Autopilot, which starts a node with as many for it: what the largest such node has for pods."""
    if most := _AUTOPILOT_MOST.get((accelerator, gpus)):
        return most
    # Autopilot also attaches GPUs to custom N1 machines, up to Compute Engine's limit.
    if attached := n1_attach_limit(accelerator, gpus):
        return room.gke(*attached)
    machine = largest_with(accelerator, gpus)
    assert machine is not None, "every count that Autopilot offers has a machine"
    return room.gke(machine.vcpu, machine.memory_gib)
