"""StorageClasses on GKE: those that GKE provides, and those that a stack creates for its claims.

GKE's: https://cloud.google.com/kubernetes-engine/docs/concepts/persistent-volumes and
.../how-to/persistent-volumes/filestore-csi-driver (read 2026-11-22). Parameters and sizes of
Filestore: kubernetes-sigs/gcp-filestore-csi-driver, pkg/csi_driver/controller.go (2026-06-24).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

DISKS: Final = "pd.csi.storage.gke.io"
FILESTORE: Final = "filestore.csi.storage.gke.io"
FILESTORE_API: Final = "file.googleapis.com"
DEFAULT_NETWORK: Final = "default"
"""Name of the VPC network of Filestore instances whose class names none: the driver does not look
up the cluster's network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClass:
    """The properties of a StorageClass's volumes."""

    driver: str
    """The CSI driver."""
    kind: str
    """The disk type, or the Filestore tier, as in the class's parameter."""
    price: str
    """Name of the price per GiB in the catalog."""
    least_gib: int = 1
    """The minimum size in GiB that is paid: a smaller claim of Filestore gets it."""
    most_gib: int = 64 * 1024
    """The maximum size in GiB."""
    fails_below_gib: int = 1
    """The size in GiB below which a claim fails."""
    cached: bool = False
    """Whether local SSDs of the node are its cache (GKE Data Cache)."""
    no_sizes: tuple[int, int] | None = None
    """The GiB above which a claim gets the second size."""

    def paid_gib(self, gib: float) -> float:
        """The size that a claim of this size gets."""
        low, high = self.no_sizes or (gib, gib)
        return max(gib if gib <= low else max(gib, high), self.least_gib)

    @property
    def parameters(self) -> dict[str, str]:
        """The StorageClass's parameters, without the Filestore network."""
        return {"type" if self.driver == DISKS else "tier": self.kind}


def _disk(kind: str, least_gib: int = 1) -> VolumeClass:
    return VolumeClass(driver=DISKS, kind=kind, price=kind, fails_below_gib=least_gib)


_TIERS: Final[Mapping[str, tuple[int, int]]] = {
    "standard": (100, 65_433),
    "premium": (2560, 65_433),
    "zonal": (1024, 100 * 1024),
    "regional": (100, 100 * 1024),
    "enterprise": (1024, 10 * 1024),
}
"""Filestore tier -> smallest and largest instance in GiB: kubernetes-sigs/gcp-filestore-csi-driver,
pkg/csi_driver/controller.go, with the two sizes between which there is no zonal or regional one;
shares of an instance: pkg/util/multishare_defs.go (2026-06-24)."""
_BANDS: Final = ("zonal", "regional")
_NO_SIZES: Final = (9984, 10 * 1024)


def _files(tier: str) -> VolumeClass:
    least, most = _TIERS[tier]
    return VolumeClass(
        driver=FILESTORE,
        kind=tier,
        price=f"filestore-{tier}",
        least_gib=least,
        most_gib=most,
        no_sizes=_NO_SIZES if tier in _BANDS else None,
    )


GKE_CLASSES: Final[Mapping[str, VolumeClass]] = MappingProxyType(
    {
        "standard": _disk("pd-standard"),
        "standard-rwo": _disk("pd-balanced"),
        "premium-rwo": _disk("pd-ssd"),
        "standard-rwx": _files("standard"),
        "premium-rwx": _files("premium"),
        "zonal-rwx": _files("zonal"),
        "regional-rwx": _files("regional"),
        "enterprise-rwx": _files("enterprise"),
        "enterprise-multishare-rwx": replace(
            _files("enterprise"), fails_below_gib=100, most_gib=1024
        ),
    }
)
"""Classes of every cluster, Filestore's once its driver is enabled. None names a network."""
DEFAULT_CLASS: Final = "standard-rwo"
IMMEDIATE_CLASS: Final = "standard"
"""The only class whose volumes do not wait for the first pod that mounts them."""
STACK_CLASSES: Final[Mapping[str, VolumeClass]] = MappingProxyType(
    {
        # docs.cloud.google.com/compute/docs/disks/hyperdisks: Hyperdisk Balanced has at least 4
        # GiB.
        "gpu-cluster-hyperdisk": _disk("hyperdisk-balanced", 4),
        "gpu-cluster-data-cache": replace(_disk("pd-balanced"), cached=True),
        "gpu-cluster-hyperdisk-data-cache": replace(_disk("hyperdisk-balanced", 4), cached=True),
        "gpu-cluster-filestore": _files("standard"),
        "gpu-cluster-filestore-ssd": _files("premium"),
        "gpu-cluster-filestore-zonal": _files("zonal"),
        "gpu-cluster-filestore-regional": _files("regional"),
        "gpu-cluster-filestore-enterprise": _files("enterprise"),
    }
)
"""Classes that a stack creates, in the cluster's network, if one of its claims names them."""
CACHED: Final = tuple(name for name, row in STACK_CLASSES.items() if row.cached)
HYPERDISK_CLASS: Final = "gpu-cluster-hyperdisk"


def volume_class(name: str | None) -> VolumeClass | None:
    """The class that a claim names; None for a class that the user created."""
    return STACK_CLASSES.get(name or "") or GKE_CLASSES.get(name or DEFAULT_CLASS)


def unattachable(disks: Collection[str], *, cache: bool = False) -> tuple[str, ...]:
    """The classes (an empty name is the default one) whose disks nodes cannot attach. `disks`: the
    types that they can. `cache`: whether they have local SSDs for Data Cache."""
    classes = {"": GKE_CLASSES[DEFAULT_CLASS], **GKE_CLASSES, **STACK_CLASSES}
    return tuple(
        name
        for name, row in classes.items()
        if row.driver == DISKS and (row.kind not in disks or (row.cached and not cache))
    )
