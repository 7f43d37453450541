"""What the simulator refuses of a managed node group before it makes one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.rehearsal.simulators.aws.node_group_rules import (
    check_node_group,
    check_scaling,
    complete,
    types_of,
)
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

BASE: dict[str, Any] = {
    "nodegroupName": "train-gpu",
    "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0},
}
BLOCK = {
    "InstanceType": "p5.48xlarge",
    "InstanceMarketOptions": {"MarketType": "capacity-block"},
    "CapacityReservationSpecification": {
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}
    },
}


def made(template: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """The complete group that EKS makes of these properties; raises Refusal."""
    given = BASE | changes
    rows = [catalog.instance_type(name) for name in types_of(given, template)]
    types = [row for row in rows if row is not None]
    assert len(types) == len(rows)
    group = complete(given, types, template, "1.35")
    check_node_group(group, given, types, template, "1.35")
    return group


def test_eks_takes_the_image_that_fits_the_instance_type() -> None:
    """Without an amiType the image follows from architecture and GPUs."""
    assert made(instanceTypes=["g4dn.xlarge"])["amiType"] == "AL2023_x86_64_NVIDIA"
    assert made(instanceTypes=["g5g.xlarge"])["amiType"] == "AL2023_ARM_64_NVIDIA"
    assert made()["amiType"] == "AL2023_x86_64_STANDARD"
    assert made()["diskSize"] == 20


@pytest.mark.parametrize("name", sorted(catalog.INSTANCE_TYPES))
def test_every_nvidia_instance_type_takes_its_own_image_and_no_other(name: str) -> None:
    """The image of the type's architecture is taken, the other architecture's is refused."""
    row = catalog.INSTANCE_TYPES[name]
    other = {"amd64": "arm64", "arm64": "amd64"}[row.arch]
    right, wrong = (catalog.ami_type("al2023", arch) for arch in (row.arch, other))
    if row.vendor == "NVIDIA":
        assert made(instanceTypes=[name], amiType=right)["amiType"] == right
    else:
        with pytest.raises(Refusal, match="not a valid instance type"):
            made(instanceTypes=[name], amiType=right)
    with pytest.raises(Refusal, match="not a valid instance type for requested amiType"):
        made(instanceTypes=[name], amiType=wrong)


@pytest.mark.parametrize(
    ("changes", "template", "words"), TABLE["test_a_wrong_node_group_is_refused_in_one_line"]
)
def test_a_wrong_node_group_is_refused_in_one_line(
    changes: dict[str, Any], template: dict[str, Any] | None, words: str
) -> None:
    """Each combination that EKS does not take is refused, and the refusal says which."""
    with pytest.raises(Refusal, match=rf"\A.*({words}).*\Z"):
        made(template, **changes)


def test_a_capacity_block_is_taken_as_eks_wants_it() -> None:
    """Type and reservation in the launch template, none in the group."""
    assert made(BLOCK, capacityType="CAPACITY_BLOCK")["instanceTypes"] == ["p5.48xlarge"]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((2, 3, 1), "Minimum capacity 2 can't be greater than desired size 1"),
        ((0, 1, 2), "desired capacity 2 can't be greater than max size 1"),
        ((4, 3, 4), "Minimum capacity 4 can't be greater than maximum size 3"),
        ((0, 451, 0), "quota of 450"),
    ],
)
def test_sizes_are_in_their_order(sizes: tuple[int, int, int], words: str) -> None:
    """Minimum, desired and maximum size, in EKS's words."""
    with pytest.raises(Refusal, match=words):
        check_scaling(dict(zip(("minSize", "maxSize", "desiredSize"), sizes, strict=True)))
