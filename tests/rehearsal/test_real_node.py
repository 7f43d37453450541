"""The rehearsal with a real node, on a machine without a GPU: only driver and GPUs are differences.

Kubelet, containerd, runc, namespaces, control groups, network and images are what they are with
one. It needs root and the node's programs, which `make rehearse NODE=gpu` builds.
"""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpu_cluster import tools
from gpu_cluster.components.gpu.acceptance_program.report import MARKER
from gpu_cluster.rehearsal import lock
from gpu_cluster.rehearsal.control_plane.pods import GPU, phase
from gpu_cluster.rehearsal.gpu_node import host_changes, overrides, runtime_config
from gpu_cluster.rehearsal.gpu_node.host_driver import Driver, in_usual_folders
from gpu_cluster.rehearsal.gpu_node.host_node import PROGRAMS, HostNode, dra_programs, pool_of
from gpu_cluster.rehearsal.gpu_node.machine import NAME, Gpu, Machine
from gpu_cluster.rehearsal.gpu_node.pytorch import PyTorch
from gpu_cluster.rehearsal.real_node.scenario import RealNodeRehearsal
from gpu_cluster.rehearsal.run import POLICIES
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox, SandboxOptions

GPU_NAME, UUID = "NVIDIA Simulated", "GPU-0123abcd-0000-0000-0000-000000000000"
DEVICES = {"nvidia0": 0, "nvidiactl": 255}
"""Name in /dev -> the minor number that NVIDIA's driver gives it."""
CARD = f"GPU 0: {GPU_NAME} (UUID: {UUID})"
MACHINE = Machine(
    gpus=(Gpu(name=GPU_NAME, uuid=UUID, memory_mib=1024),),
    driver="580.159.04",
    nvidia_smi=Path("nvidia-smi"),
)
MEASURED = ROOT / "docs" / "measured" / "1-nvidia-h200-580.159.04.json"
"""What the acceptance test said of a real GPU."""
COMPUTED = "computed 1 on 32 of 132 multiprocessors, a third of the memory is refused"
FOUND = "/var/lib/kubelet/device-plugins/found"
LOOP = "trap exit TERM\nwhile true; do sleep 1; done"
TORCHRUN = """
# Prints what examples/training/train.py prints, once the worker's name has an address.
test -r /code/train.py && test -d /machine || exit 1
until getent ahostsv4 "$MASTER_ADDR"; do sleep 1; done
step=0
for file in /checkpoints/step-*; do test -e "$file" && step=$(cat "$file"); done
test "$step" -gt 0 && echo "resumed from step $step"
while test "$step" -lt 600; do
  step=$((step + 50))
  echo "step $step: loss $((1000 - step)).0, 1 x NVIDIA Simulated"
  if test $((step % 100)) -eq 0; then
    echo "$step" > "/checkpoints/step-000$step.pt"
    echo "step $step: wrote /checkpoints/step-000$step.pt"
    sleep 2
  fi
done
echo "done: 600 steps"
"""
NOTHING: dict[str, list[str]] = {
    sort: [] for sort in ("processes", "mounts", "interfaces", "cgroups", "files", "settings")
}


def why_not() -> str:
    """What this machine lacks, empty where it can be a node."""
    if os.geteuid() != 0:
        return "a real node needs root"
    if shutil.which("cc") is None:
        return "the simulated driver's library is compiled here, and there is no cc"
    missing = [name for name in PROGRAMS if not tools.programs.program(name).folder().is_dir()]
    return (
        f"build them first: python -m gpu_cluster.tools build {' '.join(missing)}"
        if missing
        else ""
    )


pytestmark = [
    pytest.mark.prove,
    # One after the other: each looks at what the machine as a whole has.
    pytest.mark.xdist_group("real node"),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can"),
]


class SmallPyTorch(PyTorch):
    """Its acceptance test asks for less than a small machine has."""

    def config(self, pool: str, image: str) -> dict[str, Any]:
        return super().config(pool, image) | {"requests": {"cpu": "100m", "memory": "8Gi"}}


