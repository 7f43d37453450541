"""What `pip install` of a checkout puts into somebody's environment works without the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

from tools.sections import ROOT

PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["packages"]


def test_a_wheel_has_every_module_and_what_it_reads(tmp_path: Path) -> None:
    """Installed without the network into an empty environment, whose dependencies are this one's,
    a component of a subpackage is imported, and a command answers from the catalog."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    files = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    checkout, wheels, fresh = (tmp_path / name for name in ("checkout", "wheels", "fresh"))
    for name in files:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, checkout / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    offline = ["--no-index", "--no-deps"]
    build = ["wheel", *offline, "--no-build-isolation", "--wheel-dir", str(wheels), str(checkout)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = wheels.iterdir()
    ours = {name for name in files if name.partition("/")[0] in PACKAGES}
    assert ours - set(zipfile.ZipFile(wheel).namelist()) == set()

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    python = fresh / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", *offline, str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    for command in (
        [str(python), "-c", "import components.eks.node_group as found; print(found.__file__)"],
        [str(fresh / "bin" / "gpu-cluster"), "offers", "--gpu", "l4"],
    ):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert str(fresh) in done.stdout or "g2-standard-4" in done.stdout
