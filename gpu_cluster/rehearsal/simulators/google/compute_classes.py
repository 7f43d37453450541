"""The node pools that GKE creates for the ComputeClasses of a cluster.

Pools and their nodes follow GoogleCloudPlatform/cluster-autoscaler 7d250507 (pkg/computeclass,
pkg/autoprovisioning/injection.go, pkg/backoff/npc_backoff.go; read 2026-11-24). A real pool spans
the zones of its priority; here each zone has its own. For a priority without a machine type, GKE
takes that of its reservation, else the smallest machine for the pods; here the largest is taken.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_cluster.components.catalog.gke import (
    ACCELERATORS,
    MachineType,
    largest_with,
    machine_type,
    region_of,
    zones_with,
)
from gpu_cluster.rehearsal.simulators.cloud import Choice, NodeGroup
from gpu_cluster.rehearsal.simulators.google import nodes
from gpu_cluster.rehearsal.simulators.google.autopilot import ACCELERATOR_COUNT_LABEL
from gpu_cluster.rehearsal.simulators.google.container import node_pools, reserved
from gpu_cluster.rehearsal.simulators.google.container.machine_families import (
    check_boot_disk,
    ssd_counts,
)
from gpu_cluster.rehearsal.simulators.google.container.node_defaults import accelerator_of
from gpu_cluster.rehearsal.simulators.google.errors import ApiError
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google.state import CloudState
from gpu_cluster.rehearsal.simulators.reservations import Reservation

LABEL = "cloud.google.com/compute-class"
_EFFECTS = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}
_MOST_NODES = 1000
"""The most nodes, per zone, of a pool that GKE creates: its flag `nap-max-nodes`."""
_LONGEST_TYPE = 15
"""The most characters of a machine type in such a pool's name, which has at most 40."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node pool that GKE would create, or has created, for a priority of a class."""

    pool: CloudResource
    choice: Choice


def candidates(
    cloud: CloudState, cluster: CloudResource, classes: Sequence[Mapping[str, Any]]
) -> tuple[list[Candidate], list[str]]:
    """The pools of all classes, and the classes' errors, one line each, with GKE's messages."""
    found: list[Candidate] = []
    wrong: list[str] = []
    for row in classes:
        name, spec = row["metadata"]["name"], row["spec"]
        if not (spec.get("nodePoolAutoCreation") or {}).get("enabled"):
            wrong.append(
                f"compute class {name}: Crd with NAP disabled should have at least one matching "
                "nodepool with autoscaling enabled."
            )
            continue
        rules = [
            _Rule(name=name, rank=rank, spec=spec, rule=rule)
            for rank, rule in enumerate(spec.get("priorities") or [])
        ]
        for rule in rules:
            try:
                found += rule.candidates(cloud, cluster)
            except ApiError as error:
                wrong.append(f"compute class {name}: priority {rule.rank}: {error.message}")
    return found, wrong


def group(candidate: Candidate, cluster: CloudResource, pool: CloudResource) -> NodeGroup:
    """The candidate, or the `pool` created for it, as the sandbox sees it."""
    limit = limits(cluster.state).get(_accelerator(pool))
    per_node = (accelerator_of(pool.state) or (None, 1))[1]
    most = _MOST_NODES if limit is None else limit // per_node
    seen = nodes.group(pool, cluster)
    return replace(
        seen,
        max_nodes=min(seen.max_nodes, most),
        choice=candidate.choice,
        auto_provisioned=True,
        autopilot=bool((cluster.state.get("autopilot") or {}).get("enabled")),
    )


def limits(cluster: Mapping[str, Any]) -> dict[str, int]:
    """The limits of node auto-provisioning by resource; empty if it is off, since from
    1.33.3-gke.1136000 on a class creates pools without it, and without limits."""
    scaling = cluster.get("autoscaling") or {}
    if not scaling.get("enableNodeAutoprovisioning"):
        return {}
    return {
        row["resourceType"]: int(row.get("maximum", 0)) for row in scaling.get("resourceLimits", ())
    }


