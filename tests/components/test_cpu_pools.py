"""Pools without GPUs: nodes for whatever feeds or serves those with."""

import pytest

from components.cluster import Taint
from components.eks.cpu_pool_args import EksCpuPoolArgs, replaced
from components.gke.cpu_pool_args import GkeCpuPoolArgs
from tests.components import eks_stack, test_gke
from tests.components.test_eks_node_group import NODE_GROUP, TAG

TEAM = Taint(key="team", value="ml")


def test_on_eks_they_grow_from_zero() -> None:
    """Cluster Autoscaler hears of labels, taints and room, and of no GPU."""
    pool = EksCpuPoolArgs(
        instance_types=["m7i.xlarge"], labels={"role": "loader"}, taints=[TEAM], spot=True
    )
    found = eks_stack.declare({}, cpu_pools={"loaders": pool})
    inputs = found.one(NODE_GROUP, "loaders").inputs
    assert inputs["scalingConfig"] == {"minSize": 0, "maxSize": 3, "desiredSize": 0}
    assert inputs["amiType"] == "AL2023_x86_64_STANDARD"
    assert inputs["capacityType"] == "SPOT"
    assert inputs["labels"] == {"gpu-cluster/pool": "loaders", "role": "loader"}
    assert inputs["taints"] == [{"key": "team", "value": "ml", "effect": "NO_SCHEDULE"}]
    prefix = "k8s.io/cluster-autoscaler/node-template"
    tags = {each.inputs["tag"]["key"]: each.inputs["tag"]["value"] for each in found.of(TAG)}
    assert {key.removeprefix(prefix) for key in tags} == {
        "/label/gpu-cluster/pool", "/label/role", "/taint/team", "/resources/cpu",
        "/resources/memory", "/resources/ephemeral-storage",
    }  # fmt: skip
    assert tags[f"{prefix}/resources/cpu"] == "3920m"


def test_on_gke_they_grow_from_zero() -> None:
    """With the labels and taints that pods go by, and no accelerator."""
    pool = GkeCpuPoolArgs(machine_type="n2-standard-8", labels={"role": "loader"}, taints=[TEAM])
    found = test_gke.declare({}, cpu_pools={"loaders": pool})
    inputs = found.one(test_gke.NODE_POOL, "loaders").inputs
    assert inputs["autoscaling"]["totalMinNodeCount"] == 0
    assert inputs["initialNodeCount"] == 0
    assert inputs["nodeConfig"]["labels"] == {"gpu-cluster/pool": "loaders", "role": "loader"}
    assert inputs["nodeConfig"]["taints"] == [
        {"key": "team", "value": "ml", "effect": "NO_SCHEDULE"}
    ]
    assert "guestAccelerators" not in inputs["nodeConfig"]
    assert inputs["nodeConfig"]["shieldedInstanceConfig"]["enableSecureBoot"] is True


@pytest.mark.parametrize(
    ("old", "new", "loss"),
    [
        ('{"a": {"instance_types": ["x"], "spot": false, "zones": []}}', "{}", None),
        (
            '{"a": {"instance_types": ["x"], "spot": false, "zones": []}}',
            '{"a": {"instance_types": ["y"], "spot": false, "zones": []}}',
            "system pool",
        ),
    ],
)
def test_another_instance_type_replaces_a_pool(old: str, new: str, loss: str | None) -> None:
    """A pool that goes or comes replaces none."""
    assert replaced(old, new) == loss
