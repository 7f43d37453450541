"""Whether the pods of a job are as close together as they must be."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_cluster.rehearsal.control_plane.pods import phase, workload

Object = Mapping[str, Any]

REQUIRED = "kueue.x-k8s.io/podset-required-topology"


def scattered(pods: Iterable[Object], nodes: Iterable[Object]) -> list[str]:
    """Jobs whose pods must share a part of the network, but do not, or have no known one."""
    labels = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}
    places: dict[tuple[str, str], set[str]] = {}
    for pod in pods:
        level = (pod["metadata"].get("annotations") or {}).get(REQUIRED)
        name = pod["spec"].get("nodeName")
        if level and name in labels and phase(pod) in ("ready", "succeeded"):
            places.setdefault((workload(pod), level), set()).add(labels[name].get(level, ""))
    return [
        f"{job}: its pods must share one {level}, and are in {', '.join(sorted(found)) or 'none'}"
        for (job, level), found in places.items()
        if len(found) > 1 or "" in found
    ]
