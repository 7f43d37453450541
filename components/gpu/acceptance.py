"""The acceptance test: Jobs that measure the GPUs of a node, on any pool of any platform.

The program is in `acceptance_program/` and is mounted from a ConfigMap, so that it runs in any
image with PyTorch that the user names.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core.v1 import (
    EnvVarArgsDict,
    PodResourceClaimArgsDict,
    PodSpecArgsDict,
    ResourceClaimArgsDict,
    TopologySpreadConstraintArgsDict,
    VolumeArgsDict,
    VolumeMountArgsDict,
)
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
from pulumi_kubernetes.networking.v1 import NetworkPolicySpecArgsDict

from ..catalog import data_sheets
from ..catalog import kubernetes as names
from ..cluster import Cluster, GpuPool
from . import fabric as networks
from . import gpu_claims
from .acceptance_args import FOLDER, GpuTestArgs, job_name
from .acceptance_program.all_reduce import NODES_SECONDS
from .acceptance_request import request
from .auxiliary import declare_claims
from .awaiting import awaited
from .prerequisites import Prerequisites
from .running import DISRUPTIONS_IGNORED, LATER, among_themselves, one_pod_a_node, staying

_PROGRAM = Path(__file__).parent / "acceptance_program"
_POD_SECONDS = 1800
"""Time limit of a pod on its node, including the pull of its large image; a broken GPU may hang."""


def declare(args: GpuTestArgs, after: Prerequisites) -> None:
    """Declares the test of all its pools."""
    GpuTest("gpu-test", args, after, opts=after.cluster.component_options)


class GpuTest(pulumi.ComponentResource):
    """A Job and its ConfigMap for each pool that is to be measured."""

    def __init__(
        self,
        name: str,
        args: GpuTestArgs,
        after: Prerequisites,
        *,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gpu:AcceptanceTest", name, None, opts)
        for pool in args.pools:
            self._job(args, after.cluster.pools[pool], after)
        self.register_outputs({})

    def _job(self, args: GpuTestArgs, pool: GpuPool, after: Prerequisites) -> None:
        name, cluster = job_name(pool.name), after.cluster
        labels = {"app": name}
        metadata: ObjectMetaArgsDict = {"name": name, "namespace": args.namespace, "labels": labels}
        files = program(args, pool)
        config_map = kubernetes.core.v1.ConfigMap(
            name, metadata=metadata, data=files, opts=cluster.options(self)
        )
        before: list[pulumi.Resource] = [config_map]
        if args.nodes > 1:
            before += self._meeting(name, labels, metadata, cluster)
        before += declare_claims(
            _claims(name, args, pool), name, args.namespace,
            cluster=cluster, parent=self, plugins=after.plugins,
        )  # fmt: skip
        others = _others_seconds(args)
        kubernetes.batch.v1.Job(
            name,
            metadata={**metadata, "annotations": awaited(args.wait, seconds=3600 + others)},
            spec={
                # A failure must be visible, not retried until it passes. Of several nodes, it must
                # not end the tests of the others: a failed Job deletes its running pods.
                "backoff_limit": None if others else 0,
                "backoff_limit_per_index": 0 if others else None,
                "completion_mode": "Indexed",
                "completions": args.nodes,
                "parallelism": args.nodes,
                "pod_failure_policy": DISRUPTIONS_IGNORED,
                "template": {
                    "metadata": {
                        "labels": labels,
                        # A Job's template cannot change: another program, request or generation
                        # replaces the Job, which measures again.
                        "annotations": {
                            "gpu-cluster/acceptance": _digest(files, args.generation),
                            **staying(pool),
                            **networks.network_parts(args.claimed(pool)).annotations,
                        },
                    },
                    "spec": _pod_spec(name, args, pool, config_map),
                },
            },
            opts=pulumi.ResourceOptions.merge(
                cluster.options(self, depends_on=before),
                pulumi.ResourceOptions(ignore_changes=LATER),
            ),
        )

    def _meeting(
        self, name: str, labels: dict[str, str], metadata: ObjectMetaArgsDict, cluster: Cluster
    ) -> Iterator[pulumi.Resource]:
        """What the pods of several nodes need to meet: names, and a policy that admits only
        them."""
        yield kubernetes.core.v1.Service(
            name,
            metadata=metadata,
            # The processes begin to look for each other before their pods count as ready.
            spec={"cluster_ip": "None", "selector": labels, "publish_not_ready_addresses": True},
            opts=cluster.options(self),
        )
        yield kubernetes.networking.v1.NetworkPolicy(
            name,
            metadata=metadata,
            # The API's field names, which the SDK's types do not have.
            spec=cast(NetworkPolicySpecArgsDict, among_themselves(labels)),
            opts=cluster.options(self),
        )


def _others_seconds(args: GpuTestArgs) -> int:
    """How long a pod may wait for those on other nodes, after it has tested its own."""
    return NODES_SECONDS if args.nodes > 1 else 0


def _claims(name: str, args: GpuTestArgs, pool: GpuPool) -> list[gpu_claims.Claim]:
    gpus = args.gpus_on(pool)
    return list(gpu_claims.claims(name, pool, gpus, fabric=args.claimed(pool)))


def program(args: GpuTestArgs, pool: GpuPool) -> dict[str, str]:
    """File name -> content: the program's modules and its request."""
    asked = request(
        pool=pool.name,
        gpus=args.gpus_on(pool),
        expected=data_sheets.expected(pool.models),
        thresholds=args.thresholds,
        nodes=args.nodes,
        network_gbps=pool.fabric.gbps
        if pool.fabric and (args.adapters(pool) or args.claimed(pool))
        else None,
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
        {"name": "program", "mount_path": f"{FOLDER}/gpu_test", "read_only": True},
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
    limits, fabric = gpu_claims.limits(pool, gpus), {}
    network, claims = networks.network_parts(args.claimed(pool)), _claims(name, args, pool)
    volumes += cast(list[VolumeArgsDict], network.volumes)
    mounts += cast(list[VolumeMountArgsDict], network.mounts)
    command = networks.with_variables(args.claimed(pool), [args.python, "-m", "gpu_test"], args.env)
    if args.nodes > 1:
        environment.append({"name": "MASTER_ADDR", "value": f"{name}-0.{name}"})
    if pool.fabric and (adapters := args.adapters(pool)):
        limits[pool.fabric.resource], fabric = str(adapters), dict(pool.fabric.env)
    environment += [
        {"name": key, "value": value} for key, value in {**search, **fabric, **args.env}.items()
    ]
    return {
        "subdomain": name if args.nodes > 1 else None,
        "topology_spread_constraints": [
            cast(TopologySpreadConstraintArgsDict, one_pod_a_node({"app": name}, args.nodes))
        ]
        if args.nodes > 1
        else None,
        "restart_policy": "Never",
        "active_deadline_seconds": _POD_SECONDS + _others_seconds(args),
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
                "command": command,
                "working_dir": FOLDER,
                "env": environment,
                "resources": {
                    "requests": args.requests.quantities(),
                    "limits": limits,
                    "claims": cast(list[ResourceClaimArgsDict], gpu_claims.of_container(claims))
                    or None,
                },
                "security_context": {"allow_privilege_escalation": False},
                "termination_message_policy": "FallbackToLogsOnError",
                "volume_mounts": mounts,
            }
        ],
        "volumes": volumes,
        "resource_claims": cast(list[PodResourceClaimArgsDict], [claim.entry for claim in claims])
        or None,
        **cast(PodSpecArgsDict, network.spec),
    }
