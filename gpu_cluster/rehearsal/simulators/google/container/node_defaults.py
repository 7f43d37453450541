"""GKE's defaults for a node pool, and the GPUs of its nodes."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.components.catalog.gke import ACCELERATORS, Accelerator, machine_type

_AUTH = "https://www.googleapis.com/auth/"
# The default of each field of `NodeConfig` in Google's discovery document.
_CONFIG: Mapping[str, Any] = {
    "machineType": "e2-medium",
    "imageType": "COS_CONTAINERD",
    "diskSizeGb": 100,
    "diskType": "pd-balanced",
    "serviceAccount": "default",
    "metadata": {"disable-legacy-endpoints": "true"},
    "oauthScopes": [
        f"{_AUTH}{name}"
        for name in ("devstorage.read_only", "logging.write", "monitoring",
                     "service.management.readonly", "servicecontrol", "trace.append")
    ],
    "loggingConfig": {"variantConfig": {"variant": "DEFAULT"}},
    "shieldedInstanceConfig": {"enableIntegrityMonitoring": True},
}  # fmt: skip
_UPGRADES = {"maxSurge": 1, "strategy": "SURGE"}


def complete_config(given: Mapping[str, Any]) -> dict[str, Any]:
    """A `NodeConfig` with GKE's defaults."""
    return {
        **copy.deepcopy(dict(_CONFIG)),
        **{name: value for name, value in given.items() if value != ""},
    }


def complete(state: dict[str, Any], cluster: Mapping[str, Any]) -> None:
    """Adds the fields of every pool to a new or changed `NodePool`."""
    state["locations"] = list(state.get("locations") or cluster["locations"])
    state["version"] = state.get("version") or cluster["currentMasterVersion"]
    state["config"] = complete_config(state.get("config") or {})
    state.setdefault("maxPodsConstraint", dict(cluster["defaultMaxPodsConstraint"]))
    state.setdefault("podIpv4CidrSize", 24)
    ranges, network = cluster["ipAllocationPolicy"], cluster["networkConfig"]
    filled = {
        "enablePrivateNodes": network.get("defaultEnablePrivateNodes", False),
        "podRange": ranges.get("clusterSecondaryRangeName"),
        "podIpv4CidrBlock": ranges.get("clusterIpv4CidrBlock"),
    }
    state["networkConfig"] = {k: v for k, v in filled.items() if v is not None} | (
        state.get("networkConfig") or {}
    )
    state.setdefault("management", {"autoRepair": True, "autoUpgrade": True})
    if not state.get("upgradeSettings"):
        state["upgradeSettings"] = dict(_UPGRADES)
    if state["config"].get("flexStart") or queued(state):
        # Regardless of the request: crossplane-contrib/provider-upjet-gcp issue 1028.
        state["upgradeSettings"] = {"strategy": "SHORT_LIVED"}


def queued(pool: Mapping[str, Any]) -> bool:
    """Whether nodes start only for queued requests."""
    return bool((pool.get("queuedProvisioning") or {}).get("enabled"))


def accelerators(config: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str, int]]:
    """The accelerators in a `NodeConfig`: entry, type, count."""
    for given in config.get("accelerators") or ():
        if count := int(given.get("acceleratorCount") or 0):
            yield given, str(given.get("acceleratorType", "")), count


def accelerator_of(pool: Mapping[str, Any]) -> tuple[Accelerator, int] | None:
    """The GPUs of a node of this pool, given or implied by the machine type."""
    config = pool.get("config", {})
    for _, name, count in accelerators(config):
        if name in ACCELERATORS:
            return ACCELERATORS[name], count
    machine = machine_type(config.get("machineType", ""))
    if machine is None or machine.accelerator is None or machine.gpus < 1:
        return None
    return ACCELERATORS[machine.accelerator], int(machine.gpus)


def quota_metric(pool: Mapping[str, Any]) -> str:
    """The regional metric that the pool's GPUs count against."""
    found = accelerator_of(pool)
    assert found is not None
    config = pool.get("config", {})
    preemptible = any(config.get(name) for name in ("spot", "preemptible", "flexStart"))
    return found[0].quota_metric_preemptible if preemptible else found[0].quota_metric


def max_pods(pool: Mapping[str, Any]) -> int:
    """The most pods on a node of this pool."""
    return int((pool.get("maxPodsConstraint") or {}).get("maxPodsPerNode") or 110)
