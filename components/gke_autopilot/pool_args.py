"""The settings of GPUs on Autopilot, and the selector that follows from them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

from annotated_types import Ge, MinLen

from ..catalog import gke as catalog
from ..catalog import kubernetes as names
from ..catalog.dates import holds
from ..cluster import GPU_TAINT, GpuPool, ResolvedPool, Sharing
from ..gke import reservation as reservations
from ..gke.classes import WHOLE_GPUS, bought, common_spec, in_class
from ..gke.fallback_args import Capacity, GkeAutopilotFallbackArgs
from ..gke.pool_args import LEAST_TWO, MIGRATE_BACK, SPOT_TAINT, attachable_classes
from ..gke.sharing_args import GkeSharingArgs
from ..scalers import SCALERS, NotWith, check_scaler, scaler_of
from ..schema.effect import Sent
from ..schema.fallback import DISTINCT, check_keys, of_each, way
from ..schema.limits import Example, Limit
from ..schema.refusal import Refusal, Refusals, refuse, shown
from ..schema.rules import Checked, Fits, rule
from .cluster_args import GkeAutopilotArgs

_SHARING_LABELS = {"time-slicing": "time-sharing"}
_OFFERED = [row.name for row in catalog.ACCELERATORS.values() if row.autopilot_counts]


def _not_offered(name: str) -> str | None:
    if name in _OFFERED:
        return None
    exists = name in catalog.ACCELERATORS
    right = catalog.spelling(name)
    hint = f"did you mean {right!r}? " if right in _OFFERED and not exists else ""
    what = "offered on Autopilot" if exists else "known"
    return f"{shown(name)} is not {what}; {hint}allowed: {', '.join(_OFFERED)}"


_ACCELERATOR = Limit(_not_offered, {"enum": _OFFERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeAutopilotPoolArgs(Checked):
    """GPUs that pods can use on Autopilot. There is no node pool: GKE starts a node for a pod."""

    accelerator: Annotated[str, _ACCELERATOR, Sent("PodSpec nodeSelector"), Example("nvidia-l4")]
    """The GPU, as in the node label `cloud.google.com/gke-accelerator`."""
    gpus_per_node: Annotated[
        int | None,
        Ge(1),
        Fits("{!r} is not possible with {accelerator}"),
        Sent("PodSpec nodeSelector"),
    ] = None
    """The number of GPUs per node; by default, GKE starts a node as large as the pod requests. With
    compute classes it is required, and a pod requests all GPUs of its node."""
    capacity_type: Annotated[Capacity, Sent("PodSpec nodeSelector")] = "on-demand"
    """How the nodes are bought."""
    fallback: Annotated[
        Sequence[Capacity | GkeAutopilotFallbackArgs],
        MinLen(2),
        LEAST_TWO,
        DISTINCT,
        Sent("ComputeClass spec.priorities[]"),
        NotWith("gke", "a pod that selects no compute class gets nodes that are bought in one way"),
    ] = ()
    """The ways of buying nodes, in the order in which they are tried, with the values of
    `capacityType`, which must be omitted. An entry may be a map with `capacityType` and `zones` of
    its own."""
    migrate_back: Annotated[
        MIGRATE_BACK, NotWith("gke", "only a compute class has an order of fallback")
    ] = True
    """Whether GKE moves pods back to an earlier choice of `fallback` once it is available. It
    evicts them, except those that prevent the removal of their node."""
    reservation: Annotated[str | None, reservations.RESERVATION, Sent("PodSpec nodeSelector")] = (
        None
    )
    """The reservation that the nodes use, with capacityType `reservation`: its name, or
    `projects/OWNER/reservations/NAME` if another project shares it; either with
    `/reservationBlocks/BLOCK` for a part of it. Never an output: which labels pods select, in this
    stack and in others, follows from its parts."""
    any_reservation: Annotated[
        bool,
        NotWith("gke", "a pod that selects no compute class can only name a reservation"),
        Sent("ComputeClass spec.priorities[]"),
    ] = False
    """Whether on-demand nodes use any reservation of the project that fits their machines and that
    need not be named, while it has room, before they are bought (`AnyBestEffort`)."""
    driver_version: Annotated[Literal["default", "latest"] | None, Sent("PodSpec nodeSelector")] = (
        None
    )
    """The driver that GKE installs; by default, GKE's default for the accelerator."""
    sharing: Annotated[GkeSharingArgs | None, WHOLE_GPUS] = None
    """How pods share a GPU; by default, each GPU belongs to one pod."""

    check_given = staticmethod(check_keys)

    @rule
    def _check_bought(self) -> Iterator[Refusal]:
        ways = catalog.autopilot_provisioning(self.accelerator, self.gpus_per_node)
        for bought_as in self.order:
            if bought_as not in ways:
                count = f"{self.gpus_per_node} " if self.gpus_per_node else ""
                reason = f"nodes with {count}{self.accelerator} are not sold as {bought_as}"
                key = "fallback" if self.fallback else "capacityType"
                yield refuse(key)(reason, allowed=ways)

    @rule
    def _check_reservation(self) -> None:
        reservations.check_order(self.order, self.reservation, self.any_reservation)

    @rule
    def _check_sharing(self) -> None:
        if self.sharing is not None and self.sharing.strategy == "mps":
            # https://cloud.google.com/kubernetes-engine/docs/how-to/nvidia-mps-gpus
            raise refuse(("sharing", "strategy"))(
                "mps is only available on GKE Standard; use time-slicing, or platform gke"
            )
        if self.sharing is not None:
            self.sharing.check(catalog.ACCELERATORS[self.accelerator])

    def possible(self, key: str) -> Sequence[Any] | None:
        if key == "sharing.strategy":
            return ["mig", "time-slicing"]
        if key == "gpusPerNode":
            return catalog.ACCELERATORS[self.accelerator].autopilot_counts
        if key == "capacityType":
            return catalog.autopilot_provisioning(self.accelerator, self.gpus_per_node)
        return None

    @property
    def order(self) -> Sequence[Capacity]:
        """The ways of buying nodes, in the order in which they are tried."""
        return tuple(map(way, self.fallback)) or (self.capacity_type,)

    @property
    def node_gpus(self) -> tuple[catalog.Accelerator, int]:
        """The GPUs of the largest node that GKE may start."""
        gpu_model = catalog.ACCELERATORS[self.accelerator]
        return gpu_model, self.gpus_per_node or max(gpu_model.counts)

    def resolve(self, name: str, cluster: GkeAutopilotArgs) -> "ResolvedPool[GkeAutopilotPoolArgs]":
        """The pool in its cluster; raises `Refusal` if it does not match the cluster."""
        every = catalog.ACCELERATORS[self.accelerator].autopilot_counts
        counts = [
            count
            for count in every
            if {*self.order} <= {*catalog.autopilot_provisioning(self.accelerator, count)}
        ] or every
        missing = self.gpus_per_node is None
        needs = f" and gpusPerNode: {counts[0]}" if missing and cluster.scaler == "gke" else ""
        refusals = Refusals()
        refusals.run(
            lambda: check_scaler(self, cluster.scaler, type(cluster), needs=needs),
            lambda: self._check_version(cluster.version),
            lambda: of_each(self.fallback, partial(self._check_zones, cluster)),
        )
        refusals.check()
        pool = self.gpu_pool(name)
        if scaler_of("gke-autopilot", cluster.scaler).in_cluster:
            if self.gpus_per_node is None:
                raise refuse("gpusPerNode")(
                    "is missing, and a compute class creates nodes with a fixed number of GPUs",
                    allowed=counts,
                )
            # GKE has a GPU pod select nodes with as many GPUs as it requests: cluster-autoscaler
            # 7d250507, pkg/autoprovisioning/injection.go, on AcceleratorCountLabel, 2026-11-24.
            pool = replace(in_class(pool), pod_gpus=(self.gpus_per_node,))
        return ResolvedPool(args=self, pool=pool)

    def class_spec(self, name: str) -> dict[str, Any]:
        """The `spec` of the pool's ComputeClass. GKE chooses the smallest machine type that pods
        fit on and the zones, and the nodes use the cluster's service account."""
        return common_spec(
            name,
            [self._priority(entry) for entry in self.fallback or (self.capacity_type,)],
            migrates=bool(self.fallback) and self.migrate_back,
        )

    def _priority(self, entry: Capacity | GkeAutopilotFallbackArgs) -> dict[str, Any]:
        bought_as = way(entry)
        zones = [] if isinstance(entry, str) else list(entry.zones)
        assert self.gpus_per_node is not None, "checked with the cluster"
        rule: dict[str, Any] = {
            "gpu": {
                "type": self.accelerator,
                "count": self.gpus_per_node,
                "driverVersion": self.driver_version or "default",
            },
            **bought(bought_as, self.reservation, zones, any_reservation=self.any_reservation),
        }
        if zones and bought_as != "reservation":
            rule["location"] = {"zones": zones}
        if bought_as == "reservation":
            machine = catalog.largest_with(self.accelerator, self.gpus_per_node)
            if machine and machine.local_ssds:
                # The only one that Autopilot offers with this number of these GPUs.
                storage = {"localSSDCount": machine.local_ssds}
                return rule | {"machineType": machine.name, "storage": storage}
            # Else GKE takes the type of the reserved machines, of this family.
            rule["machineFamily"] = catalog.ACCELERATORS[self.accelerator].machine_family
        return rule

    def gpu_pool(self, name: str) -> GpuPool:
        """The selector as pods and other projects see it."""
        gpu_model = catalog.ACCELERATORS[self.accelerator]
        sharing = self.sharing.of(gpu_model) if self.sharing else None
        counts = (self.gpus_per_node,) if self.gpus_per_node else gpu_model.autopilot_counts
        spot = "spot" in self.order
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
            stay_annotations=SCALERS["autopilot"].stay_annotations(spot=spot),
            pod_gpus=()
            if sharing
            else [count for count in gpu_model.autopilot_counts if count <= max(counts)],
            sharing=sharing,
            node_rooms={
                str(count): catalog.autopilot_room(gpu_model.name, self.gpus_per_node or count)
                for count in gpu_model.autopilot_counts
                if not sharing
            },
            default_disk=catalog.AUTOPILOT_DISK,
            sure_disk=catalog.AUTOPILOT_SURE_DISK,
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
        reservation = reservations.parse_reservation(self.reservation)
        return {
            names.GKE_RESERVATION_NAME: reservation.name,
            names.GKE_RESERVATION_AFFINITY: "specific",
            names.GKE_RESERVATION_PROJECT: reservation.owner,
            names.GKE_RESERVATION_BLOCKS: reservation.block,
            names.GKE_RESERVATION_SUB_BLOCKS: reservation.sub_block,
        }

    def _check_version(self, version: str | None) -> None:
        """Raises `Refusal` if a cluster of this version does not support the accelerator yet, or
        one of the ways of buying it in a class."""
        if version is None:
            return
        flexible = catalog.FIRST_VERSIONS["flex-start"]
        if "flex-start" in self.fallback and catalog.meets(version, flexible) is False:
            raise refuse("fallback")(
                f"flex-start needs GKE {' or '.join(flexible)}",
                remedy=f"raise cluster.version {version}, or drop it",
            )
        firsts = catalog.ACCELERATORS[self.accelerator].autopilot_min_version
        if not firsts:
            return
        first = firsts.get(self.gpus_per_node or max(firsts), ())
        if first and catalog.meets(version, first) is False:
            raise refuse("accelerator")(
                f"{self.accelerator} needs GKE {' or '.join(first)}",
                remedy=f"raise cluster.version {version}, or drop it",
            )

    def _check_zones(
        self, cluster: GkeAutopilotArgs, entry: Capacity | GkeAutopilotFallbackArgs
    ) -> None:
        """Raises `Refusal` for a zone that a class of the cluster cannot name."""
        first = catalog.FIRST_VERSIONS["compute-class-location"]
        offered = catalog.zones_with(self.accelerator, cluster.location)
        partial_list = catalog.ACCELERATORS[self.accelerator].zones_partial
        listed = holds("gke.ACCELERATOR_ZONES") and not partial_list
        for zone in () if isinstance(entry, str) else entry.zones:
            if catalog.region_of(zone) != cluster.location:
                raise refuse("zones", zone)(
                    f"is not a zone of the cluster's region {cluster.location}",
                    remedy=catalog.zones_of(cluster.location),
                )
            if listed and zone not in offered:
                raise refuse("zones", zone)(
                    f"has no {self.accelerator}; zones of {cluster.location} that have it: "
                    f"{', '.join(offered) or 'none'}"
                )
            if cluster.version is not None and catalog.meets(cluster.version, first) is False:
                raise refuse("zones")(
                    f"of a compute class need GKE {' or '.join(first)}",
                    remedy=f"raise cluster.version {cluster.version}, or drop the key",
                )
