"""The node pools that the simulated GKE creates for ComputeClasses, and how it names wrong ones."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, RefusedError
from gpu_cluster.rehearsal.simulators.google.container.tokens import NODE_POOL
from gpu_cluster.rehearsal.simulators.reservations import Reservation
from gpu_cluster.rehearsal.simulators.stock import Stock
from tests.unit.simulators.google_stack import AUTOPILOT, GoogleStack

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

SPOT, ON_DEMAND = (
    {
        "machineType": "g2-standard-4",
        "gpu": {"type": "nvidia-l4", "count": 1, "driverVersion": "latest"},
        "storage": {"bootDiskType": "pd-balanced", "bootDiskSize": 100},
        "location": {"zones": ["us-central1-a"]},
        "spot": spot,
    }
    for spot in (True, False)
)
L4: dict[str, Any] = {
    "metadata": {"name": "l4"},
    "spec": {
        "nodePoolAutoCreation": {"enabled": True},
        "nodePoolConfig": {"imageType": "cos_containerd", "nodeLabels": {"gpu-cluster/pool": "l4"}},
        "activeMigration": {"optimizeRulePriority": True},
        "priorities": [SPOT, ON_DEMAND],
        "whenUnsatisfiable": "DoNotScaleUp",
    },
}
PROVISIONING = {
    "enabled": True,
    "resourceLimits": [
        {"resourceType": resource, "maximum": most}
        for resource, most in (("cpu", 100), ("memory", 400), ("nvidia-l4", 2))
    ],
}


def stack(*stock: Stock, reservations: tuple[Reservation, ...] = (), **cluster: Any) -> GoogleStack:
    """One with a cluster that creates node pools."""
    made = GoogleStack(quota_suffices=True, stock=stock, reservations=reservations)
    made.cluster(**{"clusterAutoscaling": PROVISIONING, **cluster})
    return made


def groups(made: GoogleStack, *classes: Any) -> list[NodeGroup]:
    """Those of the classes, first choice first."""
    assert made.cloud.classes(classes or [L4]) == []
    found = [group for group in made.cloud.node_groups() if group.choice]
    return sorted(found, key=lambda one: one.choice.rank if one.choice else 0)


def test_a_pool_stands_for_each_priority_before_it_exists() -> None:
    """With what its nodes would have: the autoscaler decides by that."""
    made = stack()
    spot, on_demand = groups(made)
    assert spot.name.startswith("nap-g2-standard-4-spot-gpu1-")
    assert (spot.spot, on_demand.spot) == (True, False)
    assert spot.max_nodes == 2, "as many as the limit of GPUs leaves"
    labels = spot.node.labels
    assert labels["cloud.google.com/compute-class"] == "l4"
    assert labels["gpu-cluster/pool"] == "l4"
    assert labels["cloud.google.com/gke-gpu-driver-version"] == "latest"
    assert {(taint.key, taint.value) for taint in spot.node.taints} == {
        ("nvidia.com/gpu", "present"),
        ("cloud.google.com/compute-class", "l4"),
    }
    assert not list(made.cloud.of(NODE_POOL))


def test_a_pool_exists_as_long_as_it_has_nodes() -> None:
    """GKE creates it with its first node, and deletes it with its last."""
    made = stack()
    spot, _ = groups(made)
    made.cloud.set_size(spot.name, 1)
    (pool,) = made.cloud.of(NODE_POOL)
    assert pool.state["name"] == spot.name
    assert pool.state["autoscaling"]["autoprovisioned"] is True
    assert groups(made)[0].name == spot.name
    made.cloud.set_size(spot.name, 0)
    assert not list(made.cloud.of(NODE_POOL))


def test_what_ran_out_is_refused_and_the_next_choice_starts() -> None:
    """By machine type, zone and how the machines are bought."""
    made = stack(Stock(machine_type="g2-standard-4", capacity_type="spot", nodes=0))
    spot, on_demand = groups(made)
    with pytest.raises(
        RefusedError, match=r"ZONE_RESOURCE_POOL_EXHAUSTED: The zone .*us-central1-a"
    ):
        made.cloud.set_size(spot.name, 1)
    assert not made.cloud.starts(spot.name)
    assert made.cloud.starts(on_demand.name)
    made.cloud.set_size(on_demand.name, 1)


def test_all_choices_together_have_no_more_gpus_than_the_limit() -> None:
    """`resourceLimits` is of the whole cluster."""
    made = stack()
    spot, on_demand = groups(made)
    made.cloud.set_size(spot.name, 2)
    with pytest.raises(RefusedError, match="max cluster nvidia-l4 limit reached: 3 needed"):
        made.cloud.set_size(on_demand.name, 1)


def test_without_node_auto_provisioning_nothing_limits_a_class() -> None:
    """From GKE 1.33.3-gke.1136000 on it creates node pools all the same."""
    spot, _ = groups(stack(clusterAutoscaling={"enabled": False}))
    assert spot.max_nodes == 1000


RESERVED: dict[str, Any] = {
    **ON_DEMAND,
    "location": {"locationPolicy": "ANY"},
    "reservations": {
        "affinity": "Specific",
        "specific": [{"name": "mine", "zones": ["us-central1-a"]}],
    },
}


def test_a_priority_takes_machines_out_of_its_reservation() -> None:
    """As many as are reserved."""
    mine = Reservation(name="mine", type="g2-standard-4", zone="us-central1-a", count=1)
    made = stack(reservations=(mine,))
    given = copy.deepcopy(L4)
    given["spec"]["priorities"] = [RESERVED, ON_DEMAND]
    reserved, _ = groups(made, given)
    made.cloud.set_size(reserved.name, 1)
    with pytest.raises(RefusedError, match="does not have available resources"):
        made.cloud.set_size(reserved.name, 2)


def test_a_priority_with_any_reservation_buys_what_none_has() -> None:
    """The node pool says so; a reservation that must be named is not used."""
    mine = Reservation(name="mine", type="g2-standard-4", zone="us-central1-a", count=1)
    made = stack(reservations=(mine,))
    given = copy.deepcopy(L4)
    given["spec"]["priorities"] = [ON_DEMAND | {"reservations": {"affinity": "AnyBestEffort"}}]
    (group,) = groups(made, given)
    made.cloud.set_size(group.name, 2)
    (config,) = [
        pool.state["config"] for pool in made.cloud.pools() if pool.state["name"] == group.name
    ]
    assert config["reservationAffinity"] == {"consumeReservationType": "ANY_RESERVATION"}


def test_the_pods_of_a_priority_have_its_local_ssds_as_their_disk() -> None:
    """Its node pool has them as ephemeral storage."""
    given = copy.deepcopy(L4)
    given["spec"]["priorities"] = [ON_DEMAND | {"storage": {"localSSDCount": 1}}]
    (group,) = groups(stack(), given)
    assert int(group.node.capacity["ephemeral-storage"]) // 2**30 == 281


WHOLE, BARE = "a3-highgpu-8g", "a3-highgpu-8g-nolssd"
UNFIT = (
    'Reservation "mine" is incompatible with priority rule configuration (in zone us-central1-a: '
)
COUNT = "Local SSD count {} is not supported with machine type"


def h100(machine_type: str, ssds: int) -> dict[str, Any]:
    return {
        "machineType": machine_type,
        "gpu": {"type": "nvidia-h100-80gb", "count": 8},
        "storage": {"localSSDCount": ssds},
    }


@pytest.mark.parametrize(
    ("named", "held", "says"),
    [
        ({"machineFamily": "g2"}, "g2-standard-4", ""),
        ({"machineFamily": "g2"}, "g2-standard-24",
         "GPU type nvidia-l4 with count 1 is not supported with machine type g2-standard-24."),
        ({"machineFamily": "g2"}, "a2-highgpu-1g",
         f"{UNFIT}machine family mismatch: requested g2, reservation has a2)."),
        (h100(WHOLE, 16), WHOLE, ""),
        (h100(WHOLE, 16), BARE,
         f"{UNFIT}machine type mismatch, requested {WHOLE}, reservation has {BARE})."),
        (h100(WHOLE, 8), WHOLE,
         f"{COUNT.format(8)} {WHOLE}. Allowed counts are - [16]."),
        (h100(BARE, 0), BARE, ""),
        (h100(BARE, 16), BARE, f"{COUNT.format(16)} {BARE}."),
    ],
)  # fmt: skip
def test_a_priority_has_the_machines_and_local_ssds_of_its_reservation(
    named: dict[str, Any], held: str, says: str
) -> None:
    """Otherwise the report says why, and GKE never provisions it."""
    mine = Reservation(name="mine", type=held, zone="us-central1-a", count=1)
    made, given = stack(reservations=(mine,)), copy.deepcopy(L4)
    any_type = {key: value for key, value in RESERVED.items() if key != "machineType"}
    given["spec"]["priorities"] = [any_type | named, ON_DEMAND]
    said = [f"compute class l4: priority 0: {says}"] if says else []
    assert made.cloud.classes([given]) == said
    first = [group for group in made.cloud.node_groups() if group.choice and not group.choice.rank]
    types = [one.node.labels["node.kubernetes.io/instance-type"] for one in first]
    assert types == ([] if says else [held])
    for one in first:
        made.cloud.set_size(one.name, 1)


@pytest.mark.parametrize(
    ("specific", "found"),
    [
        ({"name": "mine"}, ["us-central1-b"]),
        ({"name": "mine", "zones": ["us-central1-b", "us-central1-c"]}, []),
    ],
)
def test_a_reservation_must_be_in_each_zone_that_its_priority_names(
    specific: dict[str, Any], found: list[str]
) -> None:
    """If it names none, nodes start where the reservation is."""
    mine = Reservation(name="mine", type="g2-standard-4", zone="us-central1-b", count=1)
    zones = ["us-central1-a", "us-central1-b", "us-central1-c"]
    made = stack(
        reservations=(mine,),
        clusterAutoscaling=PROVISIONING | {"autoProvisioningLocations": zones},
    )
    given = copy.deepcopy(L4)
    rule = RESERVED | {"reservations": {"affinity": "Specific", "specific": [specific]}}
    given["spec"]["priorities"] = [rule, ON_DEMAND]
    lines = made.cloud.classes([given])
    groups = [one for one in made.cloud.node_groups() if one.choice and one.choice.rank == 0]
    assert [group.node.labels["topology.kubernetes.io/zone"] for group in groups] == found
    missing = "compute class l4: priority 0: Reservation is missing in specified zone us-central1-c"
    assert lines == ([] if found else [missing])


A100_OF_ANY_MACHINE = {"gpu": {"type": "nvidia-a100-80gb", "count": 1}}


def test_autopilot_chooses_machine_and_zones_and_counts_the_gpus() -> None:
    """Where the region has the GPU; its pods select nodes by how many GPUs those have."""
    made = GoogleStack(quota_suffices=True, stock=(Stock(
        machine_type="a2-ultragpu-1g", capacity_type="spot", nodes=0, zone="us-central1-a"
    ),))  # fmt: skip
    made.cluster(clusterAutoscaling={}, **AUTOPILOT)
    given = copy.deepcopy(L4)
    del given["spec"]["nodePoolConfig"]
    given["spec"]["priorities"] = [A100_OF_ANY_MACHINE | {"spot": spot} for spot in (True, False)]
    found = groups(made, given)
    zones = [one.node.labels["topology.kubernetes.io/zone"] for one in found]
    assert zones == ["us-central1-a", "us-central1-c"] * 2
    labels = found[0].node.labels
    assert labels["node.kubernetes.io/instance-type"] == "a2-ultragpu-1g"
    assert labels["cloud.google.com/gke-accelerator-count"] == "1"
    with pytest.raises(RefusedError, match="ZONE_RESOURCE_POOL_EXHAUSTED"):
        made.cloud.set_size(found[0].name, 1)
    made.cloud.set_size(found[1].name, 1)
    (pool,) = made.cloud.of(NODE_POOL)
    assert pool.state["locations"] == ["us-central1-c"]
    made.cloud.set_size(found[1].name, 0)
    assert not list(made.cloud.of(NODE_POOL))


@pytest.mark.parametrize(("rule", "says"), TABLE["test_a_wrong_priority_is_named_in_gke_s_words"])
def test_a_wrong_priority_is_named_in_gke_s_words(rule: dict[str, Any], says: str) -> None:
    """The others of the class still have their pools."""
    made, given = stack(), copy.deepcopy(L4)
    given["spec"]["priorities"] = [rule, ON_DEMAND]
    (line,) = made.cloud.classes([given])
    assert line.startswith("compute class l4: priority 0: ")
    assert says in line
    assert [group.choice.rank for group in made.cloud.node_groups() if group.choice] == [1]


def test_a_class_that_may_create_nothing_is_named() -> None:
    """And so is an account that does not exist, as whom no node starts."""
    made, given = stack(), copy.deepcopy(L4)
    given["spec"]["nodePoolAutoCreation"] = {"enabled": False}
    (line,) = made.cloud.classes([given])
    assert "compute class l4: Crd with NAP disabled" in line
    given = copy.deepcopy(L4)
    given["spec"]["nodePoolConfig"]["serviceAccount"] = "gone@p.iam.gserviceaccount.com"
    assert all("gone@p.iam" in line for line in made.cloud.classes([given]))
