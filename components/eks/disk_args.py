"""Limits of the gp3 volumes of GPU nodes."""

import re
from typing import Annotated

from annotated_types import Interval

from ..catalog import eks as catalog
from ..schema.limits import Hint, matching
from ..schema.outputs import MaybeOutput
from ..schema.refusal import Range, refuse

STORAGE_CLASS = "gp3-encrypted"
"""The StorageClass that the stack creates."""
LEAST_DISK_GIB = 100
AUTO_MODE_IOPS = 16000
"""Maximum of a NodeClass of Auto Mode (EKS user guide create-node-class, read 2026-11-24)."""
_CUDA_IMAGES = Hint("CUDA images take 5 to 20 GB each")
(_LEAST_MIB, _MOST_MIB), (_LEAST_IOPS, _MOST_IOPS) = catalog.GP3_THROUGHPUT, catalog.GP3_IOPS
DiskSize = Annotated[int, Interval(ge=LEAST_DISK_GIB, le=catalog.MAX_DISK_GIB), _CUDA_IMAGES]
DiskThroughput = Annotated[int, Interval(ge=_LEAST_MIB, le=_MOST_MIB), Hint("it is in MiB/s")]
DiskIops = Annotated[int, Interval(ge=_LEAST_IOPS, le=_MOST_IOPS)]
SnapshotId = Annotated[
    MaybeOutput,
    matching(
        "the ID of an EBS snapshot; give one such as snap-0123456789abcdef0",
        re.compile(r"snap-[0-9a-f]{8}(?:[0-9a-f]{9})?"),
    ),
]
InitializationRate = Annotated[int, Interval(ge=100, le=300), Hint("it is in MiB/s")]
"""EC2's API reference, EbsBlockDevice.VolumeInitializationRate, read 2026-11-29."""


def check_iops(size_gb: int, throughput: int, iops: int, most: int = _MOST_IOPS) -> None:
    """Raises `Refusal` if EBS does not offer so many IOPS for such a volume, or above `most`."""
    allowed = possible_iops(size_gb, throughput, most)
    if iops not in allowed:
        raise refuse("diskIops")(
            f"{iops} is out of range; allowed with diskThroughput {throughput} and diskSizeGb "
            f"{size_gb}: {allowed.least} to {allowed.most}"
        )


def possible_iops(size_gb: int, throughput: int, most: int = _MOST_IOPS) -> Range:
    """The IOPS that EBS offers for such a volume, up to `most`."""
    least = max(_LEAST_IOPS, throughput * catalog.GP3_IOPS_PER_THROUGHPUT)
    return Range(least, min(most, size_gb * catalog.GP3_IOPS_PER_GIB))
