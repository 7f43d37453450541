"""What is said of a program of the rehearsal that is late."""

import os
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.processes import Processes, too_slow


@pytest.mark.parametrize(
    ("load", "says"),
    [
        (3.9, "not within 60 s"),
        (28.4, "not within 60 s; the load is 28 on 2 cores; try again when it is lower"),
    ],
)
def test_a_busy_machine_is_named(load: float, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where other work keeps the cores; and on an idle machine nothing is excused."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert too_slow(60.0) == says


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """A Go program ends with a trace of which the last lines say something else."""
    processes = Processes(tmp_path / "logs", "mark")
    log = "panic: write /x/db: no space left on device\n\ngoroutine 1 [running]:\nmain.go:7\na\nb\n"
    (tmp_path / "logs" / "etcd.log").write_text(log)
    assert processes.last_words("etcd") == (
        f"the disk with {tmp_path}/logs is full: panic: write /x/db: no space left on device"
    )
