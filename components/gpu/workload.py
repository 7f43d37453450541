"""A GPU workload that gets everything from its pool: selector, tolerations, resource."""

from collections.abc import Mapping, Sequence
from typing import cast

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.apps.v1 import DeploymentStrategyArgsDict
from pulumi_kubernetes.core.v1 import (
    ContainerArgsDict,
    EmptyDirVolumeSourceArgsDict,
    EnvVarArgsDict,
    PodResourceClaimArgsDict,
    PodSpecArgsDict,
    PodTemplateSpecArgsDict,
    ProbeArgsDict,
    ResourceClaimArgsDict,
    ResourceRequirementsArgsDict,
    VolumeArgsDict,
    VolumeMountArgsDict,
)
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

from ..catalog import kubernetes as names
from ..cluster import GpuPool
from ..kube import quantity
from . import gpu_claims
from .auxiliary import ROOT, declare_claims, declare_files
from .awaiting import awaited
from .pod_parts import PodParts, contents_of, pod_parts
from .prerequisites import Prerequisites
from .running import DISRUPTIONS_IGNORED, LATER, annotation_paths, placed, staying
from .workload_args import GpuPodArgs, ProbeArgs, WorkloadArgs

NO_SURGE: DeploymentStrategyArgsDict = {
    "type": "RollingUpdate",
    "rolling_update": {"max_surge": 0, "max_unavailable": 1},
}
"""An additional pod during an update would need another GPU, which may not be available."""
WAIT_SECONDS = 1800
"""Covers the start of a node, its driver and an image of many gigabytes."""
_SPOT_GRACE_SECONDS = 15
"""A Spot node gives 25 s of notice on GKE, the last of which are reserved for system pods."""


def declare(workloads: Mapping[str, WorkloadArgs], after: Prerequisites) -> None:
    """Declares each workload under its name."""
    for name, args in workloads.items():
        GpuWorkload(name, args, after, opts=after.cluster.component_options)


class GpuWorkload(pulumi.ComponentResource):
    """A Deployment, Pod or Job."""

    def __init__(
        self,
        name: str,
        args: WorkloadArgs,
        after: Prerequisites,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gpu:Workload", name, None, opts)
        cluster, labels = after.cluster, {"app": name}
        pool = cluster.pools[args.pool]
        metadata: ObjectMetaArgsDict = {
            "name": name,
            "namespace": args.namespace,
            # The queue, not this stack, suspends and resumes a queued job.
            "labels": {**labels, **names.queue_labels(args.queue, args.priority)},
            "annotations": {
                **awaited(args.wait, seconds=WAIT_SECONDS),
                **(pool.job_annotations if args.queue else {}),
            },
        }
        contents = contents_of(args, ROOT)
        parts = pod_parts(name, args, contents, cluster.buckets)
        container: ContainerArgsDict = {
            "name": name,
            "ports": [
                {"name": port, "container_port": number} for port, number in args.ports.items()
            ],
            "readiness_probe": _probe(args.readiness_probe),
            "liveness_probe": _probe(args.liveness_probe),
        }
        pod = pod_spec(args, pool, parts, container)
        marks = dict(parts.annotations)
        template: PodTemplateSpecArgsDict = {
            "metadata": {"labels": labels, **({"annotations": marks} if marks else {})},
            "spec": pod,
        }
        before = [
            *(after.queues if args.queue else ()),
            *(after.plugins if args.kind == "pod" else ()),
            *(after.auxiliary if args.service_account or args.volumes else ()),
            *declare_files(name, args.namespace, contents, cluster=cluster, parent=self),
            *declare_claims(
                args.gpu_claims(name, pool), name, args.namespace,
                cluster=cluster, parent=self, plugins=after.plugins,
            ),
        ]  # fmt: skip
        options = cluster.options(self, depends_on=before, holds_disk=bool(args.claims))
        match args.kind:
            case "deployment":
                kubernetes.apps.v1.Deployment(
                    name,
                    metadata=metadata,
                    spec={
                        "replicas": 1 if args.replicas is None else args.replicas,
                        "selector": {"match_labels": labels},
                        "strategy": NO_SURGE,
                        "template": template,
                    },
                    opts=options,
                )
            case "pod":
                kubernetes.core.v1.Pod(
                    name,
                    metadata={
                        **metadata,
                        "annotations": {**awaited(args.wait, seconds=WAIT_SECONDS), **marks},
                    },
                    spec=pod,
                    opts=options,
                )
            case "job":
                kubernetes.batch.v1.Job(
                    name,
                    metadata=metadata,
                    spec={
                        "backoff_limit": 3 if args.backoff_limit is None else args.backoff_limit,
                        "completions": args.completions,
                        "parallelism": args.parallelism,
                        "pod_failure_policy": DISRUPTIONS_IGNORED,
                        "template": {
                            "metadata": {
                                "labels": labels,
                                "annotations": {
                                    **staying(pool),
                                    **placed(pool, args.queue),
                                    **marks,
                                },
                            },
                            "spec": {**pod, "restart_policy": "Never"},
                        },
                    },
                    opts=_left_alone(options, [*LATER, *annotation_paths("spec.template", marks)]),
                )
        self.register_outputs({})


def _left_alone(options: pulumi.ResourceOptions, paths: Sequence[str]) -> pulumi.ResourceOptions:
    """`options` that also ignore changes which must not replace an existing pod or job."""
    return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(ignore_changes=list(paths)))


