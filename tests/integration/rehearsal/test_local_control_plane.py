"""What runs as long as a control plane does."""

from pathlib import Path

import pytest

from gpu_cluster import tools
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.processes import Processes

FLAGS = ("--emulated-version", "--feature-gates")


def test_what_follows_a_control_plane_starts_and_stops_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time, whether it follows before or after the start; what started last stops first."""
    plane, calls = LocalControlPlane(tmp_path, Processes(tmp_path / "logs", "test")), list[str]()
    monkeypatch.setattr(plane, "_start", lambda: calls.append("servers"))

    def follow(name: str) -> None:
        plane.follow(lambda: calls.append(name), lambda: calls.append(f"no {name}"))

    follow("kwok")
    plane.ensure_started()
    follow("nodes")
    assert calls == ["servers", "kwok", "nodes"]
    plane.stop()
    plane.ensure_started()
    assert calls[3:] == ["no nodes", "no kwok", "servers", "kwok", "nodes"]


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("", None),
        ("1.32", "--emulated-version=1.33"),
        ("1.33.13", "--emulated-version=1.33"),
        ("1.35.8-gke.1225000", "--emulated-version=1.35"),
        ("1.36.4-gke.1391000", None),
        ("1.37", "--feature-gates=HPAScaleToZero=true"),
    ],
)
def test_the_servers_run_as_the_clusters_version(
    version: str, flag: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three, as far as their own version reaches: three minor versions back."""
    started: dict[str, list[str]] = {}

    def start(name: str, command: list[str], cwd: Path) -> None:
        started[name] = [str(part) for part in command]

    monkeypatch.setattr(tools, "binary", Path)
    processes = Processes(tmp_path / "logs", "test")
    monkeypatch.setattr(processes, "start", start)
    plane = LocalControlPlane(tmp_path, processes, version="1.34")
    monkeypatch.setattr(plane, "_wait", lambda *_: None)
    plane.ensure_started(version)
    plane.ensure_started("1.33")  # it runs already
    expected = flag if version else "--emulated-version=1.34"
    for server in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        found = [part for part in started[server] if part.split("=")[0] in FLAGS]
        assert found == ([expected] if expected else [])
