"""The changes that this machine needs in the copied program and stack file, and no others.

The report lists each change: everything else is as committed.
"""

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.catalog.images import DEVICE_PLUGIN
from gpu_cluster.rehearsal.gpu_node import dra_driver
from gpu_cluster.rehearsal.gpu_node.image import PATH, Image
from gpu_cluster.rehearsal.gpu_node.pytorch import PyTorch
from gpu_cluster.rehearsal.gpu_node.training import BATCH, JOBS, Training
from gpu_cluster.rehearsal.report.differences import differs
from gpu_cluster.tools.programs import program

PLUGIN = "localhost/nvidia-device-plugin:rehearsal"
SAMPLE = "localhost/cuda-base:rehearsal"
IMAGES = Path("components", "catalog", "images.py")
LAST_LINE = "end of output"
"""What the rehearsal's own samples print last."""
# The first process of a container ignores SIGTERM unless it handles it.
AND_WAIT = f"echo {LAST_LINE}; trap exit TERM; while true; do sleep 1; done"
CLUSTER = "gpu-cluster:cluster"
POOLS, WORKLOADS = "gpu-cluster:gpuPools", "gpu-cluster:workloads"
CHECK = "gpu-cluster:gpuTest"
EVERYTHING = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
"""The environment of NVIDIA's images: without a limit, a container sees all its node's GPUs."""
_WHOLE = """
import torch
whole = torch.cuda.get_device_properties(0)
print(whole.multi_processor_count, whole.total_memory)
"""
_COMPUTE = f"""
import os, subprocess, sys, torch
ones = torch.ones(2048, 2048, device="cuda")
total = (ones @ ones).sum().item()
share = torch.cuda.get_device_properties(0).multi_processor_count
del os.environ["CUDA_MPS_PIPE_DIRECTORY"]
whole, memory = map(int, subprocess.check_output([sys.executable, "-c", {_WHOLE!r}]).split())
try:
    torch.empty(memory // 3, dtype=torch.uint8, device="cuda")
    third = "given"
except torch.OutOfMemoryError:
    third = "refused"
said = f"computed {{total:.0f}} on {{share}} of {{whole}} multiprocessors"
print(f"{{said}}, a third of the memory is {{third}}")
"""
"""Run by a pod with a quarter of a GPU by MPS, whose daemon limits processors and memory."""
SHIMS = "/opt/rehearsal/bin"
"""Programs of the plugin's image that come before the machine's."""


def images(pause: str, *, hook: Path) -> list[Image]:
    """The images that the node needs, under their original names. `hook`: the machine's
    nvidia-cdi-hook, which the plugin writes into its CDI files."""
    own = {"NVIDIA_CDI_HOOK_PATH": str(hook), "PATH": f"{SHIMS}:{PATH}"}
    return [
        Image(reference=pause, command=["/bin/sleep", "infinity"]),
        Image(
            reference=PLUGIN,
            command=["/usr/bin/nvidia-device-plugin"],
            environment=EVERYTHING | own,
        ),
        Image(reference=dra_driver.IMAGE, command=["/usr/bin/gpu-kubelet-plugin"]),
        Image(reference=SAMPLE, command=["/bin/sh"], environment=EVERYTHING),
    ]


@dataclass(slots=True)
class Overrides:
    """Changes the copy of the program, and records the changes."""

    pool: str
    """The pool that the real node belongs to."""
    gpus: int
    """The number of GPUs of the real node."""
    made: list[str] = field(default_factory=list)
    """One line per change: where, the old value, the new value, why."""

    def __call__(self, program: Path) -> None:
        """Changes the program in this folder."""
        (file,) = program.glob("Pulumi.*.yaml")
        document = yaml.safe_load(file.read_text())
        self._stack(document["config"])
        file.write_text(yaml.safe_dump(document, sort_keys=False))
        with (program / IMAGES).open("a") as catalog:
            for name, image in (("DEVICE_PLUGIN", PLUGIN), ("DRA_DRIVER", dra_driver.IMAGE)):
                repository, _, tag = image.rpartition(":")
                catalog.write(
                    f'\n{name} = Image(repository="{repository}", tag="{tag}", '
                    'source="built here", read="now")\n'
                )
        self.made.append(f"{IMAGES}: DEVICE_PLUGIN -> {PLUGIN} (there is no registry{_version()})")
        self.made.append(f"{IMAGES}: DRA_DRIVER -> {dra_driver.IMAGE} (there is no registry)")
        self.made.append(
            "nvidia-smi -c and compute-policy of the MPS daemon and the DRA driver: do nothing "
            "(the GPU's compute mode and time slices stay as they are)"
        )

    def allow(self, settings: Path, own: Path, directories: Iterable[str]) -> None:
        """Writes policy settings to `own` that allow pods to mount these directories."""
        document = json.loads(settings.read_text())
        rule = document.setdefault("host-paths", {})
        rule["paths"] = sorted({*rule.get("paths", ()), *directories})
        own.write_text(json.dumps(document, indent=2) + "\n")
        self.made.append(
            f"policy/config.json: host-paths.paths: {', '.join(rule['paths'])} "
            "(PyTorch is this machine's own)"
        )

    def _stack(self, config: Mapping[str, Any]) -> None:
        why = "as the kubelet's; so pods that request GPUs also run with the DRA driver"
        self._set(CLUSTER, config[CLUSTER], "version", "1.36", why)
        pool = config[POOLS][self.pool]
        self._set(f"{POOLS}.{self.pool}", pool, "gpusPerNode", self.gpus, "what this machine has")
        why = "the node's NVIDIA runtime takes no variables of unprivileged pods, as on EKS"
        self._set(f"{POOLS}.{self.pool}", pool, "cdi", True, why)
        # YAML anchors may share one object between two workloads.
        config[WORKLOADS].update({name: dict(item) for name, item in config[WORKLOADS].items()})
        for name, workload in config[WORKLOADS].items():
            if workload["pool"] != self.pool:
                continue
            path = f"{WORKLOADS}.{name}"
            self._set(path, workload, "image", SAMPLE, "there is no registry")
            self._set(path, workload, "imagePullPolicy", "Never", "there is no registry")
            if workload.get("gpus", 1):
                self._set(path, workload, "gpus", self.gpus, "all GPUs of this machine")

    def _set(self, path: str, values: Any, key: str, value: object, why: str) -> None:
        before = values.get(key)
        if before != value:
            values[key] = value
            self.made.append(f"{path}.{key}: {before} -> {value} ({why})")


