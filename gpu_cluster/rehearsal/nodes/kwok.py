"""KWOK in place of the kubelets: marks nodes ready and moves pods through their phases."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster import tools
from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.pod_network import NODE_ADDRESS
from gpu_cluster.rehearsal.control_plane.pods import full_name
from gpu_cluster.rehearsal.processes import Processes

STAGES = Path(__file__).with_name("stages")

MANAGED = {"kwok.x-k8s.io/node": "fake"}
"""The annotation of the nodes that KWOK simulates; Karpenter's KWOK provider sets the same one."""


class Kwok:
    """One KWOK process for all nodes of one cluster."""

    def __init__(
        self, folder: Path, processes: Processes, kubeconfig: Path, *, job_seconds: float = 5.0
    ) -> None:
        self._folder = folder
        self._processes = processes
        self._kubeconfig = kubeconfig
        self._job_seconds = job_seconds
        """How long a Job's pod runs, so that the run can be observed."""

    def start(self) -> None:
        """Starts KWOK for the API server of the kubeconfig."""
        config = self._folder / "kwok.yaml"
        config.write_text(yaml.safe_dump_all(self._stages()))
        selector = ",".join(f"{key}={value}" for key, value in MANAGED.items())
        self._processes.start(
            "kwok",
            [
                tools.binary("kwok"),
                f"--kubeconfig={self._kubeconfig}",
                f"--config={config}",
                f"--manage-nodes-with-annotation-selector={selector}",
                f"--node-ip={NODE_ADDRESS}",
                "--cidr=10.0.0.0/16",
                "--node-lease-duration-seconds=40",
            ],
        )

    def stop(self) -> None:
        """Stops the process."""
        self._processes.stop("kwok", grace=0.2)

    def _stages(self) -> list[object]:
        files = sorted(STAGES.glob("*.yaml"))
        stages = [stage for file in files for stage in yaml.safe_load_all(file.read_text())]
        for stage in stages:
            if stage["metadata"]["name"] == "pod-complete":
                stage["spec"]["delay"]["durationMilliseconds"] = int(self._job_seconds * 1000)
        return stages


PASSED_OVER_SECONDS = 5.0
"""How long a pod may be bound before KWOK runs it; it usually takes a tenth of that."""
TOUCHED = "rehearsal.gpu-cluster/told"


class PassedOver:
    """Pods that KWOK skipped or left between two stages.

    It skips one that is bound before it holds the lease of the pod's node, and would look again
    when the node changes, after five minutes. A late event of a pod replaces the job of its next
    stage by one of a stage that it has had, which changes nothing and is not followed by another
    (`watchResources`, `preprocess` and `playStage` in kwok's
    pkg/kwok/controllers/pod_controller.go, read 2026-11-24).
    """

    def __init__(self, api: Callable[[], Api]) -> None:
        self._api = api
        self._bound: dict[str, float] = {}
        """Pods that KWOK does not run yet -> since when, or when it was last notified."""

    def turn(self, nodes: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> None:
        """Notifies KWOK of them again by changing the pod. Raises ApiError."""
        simulated = {
            node["metadata"]["name"]
            for node in nodes
            if MANAGED.items() <= (node["metadata"].get("annotations") or {}).items()
        }
        bound, now = {}, time.monotonic()
        for pod in pods:
            metadata = pod["metadata"]
            if (
                (pod.get("status") or {}).get("phase") != "Pending"
                or "deletionTimestamp" in metadata
                or pod["spec"].get("nodeName") not in simulated
            ):
                continue
            name = full_name(pod)
            bound[name] = self._bound.get(name, now)
            if now - bound[name] > PASSED_OVER_SECONDS:
                bound[name] = now
                self._api().patch(
                    f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}",
                    {"metadata": {"annotations": {TOUCHED: f"{now:.0f}"}}},
                )
        self._bound = bound
