"""The settings of the acceptance test, and whether a pool can run it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, MinLen

from ..catalog import kubernetes as names
from ..cluster import Fabric, GpuPool
from ..schema.effect import Sent
from ..schema.limits import ABSOLUTE, DNS_LABEL, IMAGE, UNIQUE, VARIABLE, none_of
from ..schema.refusal import Refusal, collected, raised, refuse
from ..schema.rules import Checked
from .acceptance_request import ThresholdsArgs
from .pod_group import PodGroup
from .resources_args import ResourcesArgs, check_room, impossible, too_many

LEAST_MEMORY = "8Gi"
"""PyTorch with CUDA needs 4 GiB of a node's memory, pinned buffers and NCCL some more."""
FOLDER = "/gpu-test"
"""The folder of the test's program in the container."""
# Kubernetes merges both lists by key: the API server refuses two entries of one key.
_FREE_VARIABLE = none_of(
    "NODE_NAME", "PYTHONDONTWRITEBYTECODE", "MASTER_ADDR", why="is set by the test; drop it"
)
_FREE_PATH = none_of("/dev/shm", f"{FOLDER}/gpu_test", why="is used by the test; choose another")


def job_name(pool: str) -> str:
    """The name of a pool's Job, of its ConfigMap, and the label `app` of its pod."""
    return f"gpu-test-{pool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTestArgs(Checked):
    """A Job for each of some pools that measures every GPU of a node, and fails for a bad one."""

    pools: Annotated[Sequence[str], MinLen(1), UNIQUE, Sent("Job")]
    """The pools to measure. Each uses a node for some minutes, after every change of this block."""
    image: Annotated[str, IMAGE, Sent("PodSpec containers[].image")]
    """An image with Python 3.10 or later and a PyTorch that supports the GPUs."""
    generation: Annotated[int, Ge(1), Sent("Job spec.template.metadata.annotations")] = 1
    """Increase it to measure again."""
    gpus: Annotated[int | None, Ge(1), Sent("PodSpec containers[].resources.limits")] = None
    """How many GPUs to measure; by default, all GPUs of a node. On Autopilot, where a node is as
    large as its pod requests, by default the pool's `gpusPerNode`, or else the fewest allowed."""
    nodes: Annotated[int, Ge(1), Sent("Job spec.completions")] = 1
    """How many nodes of each pool to measure at the same time. From two on, the test also measures
    the network between them: an all-reduce over all their GPUs, through the adapters of a pool with
    `efa` if the image has libfabric and aws-ofi-nccl."""
    thresholds: Annotated[ThresholdsArgs, Sent("ConfigMap data.request.json.sheets[].least")] = (
        field(default_factory=ThresholdsArgs)
    )
    """The share of the data sheet's figures that a GPU must reach."""
    namespace: Annotated[str, DNS_LABEL, Sent("ObjectMeta namespace")] = "default"
    """The namespace: one of `namespaces`, or an existing one."""
    python: Annotated[str, Sent("PodSpec containers[].command[]")] = "python3"
    """The interpreter that has PyTorch, if it is not the image's `python3`."""
    mounts: Annotated[
        Mapping[Annotated[str, ABSOLUTE, _FREE_PATH], Annotated[str, ABSOLUTE]],
        Sent("PodSpec volumes[].hostPath.path"),
    ] = field(default_factory=dict)
    """Host directories to mount read-only, by their path in the container: for PyTorch or driver
    libraries that are on the node and not in the image."""
    env: Annotated[
        Mapping[Annotated[str, VARIABLE, _FREE_VARIABLE], str], Sent("PodSpec containers[].env[]")
    ] = field(default_factory=dict)
    """Environment variables, such as `LD_LIBRARY_PATH` or those of NCCL."""
    requests: Annotated[ResourcesArgs, Sent("PodSpec containers[].resources.requests")] = field(
        default_factory=lambda: ResourcesArgs(cpu="2", memory=LEAST_MEMORY)
    )
    """What the pod requests; by default, 2 CPUs and 8Gi."""
    image_pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"] | None,
        Sent("PodSpec containers[].imagePullPolicy"),
    ] = None
    """When the image is pulled; by default, Kubernetes' default applies."""
    wait: Annotated[bool, Sent("ObjectMeta annotations")] = False
    """Whether `pulumi up` waits for the result, and fails if a GPU is below its threshold."""

    def pod_groups(self, path: str, pools: Mapping[str, GpuPool]) -> Iterator[PodGroup]:
        """The pod of each pool's Job."""
        for name in self.pools:
            yield PodGroup(
                path=path,
                pool=name,
                namespace=self.namespace,
                image=self.image,
                count=self.nodes,
                gpus=self.gpus_on(pools[name]),
                uses_host=bool(self.mounts)
                or pools[name].driver_libraries is not None
                or self.claimed(pools[name]) is not None,
                own_nodes=True,
                together=self.nodes > 1,
            )

    def gpus_on(self, pool: GpuPool) -> int:
        """The number of GPUs that the Job requests on this pool."""
        if self.gpus is not None:
            return self.gpus
        if pool.pod_gpus and names.GKE_ACCELERATOR_COUNT not in pool.node_selector:
            return min(pool.pod_gpus)
        return pool.gpus_per_node

    def adapters(self, pool: GpuPool) -> int:
        """How many adapters of `pool.fabric` a pod has: all, if it measures the network between
        nodes with all GPUs."""
        return pool.adapters_of(self.nodes, self.gpus_on(pool))

    def claimed(self, pool: GpuPool) -> Fabric | None:
        """Likewise the network of which a pod gets all adapters of its node; None if not."""
        return pool.claimed_by(self.nodes, self.gpus_on(pool))

    @collected
    def check_on(self, pool: GpuPool) -> Iterator[Refusal]:
        """Raises `Refusal` if the pool's GPUs cannot be measured."""
        if pool.sharing is not None:
            what = pool.sharing.partition or f"{pool.sharing.strategy} by {pool.sharing.replicas}"
            yield refuse("pools")(
                f"{pool.name} shares its GPUs ({what}), and a test of a share says nothing about "
                "the whole GPU; name a pool without sharing, or turn off its sharing for the test"
            )
        if pool.all_at_once is not None:
            yield refuse("pools")(
                f"{pool.name} is queued, and its nodes start only for jobs of a queue",
                remedy="name another pool, or set its queued to false for the time",
            )
        if self.mounts and not pool.host_paths:
            yield refuse("mounts")(
                "the platform does not allow directories of the host",
                remedy="drop the key, and use an image with PyTorch",
            )
        gpus = self.gpus_on(pool)
        yield from raised(check_room, self.requests, ResourcesArgs(), pool, gpus)
        if gpus > pool.gpus_per_node:
            yield refuse("gpus", gpus)(
                f"is more than a node of pool {pool.name} has ({pool.gpus_per_node})",
                remedy="lower it, or drop the key",
            )
        yield from too_many(self.nodes, pool)
        if pool.pod_gpus and gpus not in pool.pod_gpus:
            yield impossible(gpus, pool, pool.pod_gpus)