def _version() -> str:
    """A note about the plugin's version, if the stack has another one."""
    ran, stack = program("device-plugin").version(), DEVICE_PLUGIN.tag or ""
    difference = differs("the device plugin", stack, ran)
    return f"; {difference}" if difference else ""


def measured(config: dict[str, Any], pool: str, how: PyTorch) -> list[str]:
    """Replaces the pool's samples by the acceptance test; returns their names."""
    config[CHECK] = how.config(pool, SAMPLE)
    return _without_samples(config, pool)


def trained(config: dict[str, Any], pool: str, training: Training) -> list[str]:
    """Replaces the pool's workloads by the documented training job; returns the samples' names."""
    config.pop(CHECK, None)
    config[BATCH] = {"jobSet": True, "deletionProtection": False}
    config[JOBS] = {training.name: training.job(pool, SAMPLE)}
    return _without_samples(config, pool)


def shared(
    config: dict[str, Any], pool: str, replicas: int, strategy: str = "time-slicing"
) -> list[str]:
    """Shares the pool's GPUs and removes its samples; returns their names."""
    # Half a GPU shows nothing about a whole one, and NCCL needs whole ones.
    config.pop(CHECK, None)
    config.pop(JOBS, None)
    config[POOLS][pool]["sharing"] = {"strategy": strategy, "replicas": replicas}
    return _without_samples(config, pool)


def sharing_pods(
    config: dict[str, Any],
    pool: str,
    pods: int,
    training: Training | None = None,
    *,
    prefix: str = "share",
) -> list[str]:
    """Replaces the pool's samples by `pods` pods with one GPU or share each; returns their names,
    which begin with `prefix`. With `training`, each also computes with its PyTorch."""
    compute = f"{training.pytorch.python} -c {shlex.quote(_COMPUTE)}; " if training else ""
    names = [f"{prefix}-{number}" for number in range(1, pods + 1)]
    for name in names:
        config[WORKLOADS][name] = {
            "kind": "pod",
            "pool": pool,
            "gpus": 1,
            "image": SAMPLE,
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c"],
            "args": [f"nvidia-smi -L; {compute}{AND_WAIT}"],
        }
        if training:
            config[WORKLOADS][name] |= {
                "env": dict(training.pytorch.environment),
                "volumes": training.mounts,
            }
    return names


def claiming(config: dict[str, Any], pool: str, pods: int) -> list[str]:
    """The DRA driver in place of the pool's device plugin, and `pods` pods that claim a GPU each;
    returns their names."""
    for key in ("sharing", "cdi"):
        config[POOLS][pool].pop(key, None)
    config[POOLS][pool]["devicePlugin"] = "dra"
    _without_samples(config, pool)
    return sharing_pods(config, pool, pods, prefix="claiming")


def unmanaged(config: dict[str, Any], pool: str) -> list[str]:
    """Removes the pool's device plugin and samples; returns the samples' names."""
    for key in ("sharing", "cdi"):
        config[POOLS][pool].pop(key, None)
    config[POOLS][pool]["devicePlugin"] = "none"
    return _without_samples(config, pool)


def _without_samples(config: dict[str, Any], pool: str) -> list[str]:
    workloads = config[WORKLOADS]
    names = [name for name, workload in workloads.items() if workload["pool"] == pool]
    for name in names:
        del workloads[name]
    return names


def edit(file: Path, change: Callable[[Any], object]) -> None:
    """Changes the `config` of a stack file."""
    document = yaml.safe_load(file.read_text())
    change(document["config"])
    file.write_text(yaml.safe_dump(document, sort_keys=False))
