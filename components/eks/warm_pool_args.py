"""What a user says of the warm pool of a GPU node group on EKS.

https://docs.aws.amazon.com/eks/latest/userguide/warm-pools-managed-node-groups.html and botocore
1.44.5 (WarmPoolConfig), read 2026-11-24.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from ..catalog import eks as catalog
from ..schema.effect import Sent
from ..schema.limits import Example, Hint, Limit, one_of
from ..schema.refusal import Range, Refusal, collected, refuse
from ..schema.rules import Checked, Fits

_STATES = ("stopped", "running")


def _not_a_state(state: str) -> Refusal | str | None:
    if state.lower() == "hibernated":
        # EC2's HibernationSupported of every instance type with GPUs (DescribeInstanceTypes, in
        # moto 5.2.5), and eks/latest/userguide/launch-templates.html: no hibernation in a template.
        return f"{state!r} is not possible: EC2 cannot hibernate instances with GPUs; use stopped"
    return one_of(*_STATES).refusal(state)


@dataclass(frozen=True, slots=True, kw_only=True)
class EksWarmPoolArgs(Checked):
    """A warm pool: instances that have booted once, and wait until the pool needs a node."""

    max_group_prepared_capacity: Annotated[
        int,
        Ge(1),
        Hint("it counts nodes and warm instances together; give the pool's maxNodes or less"),
        Sent("NodeGroup warmPoolConfig.maxGroupPreparedCapacity"),
        Example("1"),
    ]
    """How many instances there are, nodes and warm ones together, at most `maxNodes`: with 2, two
    wait while the pool has no node, and none once it has two."""
    min_size: Annotated[
        int,
        Ge(0),
        Fits("{} is above maxGroupPreparedCapacity"),
        Sent("NodeGroup warmPoolConfig.minSize"),
    ] = 0
    """How many wait however many nodes the pool has."""
    pool_state: Annotated[
        str, Limit(_not_a_state, {"enum": _STATES}), Sent("NodeGroup warmPoolConfig.poolState")
    ] = "stopped"
    """How they wait: `stopped`, billed for their disks only, or `running`, billed as nodes are."""
    reuse_on_scale_in: Annotated[bool, Sent("NodeGroup warmPoolConfig.reuseOnScaleIn")] = False
    """Whether an instance that Auto Scaling removes from the group waits again. Cluster Autoscaler
    terminates its nodes itself, so that this concerns other changes of the size."""

    def possible(self, key: str) -> Range | None:
        return Range(0, self.max_group_prepared_capacity) if key == "minSize" else None

    def instances(self, nodes: int) -> int:
        """How many wait while the pool has so many nodes."""
        return catalog.warm_instances(nodes, self.max_group_prepared_capacity, self.min_size)

    @collected
    def check(
        self,
        *,
        nodes: tuple[int, int],
        ordered: bool,
        purchases: Sequence[str],
        os: str,
        own_image: bool,
    ) -> Iterator[Refusal]:
        """Raises `Refusal` if a pool of `nodes`, least and most, cannot have it. `ordered`:
        whether it has an order of fallback."""
        least, most = nodes
        if ordered:
            yield refuse(())(
                "is not possible with fallback, of which each choice is a node group that would "
                "have a warm pool of its own; set capacityType instead, or drop the key"
            )
        if "spot" in purchases:
            # docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html
            yield refuse(())(
                "is not possible with capacityType spot, because EC2 Auto Scaling keeps no Spot "
                "instances warm; set capacityType: on-demand, or drop the key"
            )
        if "capacity-block" in purchases:
            yield refuse(())(
                "is not possible with capacityType capacity-block, whose instances are paid for "
                "from its start to its end, stopped or not",
                remedy="set desiredNodes once the block has started, or drop the key",
            )
        if own_image:
            yield refuse(())(
                "is not possible with amiId, because EKS has warm pools only with its own images",
                remedy="drop one of the two",
            )
        if self.reuse_on_scale_in and os == "bottlerocket":
            yield refuse("reuseOnScaleIn")(
                "true is not possible with os bottlerocket; use os al2023, or drop the key"
            )
        if self.max_group_prepared_capacity > most:
            yield refuse("maxGroupPreparedCapacity")(
                f"{self.max_group_prepared_capacity} is above maxNodes, so that some instances "
                f"could never become nodes; {self._possible(least, most)}"
            )
        elif not self.instances(least):
            possible = f"{self._possible(least, most)}, or set" if least < most else "set"
            yield refuse("maxGroupPreparedCapacity", self.max_group_prepared_capacity)(
                f"leaves no instance to wait, because it includes minNodes, which is {least}",
                remedy=f"{possible} minSize to 1 or more",
            )

    def _possible(self, least: int, most: int) -> str:
        lowest = self.min_size or least + 1
        if lowest <= most:
            return f"allowed: {lowest} to {most}" if lowest < most else f"allowed: {most}"
        if self.min_size:
            return f"lower it and minSize to {most} or less"
        return f"lower it to {most} or less, and set minSize to 1 or more"
