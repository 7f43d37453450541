"""Cluster placement groups of GPU pools: their instances are close together in one zone.

docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html, read 2026-11-29.
"""

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from ..cluster import ResolvedPool
from ..lifecycle import ownership
from .pool_args import EksGpuNodeGroupArgs


def placement_groups(
    pools: Mapping[str, ResolvedPool[EksGpuNodeGroupArgs]], opts: pulumi.ResourceOptions
) -> dict[str, pulumi.Output[str]]:
    """A placement group for each pool that asks for one; pool -> the group's name in EC2."""
    return {
        name: aws.ec2.PlacementGroup(
            name,
            strategy=pool.args.placement_group,
            tags={"Name": name, **ownership.aws_tags()},
            opts=opts,
        ).name
        for name, pool in pools.items()
        if pool.args.placement_group
    }
