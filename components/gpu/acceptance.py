"""The acceptance test: Jobs that measure the GPUs of a node, on any pool of any platform.

The program is in `acceptance_program/` and is mounted from a ConfigMap, so that it runs in any
image with PyTorch that the user names.
"""

import hashlib
import json
from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core.v1 import (
    EnvVarArgsDict,
    PodSpecArgsDict,
    VolumeArgsDict,
    VolumeMountArgsDict,
)
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

from ..catalog import data_sheets
from ..catalog import kubernetes as names
from ..cluster import Cluster, GpuPool
from .acceptance_args import GpuTestArgs, job_name
from .acceptance_request import request
from .awaiting import awaited
from .prerequisites import Prerequisites
from .running import DISRUPTIONS_IGNORED, LATER, staying

_PROGRAM = Path(__file__).parent / "acceptance_program"
_FOLDER = "/gpu-test"
_POD_SECONDS = 1800
"""Time limit of a pod on its node, including the pull of its large image; a broken GPU may hang."""


def declare(args: GpuTestArgs, after: Prerequisites) -> None:
    """Declares the test of all its pools."""
    GpuTest("gpu-test", args, cluster=after.cluster, opts=after.cluster.component_options)


class GpuTest(pulumi.ComponentResource):
    """A Job and its ConfigMap for each pool that is to be measured."""

    def __init__(
        self,
        name: str,
        args: GpuTestArgs,
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gpu:AcceptanceTest", name, None, opts)
        for pool in args.pools:
            self._job(args, cluster.pools[pool], cluster)
        self.register_outputs({})

    def _job(self, args: GpuTestArgs, pool: GpuPool, cluster: Cluster) -> None:
        name = job_name(pool.name)
        labels = {"app": name}
        metadata: ObjectMetaArgsDict = {"name": name, "namespace": args.namespace, "labels": labels}
        files = program(args, pool)
        config_map = kubernetes.core.v1.ConfigMap(
            name, metadata=metadata, data=files, opts=cluster.options(self)
        )
        kubernetes.batch.v1.Job(
            name,
            metadata={**metadata, "annotations": awaited(args.wait, seconds=3600)},
            spec={
                # A failure must be visible, not retried until it passes.
                "backoff_limit": 0,
                "pod_failure_policy": DISRUPTIONS_IGNORED,
                "template": {
                    "metadata": {
                        "labels": labels,
                        # A Job's template cannot change: another program, request or generation
                        # replaces the Job, which measures again.
                        "annotations": {
                            "gpu-cluster/acceptance": _digest(files, args.generation),
                            **staying(pool),
                        },
                    },
                    "spec": _pod_spec(name, args, pool, config_map),
                },
            },
            opts=pulumi.ResourceOptions.merge(
                cluster.options(self, depends_on=[config_map]),
                pulumi.ResourceOptions(ignore_changes=LATER),
            ),
        )


def program(args: GpuTestArgs, pool: GpuPool) -> dict[str, str]:
    """File name -> content: the program's modules and its request."""
    asked = request(
        pool=pool.name,
        gpus=args.gpus_on(pool),
        expected=data_sheets.expected(pool.models),
        thresholds=args.thresholds,
    )
    modules = {path.name: path.read_text() for path in sorted(_PROGRAM.glob("*.py"))}
    return {**modules, "request.json": json.dumps(asked, indent=1)}


def _digest(files: dict[str, str], number: int) -> str:
    text = json.dumps([files, number], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _pod_spec(
    name: str, args: GpuTestArgs, pool: GpuPool, config_map: kubernetes.core.v1.ConfigMap
) -> PodSpecArgsDict:
    gpus = args.gpus_on(pool)
    libraries, search = {}, {}
    if pool.driver_libraries:
        libraries = {names.DRIVER_MOUNT: pool.driver_libraries}
        search = {"LD_LIBRARY_PATH": names.DRIVER_SEARCH_PATH}
    volumes: list[VolumeArgsDict] = [
        {"name": "program", "config_map": {"name": config_map.metadata["name"]}},
        # NCCL's processes communicate through it if GPUs cannot reach each other's memory.
        {"name": "shared-memory", "empty_dir": {"medium": "Memory", "size_limit": "1Gi"}},
    ]
    mounts: list[VolumeMountArgsDict] = [
        {"name": "program", "mount_path": f"{_FOLDER}/gpu_test", "read_only": True},
        {"name": "shared-memory", "mount_path": "/dev/shm"},
    ]
    for number, (inside, host) in enumerate({**libraries, **args.mounts}.items()):
        volumes.append({"name": f"host-{number}", "host_path": {"path": host, "type": "Directory"}})
        mounts.append({"name": f"host-{number}", "mount_path": inside, "read_only": True})
    environment: list[EnvVarArgsDict] = [
        {"name": "NODE_NAME", "value_from": {"field_ref": {"field_path": "spec.nodeName"}}},
        # The program is mounted read-only.
        {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
    ]
    environment += [{"name": key, "value": value} for key, value in {**search, **args.env}.items()]
    return {
        "restart_policy": "Never",
        "active_deadline_seconds": _POD_SECONDS,
        "automount_service_account_token": False,
        "node_selector": dict(pool.node_selector),
        "tolerations": [toleration.manifest() for toleration in pool.tolerations],
        "runtime_class_name": pool.runtime_class,
        "security_context": {"seccomp_profile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": name,
                "image": args.image,
                "image_pull_policy": args.image_pull_policy,
                "command": [args.python, "-m", "gpu_test"],
                "working_dir": _FOLDER,
                "env": environment,
                "resources": {
                    "requests": args.requests.quantities(),
                    "limits": {pool.resource: str(gpus)},
                },
                "security_context": {"allow_privilege_escalation": False},
                "termination_message_policy": "FallbackToLogsOnError",
                "volume_mounts": mounts,
            }
        ],
        "volumes": volumes,
    }
