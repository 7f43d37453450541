"""The settings of pods on a GPU pool and of workloads, and whether the pool can run them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Interval

from ..catalog import kubernetes as names
from ..cluster import GPU_RESOURCE, GpuPool
from ..kube import quantity
from ..schema.effect import Sent, Silent
from ..schema.limits import ABSOLUTE, QUANTITY_OR_ZERO, Labels, Limit, matching
from ..schema.refusal import OTHER, Refusal, collected, raised, refuse, shown
from ..schema.rules import only, rule
from .gpu_claims import Claim, claims
from .pod_args import PodArgs
from .pod_group import PodGroup
from .resources_args import RESOURCES, impossible

SHARERS_MOST = 256
"""Kubernetes' ResourceClaimReservedForMaxSize (resource/v1/types.go of v1.34)."""
_API_VERSIONS = {
    "deployment": ("Deployment", "apps/v1"),
    "pod": ("Pod", "v1"),
    "job": ("Job", "batch/v1"),
}


_PORT_NAME = matching(
    "a port name; allowed: at most 15 lowercase letters, digits and '-', one letter at least",
    re.compile(r"(?=.*[a-z])[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"),
    longest=15,
)


def _not_a_gpu_resource(resource: str) -> str | None:
    if resource == GPU_RESOURCE:
        return None
    new, since = names.REMOVED_RESOURCES.get(resource, (GPU_RESOURCE, None))
    why = f"was removed in Kubernetes {since}" if since else "is not a GPU resource"
    return f"{shown(resource)} {why}; ask for {new}"


