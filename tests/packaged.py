"""The wheel, installed into an environment of its own."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import yaml

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
OFFLINE = ["--no-index", "--no-deps"]


_HIDDEN = """
import sys
from importlib.machinery import PathFinder
class Others(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.startswith("pulumi") else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Others
"""


def environment(folder: Path, built: Path, *, pulumi: bool = True) -> Path:
    """The interpreter of a new environment with the wheel. Its dependencies are this environment's,
    as if they were installed there,
    all or without those of Pulumi; the checkout is not on its path."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([*PIP, "--python", str(python), "install", *OFFLINE, str(built)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "hidden.py").write_text("" if pulumi else _HIDDEN)
    paths = sysconfig.get_path("purelib")
    (packages / "dependencies.pth").write_text(f"import hidden\n{paths}\n")
    return python


def as_a_plugin(program: Path) -> None:
    """The program's project finds the component package in its folder `package`."""
    file = program / "Pulumi.yaml"
    project = yaml.safe_load(file.read_text())
    project["plugins"] = {"providers": [{"name": "gpu-cluster", "path": "package"}]}
    file.write_text(yaml.safe_dump(project))
