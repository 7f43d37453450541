"""KWOK in the place of the kubelets: it makes nodes ready and takes pods through their phases."""

from pathlib import Path

import yaml

import tools
from rehearsal.control_plane.pod_network import NODE_ADDRESS
from rehearsal.processes import Processes

STAGES = Path(__file__).with_name("stages")

MANAGED = {"kwok.x-k8s.io/node": "fake"}
"""The annotation of the nodes that KWOK simulates; Karpenter's KWOK provider sets the same one."""


class Kwok:
    """One KWOK process for all nodes of one cluster."""

    def __init__(self, folder: Path, processes: Processes, *, job_seconds: float = 5.0) -> None:
        self._folder = folder
        self._processes = processes
        self._job_seconds = job_seconds
        """How long a Job's pod runs, so that the run can be seen."""

    def start(self, kubeconfig: Path) -> None:
        """Starts KWOK on this API server."""
        config = self._folder / "kwok.yaml"
        config.write_text(yaml.safe_dump_all(self._stages()))
        selector = ",".join(f"{key}={value}" for key, value in MANAGED.items())
        self._processes.start(
            "kwok",
            [
                tools.binary("kwok"),
                f"--kubeconfig={kubeconfig}",
                f"--config={config}",
                f"--manage-nodes-with-annotation-selector={selector}",
                f"--node-ip={NODE_ADDRESS}",
                "--cidr=10.0.0.0/16",
                "--node-lease-duration-seconds=40",
            ],
        )

    def stop(self) -> None:
        """Ends it."""
        self._processes.stop("kwok", grace=0.2)

    def _stages(self) -> list[object]:
        files = sorted(STAGES.glob("*.yaml"))
        stages = [stage for file in files for stage in yaml.safe_load_all(file.read_text())]
        for stage in stages:
            if stage["metadata"]["name"] == "pod-complete":
                stage["spec"]["delay"]["durationMilliseconds"] = int(self._job_seconds * 1000)
        return stages
