"""A control plane that runs as the Kubernetes version of its cluster."""

from pathlib import Path

import pytest

from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.processes import Processes

CLASS = "/apis/resource.k8s.io/v1/deviceclasses/gpu.example.com"
DOCUMENT = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.example.com"},
    "spec": {"extendedResourceName": "example.com/gpu"},
}


@pytest.mark.parametrize(
    ("version", "spec"),
    [("1.35.8-gke.1225000", {}), ("1.36", {"extendedResourceName": "example.com/gpu"})],
)
def test_a_field_of_a_later_version_is_dropped(
    version: str, spec: dict[str, str], tmp_path: Path
) -> None:
    """KEP 5004 is alpha in 1.35, and on by default from 1.36 on."""
    processes = Processes(tmp_path / "logs", str(tmp_path))
    plane = LocalControlPlane(tmp_path, processes)
    try:
        plane.ensure_started(version)
        plane.api.apply(CLASS, DOCUMENT)
        assert plane.api.get(CLASS)["spec"] == spec
    finally:
        plane.stop()
        processes.stop()
