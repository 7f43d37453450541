"""What runs as long as a control plane does."""

from pathlib import Path

import pytest

from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.processes import Processes


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
