"""What nodes have left for pods: the settings and the simulated clouds work it out apart."""

import pytest

from components.catalog import gke, room
from components.catalog.eks_instances import INSTANCE_TYPES
from components.kube import quantity
from simulators.google.nodes import allocatable


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


def test_eks_never_has_less_than_is_said() -> None:
    """Nobody is refused a pod that fits: beside what is said here, memory goes by the number of
    pods."""
    for row in INSTANCE_TYPES.values():
        cpu, memory = room.eks(row.vcpu, row.memory_gib)
        assert 0.9 * row.vcpu * 1000 < cpu < row.vcpu * 1000
        assert memory == row.memory_gib * 1024 - 355
    assert room.eks(4, 16) == (3920, 16029)
