"""The wheel, built from the checkout's files and installed into an environment of its own."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tools.sections import ROOT

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
OFFLINE = ["--no-index", "--no-deps"]


def wheel(folder: Path) -> Path:
    """Builds it from what git knows of, without the network."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    checkout, wheels = folder / "checkout", folder / "wheels"
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)
    build = ["wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", str(wheels), str(checkout)]
    subprocess.run([*PIP, *build], check=True)
    (built,) = wheels.iterdir()
    return built


def environment(folder: Path, built: Path) -> Path:
    """The interpreter of a new environment with the wheel. Its dependencies are this environment's,
    as if they were installed there; the checkout is not on its path."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([*PIP, "--python", str(python), "install", *OFFLINE, str(built)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python
