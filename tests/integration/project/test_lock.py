"""Python packages are installed in the versions, and with the content, that were looked at."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

from gpu_cluster.tools import checkout
from tests.unit.project.test_lock import LOCKS, ROOT, wanted


def test_the_package_installs_from_the_lock_alone(tmp_path: Path) -> None:
    """As `make setup` does it: no index is asked. Then `gpu-cluster` is there, from any folder."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    files = ("pyproject.toml", "setup.py", *LOCKS)
    for name in (*files, "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, copy)
    for room in ("components", "gpu_cluster"):
        (copy / room).symlink_to(ROOT / room)
    target = tmp_path / "target"
    install = [
        sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
        "--no-build-isolation", "--target", str(target), "--editable", str(copy),
    ]  # fmt: skip
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = list(importlib.metadata.distributions(name="gpu-cluster", path=[str(target)]))
    needs = [Requirement(need) for need in found[0].requires or []]
    for extra, file in (("stack", "requirements.txt"), ("jobs", "requirements-jobs.txt")):
        of_it = (need for need in needs if need.marker and need.marker.evaluate({"extra": extra}))
        assert {need.name for need in of_it} == {need.name for need in wanted(file)}
    assert all(need.marker for need in needs)
    checkout.main(target)
    assert (target / "gpu-cluster-checkout.pth").read_text() == f"{ROOT}\n"
    help_ = subprocess.run(
        [str(target / "bin" / "gpu-cluster"), "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "rehearse" in help_.stdout, help_.stderr