def check_limits(
    cluster: CloudResource, pools: Iterator[CloudResource], pool: CloudResource, wanted: int
) -> None:
    """Raises ApiError if the cluster's limits do not allow `wanted` nodes of the pool."""
    accelerator = _accelerator(pool)
    if (limit := limits(cluster.state).get(accelerator)) is None:
        return
    used = wanted * (accelerator_of(pool.state) or (None, 0))[1] + sum(
        row.nodes * (accelerator_of(row.state) or (None, 0))[1]
        for row in pools
        if row.identity != pool.identity and _accelerator(row) == accelerator
    )
    if used > limit:
        # no.scale.up.nap.pod.gpu.no.limit.defined and max.limit.reached of the visibility log.
        raise ApiError(
            429, f"max cluster {accelerator} limit reached: {used} needed, resourceLimits {limit}"
        )


def _accelerator(pool: CloudResource) -> str:
    found = accelerator_of(pool.state)
    return found[0].name if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """A priority of a class."""

    name: str
    rank: int
    spec: Mapping[str, Any]
    rule: Mapping[str, Any]

    def candidates(self, cloud: CloudState, cluster: CloudResource) -> Iterator[Candidate]:
        """A pool for each zone; raises ApiError for a rule that GKE reports as misconfigured."""
        if "nodepools" in self.rule:
            return
        reservation = self._reservation()
        zones = self._zones(cluster, reservation)
        zones = self.offered(zones)
        project = cluster.identity.split("/")[1]
        if reservation:
            zones = self._reserved_zones(cloud, project, reservation, zones)
        migrates = (self.spec.get("activeMigration") or {}).get("optimizeRulePriority", False)
        for zone in zones:
            for path in reservation or [""]:
                row = reserved.found_in(cloud, path, project, zone) if path else None
                state = self._with(row).state(cluster, zone, path)
                pool = node_pools.drafted(cloud, cluster, state)
                check_boot_disk(pool.state["config"])
                yield Candidate(
                    pool=pool, choice=Choice(of=self.name, rank=self.rank, migrates=bool(migrates))
                )

    def _with(self, row: Reservation | None) -> "_Rule":
        """The priority with the machine type of its reservation; raises ApiError if it names
        another one, or another family (reservation_utils.go and matcher.go)."""
        if row is None:
            return self
        if wanted := self.rule.get("machineType"):
            what, has = "type mismatch,", row.type
        else:
            wanted, what = self.rule["machineFamily"], "family mismatch:"
            has = row.type.partition("-")[0]
        if wanted != has:
            raise _incompatible(
                row.name,
                f"in zone {row.zone}: machine {what} requested {wanted}, reservation has {has}",
            )
        if "machineType" in self.rule:
            return self
        rule = replace(self, rule={**self.rule, "machineType": row.type})
        rule.offered([row.zone])
        return rule

    def _reservation(self) -> list[str]:
        """Paths of the specific reservations, as in `reservationAffinity`."""
        given = self.rule.get("reservations") or {}
        if given.get("affinity") != "Specific":
            return []
        if (self.rule.get("location") or {}).get("zones"):
            raise ApiError(400, "location config with specific reservations enabled")
        if not {"machineType", "machineFamily"} & self.rule.keys():
            # GoogleCloudPlatform/cluster-autoscaler, reservation_utils.go, read 2026-11-24.
            raise ApiError(
                400,
                "missing machineType and machineFamily, unable to define reservation compatibility",
            )
        return [_path(entry) for entry in given["specific"]]

    def _zones(self, cluster: CloudResource, reservation: Sequence[str]) -> list[str]:
        state, location = cluster.state, self.rule.get("location") or {}
        default = (self.spec.get("priorityDefaults") or {}).get("location") or {}
        chosen = location.get("zones") or default.get("zones")
        if reservation:
            specific = self.rule["reservations"]["specific"]
            chosen = [zone for entry in specific for zone in entry.get("zones", ())]
        scaling = state.get("autoscaling") or {}
        own = scaling.get("autoprovisioningLocations") or state["locations"]
        region = region_of(state["location"])
        for zone in chosen or ():
            if region_of(zone) != region:
                raise ApiError(
                    400,
                    f"Location {zone} specified in zonal preferences is not eligible for "
                    f"autoprovisioning. Available locations: {own}",
                )
        return list(dict.fromkeys(chosen or own))

    def _reserved_zones(
        self, cloud: CloudState, project: str, reservation: Sequence[str], zones: Sequence[str]
    ) -> list[str]:
        """Those of `zones` that have it; raises ApiError if a zone that the rule names lacks it."""
        found = [
            zone
            for zone in zones
            if any(reserved.found_in(cloud, path, project, zone) for path in reservation)
        ]
        if not found:
            raise ApiError(
                404, f'Reservation "{reservation[0]}" either does not exist or not accessible.'
            )
        named = any("zones" in entry for entry in self.rule["reservations"]["specific"])
        if named and (lacking := [zone for zone in zones if zone not in found]):
            raise ApiError(400, f"Reservation is missing in specified zone {lacking[0]}")
        return found

    @property
    def _machine(self) -> MachineType:
        gpu = self.rule.get("gpu") or {}
        name, kind = self.rule.get("machineType", ""), gpu.get("type", "")
        machine = machine_type(name) if name else largest_with(kind, int(gpu.get("count", 1)))
        if machine is not None:
            return machine
        if name:
            raise ApiError(400, f"Machine type {name} is not a known type.")
        if kind not in ACCELERATORS:
            raise ApiError(400, f"GPU type {kind} is not supported.")
        raise ApiError(400, f"GPU type {kind} with count {gpu.get('count', 1)} is not supported.")

    def offered(self, zones: Sequence[str]) -> list[str]:
        """Those of `zones` that have the machine, all of them if they are the rule's own; raises
        ApiError for a machine that GKE calls misconfigured, and if no zone has it."""
        gpu, machine = self.rule.get("gpu") or {}, self._machine
        name = machine.name
        kind, count = gpu.get("type", machine.accelerator), int(gpu.get("count", machine.gpus))
        if kind is not None and kind not in ACCELERATORS:
            raise ApiError(400, f"GPU type {kind} is not supported.")
        if machine.accelerator is not None and (kind, count) != (
            machine.accelerator,
            int(machine.gpus),
        ):
            raise ApiError(
                400,
                f"GPU type {kind} with count {count} is not supported with machine type {name}.",
            )
        if kind is None:
            return list(zones)
        offered = machine.zones or zones_with(kind, region_of(zones[0]))
        if not ACCELERATORS[kind].zones_partial and not {*zones} & {*offered}:
            raise ApiError(
                400,
                f"Machine type {name} is not available in any of auto provisioned zones, last zone "
                f"check error: {zones[-1]} has none",
            )
        flexible = (self.rule.get("flexStart") or {}).get("enabled")
        seconds = self.rule.get("maxRunDurationSeconds")
        least, most = (600, 7 * 86_400) if flexible else (30, 120 * 86_400)
        if seconds is not None and not least <= seconds <= most:
            span = "10 minutes - 7 days" if flexible else "30 seconds - 120 days"
            raise ApiError(
                400,
                f"MaxRunDuration is not within the allowed range ({span}). Got {seconds} seconds.",
            )
        ssd = (self.rule.get("storage") or {}).get("localSSDCount")
        if (paths := self._reservation()) and machine.local_ssd_gib and not ssd:
            raise _incompatible(paths[0], "local SSDs: the priority has no localSSDCount")
        if ssd and "machineType" not in self.rule:
            # "Auto-create node pools to consume reservations": no words of GKE are known.
            raise ApiError(
                400, "priorities that configure local SSDs must use machineType, not machineFamily"
            )
        allowed = ssd_counts(name)
        if ssd and ssd not in allowed:
            counts = f" Allowed counts are - [{', '.join(map(str, allowed))}]." if allowed else ""
            raise ApiError(
                400, f"Local SSD count {ssd} is not supported with machine type {name}.{counts}"
            )
        own = (self.rule.get("location") or {}).get("zones") or self._reservation()
        return [zone for zone in zones if own or zone in offered] or list(zones)

    def state(self, cluster: CloudResource, zone: str, reservation: str) -> dict[str, Any]:
        """The `NodePool` that GKE's autoscaler requests."""
        rule, common = self.rule, self.spec.get("nodePoolConfig") or {}
        defaults = (cluster.state.get("autoscaling") or {}).get(
            "autoprovisioningNodePoolDefaults", {}
        )
        gpu, storage = rule.get("gpu") or {}, rule.get("storage") or {}
        config = {
            "machineType": self._machine.name,
            "imageType": common.get("imageType", defaults.get("imageType", "")).upper(),
            "serviceAccount": common.get("serviceAccount", defaults.get("serviceAccount", "")),
            "oauthScopes": defaults.get("oauthScopes", ""),
            "shieldedInstanceConfig": defaults.get("shieldedInstanceConfig", ""),
            "diskType": storage.get("bootDiskType", ""),
            "diskSizeGb": storage.get("bootDiskSize", ""),
            "labels": {
                **common.get("nodeLabels", {}),
                **rule.get("nodeLabels", {}),
                LABEL: self.name,
            },
            # GKE's webhook makes every pod that selects a class tolerate its taint, with which the
            # autoscaler taints the nodes. A class's Spot nodes have no Spot taint.
            "taints": [
                *({**taint, "effect": _EFFECTS[taint["effect"]]}
                  for taint in (*common.get("taints", ()), *rule.get("taints", ()))),
                {"key": LABEL, "value": self.name, "effect": "NO_SCHEDULE"},
                *([dict(node_pools.GPU_TAINT)] if gpu else []),
            ],
            "spot": bool(rule.get("spot")),
        }  # fmt: skip
        if ssds := storage.get("localSSDCount"):
            config["ephemeralStorageLocalSsdConfig"] = {"localSsdCount": ssds}
        if gpu:
            version = str(gpu.get("driverVersion", "default")).upper()
            config["accelerators"] = [
                {
                    "acceleratorType": gpu["type"],
                    "acceleratorCount": str(gpu.get("count", 1)),
                    "gpuDriverInstallationConfig": {"gpuDriverVersion": version},
                }
            ]
            if (cluster.state.get("autopilot") or {}).get("enabled"):
                config["labels"][ACCELERATOR_COUNT_LABEL] = str(gpu.get("count", 1))
        flexible = bool((rule.get("flexStart") or {}).get("enabled"))
        if flexible:
            config["flexStart"] = True
        if (seconds := rule.get("maxRunDurationSeconds")) is not None:
            config["maxRunDuration"] = f"{seconds}s"
        if reservation:
            config["reservationAffinity"] = {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": [reservation],
            }
        if (rule.get("reservations") or {}).get("affinity") == "AnyBestEffort":
            config["reservationAffinity"] = {"consumeReservationType": "ANY_RESERVATION"}
        for ours, theirs in (("gvnic", "gvnic"), ("imageStreaming", "gcfsConfig")):
            if (common.get(ours) or {}).get("enabled"):
                config[theirs] = {"enabled": True}
        return {
            "name": self._pool_name(zone, reservation),
            "locations": [zone],
            "config": config,
            # GKE neither repairs nor upgrades flex-start nodes.
            "management": {"autoRepair": not flexible, "autoUpgrade": True},
            "autoscaling": {
                "enabled": True,
                "autoprovisioned": True,
                "maxNodeCount": _MOST_NODES,
                "locationPolicy": (rule.get("location") or {}).get("locationPolicy", "ANY"),
            },
        }

    def _pool_name(self, zone: str, reservation: str) -> str:
        """`nap-g2-standard-4-spot-gpu1-0a1b2c3d`. GKE's suffix is random; this one is stable, so
        that a rehearsal's autoscaler recognises a pool that is created again."""
        gpu = self.rule.get("gpu") or {}
        text = f"{self.name} {self.rank} {zone} {reservation}"
        parts = [
            "nap",
            self._machine.name[:_LONGEST_TYPE].rstrip("-"),
            *(["spot"] if self.rule.get("spot") else []),
            *([f"gpu{gpu.get('count', 1)}"] if gpu else []),
            hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:8],
        ]
        return "-".join(parts)


def _incompatible(reservation: str, why: str) -> ApiError:
    return ApiError(
        400,
        f'Reservation "{reservation}" is incompatible with priority rule configuration ({why}).',
    )


def _path(specific: Mapping[str, Any]) -> str:
    project, name = specific.get("project"), specific["name"]
    path = f"projects/{project}/reservations/{name}" if project else name
    block = specific.get("reservationBlock") or {}
    if block:
        path += f"/reservationBlocks/{block['name']}"
        if sub := block.get("reservationSubBlock"):
            path += f"/reservationSubBlocks/{sub['name']}"
    return str(path)
