"""What each scaler cannot do of a pool's settings: the refusals, and the page that shows them.

Facts: the definitions of Karpenter 1.14.3 (components/crds), and of EKS Auto Mode
https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html and auto-odcr.html, read
2026-11-24.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, get_args

from ..decode import camel
from .karpenter_args import Scaler
from .node_repair_args import EksNodeRepairArgs

SCALERS: Final[tuple[Scaler, ...]] = get_args(Scaler)
_KARPENTER = "Karpenter starts nodes for pods, and keeps minNodes of them"
_IMAGE = "Auto Mode chooses the image, a Bottlerocket of AWS's, and how it starts"
_ONE_BY_ONE = "no node group is replaced: nodes are, one by one"
_REPAIR = "is EKS's for node groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unable:
    """A setting that some scalers do not have."""

    why: Mapping[Scaler, str]
    """Scaler -> the reason, which follows `<key>: `."""
    fix: str = "drop the key"
    """What to do instead of taking another scaler."""
    also: tuple[Any, ...] = ()
    """Values that mean the same to these scalers as the key left out."""


def _both(why: str) -> Mapping[Scaler, str]:
    return {"karpenter": why, "auto-mode": why}


UNABLE: Final[Mapping[str, Unable]] = {
    "desired_nodes": Unable(why=_both(_KARPENTER)),
    "delete_before_replace": Unable(why=_both(_ONE_BY_ONE)),
    "node_repair": Unable(
        why={
            "karpenter": f"{_REPAIR}; Karpenter repairs by rules of its own, for all pools or none",
            "auto-mode": f"{_REPAIR}; Auto Mode repairs its nodes by rules of its own",
        },
        fix="drop the key; cluster.karpenter.nodeRepair turns Karpenter's on",
        also=(EksNodeRepairArgs(enabled=False),),
    ),
    "autoscaler": Unable(
        why=_both("has options of Cluster Autoscaler"), fix="set karpenter.consolidateAfter"
    ),
    "karpenter": Unable(
        why={"cluster-autoscaler": "has options of Karpenter"}, fix="take autoscaler"
    ),
    "release_version": Unable(why={"auto-mode": _IMAGE}),
    "os": Unable(why={"auto-mode": _IMAGE}),
    "ami_id": Unable(why={"auto-mode": _IMAGE}),
    "kubelet": Unable(why={"auto-mode": "Auto Mode configures the kubelet"}),
    "user_data": Unable(why={"auto-mode": "nodes of Auto Mode take no user data"}),
    "metadata_hop_limit": Unable(why={"auto-mode": "Auto Mode sets it to 1"}),
    "device_plugin": Unable(why={"auto-mode": "Auto Mode's nodes bring NVIDIA's"}),
    "sharing": Unable(
        why={"auto-mode": "the device plugin is part of Auto Mode's image, and gives whole GPUs"}
    ),
}
"""Field of the pool's args -> who lacks it. Whatever is not here, each scaler has."""
GROUP = "Karpenter and Auto Mode take reservations by ID, not by resource group"


def check(args: Any, scaler: Scaler) -> None:
    """Raises ValueError for a setting of a pool that the scaler does not have."""
    for field in fields(args):
        unable = UNABLE.get(field.name)
        if unable is None or scaler not in unable.why:
            continue
        default = field.default if field.default_factory is MISSING else field.default_factory()
        value = getattr(args, field.name)
        if value not in (default, *unable.also):
            raise ValueError(
                f"{camel(field.name)}: {unable.why[scaler]}; {unable.fix}, or set cluster.scaler "
                f"to {' or '.join(able(field.name))}"
            )
    if scaler != "cluster-autoscaler" and (args.reservation or "").startswith("arn:"):
        raise ValueError(
            f"reservation: {GROUP}; give an ID such as cr-0123456789abcdef0, or set "
            "cluster.scaler to cluster-autoscaler"
        )


def able(field: str) -> list[Scaler]:
    """The scalers that have this setting of a pool."""
    unable = UNABLE.get(field)
    return [scaler for scaler in SCALERS if unable is None or scaler not in unable.why]
