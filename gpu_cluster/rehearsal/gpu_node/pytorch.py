"""The machine's own PyTorch, for the acceptance test, since no image with PyTorch can be pulled."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIBRARIES = "/machine-libraries"
"""Where a container sees the machine's libraries, which PyTorch's and the driver's need."""
LOADED = f"/usr/local/nvidia/lib64:{LIBRARIES}"
_ASK = """
import importlib.util, json, sys, sysconfig
torch = importlib.util.find_spec("torch")
print(json.dumps({
    "python": sys.executable, "standard": sysconfig.get_path("stdlib"), "prefix": sys.prefix,
    "base": sys.base_prefix, "torch": torch.origin if torch else None,
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PyTorch:
    """An interpreter with PyTorch, and what a container must mount to run it."""

    python: str
    binary: Path
    """The file behind `python`, with links resolved: part of the image."""
    mounts: Mapping[str, str]
    """Path in the container -> directory here."""

    def config(self, pool: str, image: str) -> dict[str, Any]:
        """The stack's `gpu-cluster:gpuTest` with this PyTorch."""
        return {
            "pools": [pool],
            "image": image,
            "imagePullPolicy": "Never",
            "python": self.python,
            "mounts": dict(self.mounts),
            "env": {"LD_LIBRARY_PATH": LOADED},
        }

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a container that starts `torchrun` by name."""
        return {
            "PATH": f"{Path(self.python).parent}:/usr/local/nvidia/bin:/usr/bin:/bin",
            "LD_LIBRARY_PATH": LOADED,
        }


def find_pytorch() -> PyTorch | None:
    """The PyTorch of the `python3` on PATH; None if it has none."""
    found = shutil.which("python3")
    if found is None:
        return None
    done = subprocess.run([found, "-c", _ASK], capture_output=True, text=True)
    if done.returncode:
        return None
    facts = json.loads(done.stdout)
    if facts["torch"] is None:
        return None
    binary = Path(facts["python"]).resolve()
    # All of a separately installed Python; only what the interpreter needs of the system's.
    base = facts["standard"] if Path(facts["base"]) in (Path("/usr"), Path("/")) else facts["base"]
    places = {base, facts["prefix"], str(Path(facts["torch"]).parent.parent)} - {"/usr", "/"}
    needed = sorted(
        place
        for place in places
        if not any(place != other and Path(place).is_relative_to(other) for other in places)
    )
    mounts = {place: place for place in needed}
    return PyTorch(
        python=facts["python"], binary=binary, mounts=mounts | {LIBRARIES: str(_libraries(binary))}
    )


def _libraries(binary: Path) -> Path:
    """The folder of the machine's libraries: that of the C library."""
    done = subprocess.run(["ldd", binary], capture_output=True, text=True)
    for word in done.stdout.split():
        if Path(word).name == "libc.so.6" and word.startswith("/"):
            return Path(word).resolve().parent
    return Path("/usr/lib")
