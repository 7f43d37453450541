"""The documented training job on the real node: examples/training, with the machine's PyTorch.

The machine's folders and the checkpoints' folder are existing volumes, as a cluster's administrator
would create them; the job mounts them through claims.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.gpu_node.pytorch import PyTorch
from gpu_cluster.stacks.definition.files import ROOT

EXAMPLE = Path("examples", "training", "job.yaml")
JOBS, BATCH = "gpu-cluster:trainingJobs", "gpu-cluster:batch"
CHECKPOINTS = "checkpoints"
PAUSE_SECONDS = "0.05"
"""Pause after each step: otherwise the example's 600 steps are over before a worker can be lost."""
_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The job, adapted to this machine."""

    pytorch: PyTorch
    folder: Path
    """The checkpoints' folder on this machine."""

    @property
    def claims(self) -> Mapping[str, tuple[str, bool]]:
        """Claim -> the machine's folder behind it, and whether the job writes to it."""
        mounts = enumerate(self.pytorch.mounts.values())
        return {
            CHECKPOINTS: (str(self.folder), True),
            **{f"machine-{number}": (place, False) for number, place in mounts},
        }

    @property
    def name(self) -> str:
        """The example's name."""
        ((name, _),) = _example().items()
        return name

    def job(self, pool: str, image: str) -> dict[str, Any]:
        """The example's job, with the differences that this machine needs."""
        job = _example()[self.name]
        code = job["volumes"]["code"]
        found: dict[str, Any] = job | {
            "pool": pool,
            "image": image,
            "env": job["env"] | self.pytorch.environment | {"PAUSE_SECONDS": PAUSE_SECONDS},
            "volumes": {
                "code": code | {"files": [str(EXAMPLE.parent / file) for file in code["files"]]},
                "checkpoints": {
                    "mountPath": job["volumes"]["checkpoints"]["mountPath"],
                    "existingClaim": CHECKPOINTS,
                    "readOnly": False,
                },
                **self.mounts,
            },
        }
        del found["queue"]  # the pool's other pods have none either
        return found

    @property
    def mounts(self) -> dict[str, dict[str, str]]:
        """The volumes of a pod that uses this PyTorch, through `claims`."""
        return {
            f"machine-{number}": {"mountPath": place, "existingClaim": f"machine-{number}"}
            for number, place in enumerate(self.pytorch.mounts)
        }

    def provide(self, api: Api, program: Path) -> None:
        """Creates the volumes and their claims, and copies the example's script to the program."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / EXAMPLE.parent, program / EXAMPLE.parent, dirs_exist_ok=True)
        for claim, (place, written) in self.claims.items():
            for path, manifest in _manifests(claim, place, written):
                api.create(path, manifest)

    def withdraw(self, api: Api) -> None:
        """Deletes the volumes and claims; the machine's folders remain."""
        for claim in self.claims:
            api.delete(f"{_CLAIMS}/{claim}")
            api.delete(f"{_VOLUMES}/{claim}")


def _example() -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / EXAMPLE).read_text())["trainingJobs"]
    return jobs


def _manifests(claim: str, place: str, written: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    shared: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce" if written else "ReadOnlyMany"],
        "storageClassName": "",
    }
    size = {"storage": "1Gi"}
    yield (
        _VOLUMES,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": claim},
            "spec": {
                **shared,
                "capacity": size,
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "default", "name": claim},
                "hostPath": {"path": place, "type": "Directory"},
            },
        },
    )
    yield (
        _CLAIMS,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim},
            "spec": {**shared, "resources": {"requests": size}, "volumeName": claim},
        },
    )
