"""The settings of GPU sharing on EKS."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from ..schema.effect import Sent
from ..schema.limits import Limit
from ..schema.refusal import refuse
from ..schema.rules import Checked

MAX_REPLICAS = 48
_BOTTLEROCKET_WITH_MPS = (1, 62)
"""A Bottlerocket release with which pods of every user reach the MPS daemon: 1.54 has it (PR 4744),
and later ones repair SELinux (core-kit PR 831 of 2026-02-11) and users other than root (kernel-kit
PR 415 of 2026-04-28; issue 4673, all read 2026-11-28). That 1.62 is the first with both is from a
secondary source."""
BOTTLEROCKET_WITHOUT_PLUGIN = (1, 63)
"""The first release whose device plugin can be turned off (its notes of 2026-07-17, "Add setting to
enable/disable nvidia-device-plugin"; core-kit PR 914; read 2026-11-28)."""
_RELEASE = re.compile(r"([0-9]+)\.([0-9]+)\.[0-9]+")


def bottlerocket_version(release: str | None) -> tuple[int, int] | None:
    """Major and minor of a release; None if it is the newest one, or none of Bottlerocket's."""
    match = _RELEASE.match(release or "")
    return match and (int(match[1]), int(match[2]))


def _not_on_eks(strategy: str) -> str | None:
    if strategy != "mig":
        return None
    return "mig is supported only on GKE; use time-slicing"


_STRATEGY = Limit(_not_on_eks, {"enum": ["time-slicing", "mps"]})


@dataclass(frozen=True, slots=True, kw_only=True)
class EksSharingArgs(Checked):
    """How several pods share a GPU of the pool."""

    strategy: Annotated[
        Literal["time-slicing", "mps", "mig"], _STRATEGY, Sent("ConfigMap data.config.yaml.sharing")
    ]
    """How a GPU is shared: by time-slicing, or by NVIDIA's MPS."""
    replicas: Annotated[
        int,
        Interval(ge=2, le=MAX_REPLICAS),
        Sent(
            "ConfigMap data.config.yaml.sharing.timeSlicing.resources[].replicas", "NodeGroup tags"
        ),
    ]
    """How many pods share a GPU, 2 to 48."""

    def check(self, os: str, release_version: str | None) -> None:
        """Raises `Refusal` if nodes with this image do not support this sharing; every GPU that
        EKS has does."""
        release = bottlerocket_version(release_version) if os == "bottlerocket" else None
        if self.strategy == "mps" and release and release < _BOTTLEROCKET_WITH_MPS:
            raise refuse("strategy")(
                f"mps does not work for every pod on Bottlerocket {release_version}",
                remedy="raise releaseVersion to 1.62.0 or later, or use time-slicing",
            )
