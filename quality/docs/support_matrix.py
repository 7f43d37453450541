"""The page of what is supported: GPUs, drivers, device plugins and sharing, for each platform.

The driver and sharing tables show which cases the settings' classes accept; the table of GPUs is
the catalog's.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

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

PAGE = REFERENCE / "support-matrix.md"


class Supported(Protocol):
    """The module that `Platform.support` names: its rows on the page."""

    DRIVERS: Sequence[tuple[str, str, Mapping[str, Any]]]
    """Node image, who installs the driver, and the settings of such a pool."""
    SHARING: Sequence[tuple[str, Mapping[str, Any]]]
    """Kind of nodes, if there are several, and the settings of a pool whose GPUs can be shared."""
    PLUGIN: str
    """Who runs the device plugin if neither this stack nor somebody else does."""
    LOCATED: Sequence[str]
    """The machine types whose zones the catalog has."""


def supported() -> Iterator[tuple[str, type, Supported]]:
    """The platforms that have rows, with the class of their pools' args."""
    for name, platform in PLATFORMS.items():
        if platform.support:
            rows = cast(Supported, import_module(platform.support))
            yield name, platform.settings.POOL, rows


def drivers() -> Iterator[tuple[str, str, str, type, Mapping[str, Any]]]:
    """Platform, node image, who installs the driver, class of args, and settings of a pool."""
    for platform, kind, rows in supported():
        for image, who, given in rows.DRIVERS:
            yield platform, image, who, kind, given


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
    plugins = {platform: rows.PLUGIN for platform, _, rows in supported()}
    for platform, image, driver, kind, given in drivers():
        pool = pool_of(kind, given)
        yield platform, image, driver, _plugin(plugins[platform], pool)


def _plugin(other: str, pool: GpuPool) -> str:
    if pool.device_plugin:
        return "NVIDIA's, in a DaemonSet of this stack"
    if pool.device_class:
        return "none: NVIDIA's DRA driver, in a DaemonSet of this stack"
    return "somebody else's" if pool.left_to_others else other


def _sharing() -> Iterator[tuple[str, ...]]:
    for platform, kind, rows in supported():
        for nodes, given in rows.SHARING:
            name = f"{platform}, {nodes}" if nodes else platform
            yield name, *(_accepted(kind, given, sharing) for sharing in STRATEGIES.values())


def _accepted(kind: type, given: Mapping[str, Any], sharing: Mapping[str, Any]) -> str:
    try:
        pool_of(kind, {**given, "sharing": sharing})
    except ValueError:
        return "refused"
    return "yes"


def _located() -> Iterator[tuple[str, str]]:
    for platform, _, rows in supported():
        if rows.LOCATED:
            yield platform, ", ".join(f"`{name}`" for name in rows.LOCATED)


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
