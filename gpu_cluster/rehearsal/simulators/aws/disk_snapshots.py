"""EBS snapshots from which nodes' volumes are created, and what EC2 refuses of them.

API_EbsBlockDevice.html and karpenter-provider-aws issue 7928, read 2026-11-29. Only the words about
the size are EC2's. EKS gives them when a node group is created or updated, at any size
(cilium/cilium, pull request 43051).
"""

import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, rule

_ID = re.compile(r"snap-([0-9a-f]{8}|[0-9a-f]{17})")
_ROOT = "/dev/xvda"
"""The root device of EKS's images."""
_RATES = range(100, 301)


@rule("ec2", "DescribeSnapshots")
def publish(account: Account, params: Params) -> None:
    """Makes the snapshots that are named available."""
    for identity in params.get("SnapshotIds") or []:
        _snapshot(account, identity)


def _snapshot(account: Account, identity: str) -> Any:
    """The snapshot with this ID, or None if that is not valid. Each other one is assumed to exist,
    as the account's own, and to be small enough: the owner of a stack has built it before."""
    from moto.ec2.models.elastic_block_store import Snapshot

    ec2 = account.backend("ec2")
    if identity not in ec2.snapshots and _ID.fullmatch(identity):
        volume = SimpleNamespace(id="vol-ffffffff", size=1)
        ec2.snapshots[identity] = Snapshot(ec2, identity, volume, "")
    return ec2.snapshots.get(identity)


def disks_refusal(account: Account, data: Mapping[str, Any]) -> tuple[str, str] | None:
    """EC2's error, code and message, for the volumes of an instance with this launch template
    data."""
    return next(_refusals(account, data), None)


def _refusals(account: Account, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for mapping in data.get("BlockDeviceMappings") or []:
        device, volume = mapping.get("DeviceName"), mapping.get("Ebs") or {}
        identity, rate = volume.get("SnapshotId"), volume.get("VolumeInitializationRate")
        if rate is not None and not identity:
            yield (
                "InvalidParameterCombination",
                f"{device}: volumeInitializationRate is supported only for volumes from snapshots",
            )
        if rate is not None and int(rate) not in _RATES:
            yield "InvalidParameterValue", f"volumeInitializationRate {rate} is not 100 to 300"
        if not identity:
            continue
        if device == _ROOT:
            yield "InvalidBlockDeviceMapping", f"the snapshot of the root device {device} is fixed"
        snapshot, size = _snapshot(account, identity), volume.get("VolumeSize")
        if snapshot is None:
            yield "InvalidSnapshotID.Malformed", f'Invalid id: "{identity}" (expecting "snap-...")'
        elif size and int(size) < snapshot.volume.size:
            yield (
                "InvalidBlockDeviceMapping",
                f"Volume of size {size}GB is smaller than snapshot '{identity}', expect size>= "
                f"{snapshot.volume.size}GB",
            )
