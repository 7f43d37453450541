"""The wheel, installed into an environment of its own."""

import subprocess
import sys
import sysconfig
from pathlib import Path

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
OFFLINE = ["--no-index", "--no-deps"]


def environment(folder: Path, built: Path) -> Path:
    """The interpreter of a new environment with the wheel. Its dependencies are this environment's,
    as if they were installed there; the checkout is not on its path."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([*PIP, "--python", str(python), "install", *OFFLINE, str(built)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python