_RESOURCE = Limit(_not_a_gpu_resource, {"enum": [GPU_RESOURCE]})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeArgs:
    """An HTTP probe."""

    path: str = "/"
    """The HTTP path to request."""
    port: str
    """The name of one of the workload's ports."""
    initial_delay_seconds: int = 10
    """How many seconds after the container's start the first probe is sent."""
    period_seconds: int = 5
    """The seconds between two probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPodArgs(PodArgs):
    """Pods with one container on a GPU pool; how pods reach its nodes follows from the pool."""

    pool: Annotated[str, Sent("PodSpec nodeSelector")]
    """The GPU pool on which the pods run."""
    gpus: Annotated[int, Ge(0), Sent("PodSpec containers[].resources.limits")] = 1
    """How many units of the pool's GPU resource one pod has. On your own machines, a pod with 0
    whose image sets `NVIDIA_VISIBLE_DEVICES=all` sees every GPU of its node, including those
    allocated to other pods, as NVIDIA's runtime does by default; on EKS, some node images have it
    off, and on GKE there is no such runtime."""
    shared_gpus: Annotated[
        bool, Sent("ResourceClaim", "PodSpec resourceClaims[].resourceClaimName")
    ] = False
    """Whether all its pods use the same GPUs of one node, on a pool with `devicePlugin: dra`: by
    one ResourceClaim, instead of one for each pod. They take turns on them (time-slicing), and
    nothing limits the memory of each."""
    command: Annotated[Sequence[str], Sent("PodSpec containers[].command[]")] = ()
    """The container's command; by default, the image's."""
    args: Annotated[Sequence[str], Sent("PodSpec containers[].args[]")] = ()
    """The arguments of the command; by default, the image's."""
    image_pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"] | None,
        Sent("PodSpec containers[].imagePullPolicy"),
    ] = None
    """When the image is pulled; by default, Kubernetes' default applies."""
    node_selector: Annotated[Labels, Sent("PodSpec nodeSelector")] = field(default_factory=dict)
    """Node labels that are required in addition to the pool's."""
    shared_memory: Annotated[
        Annotated[str, QUANTITY_OR_ZERO] | None, Sent("PodSpec volumes[].emptyDir.sizeLimit")
    ] = None
    """The size of `/dev/shm`, part of the pod's memory; `"0"` for the container runtime's 64 MiB.
    By default, it is limited only by the pod's memory if the pod has several GPUs, and 64 MiB if it
    has one. An existing pod or job keeps its size when the key is removed."""
    driver_libraries: Annotated[
        Annotated[str, ABSOLUTE] | None, Sent("PodSpec volumes[].hostPath.path")
    ] = None
    """The host directory with the driver's libraries, mounted at `/usr/local/nvidia`, for nodes
    without an NVIDIA container runtime."""

    @rule
    def _check_shared_memory(self) -> None:
        limit, shared = self.limits.memory, self.shared_memory
        if shared and limit and quantity.parse(shared) > quantity.parse(limit):
            raise refuse("sharedMemory")(
                f"{shared} is above limits.memory {limit}, which includes it",
                remedy="lower it, or raise the limit",
            )

    def gpu_claims(self, name: str, pool: GpuPool) -> Iterator[Claim]:
        """The claims of the pods of the entry `name`."""
        shared = self.shared_gpus
        return claims(name, pool, self.gpus, selectors=self.selectors, shared=shared)

    def _check_shared(self, pool: GpuPool) -> Iterator[Refusal]:
        """Refuses GPUs that the pods cannot share."""
        if pool.device_class is None:
            yield refuse("sharedGpus")(
                f"is for GPUs that pods claim, and those of pool {pool.name} request a number of "
                "them",
                remedy="drop the key, or use a pool with devicePlugin: dra",
            )
        elif not self.gpus:
            yield refuse("sharedGpus")("is for the pods' GPUs, and gpus is 0; drop one of the two")
        if self.pods > SHARERS_MOST:
            yield refuse("sharedGpus")(
                f"{SHARERS_MOST} pods can use one claim, and the entry has up to {self.pods}",
                remedy="lower their number, or drop the key",
            )
        for what, (amount, most) in self._on_one_node(pool).items():
            if quantity.parse(amount) <= quantity.parse(most) < self.pods * quantity.parse(amount):
                yield refuse("sharedGpus")(
                    f"is for pods on one node, and the entry's {self.pods} need more {what} than "
                    f"one of pool {pool.name} has ({most})",
                    remedy="lower their number or what they request, or drop the key",
                )

    def _on_one_node(self, pool: GpuPool) -> dict[str, tuple[str, str]]:
        """Resource -> what a pod requests of it, and the most that a node has for all of them;
        without what is not known."""
        amounts = {
            RESOURCES[field]: (getattr(self.requests, field) or getattr(self.limits, field), most)
            for field, most in pool.room(self.gpus).items()
        }
        offered = pool.extended_resources or {}
        for name, number in self.extended(pool)[0].items():
            amounts[name] = (number, str(offered.get(name, 0)))
        if pool.max_pods:
            amounts["room for pods"] = ("1", str(pool.max_pods))
        return {name: amount for name, amount in amounts.items() if amount[0]}

    def uses_host(self, pool: GpuPool) -> bool:
        """Like `PodArgs.uses_host`; a pod without GPUs mounts nothing of the driver."""
        mounts = self.driver_libraries or any(volume.host_file for volume in self.volumes.values())
        return bool(mounts or (self.gpus and PodArgs.uses_host(self, pool)))

    @collected
    def check_fits(self, pool: GpuPool) -> Iterator[Refusal]:
        """Raises `Refusal` if a pod does not fit any node of `pool`."""
        if self.driver_libraries and not pool.host_paths:
            yield refuse("driverLibraries")(
                "the platform does not allow directories of the host, and mounts the driver itself",
                remedy="drop the key",
            )
        if self.gpus > pool.allocatable:
            yield refuse("gpus", self.gpus)(
                f"is more than a node of pool {pool.name} has ({pool.allocatable})",
                remedy="request fewer, or give the pool larger nodes",
            )
        elif self.gpus and pool.pod_gpus and self.gpus not in pool.pod_gpus:
            yield impossible(self.gpus, pool, pool.pod_gpus)
        elif self.gpus > 1 and pool.sharing is not None and pool.sharing.replicas > 1:
            yield refuse("gpus", self.gpus)(
                f"shares of pool {pool.name} may all be of the same GPU",
                remedy="request 1, or drop the pool's sharing",
            )
        if self.shared_memory is not None and pool.host_ipc and self.gpus:
            yield refuse("sharedMemory")(
                f"pods of pool {pool.name} use the host's shared memory to reach MPS; drop the key"
            )
        most = pool.room(self.gpus).get("memory")
        shared = self.shared_memory
        if shared and most and quantity.parse(shared) > quantity.parse(most):
            yield refuse("sharedMemory", shared)(
                f"is more than a node of pool {pool.name} has for pods ({most})",
                remedy="lower it, or give the pool larger nodes",
            )
        if self.shared_gpus:
            yield from self._check_shared(pool)
        yield from raised(self.check_node, pool, self.gpus)
        for key, value in self.node_selector.items():
            if pool.labels.get(key, value) != value:
                yield refuse(("nodeSelector", key), value)(
                    f"contradicts pool {pool.name}, whose nodes have {pool.labels[key]!r}",
                    remedy="drop the key, or choose another pool",
                )

    def pod_groups(self, path: str, pools: Mapping[str, GpuPool]) -> Iterator[PodGroup]:
        """Its pods, on their pool."""
        yield PodGroup(
            path=path,
            pool=self.pool,
            namespace=self.namespace,
            image=self.image,
            count=self.pods,
            gpus=self.gpus,
            shared=self.shared_gpus,
            adapters=self.adapters(pools[self.pool]),
            uses_host=self.uses_host(pools[self.pool]),
            claims=self.claims,
            default_disk=self.default_disk(pools[self.pool]),
            doubtful_disk=self.doubtful_disk(pools[self.pool]),
            kind="" if getattr(self, "queue", None) else self.noun,
            long_running=self.long_running,
            least=self.least if self.long_running else 0,
        )

    @property
    def noun(self) -> str:
        """The name of its kind in warnings."""
        return "workload"

    @property
    def long_running(self) -> bool:
        """Whether its pods run until they are deleted."""
        return True

    @property
    def least(self) -> int:
        """The minimum number of pods that run at once."""
        return self.pods

    def warnings(self) -> Iterator[str]:
        """Warnings about the entry itself, each beginning with a key of it."""
        if self.pods == 0:
            yield "replicas: is 0, so that none of its pods run; raise it unless that is intended"

    @property
    def pods(self) -> int:
        """The maximum number of pods that run at once."""
        return 1

    def check_held(self, key: str, pods: int, pool: GpuPool) -> None:
        """Raises `Refusal` if `pool` is too small for all pods."""
        if self.shared_gpus:
            return
        capacity = pool.max_nodes and pool.max_nodes * (pool.allocatable // max(self.gpus, 1))
        if self.gpus and capacity is not None and pods > capacity:
            raise refuse(key)(
                f"{pods} is more than pool {pool.name} can run: {capacity} pods with {self.gpus} "
                f"each on {pool.max_nodes} nodes; request fewer, or raise its maxNodes"
            )


_OF_DEPLOYMENT, _OF_JOB = (
    only(kind=kind)(f"cannot be set for a {{kind}}; drop it, or set kind: {kind}")
    for kind in ("deployment", "job")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadArgs(GpuPodArgs):
    """A Deployment, Pod or Job on a GPU pool; how pods reach its nodes follows from the pool."""

    kind: Annotated[Literal["deployment", "pod", "job"], Sent("Pod", "Deployment", "Job")]
    """The kind of object: a Deployment, a Pod or a Job."""
    replicas: Annotated[int | None, Ge(0), _OF_DEPLOYMENT, Sent("Deployment spec.replicas")] = None
    """The number of pods of a deployment; by default, 1."""
    ports: Annotated[
        Mapping[Annotated[str, _PORT_NAME], Annotated[int, Interval(ge=1, le=65535)]],
        Sent("PodSpec containers[].ports[]"),
    ] = field(default_factory=dict)
    """The container's ports: their names and numbers."""
    readiness_probe: Annotated[ProbeArgs | None, Sent("PodSpec containers[].readinessProbe")] = None
    """The HTTP probe that decides whether the container is ready."""
    liveness_probe: Annotated[ProbeArgs | None, Sent("PodSpec containers[].livenessProbe")] = None
    """The HTTP probe that decides whether the container is restarted."""
    completions: Annotated[int | None, Ge(1), _OF_JOB, Sent("Job spec.completions")] = None
    """How many pods of a job must succeed."""
    parallelism: Annotated[int | None, Ge(0), _OF_JOB, Sent("Job spec.parallelism")] = None
    """How many pods of a job run at once."""
    backoff_limit: Annotated[int | None, Ge(0), _OF_JOB, Sent("Job spec.backoffLimit")] = None
    """The number of retries of a job; by default, 3."""
    resource: Annotated[
        str, _RESOURCE, Silent("only the pool's own value is allowed, which pods have anyway")
    ] = GPU_RESOURCE
    """The resource to request; no other name is supported any more."""
    api_version: Annotated[
        str | None, Silent("only one value is allowed for each kind, which objects have anyway")
    ] = None
    """The API version of the kind; by default, the kind's own."""
    queue: Annotated[str | None, _OF_JOB, Sent("ObjectMeta labels")] = None
    """The queue of `batch.queues` in which a job waits until the GPUs for all its pods are free."""
    priority: Annotated[str | None, _OF_JOB, Sent("ObjectMeta labels")] = None
    """A job's priority in its queue, one of `batch.priorities`; by default, value 0."""
    wait: Annotated[bool, Sent("ObjectMeta annotations")] = False
    """Whether `pulumi up` waits until the workload is ready (for a job: until it completes,
    including its time in a queue)."""

    @rule
    def _check_ports(self) -> Iterator[Refusal]:
        taken: dict[int, str] = {}
        for name, port in self.ports.items():
            if (other := taken.setdefault(port, name)) != name:
                yield refuse(("ports", name), port)(
                    f"is that of {OTHER}, too; drop one of the two, and use the other name",
                    other=("ports", other),
                )

    @rule
    def _check_probes(self) -> Iterator[Refusal]:
        probes = {"readinessProbe": self.readiness_probe, "livenessProbe": self.liveness_probe}
        for key, probe in probes.items():
            if probe is not None and probe.port not in self.ports:
                have = ", ".join(self.ports) or "none"
                reason = f"is not a port of this workload; allowed: {have}"
                yield refuse((key, "port"), probe.port)(reason)

    @rule
    def _check_api_version(self) -> None:
        kind, current = _API_VERSIONS[self.kind]
        if self.api_version not in (None, current):
            _, since = names.REMOVED_API_VERSIONS.get((self.api_version or "", kind), ("", None))
            why = f"has not served {kind} since Kubernetes {since}" if since else f"has no {kind}"
            raise refuse("apiVersion", self.api_version)(f"{why}", remedy=f"write {current}")

    @property
    def noun(self) -> str:
        """The name of its kind in warnings."""
        return self.kind

    @property
    def long_running(self) -> bool:
        """Whether its pods run until they are deleted."""
        return self.kind != "job"

    def warnings(self) -> Iterator[str]:
        """Warnings about the entry itself, each beginning with a key of it."""
        for line in GpuPodArgs.warnings(self):
            yield line.replace("replicas", "replicas" if self.long_running else "parallelism", 1)

    @property
    def pods(self) -> int:
        """The maximum number of pods that run at once."""
        if self.kind == "deployment":
            return 1 if self.replicas is None else self.replicas
        pods = 1 if self.parallelism is None else self.parallelism
        return pods if self.completions is None else min(pods, self.completions)

    def check_fits(self, pool: GpuPool) -> None:
        """Raises `Refusal` if `pool` could never run this workload."""
        GpuPodArgs.check_fits(self, pool)
        if self.kind == "deployment":
            self.check_held("replicas", self.pods, pool)