def field(number: int, value: bytes) -> bytes:
    """A length-delimited field of a protobuf message, shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


class SimulatedPlugin(threading.Thread):
    """Registers GPUs with the kubelet while the plugin's pod runs, and passes them to containers by
    the strategy of that pod, through the kubelet's own API (v1beta1)."""

    def __init__(self, sandbox: Sandbox, link: Path) -> None:
        """`link`: a short path for the kubelet's sockets, whose paths have a limit."""
        super().__init__(daemon=True)
        self._sandbox = sandbox
        self._link = link
        self.ended = threading.Event()
        self.strategies: set[str] = set()
        """The strategies by which containers got a GPU."""

    def run(self) -> None:
        self._link.symlink_to(self._sandbox.folder / "node" / "kubelet" / "device-plugins")
        while not (self._link / "kubelet.sock").exists():
            self.ended.wait(0.2)
        server = grpc.server(futures.ThreadPoolExecutor(4))
        handlers = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(lambda *_: b""),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._devices),
            "Allocate": grpc.unary_unary_rpc_method_handler(self._allocated),
        }
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers)]
        )
        server.add_insecure_port(f"unix://{self._link}/gpu.sock")
        server.start()
        while not self._plugin():
            self.ended.wait(0.2)
        with grpc.insecure_channel(f"unix://{self._link}/kubelet.sock") as kubelet:
            register = kubelet.unary_unary("/v1beta1.Registration/Register")
            register(field(1, b"v1beta1") + field(2, b"gpu.sock") + field(3, GPU.encode()))
        self.ended.wait()
        server.stop(0)

    def _plugin(self) -> dict[str, Any] | None:
        if not (self._link / Path(FOUND).name).exists():
            return None
        return next(
            (
                pod
                for pod in self._sandbox.cluster_cache.pods
                if pod["metadata"]["name"].startswith("nvidia-device-plugin")
                and pod["spec"].get("nodeName") == NAME
                and phase(pod) == "ready"
            ),
            None,
        )

    def _devices(self, *_: object) -> Iterator[bytes]:
        before = -1
        while not self.ended.wait(0.2):
            plugin = self._plugin()
            gpus = 0 if not plugin else 4 if "-on-gpus" in plugin["metadata"]["name"] else 1
            if gpus != before:
                names = [f"GPU-{number}".encode() for number in range(gpus)]
                yield b"".join(field(1, field(1, name) + field(2, b"Healthy")) for name in names)
            before = gpus

    def _allocated(self, *_: object) -> bytes:
        plugin = self._plugin()
        assert plugin is not None
        variables = plugin["spec"]["containers"][0].get("env") or []
        values = {variable["name"]: variable.get("value") for variable in variables}
        strategy = values.get("DEVICE_LIST_STRATEGY", "envvar")
        self.strategies.add(strategy)
        if strategy == "cdi-cri":
            return field(1, field(5, field(1, b"k8s.device-plugin.nvidia.com/gpu=0")))
        return field(1, field(1, field(1, b"NVIDIA_VISIBLE_DEVICES") + field(2, b"all")))


def simulated_driver(folder: Path, log: Path, machine: Machine) -> Driver:
    """NVIDIA's real runtime, whose CDI files mount the driver's only program: a shell script. Its
    own CDI mode takes the place of the default one, which needs a real driver."""
    edits = {
        "mounts": [
            {
                "hostPath": str(machine.nvidia_smi),
                "containerPath": "/usr/bin/nvidia-smi",
                "options": ["bind", "ro"],
            }
        ],
        # So that the runtime adds nothing to what containerd has added, as in NVIDIA's files.
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
    }
    for place, kind in (("own", "nvidia.com/gpu"), ("cdi", "k8s.device-plugin.nvidia.com/gpu")):
        (folder / place).mkdir(parents=True, exist_ok=True)
        devices = [{"name": name, "containerEdits": edits} for name in ("all", "0")]
        file = folder / place / "gpu.json"
        file.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": devices}))
    config = folder / "nvidia-container-runtime.toml"

    def take_variables(taken: bool) -> None:
        text = runtime_config.nvidia_runtime(
            variables=taken, runc=tools.binary("runc"), hook=Path("/bin/true"), log=log
        )
        cdi = f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{folder}/own"]\n'
        config.write_text(text.replace('mode = "auto"', 'mode = "cdi"') + cdi)

    take_variables(False)
    return Driver(
        runtime=tools.binary("nvidia-container-runtime"),
        environment={"NVIDIA_CTK_CONFIG_FILE_PATH": str(config)},
        overlays=in_usual_folders(machine),
        take_variables=take_variables,
    )


