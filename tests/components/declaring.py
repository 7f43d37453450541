"""Declares a cluster of a platform as the program does: resolved settings, then `declare`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpu_cluster.components.cluster import Cluster, Runs
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.refusal import Refusals

CONFIG: Mapping[str, Mapping[str, str]] = {
    "gke": {"gcp:project": "my-project"},
    "gke-autopilot": {"gcp:project": "my-project"},
    "eks": {"aws:region": "us-east-1"},
    "gke-existing": {"gcp:project": "my-project"},
    "eks-existing": {"aws:region": "us-east-1"},
    "existing": {},
}


def declared(
    platform: str,
    cluster: object,
    pools: Mapping[str, Any],
    runs: Runs | None = None,
    **changes: Any,
) -> Cluster:
    """The cluster of these args; `changes` are fields of the resolved settings."""
    row = PLATFORMS[platform]
    config = {**CONFIG[platform], **changes.pop("config", {})}
    refusals = Refusals()
    settings: Any = row.settings.resolve(config, cluster, pools, refusals)
    refusals.check()
    return row.program.declare(replace(settings, **changes), runs or Runs())