def _libraries(args: GpuPodArgs, pool: GpuPool) -> str | None:
    return args.driver_libraries or (pool.driver_libraries if args.gpus else None)


def _shared_memory(args: GpuPodArgs, pool: GpuPool) -> VolumeArgsDict | None:
    """The volume at `/dev/shm`; None for the container runtime's default."""
    if args.shared_memory is None:
        # NCCL and data loaders pass tensors through it. With the host's IPC, it is the host's.
        needed = args.gpus > 1 and not pool.host_ipc
        return {"name": "shared-memory", "empty_dir": {"medium": "Memory"}} if needed else None
    if not quantity.parse(args.shared_memory):
        return None
    empty_dir: EmptyDirVolumeSourceArgsDict = {"medium": "Memory", "size_limit": args.shared_memory}
    return {"name": "shared-memory", "empty_dir": empty_dir}


def pod_spec(
    args: GpuPodArgs, pool: GpuPool, parts: PodParts, container: ContainerArgsDict
) -> PodSpecArgsDict:
    """The pod spec for `args`; `container`: its container's name, ports and probes."""
    libraries, memory = _libraries(args, pool), _shared_memory(args, pool)
    name = str(container["name"])
    claims = list(args.gpu_claims(name, pool))
    # The SDK also accepts the API's own spelling; its types only have snake_case.
    volumes: list[VolumeArgsDict] = [
        *([memory] if memory else []),
        *cast(list[VolumeArgsDict], parts.volumes),
    ]
    mounts = cast(list[VolumeMountArgsDict], [*parts.mounts])
    if memory:
        mounts.append({"name": "shared-memory", "mount_path": "/dev/shm"})
    if libraries:
        volumes.append({"name": "driver", "host_path": {"path": libraries, "type": "Directory"}})
        mounts.append({"name": "driver", "mount_path": names.DRIVER_MOUNT, "read_only": True})
    return {
        **cast(PodSpecArgsDict, parts.spec),
        "node_selector": {**pool.node_selector, **args.node_selector},
        "tolerations": [toleration.manifest() for toleration in pool.tolerations],
        "runtime_class_name": pool.runtime_class,
        "host_ipc": True if pool.host_ipc and args.gpus else None,
        "termination_grace_period_seconds": _SPOT_GRACE_SECONDS if pool.spot else None,
        "containers": [
            {
                **cast(ContainerArgsDict, parts.container),
                **container,
                "image": args.image,
                "image_pull_policy": args.image_pull_policy,
                "command": list(args.command) or None,
                "args": list(args.args) or None,
                "env": [*_env(args, pool, libraries), *cast(list[EnvVarArgsDict], parts.env)],
                "resources": _resources(args, pool, claims),
                "security_context": {"allow_privilege_escalation": False},
                "volume_mounts": mounts or None,
            }
        ],
        "volumes": volumes or None,
        "resource_claims": cast(list[PodResourceClaimArgsDict], [claim.entry for claim in claims])
        or None,
    }


def _env(args: GpuPodArgs, pool: GpuPool, libraries: str | None) -> list[EnvVarArgsDict]:
    search = {"LD_LIBRARY_PATH": names.DRIVER_SEARCH_PATH} if libraries else {}
    values = args.variables({**search, **args.extended(pool)[1]})
    return [{"name": key, "value": value} for key, value in values.items()]


def _probe(probe: ProbeArgs | None) -> ProbeArgsDict | None:
    if probe is None:
        return None
    return {
        "http_get": {"path": probe.path, "port": probe.port},
        "initial_delay_seconds": probe.initial_delay_seconds,
        "period_seconds": probe.period_seconds,
    }


def _resources(
    args: GpuPodArgs, pool: GpuPool, claims: Sequence[gpu_claims.Claim]
) -> ResourceRequirementsArgsDict:
    limits = args.limits.quantities() | gpu_claims.limits(pool, args.gpus)
    return {
        "requests": args.requests.quantities(),
        "limits": limits | args.extended(pool)[0],
        "claims": cast(list[ResourceClaimArgsDict], gpu_claims.of_container(claims)) or None,
    }
