"""The settings of GPUs on Autopilot, and the selector that follows from them."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge

from ..catalog import gke as catalog
from ..catalog import kubernetes as names
from ..cluster import GPU_TAINT, GpuPool, ResolvedPool, Sharing
from ..decode import EXAMPLE, shown
from ..effect import Sent, Tries
from ..gke import reservation as reservations
from ..gke.cluster_args import GkeControlPlaneArgs
from ..gke.pool_args import SPOT_TAINT, Capacity, attachable_classes
from ..gke.sharing_args import GkeSharingArgs
from ..limits import Limit, check_limits

_SHARING_LABELS = {"time-slicing": "time-sharing"}
_OFFERED = [row.name for row in catalog.ACCELERATORS.values() if row.autopilot_counts]


def _not_offered(name: str) -> str | None:
    if name in _OFFERED:
        return None
    known = name in catalog.ACCELERATORS
    right = catalog.spelling(name)
    hint = f"did you mean {right!r}? " if right in _OFFERED and not known else ""
    what = "offered on Autopilot" if known else "known"
    return f"{shown(name)} is not {what}; {hint}allowed: {', '.join(_OFFERED)}"


_ACCELERATOR = Limit(_not_offered, {"enum": _OFFERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeAutopilotPoolArgs:
    """GPUs that pods can use on Autopilot. There is no node pool: GKE starts a node for a pod."""

    accelerator: Annotated[str, _ACCELERATOR, Sent("PodSpec nodeSelector"), Tries("nvidia-l4")] = (
        field(metadata={EXAMPLE: "nvidia-l4"})
    )
    """The GPU, as in the node label `cloud.google.com/gke-accelerator`."""
    gpus_per_node: Annotated[int | None, Ge(1), Sent("PodSpec nodeSelector"), Tries(1)] = None
    """The number of GPUs per node; by default, GKE starts a node as large as the pod requests."""
    capacity_type: Annotated[Capacity, Sent("PodSpec nodeSelector")] = "on-demand"
    """How the nodes are bought."""
    reservation: Annotated[
        str | None,
        reservations.RESERVATION,
        Sent("PodSpec nodeSelector"),
        Tries("mine", given={"capacityType": "reservation"}),
    ] = None
    """The reservation that the nodes use, with capacityType `reservation`: its name, or
    `projects/OWNER/reservations/NAME` if another project shares it; either with
    `/reservationBlocks/BLOCK` for a part of it."""
    driver_version: Annotated[
        Literal["default", "latest"] | None, Sent("PodSpec nodeSelector"), Tries("latest")
    ] = None
    """The driver that GKE installs; by default, GKE's default for the accelerator."""
    sharing: Annotated[
        GkeSharingArgs | None, Tries({"strategy": "time-slicing", "replicas": 2})
    ] = None
    """How pods share a GPU; by default, each GPU belongs to one pod."""

    def __post_init__(self) -> None:
        check_limits(self)
        gpu_model = catalog.ACCELERATORS[self.accelerator]
        if self.gpus_per_node is not None and self.gpus_per_node not in gpu_model.autopilot_counts:
            raise ValueError(
                f"gpusPerNode: {self.gpus_per_node} is not possible with {gpu_model.name}; "
                f"allowed: {', '.join(map(str, gpu_model.autopilot_counts))}"
            )
        ways = catalog.autopilot_provisioning(self.accelerator, self.gpus_per_node)
        if self.capacity_type not in ways:
            count = f"{self.gpus_per_node} " if self.gpus_per_node else ""
            raise ValueError(
                f"capacityType: nodes with {count}{gpu_model.name} are not sold as "
                f"{self.capacity_type}; allowed: {', '.join(ways)}"
            )
        reservations.check((self.capacity_type,), self.reservation)
        if self.sharing is not None:
            if self.sharing.strategy == "mps":
                # https://cloud.google.com/kubernetes-engine/docs/how-to/nvidia-mps-gpus
                raise ValueError(
                    "sharing.strategy: mps is only available on GKE Standard; use time-slicing, "
                    "or platform gke"
                )
            self.sharing.check(gpu_model)

    @property
    def order(self) -> tuple[Capacity, ...]:
        """The only way of buying nodes."""
        return (self.capacity_type,)

    @property
    def node_gpus(self) -> tuple[catalog.Accelerator, int]:
        """The GPUs of the largest node that GKE may start."""
        gpu_model = catalog.ACCELERATORS[self.accelerator]
        return gpu_model, self.gpus_per_node or max(gpu_model.counts)

    def resolve(
        self, name: str, cluster: GkeControlPlaneArgs
    ) -> "ResolvedPool[GkeAutopilotPoolArgs]":
        """The pool in its cluster; raises ValueError if that does not support the GPU."""
        self._check_version(cluster.version)
        return ResolvedPool(args=self, pool=self.gpu_pool(name))

    def gpu_pool(self, name: str) -> GpuPool:
        """The selector as pods and other projects see it."""
        gpu_model = catalog.ACCELERATORS[self.accelerator]
        sharing = self.sharing.of(gpu_model) if self.sharing else None
        counts = (self.gpus_per_node,) if self.gpus_per_node else gpu_model.autopilot_counts
        spot = self.capacity_type == "spot"
        machine = catalog.largest_with(gpu_model.name, max(counts))
        return GpuPool(
            name=name,
            accelerator=gpu_model.name,
            models=[gpu_model.model],
            gpus_per_node=max(counts),
            min_nodes=0,
            max_nodes=None,
            # GKE's own taints: it also adds the tolerations, but only to pods that it admits
            # itself.
            taints=[GPU_TAINT, *([SPOT_TAINT] if spot else [])],
            node_selector={names.GKE_ACCELERATOR: gpu_model.name, **self._selectors(sharing)},
            spot=spot,
            # cloud.google.com/kubernetes-engine/docs/how-to/extended-duration-pods, "Limitations".
            keeps_pods=not spot,
            pod_gpus=() if sharing else gpu_model.autopilot_counts,
            sharing=sharing,
            driver_directory=names.GKE_DRIVER_DIRECTORY,
            host_paths=False,
            **(attachable_classes(machine) if machine else {}),
        )

    def _selectors(self, sharing: Sharing | None) -> dict[str, str]:
        chosen: dict[str, str | None] = {
            names.GKE_ACCELERATOR_COUNT: str(self.gpus_per_node) if self.gpus_per_node else None,
            names.GKE_SPOT: "true" if self.capacity_type == "spot" else None,
            names.GKE_FLEX_START: "true" if self.capacity_type == "flex-start" else None,
            **self._reservation(),
            names.GKE_GPU_DRIVER_VERSION: self.driver_version,
        }
        if sharing is not None:
            chosen[names.GKE_GPU_PARTITION_SIZE] = sharing.partition
            if sharing.strategy in _SHARING_LABELS:
                chosen[names.GKE_GPU_SHARING_STRATEGY] = _SHARING_LABELS[sharing.strategy]
                chosen[names.GKE_MAX_SHARED_CLIENTS] = str(sharing.replicas)
        return {label: value for label, value in chosen.items() if value is not None}

    def _reservation(self) -> dict[str, str | None]:
        if self.reservation is None:
            return {}
        found = reservations.parse(self.reservation)
        return {
            names.GKE_RESERVATION_NAME: found.name,
            names.GKE_RESERVATION_AFFINITY: "specific",
            names.GKE_RESERVATION_PROJECT: found.owner,
            names.GKE_RESERVATION_BLOCKS: found.block,
            names.GKE_RESERVATION_SUB_BLOCKS: found.sub_block,
        }

    def _check_version(self, version: str | None) -> None:
        """Raises ValueError if a cluster of this version does not support the accelerator yet."""
        firsts = catalog.ACCELERATORS[self.accelerator].autopilot_min_version
        if version is None or not firsts:
            return
        first = firsts.get(self.gpus_per_node or max(firsts), ())
        if first and catalog.meets(version, first) is False:
            raise ValueError(
                f"accelerator: {self.accelerator} needs GKE {' or '.join(first)}; raise "
                f"cluster.version {version}, or drop it"
            )