def driver_folder(folder: Path) -> Machine:
    """A machine with a driver in this folder: its library, `nvidia-smi` and devices."""
    for name in ("bin", "lib64", "dev"):
        (folder / name).mkdir(parents=True)
    smi, library = folder / "bin" / "nvidia-smi", folder / "lib64" / "libnvidia-ml.so.580.159.04"
    smi.write_text(f"#!/bin/sh\necho '{CARD}'\n")
    smi.chmod(0o755)
    defined = [f'-DUUID="{UUID}"', f'-DNAME="{GPU_NAME}"']
    source = Path(__file__).with_name("simulated_nvml.c")
    subprocess.run(["cc", "-shared", "-fPIC", *defined, "-o", library, source], check=True)
    (library.parent / "libnvidia-ml.so.1").symlink_to(library.name)
    (library.parent / "libcuda.so.580.159.04").touch()
    for name, minor in DEVICES.items():
        os.mknod(folder / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(195, minor))
    return replace(MACHINE, nvidia_smi=smi, libraries=(library.parent,))


@pytest.fixture
def devices() -> Iterator[None]:
    """The devices in the machine's own folder, where the stack's DRA driver looks for them."""
    wanted = {Path("/dev", name): minor for name, minor in DEVICES.items()}
    made = {path: minor for path, minor in wanted.items() if not path.exists()}
    for path, minor in made.items():
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(195, minor))
    yield
    for path in made:
        path.unlink()


@pytest.fixture
def here(tmp_path: Path, devices: None) -> HostNode:
    """This machine with a GPU that is a shell script."""
    machine = driver_folder(tmp_path / "driver")
    measured = json.loads(MEASURED.read_text())
    scripts = {
        # Like NVIDIA's, it writes into the kubelet's folder once it has found GPUs.
        "nvidia-device-plugin": f"nvidia-smi || exit 1\necho > {FOUND}\n{LOOP}",
        "mps-control-daemon": f'test "$1" = mount-shm && exit\n{LOOP}',
        "torchrun": TORCHRUN,
        "torch-python": f"""case "$*" in
            *computed*) echo '{COMPUTED}' ;;
            *) test -r /machine/torchrun && echo '{MARKER}{json.dumps(measured)}' ;;
            esac""",
    }
    programs = {"/usr/bin/getent": Path(shutil.which("getent") or ""), **dra_programs()}
    for name, script in scripts.items():
        programs[f"/usr/bin/{name}"] = tmp_path / name
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
    return HostNode(
        machine=machine,
        pool=pool_of("onprem"),
        drive=lambda folder, log: simulated_driver(folder, log, machine),
        programs=programs,
        pytorch=SmallPyTorch(
            python="/usr/bin/torch-python",
            binary=Path("/usr/bin/torch-python"),
            mounts={"/machine": str(tmp_path)},
        ),
    )


@pytest.fixture
def rehearsal(
    tmp_path: Path, here: HostNode, request: pytest.FixtureRequest
) -> Iterator[RealNodeRehearsal]:
    """On a sandbox of its own, not started; a parameter changes the stack's file."""
    made = here.overrides()
    change = getattr(request, "param", lambda config: None)

    def mutate(program: Path) -> None:
        made(program)
        overrides.edit(program / "Pulumi.onprem.yaml", change)

    sandbox = Sandbox(
        "onprem", folder=tmp_path / "sandbox", mutate=mutate, options=SandboxOptions(here=here)
    )
    yield RealNodeRehearsal(
        sandbox=sandbox,
        machine=here.machine,
        overrides=made,
        policy_pack=POLICIES,
        deadline=120,
        say=print,
        pytorch=here.pytorch,
    )
    sandbox.stop()


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A short path that does not exist yet."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, "k")


