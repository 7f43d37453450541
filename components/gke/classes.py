"""A GPU pool as a GKE compute class: what GKE Standard and Autopilot have in common.

Facts from
https://docs.cloud.google.com/kubernetes-engine/docs/concepts/about-custom-compute-classes (of
2026-04-13), the CRD (datreeio/CRDs-catalog, cloud.google.com/computeclass_v1.json) and GKE's own
autoscaler (GoogleCloudPlatform/cluster-autoscaler 7d250507, pkg/computeclass and
pkg/autoprovisioning), read 2026-11-24. This module does without an SDK.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..catalog import kubernetes as names
from ..cluster import GpuPool, Taint
from ..scalers import NotWith
from ..schema.decode import NAMESPACE
from ..schema.outputs import MaybeOutput, applied
from ..schema.refusal import Refusal, collected, refuse
from . import reservation as reservations


def not_in_classes(reason: str, *, but: Sequence[Any] = ()) -> NotWith:
    """Marks a setting for which a ComputeClass has no field.

    https://docs.cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass and the CRD of
    GKE 1.34 and 1.35 (datreeio/CRDs-catalog, cloud.google.com/computeclass_v1.json), 2026-11-24.
    """
    return NotWith("compute-classes", reason, but=but)


WHOLE_GPUS = not_in_classes("compute classes have only whole GPUs")


@collected
def check_names(pools: Iterable[str]) -> Iterator[Refusal]:
    """Raises `Refusal` if a compute class cannot have the name of one of these pools."""
    for name in pools:
        if name == "default" or name.startswith(("gke", "autopilot")):
            yield refuse((f"{NAMESPACE}:gpuPools", name))(
                "cannot be the name of a compute class: GKE keeps default and names that begin "
                "with gke or autopilot for itself; choose another"
            )


def in_class(pool: GpuPool) -> GpuPool:
    """The pool as pods see it, with a compute class of the same name."""
    mark = Taint(key=names.GKE_COMPUTE_CLASS, value=pool.name)
    return replace(
        pool,
        # GKE does not add the Spot taint to a class's nodes: all of its fallbacks run the same
        # pods.
        taints=[*(taint for taint in pool.taints if taint.key != names.GKE_SPOT), mark],
        node_selector={names.GKE_COMPUTE_CLASS: pool.name},
    )


def common_spec(
    pool: str, priorities: Sequence[Mapping[str, Any]], *, migrates: bool
) -> dict[str, Any]:
    """The fields that all classes share. `migrates`: whether pods return to earlier choices."""
    return {
        "description": f"GPU pool {pool}",
        "nodePoolAutoCreation": {"enabled": True},
        "priorities": list(priorities),
        # Set although it is the default, which was different before GKE 1.33.
        "whenUnsatisfiable": "DoNotScaleUp",
        "activeMigration": {"optimizeRulePriority": migrates},
    }


def bought(
    way: str,
    reservation: MaybeOutput | None = None,
    zones: Sequence[str] = (),
    *,
    any_reservation: bool = False,
) -> dict[str, Any]:
    """The fields of a priority for the way of buying nodes. `zones`: those in which the reservation
    must be; GKE refuses zones of a location together with them. `any_reservation`: whether
    on-demand nodes first use those that need not be named."""
    if way == "flex-start":
        return {"flexStart": {"enabled": True}}
    if way == "on-demand" and any_reservation:
        return {"spot": False, "reservations": {"affinity": "AnyBestEffort"}}
    if way != "reservation":
        return {"spot": way == "spot"}
    assert reservation is not None, "checked with the order"
    specific = applied(lambda path: _specific(path, zones), reservation)
    return {"spot": False, "reservations": {"affinity": "Specific", "specific": [specific]}}


def _specific(reservation: str, zones: Sequence[str]) -> dict[str, Any]:
    named = reservations.parse_reservation(reservation)
    specific: dict[str, Any] = {"name": named.name}
    if named.owner:
        specific["project"] = named.owner
    if named.block:
        specific["reservationBlock"] = {"name": named.block}
    if named.sub_block:
        specific["reservationBlock"]["reservationSubBlock"] = {"name": named.sub_block}
    return specific | ({"zones": list(zones)} if zones else {})
