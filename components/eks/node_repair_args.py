"""The settings of node repair on EKS."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Interval

from ..catalog.accelerators import GPUS
from ..catalog.data_sheets import DATA_SHEETS
from ..schema.effect import Sent
from ..schema.limits import Limit
from ..schema.refusal import refuse
from ..schema.rules import Checked, instead_of, rule

Count = Annotated[int, Ge(1)]
Percentage = Annotated[int, Interval(ge=1, le=100)]
_REPORTED = Limit(
    lambda text: None if text.strip() else "is empty; name what the agent reports",
    {"pattern": r"\S"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EksNodeRepairOverrideArgs(Checked):
    """A custom repair action for a finding of the node monitoring agent."""

    node_monitoring_condition: Annotated[
        str,
        _REPORTED,
        Sent("NodeGroup nodeRepairConfig.nodeRepairConfigOverrides[].nodeMonitoringCondition"),
    ]
    """The condition, such as `AcceleratedHardwareReady`."""
    node_unhealthy_reason: Annotated[
        str,
        _REPORTED,
        Sent("NodeGroup nodeRepairConfig.nodeRepairConfigOverrides[].nodeUnhealthyReason"),
    ]
    """The reason, such as `NvidiaXID64Error`."""
    min_repair_wait_time_mins: Annotated[
        Count, Sent("NodeGroup nodeRepairConfig.nodeRepairConfigOverrides[].minRepairWaitTimeMins")
    ]
    """How many minutes the finding must persist, at least 1."""
    repair_action: Annotated[
        Literal["Replace", "Reboot", "NoAction"],
        Sent("NodeGroup nodeRepairConfig.nodeRepairConfigOverrides[].repairAction"),
    ]
    """What EKS does with the node."""


_XID = re.compile("NvidiaXID([0-9]+)Error")
_FATAL_XIDS = (
    13, 31, 46, 48, 54, 62, 63, 64, 74, 79, 94, 95, 109, 110, 119, 120, 121, 136, 140, 142, 143,
    151, 155, 156, 158,
)  # fmt: skip
"""XID codes that the agent reports as a condition; of others it creates only an event.

WellKnownXidCodes in aws/eks-node-monitoring-agent, monitors/nvidia/dcgm/dcgm_policies.go, all
versions until 2026-11-28.
"""
DCGM_UNREACHABLE = EksNodeRepairOverrideArgs(
    node_monitoring_condition="AcceleratedHardwareReady",
    node_unhealthy_reason="DCGMError",
    min_repair_wait_time_mins=10,
    repair_action="NoAction",
)
"""Applies to every GPU pool, unless the pool has its own override for this reason.

The agent (1.7.0) reports `DCGMError` if the DCGM server, whose image is still being pulled, does
not answer in the agent's first minute, and never clears it. By default, EKS would replace the
healthy node. GPU faults have other reasons.
https://github.com/aws/eks-node-monitoring-agent/issues/266
https://github.com/aws/containers-roadmap/issues/2555
"""

NVLINK_COUNTERS = EksNodeRepairOverrideArgs(
    node_monitoring_condition="AcceleratedHardwareReady",
    node_unhealthy_reason="DCGMHealthCode71",
    min_repair_wait_time_mins=10,
    repair_action="NoAction",
)
"""Applies to pools of the GPUs that `counts_nvlink_errors`, like `DCGM_UNREACHABLE`.

The agent 1.7.0 has DCGM 4.6.1, which reports code 71 for every GPU before Blackwell that has had an
NVLink CRC error at any time: EKS would replace healthy H100 nodes, and then their replacements. A
broken NVLink has other reasons too, such as XID 74.
https://github.com/aws/eks-node-monitoring-agent/pull/261
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EksNodeRepairArgs(Checked):
    """Node auto repair: EKS replaces or reboots nodes that the agent reports as unhealthy."""

    enabled: Annotated[bool, Sent("NodeGroup nodeRepairConfig.enabled")] = True
    """Whether EKS repairs nodes."""
    max_parallel_nodes_repaired_count: Annotated[
        Count | None,
        instead_of("max_parallel_nodes_repaired_percentage"),
        Sent("NodeGroup nodeRepairConfig.maxParallelNodesRepairedCount"),
    ] = None
    """How many nodes are repaired at a time; either this or the percentage."""
    max_parallel_nodes_repaired_percentage: Annotated[
        Percentage | None, Sent("NodeGroup nodeRepairConfig.maxParallelNodesRepairedPercentage")
    ] = None
    """The same as a share of the unhealthy nodes, 1 to 100."""
    max_unhealthy_node_threshold_count: Annotated[
        Count | None,
        instead_of("max_unhealthy_node_threshold_percentage"),
        Sent("NodeGroup nodeRepairConfig.maxUnhealthyNodeThresholdCount"),
    ] = None
    """The number of unhealthy nodes above which none is repaired; this or the percentage."""
    max_unhealthy_node_threshold_percentage: Annotated[
        Percentage | None, Sent("NodeGroup nodeRepairConfig.maxUnhealthyNodeThresholdPercentage")
    ] = None
    """The same as a share of the pool's nodes, 1 to 100."""
    overrides: Sequence[EksNodeRepairOverrideArgs] = ()
    """Findings with an action other than EKS's default. Unless you override them, the reasons
    `DCGMError` and, for V100, A100, H100 and H200, `DCGMHealthCode71` have the action `NoAction`,
    because they also appear on healthy nodes."""

    @rule
    def _check_enabled(self) -> None:
        default = self.__dataclass_fields__
        changed = [name for name in default if getattr(self, name) != default[name].default]
        if not self.enabled and changed != ["enabled"]:
            raise refuse("enabled")("is false, so the other keys have no effect; drop them")

    def overrides_on(self, gpu_model: str) -> list[EksNodeRepairOverrideArgs]:
        """The overrides that EKS gets for nodes with this key of `accelerators.GPUS`; empty if EKS
        repairs nothing."""

        def finding(override: EksNodeRepairOverrideArgs) -> tuple[str, str]:
            return override.node_monitoring_condition, override.node_unhealthy_reason

        own = {finding(override) for override in self.overrides}
        defaults = [DCGM_UNREACHABLE] if self.enabled else []
        if self.enabled and counts_nvlink_errors(gpu_model):
            defaults.append(NVLINK_COUNTERS)
        return [*self.overrides, *(default for default in defaults if finding(default) not in own)]


def counts_nvlink_errors(gpu_model: str) -> bool:
    """Whether they have NVLink and are older than Blackwell, where DCGM finds faults otherwise."""
    older = not GPUS[gpu_model].architecture.startswith("Blackwell")
    return older and DATA_SHEETS[gpu_model].nvlink_gbps is not None


def without_effect(repair: EksNodeRepairArgs) -> Iterator[str]:
    """Warns of overrides for codes of which the agent sets no condition."""
    for position, override in enumerate(repair.overrides):
        code = _XID.fullmatch(override.node_unhealthy_reason)
        if code and int(code[1]) not in _FATAL_XIDS:
            yield (
                f".nodeRepair.overrides[{position}].nodeUnhealthyReason: as far as is known, the "
                f"node monitoring agent reports XID {code[1]} only as an event, on which EKS does "
                "not act; drop the override, or check it against the agent's version"
            )