def test_the_stack_runs_on_a_real_node_and_leaves_nothing(
    rehearsal: RealNodeRehearsal, sockets: Path
) -> None:
    """GPUs appear with the stack's plugin, one sample takes them and one waits, shares are run by
    four pods and not by a fifth; then NVIDIA's DRA driver, which finds the GPU through a simulated
    library, gives it to pods with claims. Afterwards the machine is as it was. NVIDIA's runtime
    takes no variables of unprivileged pods, until the step that says so."""
    with rehearsal.sandbox as sandbox:
        plugin = SimulatedPlugin(sandbox, sockets)
        plugin.start()
        ran = rehearsal.run_until_ready()
        assert (rehearsal.failures, ran) == ([], True)
        plugin.ended.set()
        assert rehearsal.teardown()
    assert [gpus for _, gpus in rehearsal.allocatable] == [0, 1, 4, 0]
    samples = rehearsal.samples.values()
    states = sorted(sample["state"] for sample in samples)
    assert states == [
        *["pending"] * 3, "published", *["ready"] * 17, *["succeeded"] * 2, *["trained"] * 2,
        "without a GPU",
    ]  # fmt: skip
    assert plugin.strategies == {"cdi-cri"}
    (trained,) = [step for step in rehearsal.steps if step.name == "a training job resumes"]
    assert re.search("its worker deleted after step [1-5]00, resumed from step", trained.detail)
    details = {step.name: step.detail for step in rehearsal.steps}
    claim = r"claiming-\d run with a GPU each, claiming-\d waits"
    assert re.fullmatch(claim, details["pods claim the GPUs"])
    assert any("unclaimed GPUs for its claim" in row.get("why", "") for row in samples)
    assert details["the stack with claims is idempotent"] == "no changes"
    unchanged = (
        r".*, gpu-k8s\d?-\d has all GPUs by a claim that it does not name, gpu-k8s\d?-\d waits"
    )
    assert re.match(unchanged, details["pods that request GPUs run unchanged"])
    assert details["the DRA driver offers the GPUs"] == f"{GPU_NAME} with 1Gi"
    assert "claim-1 with a GPU of its own, claim-2 waits" in details["a GPU for each pod's claim"]
    assert details["pods share a claim"] == "sharing-1 and sharing-2 run with one claim"
    assert 'the "TimeSlicingSettings" feature gate is not' in details["a claim is time-sliced"]
    left = host_changes.read_changes(sandbox.folder)
    assert left is not None
    assert left.left() == NOTHING


HELD = """
import sys, time
from gpu_cluster import tools
from pathlib import Path
from typing import Any
from gpu_cluster.rehearsal.gpu_node.host_driver import Driver
from gpu_cluster.rehearsal.gpu_node.host_node import HostNode, pool_of
from gpu_cluster.rehearsal.run import POLICIES
from gpu_cluster.rehearsal.sandbox import Sandbox, SandboxOptions
from tests.rehearsal.test_real_node import MACHINE
here = HostNode(machine=MACHINE, pool=pool_of("onprem"),
            drive=lambda folder, log: Driver(runtime=tools.binary("runc")), programs={})
how = {"mutate": here.overrides(), "options": SandboxOptions(here=here)}
with Sandbox("onprem", folder=Path(sys.argv[1]), **how) as sandbox:
    print("up", flush=True)
    time.sleep(600)
"""


def without_cdi(config: dict[str, Any]) -> None:
    """The stack's file as it is committed."""
    del config[overrides.POOLS]["gpus"]["cdi"]


@pytest.mark.parametrize("rehearsal", [without_cdi], indirect=True)
def test_a_plugin_that_relies_on_its_variables_fails_as_on_eks(
    rehearsal: RealNodeRehearsal, sockets: Path
) -> None:
    """Without `cdi`, the plugin's unprivileged pod gets no GPU from the NVIDIA runtime."""
    rehearsal.deadline = 30
    with rehearsal.sandbox as sandbox:
        plugin = SimulatedPlugin(sandbox, sockets)
        plugin.start()
        assert not rehearsal.run_until_ready()
        plugin.ended.set()
        (failure,) = rehearsal.failures
        assert "nvidia-device-plugin" in failure
        assert "not found" in failure
        rehearsal.teardown()


def test_what_a_killed_rehearsal_left_goes_with_the_next_command(tmp_path: Path) -> None:
    """Killed without a word, its processes go at once; the rest goes with `gpu-cluster down`."""
    folder = tmp_path / "sandbox"
    command = [sys.executable, "-c", HELD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        said = holder.stdout.readline()
        node = host_changes.read_changes(folder)
        there = node.left() if node else NOTHING
        holder.send_signal(signal.SIGKILL)
    assert said == "up\n"
    assert node is not None
    assert there["processes"]
    assert node.bridge in there["interfaces"]  # and those of pods that are there already
    deadline = time.monotonic() + 10
    while node.left()["processes"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert node.left()["interfaces"] == [node.bridge]
    lock.end(folder, "the test")
    assert node.left() == NOTHING, json.dumps(node.left())
