"""GKE Data Cache: local SSDs of a node as the cache of the disks that its pods mount.

docs.cloud.google.com/kubernetes-engine/docs/how-to/persistent-volumes/data-cache (read 2026-11-29):
node pools of GKE Standard, from 1.32.3-gke.1440000 on.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from ..schema.effect import Sent
from ..schema.limits import matching
from ..schema.rules import Checked

# kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, pkg/parameters: whole GiB only.
_SIZE = matching("a number of GiB such as 200Gi", re.compile(r"[1-9][0-9]*Gi"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeDataCacheArgs(Checked):
    """The cache of each disk of the classes `gpu-cluster-data-cache` and
    `gpu-cluster-hyperdisk-data-cache`."""

    size: Annotated[str, _SIZE, Sent("StorageClass parameters.data-cache-size")]
    """How much of its node's local SSDs for Data Cache each such disk uses, such as `200Gi`. Disks
    that exist keep theirs."""
    mode: Annotated[
        Literal["writethrough", "writeback"], Sent("StorageClass parameters.data-cache-mode")
    ] = "writethrough"
    """`writethrough` writes to cache and disk at the same time. `writeback` writes to the disk
    later, and loses what is not written yet with the node."""

    @property
    def gib(self) -> int:
        """The size in GiB."""
        return int(self.size.removesuffix("Gi"))

    @property
    def parameters(self) -> dict[str, str]:
        """Of a StorageClass."""
        return {"data-cache-size": self.size, "data-cache-mode": self.mode}
