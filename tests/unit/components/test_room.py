"""What nodes have left for pods: the settings and the simulated clouds work it out apart."""

import pytest

from gpu_cluster.components.catalog import gke, room
from gpu_cluster.components.catalog.eks_instances import INSTANCE_TYPES
from gpu_cluster.components.kube import quantity
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.instances import instance
from gpu_cluster.rehearsal.simulators.aws.nodes import size as eks_capacity
from gpu_cluster.rehearsal.simulators.google.nodes import allocatable


@pytest.mark.parametrize("disk_gb", [15, 100, 500, 3000, 20_000])
@pytest.mark.parametrize("image", ["cos", "ubuntu"])
@pytest.mark.parametrize("name", ["n1-standard-4", *gke.MACHINE_TYPES])
def test_gke_keeps_what_its_autoscaler_says(name: str, image: str, disk_gb: int) -> None:
    """The simulated nodes have the autoscaler's own table; the catalog's is an excerpt. Its room on
    local SSDs includes their file system."""
    machine = gke.machine_type(name)
    assert machine is not None
    image = "cos" if machine.arch == "arm64" else image
    own = "cos-arm64" if machine.arch == "arm64" else image
    cpu, memory = room.gke(machine.vcpu, machine.memory_gib, own)
    simulated = allocatable(machine, disk_gb, image=image, ssds=machine.local_ssds)
    assert quantity.parse(f"{cpu}m") == quantity.parse(simulated["cpu"])
    assert abs(memory - int(simulated["memory"].removesuffix("Mi"))) <= memory / 1000
    disk = int(simulated["ephemeral-storage"]) / 2**20
    if machine.local_ssds:
        known = room.gke_ssds(machine.local_ssds, machine.local_ssd_gib or 0)
        assert 0.97 * known <= disk <= known
    else:
        assert abs(room.gke_disk(disk_gb, own) - disk) <= 2 + disk / 1000


@pytest.mark.parametrize(
    ("name", "millis", "kib", "disk_bytes"),
    [
        # The T4 node of a sample about time-sharing, and an e2-standard-2 of GKE 1.21 (2022).
        ("n1-standard-4", 3920, 12_663_300, 47_093_746_742),
        ("e2-standard-2", 1930, 6_186_972, 47_093_746_742),
    ],
)
def test_real_gke_nodes_have_the_room(name: str, millis: int, kib: int, disk_bytes: int) -> None:
    """Nodes with 100 GB that were published: up to 0.3 % less is known, and never more."""
    machine = gke.machine_type(name)
    assert machine is not None
    cpu, memory = room.gke(machine.vcpu, machine.memory_gib)
    assert cpu == millis
    assert 0.997 * kib <= memory * 1024 <= kib
    assert 0.997 * disk_bytes <= room.gke_disk(100) * 2**20 <= disk_bytes


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
