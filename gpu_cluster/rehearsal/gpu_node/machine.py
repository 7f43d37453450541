"""This machine's GPUs and driver, or one line that says why it cannot be a GPU node."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DRIVER_FOLDER = Path("/usr/local/nvidia")
"""Where machines keep a driver that was not installed as a package."""
FIELDS = ("name", "uuid", "memory.total", "driver_version")
ANSWER_SECONDS = 60.0
KUBELETS = ("kubelet", "kubelite", "k3s-server", "k3s-agent")
"""The process name of a kubelet, and of programs that contain one: MicroK8s' and k3s'."""

NAME = "this-machine"
"""The node's name: the machine's own name must not appear in a report."""


class NodeError(Exception):
    """This machine cannot be a GPU node; one line with what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU, with the fields that `nvidia-smi` reports."""

    name: str
    uuid: str
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine with GPUs and a working driver."""

    gpus: tuple[Gpu, ...]
    driver: str
    """The driver's version."""
    nvidia_smi: Path
    libraries: tuple[Path, ...] = ()
    """Folders with the driver's libraries that are not in the loader's path."""

    @property
    def driver_root(self) -> Path:
        """The folder with the driver's `bin` and `lib64`; `/` for an installed package."""
        return self.libraries[0].parent if self.libraries else Path("/")

    @property
    def description(self) -> str:
        names = sorted({gpu.name for gpu in self.gpus})
        return f"{len(self.gpus)} x {', '.join(names)}, driver {self.driver}"


def describe_machine(ask: Callable[[Path], str] | None = None) -> Machine:
    """Describes the machine that this runs on. Raises NodeError if it cannot be a GPU node.

    `ask` gets the path of `nvidia-smi` and returns its output for FIELDS.
    """
    if sys.platform != "linux":
        raise NodeError("--node gpu needs Linux: a kubelet runs only there")
    if os.geteuid() != 0:
        raise NodeError("--node gpu needs root: a kubelet mounts and creates namespaces; use sudo")
    found = nvidia_smi()
    if found is None:
        raise NodeError(
            "--node gpu needs an NVIDIA driver, and there is no nvidia-smi on PATH or in "
            f"{DRIVER_FOLDER}/bin; without --node the nodes are simulated"
        )
    if (kubelet := running_kubelet()) is not None:
        raise NodeError(
            f"--node gpu needs a machine that is not a node of a cluster yet, and {kubelet} runs "
            "here: its pods would use the same GPUs; choose another machine"
        )
    own = DRIVER_FOLDER / "lib64"
    machine = parse_gpus((ask or _ask)(found))
    return Machine(
        gpus=machine.gpus,
        driver=machine.driver,
        nvidia_smi=found,
        libraries=(own,) if own.is_dir() else (),
    )


def running_kubelet(processes: Path = Path("/proc")) -> str | None:
    """The name of this machine's own kubelet, with its process. Kubelets in a container do not
    count, nor does a rehearsal's, which has its own process namespace."""
    here = os.readlink(processes / "self" / "ns" / "pid")
    for process in sorted(processes.glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            name = (process / "comm").read_text().strip()
            if name in KUBELETS and os.readlink(process / "ns" / "pid") == here:
                return f"{name} (process {process.name})"
        except OSError:  # it has ended, or belongs to another user
            continue
    return None


def nvidia_smi() -> Path | None:
    """The path of `nvidia-smi`, which comes with every driver."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(DRIVER_FOLDER / "bin")])
    found = shutil.which("nvidia-smi", path=path)
    return Path(found) if found else None


def parse_gpus(answer: str) -> Machine:
    """Parses the output of `nvidia-smi --query-gpu`: a line of FIELDS per GPU, without units."""
    gpus, drivers = [], set()
    for line in filter(None, map(str.strip, answer.splitlines())):
        try:
            name, uuid, memory, driver = (part.strip() for part in line.split(","))
            gpus.append(Gpu(name=name, uuid=uuid, memory_mib=int(memory)))
        except ValueError:
            raise NodeError(
                f"--node gpu needs a GPU, but nvidia-smi says: {line}; see that it lists one"
            ) from None
        drivers.add(driver)
    if not gpus:
        raise NodeError("--node gpu needs a GPU, but nvidia-smi lists none")
    return Machine(gpus=tuple(gpus), driver=drivers.pop(), nvidia_smi=Path("nvidia-smi"))


def _ask(program: Path) -> str:
    query = [str(program), f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        raise NodeError(
            f"--node gpu needs a working driver: no answer of nvidia-smi in {ANSWER_SECONDS:.0f} s"
        ) from None
    if done.returncode:
        text = " ".join((done.stdout + done.stderr).split())
        raise NodeError(f"--node gpu needs a working driver, but nvidia-smi says: {text}")
    return done.stdout
