"""The page of what is supported: GPUs, drivers, device plugins and sharing, for each platform.

The driver and sharing tables show which cases the settings' classes accept; the table of GPUs is
the catalog's.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.components.catalog.eks import INSTANCE_TYPES, refusal
from gpu_cluster.components.catalog.gke import ACCELERATORS
from gpu_cluster.components.catalog.gke_machines import MACHINE_TYPES, MachineType
from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.scalers import scalers, unsupported
from gpu_cluster.components.schema.decode import camel, decode
from gpu_cluster.components.schema.refusal import UNKNOWN_KEY, Refusal
from gpu_cluster.tools.sections import REFERENCE, TEMPLATES, page, table
from quality.docs import scaler_table
from quality.docs.supported import SUPPORTED

PAGE = REFERENCE / "support-matrix.md"


def drivers() -> Iterator[tuple[str, str, str, type, Mapping[str, Any]]]:
    """Platform, node image, who installs the driver, class of args, and settings of a pool."""
    for platform, rows in SUPPORTED.items():
        for image, who, given in rows.drivers:
            yield platform, image, who, PLATFORMS[platform].settings.POOL, given


STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "time-slicing": {"strategy": "time-slicing", "replicas": 4},
    "mps": {"strategy": "mps", "replicas": 4},
    "mig": {"strategy": "mig", "partition": "1g.5gb"},
}


def markdown() -> str:
    """The page's text."""
    return page(
        TEMPLATES / PAGE.name,
        drivers=table(
            ("platform", "node image", "who installs the driver", "device plugin"), _drivers()
        ),
        sharing=table(("platform", *(f"`{name}`" for name in STRATEGIES)), _sharing()),
        gpus=table(("GPU", "GKE", "GPUs per pod on GKE Autopilot", "EKS"), _gpus()),
        located=table(("platform", "machines"), _located()),
        scalers=table(scaler_table.FACTS, scaler_table.facts()),
        features=table(scaler_table.TITLES, scaler_table.supported()),
        commands=table(scaler_table.TITLES, scaler_table.commands()),
        claims=table(("", *scaler_table.claiming()), scaler_table.claims()),
        refusals=table(("platform", "`cluster.scaler`", "refuses", "because"), _unsupported()),
    )


def pool_of(kind: type, given: Mapping[str, Any]) -> GpuPool:
    """The pool that settings describe; raises ValueError if they are refused."""
    pool: GpuPool = decode("pool", kind, given).gpu_pool("pool")
    return pool


def _drivers() -> Iterator[tuple[str, ...]]:
    for platform, image, driver, kind, given in drivers():
        plugin = _plugin(SUPPORTED[platform].plugin, pool_of(kind, given))
        yield platform, image, driver, plugin


def _plugin(other: str, pool: GpuPool) -> str:
    if pool.device_plugin:
        return "NVIDIA's, in a DaemonSet of this stack"
    if pool.device_class:
        return "none: NVIDIA's DRA driver, in a DaemonSet of this stack"
    return "somebody else's" if pool.left_to_others else other


def _sharing() -> Iterator[tuple[str, ...]]:
    for platform, rows in SUPPORTED.items():
        kind = PLATFORMS[platform].settings.POOL
        for nodes, given in rows.sharing:
            name = f"{platform}, {nodes}" if nodes else platform
            yield name, *(_accepted(kind, given, sharing) for sharing in STRATEGIES.values())


def _accepted(kind: type, given: Mapping[str, Any], sharing: Mapping[str, Any]) -> str:
    try:
        pool_of(kind, {**given, "sharing": sharing})
    except ValueError:
        return "refused"
    return "yes"


def _located() -> Iterator[tuple[str, str]]:
    for platform, rows in SUPPORTED.items():
        if rows.located:
            yield platform, ", ".join(f"`{name}`" for name in rows.located)


def _unsupported() -> Iterator[tuple[str, ...]]:
    for name, platform in PLATFORMS.items():
        rows = [
            (name, f"`{mark.scaler}`", f"`{camel(field)}`", mark.reason)
            for field, marks in unsupported(platform.settings.POOL).items()
            for mark in marks
        ]
        yield from sorted(rows) if scalers(platform.settings.CLUSTER) else ()


def _gpus() -> Iterator[tuple[str, ...]]:
    gke: dict[str, list[str]] = {}
    autopilot: dict[str, set[int]] = {}
    eks: dict[str, list[str]] = {}
    for machine in MACHINE_TYPES.values():
        if machine.accelerator and not machine.uncertain and _offered(machine):
            gke.setdefault(ACCELERATORS[machine.accelerator].model, []).append(f"`{machine.name}`")
    for row in ACCELERATORS.values():
        if row.machine_family == "n1" and not row.retired:
            gke.setdefault(row.model, []).append(f"N1 with `{row.name}`")
        if row.autopilot_counts:
            autopilot.setdefault(row.model, set()).update(row.autopilot_counts)
    for name, instance in INSTANCE_TYPES.items():
        if instance.gpu_model is not None and refusal(name) is None:
            eks.setdefault(instance.gpu_model, []).append(f"`{name}`")
    for model in sorted(gke.keys() | autopilot.keys() | eks.keys()):
        counts = ", ".join(map(str, sorted(autopilot.get(model, ()))))
        yield model, _cell(gke.get(model)), counts or "-", _cell(eks.get(model))


def _offered(machine: MachineType) -> bool:
    """Whether a pool can have it, with any purchase option."""
    (capacity, *_) = machine.provisioning
    given = {"machineType": machine.name, "capacityType": capacity}
    try:
        pool_of(
            GkeGpuNodePoolArgs,
            {**given, "reservation": "mine"} if capacity == "reservation" else given,
        )
    except Refusal as refusal:
        if refusal.code == UNKNOWN_KEY:
            raise
        return False
    return True


def _cell(names: list[str] | None) -> str:
    return ", ".join(names or ("-",))
