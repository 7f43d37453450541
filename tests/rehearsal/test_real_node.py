"""The rehearsal with a real node, on a machine without a GPU: only driver and GPUs are simulated.

Kubelet, containerd, runc, namespaces, control groups, network and images are what they are with
one. It needs root and the node's programs, which `python -m tools build` makes on demand.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tools
from components.gpu.acceptance_program.report import MARKER
from rehearsal import folder as folders
from rehearsal.control_plane.api import STRATEGIC
from rehearsal.gpu_node import host_changes
from rehearsal.gpu_node.host_driver import Driver
from rehearsal.gpu_node.host_node import PROGRAMS, HostNode, pool_of
from rehearsal.gpu_node.machine import NAME, Gpu, Machine
from rehearsal.gpu_node.pytorch import PyTorch
from rehearsal.gpu_node.scenario import RealNodeRehearsal
from rehearsal.nodes.gpus import GPU
from rehearsal.plugins.kubernetes.api_error import ApiError
from rehearsal.run import POLICIES
from rehearsal.sandbox import ROOT, Sandbox, SandboxOptions

CARD = "GPU 0: NVIDIA Simulated (UUID: GPU-0123abcd-0000-0000-0000-000000000000)"
MACHINE = Machine(
    gpus=(Gpu(name="NVIDIA Simulated", uuid="GPU-0123abcd", memory_mib=1024),),
    driver="0.0",
    nvidia_smi=Path("nvidia-smi"),
)
MEASURED = ROOT / "docs" / "measured" / "1-nvidia-h200-580.159.04.json"
"""What the acceptance test said of a real GPU."""
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
    missing = [name for name in PROGRAMS if not tools.programs.program(name).folder().is_dir()]
    return f"build them first: python -m tools build {' '.join(missing)}" if missing else ""


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


class SimulatedPlugin(threading.Thread):
    """Offers a node's GPUs while the plugin's pod runs on it, as often as it is told."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(daemon=True)
        self._sandbox = sandbox
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.2):
            plugins = [
                pod
                for pod in self._sandbox.cluster_cache.pods
                if pod["metadata"]["name"].startswith("nvidia-device-plugin")
                and pod["spec"].get("nodeName") == NAME
                and pod["status"].get("phase") == "Running"
            ]
            if plugins:
                self._offer(4 if "-on-gpus" in plugins[0]["metadata"]["name"] else 1)

    def _offer(self, gpus: int) -> None:
        # What a plugin registers, the kubelet alone may write; what nobody registered, anybody.
        size = {"status": {"capacity": {GPU: str(gpus)}, "allocatable": {GPU: str(gpus)}}}
        try:
            self._sandbox.control_plane.api.patch(f"/api/v1/nodes/{NAME}/status", size, STRATEGIC)
        except ApiError as error:
            if error.status not in (404, 409):  # overtaken by another change
                raise


@pytest.fixture
def here(tmp_path: Path) -> HostNode:
    """This machine with a GPU that is a shell script."""
    measured = json.loads(MEASURED.read_text())
    scripts = {
        "nvidia-smi": f"echo '{CARD}'",
        "nvidia-device-plugin": "trap exit TERM\nwhile true; do sleep 1; done",
        "torchrun": TORCHRUN,
        "torch-python": f"test -r /machine/torchrun && echo '{MARKER}{json.dumps(measured)}'",
    }
    programs = {"/usr/bin/getent": Path(shutil.which("getent") or "")}
    for name, script in scripts.items():
        programs[f"/usr/bin/{name}"] = tmp_path / name
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
    return HostNode(
        machine=MACHINE,
        pool=pool_of("onprem"),
        drive=lambda folder, log: Driver(runtime=tools.binary("runc")),
        programs=programs,
        pytorch=SmallPyTorch(
            python="/usr/bin/torch-python",
            binary=Path("/usr/bin/torch-python"),
            mounts={"/machine": str(tmp_path)},
        ),
    )


@pytest.fixture
def rehearsal(tmp_path: Path, here: HostNode) -> Iterator[RealNodeRehearsal]:
    """On a sandbox of its own, not started."""
    overrides = here.overrides()
    sandbox = Sandbox(
        "onprem", folder=tmp_path / "sandbox", mutate=overrides, options=SandboxOptions(here=here)
    )
    yield RealNodeRehearsal(
        sandbox=sandbox,
        machine=MACHINE,
        overrides=overrides,
        policy_pack=POLICIES,
        deadline=120,
        say=print,
        pytorch=here.pytorch,
    )
    sandbox.stop()


def test_the_stack_runs_on_a_real_node_and_leaves_nothing(rehearsal: RealNodeRehearsal) -> None:
    """GPUs appear with the stack's plugin, one sample takes them and one waits, shares are run by
    four pods and not by a fifth; afterwards the machine is as it was."""
    with rehearsal.sandbox as sandbox:
        plugin = SimulatedPlugin(sandbox)
        plugin.start()
        ran = rehearsal.run_until_ready()
        assert (rehearsal.failures, ran) == ([], True)
        plugin.ended.set()
        assert rehearsal.teardown()
    assert [gpus for _, gpus in rehearsal.allocatable] == [0, 1, 4]
    states = sorted(sample["state"] for sample in rehearsal.samples.values())
    assert states == ["pending"] * 2 + ["ready"] * 6 + ["succeeded"] + ["trained"] * 2
    (trained,) = [step for step in rehearsal.steps if step.name == "a training job resumes"]
    assert re.search("its worker deleted after step [1-5]00, resumed from step", trained.detail)
    left = host_changes.read(sandbox.folder)
    assert left is not None
    assert left.left() == NOTHING


HELD = """
import sys, time, tools
from pathlib import Path
from typing import Any
from rehearsal.gpu_node.host_driver import Driver
from rehearsal.gpu_node.host_node import HostNode, pool_of
from rehearsal.run import POLICIES
from rehearsal.sandbox import Sandbox, SandboxOptions
from tests.rehearsal.test_real_node import MACHINE
here = HostNode(machine=MACHINE, pool=pool_of("onprem"),
            drive=lambda folder, log: Driver(runtime=tools.binary("runc")), programs={})
how = {"mutate": here.overrides(), "options": SandboxOptions(here=here)}
with Sandbox("onprem", folder=Path(sys.argv[1]), **how) as sandbox:
    print("up", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_rehearsal_left_goes_with_the_next_command(tmp_path: Path) -> None:
    """Killed without a word, its processes go at once; the rest goes with `gpu-cluster down`."""
    folder = tmp_path / "sandbox"
    command = [sys.executable, "-c", HELD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None
        said = held.stdout.readline()
        node = host_changes.read(folder)
        there = node.left() if node else NOTHING
        held.send_signal(signal.SIGKILL)
    assert said == "up\n"
    assert node is not None
    assert there["processes"]
    assert node.bridge in there["interfaces"]  # and those of pods that are there already
    deadline = time.monotonic() + 10
    while node.left()["processes"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert node.left()["interfaces"] == [node.bridge]
    folders.end(folder, "the test")
    assert node.left() == NOTHING, json.dumps(node.left())
