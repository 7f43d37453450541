"""Cluster Autoscaler on EKS: its image, flags, identity and rights."""

import re
from typing import Any

import pytest
import yaml

from gpu_cluster.components.eks.fallback_args import EksFallbackArgs, part_name, part_names
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from tests.components.eks_stack import declare
from tests.components.recording import Recording

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
RBAC = "kubernetes:rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def stack() -> Recording:
    """A cluster with the autoscaler as it comes."""
    return declare()


def pod(stack: Recording) -> dict[str, Any]:
    """The pod's spec."""
    spec: dict[str, Any] = stack.one(DEPLOYMENT).inputs["spec"]["template"]["spec"]
    return spec


def flags(stack: Recording) -> dict[str, str]:
    """Flag -> value."""
    (container,) = pod(stack)["containers"]
    pairs = [argument.removeprefix("--").split("=", 1) for argument in container["args"]]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


def allowed(stack: Recording) -> set[tuple[str, str, str]]:
    """(group, resource, verb) that the role allows on any object."""
    return {
        (group, resource, verb)
        for rule in stack.one(f"{RBAC}:ClusterRole").inputs["rules"]
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_it_writes_nothing_but_what_scaling_takes(stack: Recording) -> None:
    """In the whole cluster it updates nodes, evicts pods and reports; secrets it never sees."""
    reads = {"get", "list", "watch"}
    assert {each for each in allowed(stack) if each[2] not in reads} == {
        ("", "nodes", "update"),
        ("", "pods/eviction", "create"),
        ("", "pods/status", "update"),
        ("", "events", "create"),
        ("", "events", "patch"),
    }
    assert not any("secrets" in each[1] or "*" in each for each in allowed(stack))


def test_the_autoscaler_follows_the_order() -> None:
    """Auto Scaling calls the groups eks-NODEGROUP-UUID. All others go first: a group that matches
    nothing would lose against every choice, also for pods that need no GPU."""
    other = EksGpuNodeGroupArgs(instance_types=["g5.xlarge"], fallback=["on-demand", "spot"])
    plain = EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"])
    stack = declare({"l4": ORDERED, "a10g": other, "l4-spot": plain})
    assert flags(stack)["expander"] == "priority,least-waste"
    (config_map,) = [
        one.inputs
        for one in stack.of("kubernetes:core/v1:ConfigMap")
        if one.inputs["metadata"]["name"] == "cluster-autoscaler-priority-expander"
    ]
    assert config_map["metadata"]["namespace"] == "kube-system"
    rows = yaml.safe_load(config_map["data"]["priorities"])
    found = {
        name: [rank for rank, row in rows.items() for one in row if re.search(one, name)]
        for name in (
            "eks-l4_spot-2026-1f", "eks-l4_reservation-2026-1f", "eks-l4_on-demand-ami-2026-1f",
            "eks-a10g_on-demand-2026-1f", "eks-a10g_spot-2026-1f",
            "eks-l4-spot-2026-1f", "eks-system-2026-1f", "theirs-1f",
        )
    }  # fmt: skip
    assert list(found.values()) == [[3], [2], [1], [3], [2], [4], [4], [4]]


def test_an_entry_with_a_zone_and_a_type_is_a_node_group_of_them() -> None:
    """Its name says which, and matches no other's expression; a long one ends in a hash."""
    args = EksGpuNodeGroupArgs(
        instance_types=["g6.xlarge"],
        fallback=[
            EksFallbackArgs(zones=["us-east-1a"]),
            EksFallbackArgs(zones=["us-east-1b"], instance_types=["g6.2xlarge"]),
            "on-demand",
            EksFallbackArgs(capacity_type="spot", instance_types=["g6.2xlarge", "g6.4xlarge"]),
        ],
    )
    stack = declare({"l4": args})
    groups = {
        one.name: (one.inputs["instanceTypes"], len(one.inputs["subnetIds"]))
        for one in stack.of("aws:eks/nodeGroup:NodeGroup")
        if one.name.startswith("l4")
    }
    *named, hashed = groups
    assert named == ["l4_on-demand_a", "l4_on-demand_b_g6-2xlarge", "l4_on-demand"]
    assert re.fullmatch("l4_spot_g6-2xlarge_g6-4xlarge|l4_spot_[0-9a-f]{6}", hashed)
    assert list(groups.values()) == [
        (["g6.xlarge"], 1), (["g6.2xlarge"], 1), (["g6.xlarge"], 2),
        (["g6.2xlarge", "g6.4xlarge"], 2),
    ]  # fmt: skip
    tags = {
        one.name.partition("-resource-")[0]: one.inputs["autoscalingGroupName"]
        for one in stack.of("aws:autoscaling/tag:Tag")
        if "-resource-nvidia.com/gpu" in one.name and one.name.startswith("l4")
    }
    assert list(tags) == list(groups)
    (rows,) = [
        yaml.safe_load(one.inputs["data"]["priorities"])
        for one in stack.of("kubernetes:core/v1:ConfigMap")
        if "priorities" in (one.inputs.get("data") or {})
    ]
    ranks = [
        [rank for rank, row in rows.items() for one in row if re.search(one, f"eks-{name}-2026-1f")]
        for name in groups
    ]
    assert ranks == [[4], [3], [2], [1]]


def test_names_of_node_groups_are_never_too_long() -> None:
    """EKS accepts 63 characters, of which the provider and this stack add 31."""
    entry = EksFallbackArgs(zones=["us-east-1-bos-1a"], instance_types=["g6.12xlarge"])
    other = EksFallbackArgs(zones=["us-east-1-bos-1a"], instance_types=["g6.24xlarge"])
    name = part_name("inference", entry)
    assert re.fullmatch("inference_on-demand_[0-9a-f]{6}", name)
    assert name != part_name("inference", other)
    assert part_name("l4", EksFallbackArgs(zones=["us-east-1-bos-1a"])) == "l4_on-demand_bos-1a"
    long = "a-pool-of-thirty-two-letters-now"
    names = part_names(long, ["spot", "capacity-block", entry, other], groups=True)
    assert len({*names}) == 4
    assert all(re.fullmatch("a-pool-of-thirty-two-lett_[0-9a-f]{6}", name) for name in names)


ORDERED = EksGpuNodeGroupArgs(
    instance_types=["g6.xlarge"],
    fallback=["spot", "reservation", "on-demand"],
    reservation="cr-0123456789abcdef0",
    zones=["us-east-1a"],
    max_nodes=4,
)
