"""A node group's bounds under the real engine, while an autoscaler owns its size.

Only the engine shows what ignored changes send to the provider, and when a hook stops an update.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, Config, Handler
from gpu_cluster.rehearsal.plugins.cloud.server import ProviderServer, ProviderSettings
from tests.rehearsal.small_program import SmallStack

PROGRAM = """
import os

import pulumi
import pulumi_aws as aws
from gpu_cluster.components.eks.releases import release_check
from gpu_cluster.components.eks.scaling import ignored, scaling_config, size_check

least, most, desired = (int(number) if number else None for number in os.environ["SIZE"].split(","))
aws.eks.NodeGroup(
    "train-gpu",
    cluster_name="k8s-ml",
    node_role_arn="arn:aws:iam::123456789012:role/nodes",
    subnet_ids=["subnet-1"],
    labels={"edition": os.environ["EDITION"]},
    release_version=os.environ.get("RELEASE"),
    scaling_config=scaling_config(least, most, desired),
    opts=pulumi.ResourceOptions(
        ignore_changes=ignored(desired),
        hooks=size_check(
            "train-gpu", "gpuPools.train-gpu", release_check("train-gpu", "gpuPools.train-gpu")
        ),
    ),
)
"""


class NodeGroups(Handler):
    """EKS, as far as one node group's size and release go."""

    computed = ("releaseVersion",)

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def on_create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return "k8s-ml:train-gpu", self._take(inputs)

    def on_read(self, config: Config, identity: str, state: dict[str, Any]) -> dict[str, Any]:
        return {**self.held}

    def on_update(
        self, config: Config, identity: str, old: dict[str, Any], new: dict[str, Any]
    ) -> dict[str, Any]:
        if new["scalingConfig"] == old["scalingConfig"]:
            # The provider asks EKS for another size only where its own state differs.
            new = {**new, "scalingConfig": self.held["scalingConfig"]}
        return self._take(new)

    def on_delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        self.held = {}

    def autoscale(self, size: int) -> None:
        self.held["scalingConfig"] = {**self.held["scalingConfig"], "desiredSize": size}

    @property
    def size(self) -> Mapping[str, int]:
        return {key: int(value) for key, value in self.held["scalingConfig"].items()}

    def _take(self, inputs: dict[str, Any]) -> dict[str, Any]:
        size = inputs["scalingConfig"]
        if size["minSize"] > size["desiredSize"]:
            raise CloudError(
                f"InvalidParameterException: Minimum capacity {size['minSize']} can't be greater "
                f"than desired size {size['desiredSize']}"
            )
        # Where no release is given, EKS takes its newest.
        self.held = {"releaseVersion": "1.35.6-20260917", **inputs}
        return {**self.held}


class Stack(SmallStack):
    """The program above."""

    def up(self, size: str, *flags: str, edition: str = "1", fails: bool = False) -> str:
        """`pulumi up`, with its preview where that is to fail; `size` is minimum, maximum and, or
        not, desired."""
        self.environment |= {"SIZE": size, "EDITION": edition}
        return self.run("up", "--yes", *flags, *([] if fails else ["--skip-preview"]), fails=fails)


@pytest.fixture
def eks() -> NodeGroups:
    return NodeGroups()


@pytest.fixture
def stack(tmp_path: Path, eks: NodeGroups) -> Iterator[Stack]:
    settings = ProviderSettings(package="aws", handlers={"aws:eks/nodeGroup:NodeGroup": eks})
    with ProviderServer(settings) as server:
        config = "config: { aws:region: us-east-1 }\n"
        yield Stack(tmp_path, PROGRAM, f"aws:{server.port}", config=config)


def test_no_update_reverts_the_autoscaler(stack: Stack, eks: NodeGroups) -> None:
    """The size that the autoscaler made stays, through plain updates and with --refresh."""
    stack.up("0,3,")
    eks.autoscale(2)
    assert "GPUC-RECYCLE" not in stack.up("0,3,", edition="2")
    assert eks.size == {"minSize": 0, "maxSize": 3, "desiredSize": 2}
    stack.up("0,3,", "--refresh", edition="3")
    assert eks.size["desiredSize"] == 2
    said = stack.up("0,5,", "--refresh")
    assert eks.size == {"minSize": 0, "maxSize": 5, "desiredSize": 2}
    assert "gpuPools.train-gpu: with its new bounds the group is set to 2 nodes" in said


def test_a_minimum_above_the_size_is_refused_before_any_change(
    stack: Stack, eks: NodeGroups
) -> None:
    """Raising minNodes above the running size stops in the preview, with the way to do it."""
    stack.up("0,3,")
    said = stack.up("2,3,", fails=True)
    assert (
        "gpuPools.train-gpu.minNodes: 2 is above the 0 nodes that the group had at the last "
        "refresh; run pulumi up --refresh, and if that says the same, set desiredNodes: 2 for one "
        "update"
    ) in " ".join(said.split())
    assert "Minimum capacity" not in said
    assert eks.size == {"minSize": 0, "maxSize": 3, "desiredSize": 0}


def test_a_minimum_rises_in_one_update(stack: Stack, eks: NodeGroups) -> None:
    """With desiredNodes, one update raises minimum and size; without it again, nothing changes."""
    stack.up("0,3,")
    stack.up("2,3,2")
    assert eks.size == {"minSize": 2, "maxSize": 3, "desiredSize": 2}
    stack.up("2,3,", "--expect-no-changes")


def test_a_minimum_within_the_running_size_needs_no_more(stack: Stack, eks: NodeGroups) -> None:
    """Where enough nodes run, one refreshed update raises the minimum and keeps them all."""
    stack.up("0,3,")
    eks.autoscale(3)
    stack.up("2,3,", "--refresh")
    assert eks.size == {"minSize": 2, "maxSize": 3, "desiredSize": 3}


def test_a_maximum_below_the_size_is_refused(stack: Stack, eks: NodeGroups) -> None:
    """Lowering maxNodes below the running size stops in the preview as well."""
    stack.up("0,3,")
    eks.autoscale(3)
    said = stack.up("0,1,", "--refresh", fails=True)
    assert "gpuPools.train-gpu.maxNodes: 1 is below the 3 nodes" in " ".join(said.split())
    assert eks.size["maxSize"] == 3


def test_an_older_image_than_the_pool_has_is_refused(stack: Stack, eks: NodeGroups) -> None:
    """EKS would refuse it half way through the update: the preview does, also where EKS chose."""
    stack.up("0,3,")
    stack.environment["RELEASE"] = "1.35.6-20260714"
    said = stack.up("0,3,", fails=True)
    assert (
        "gpuPools.train-gpu.releaseVersion: 1.35.6-20260714 is older than the group's "
        "1.35.6-20260917, and EKS cannot downgrade a node group"
    ) in " ".join(said.split())
    assert eks.held["releaseVersion"] == "1.35.6-20260917"
    stack.environment["RELEASE"] = "1.35.7-20261015"
    told = " ".join(stack.up("0,3,").split())
    assert (
        "an update of releaseVersion (none -> 1.35.7-20261015) recycles its nodes, 0 to 3 of them"
    ) in told
    assert "[GPUC-RECYCLE-GPU-POOL]" in told
    assert eks.held["releaseVersion"] == "1.35.7-20261015"
