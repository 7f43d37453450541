"""What nodes have left for pods: the settings and the simulated clouds work it out apart."""

import pytest

from components.catalog import gke, room
from components.catalog.eks_instances import INSTANCE_TYPES
from components.kube import quantity
from rehearsal.simulators.aws.account import Account
from rehearsal.simulators.aws.instances import instance
from rehearsal.simulators.aws.nodes import size as eks_capacity
from rehearsal.simulators.google.nodes import allocatable


@pytest.mark.parametrize("name", ["n1-standard-4", "g2-standard-4", "a3-highgpu-8g"])
def test_gke_keeps_what_it_says(name: str) -> None:
    """Of an n1-standard-4 GKE documents 3920m of CPU."""
    machine = gke.machine_type(name)
    assert machine is not None
    cpu, memory = room.gke(machine.vcpu, machine.memory_gib)
    simulated = allocatable(machine, 100)
    assert quantity.parse(f"{cpu}m") == quantity.parse(simulated["cpu"])
    assert quantity.parse(f"{memory}Mi") == quantity.parse(simulated["memory"])
    assert name != "n1-standard-4" or cpu == 3920


def test_eks_keeps_what_it_says() -> None:
    """The bounds hold what a node of the simulator has, and the lower one is what Karpenter's page
    of instance types has (2026-08-21)."""
    for row in INSTANCE_TYPES.values():
        cpu, most, least = room.eks(row.vcpu, row.memory_gib, row.max_pods)
        assert 0.9 * row.vcpu * 1000 < cpu < row.vcpu * 1000
        assert (least is None) == (row.interfaces is None)
        assert least is None or least < most < row.memory_gib * 1024
    assert room.eks(4, 16, None) == (3920, 16029, None)
    assert room.eks(4, 16, INSTANCE_TYPES["g4dn.xlarge"].max_pods) == (3920, 15710, 14481)
    assert room.eks(192, 2048, INSTANCE_TYPES["p5.48xlarge"].max_pods)[2] == 1938410


@pytest.mark.parametrize("name", ["g4dn.xlarge", "g6.xlarge", "p4d.24xlarge", "p5.48xlarge"])
def test_a_simulated_eks_node_is_within_the_bounds(name: str) -> None:
    """The two work it out apart, from other descriptions of the instance type."""
    row, described = INSTANCE_TYPES[name], instance(Account.__new__(Account), name)
    assert described.interfaces == row.interfaces
    cpu, most, least = room.eks(row.vcpu, row.memory_gib, row.max_pods)
    capacity = eks_capacity(described)
    assert quantity.parse(capacity["cpu"]) == quantity.parse(f"{cpu}m")
    assert quantity.parse(f"{least}Mi") <= quantity.parse(capacity["memory"])
    assert quantity.parse(capacity["memory"]) <= quantity.parse(f"{most}Mi")
