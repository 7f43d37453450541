"""Reservations of the simulated Google Cloud: who sees them, and which node pools get machines out
of them, in Google's words."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, RefusedError
from gpu_cluster.rehearsal.simulators.google.compute.instances import running
from gpu_cluster.rehearsal.simulators.google.container.reserved import used_of
from gpu_cluster.rehearsal.simulators.google.container.tokens import NODE_POOL
from gpu_cluster.rehearsal.simulators.reservations import Reservation
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import AUTOPILOT, GoogleStack, t4

T4 = {"type": "n1-standard-4", "zone": "us-central1-a", "accelerator": "nvidia-tesla-t4", "gpus": 1}
MINE = Reservation(name="mine", count=2, **T4)
THEIRS = Reservation(
    name="projects/owner/reservations/theirs", count=1, shared_with=("p",), blocks=("b1",), **T4
)
HIDDEN = Reservation(name="projects/owner/reservations/hidden", count=1, shared_with=("q",), **T4)


def stack(*reservations: Reservation) -> GoogleStack:
    return GoogleStack.with_cluster(
        quota={"NVIDIA_T4_GPUS": 0}, reservations=reservations or (MINE, THEIRS, HIDDEN)
    )


def out_of(path: str, **config: Any) -> dict[str, Any]:
    affinity = {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [path],
    }
    return t4(**config) | {"reservationAffinity": affinity}


@pytest.mark.parametrize(
    "path",
    ["mine", "projects/p/reservations/mine", "projects/owner/reservations/theirs",
     "projects/owner/reservations/theirs/reservationBlocks/b1"],
)  # fmt: skip
def test_a_pool_gets_what_is_reserved_and_no_more(path: str) -> None:
    """Whatever the quota: what is reserved counted when it was reserved."""
    made = stack()
    made.pool(nodeConfig=out_of(path))
    (name,) = [group.name for group in made.cloud.node_groups() if group.gpus]
    there = 2 if path.endswith("mine") else 1
    made.cloud.set_size(name, there)
    with pytest.raises(RefusedError, match=rf"^Specified reservation '{path}' does not have avai"):
        made.cloud.set_size(name, there + 1)


def test_any_reservation_is_none_that_must_be_named() -> None:
    """The machines are bought, and count against the quota."""
    made = stack()
    made.pool(
        nodeConfig=t4() | {"reservationAffinity": {"consumeReservationType": "ANY_RESERVATION"}}
    )
    (name,) = [group.name for group in made.cloud.node_groups() if group.gpus]
    with pytest.raises(RefusedError, match="NVIDIA_T4_GPUS"):
        made.cloud.set_size(name, 1)


@pytest.mark.parametrize(
    "path", ["nobodys", "theirs", "projects/owner/reservations/hidden", "mine/reservationBlocks/b1"]
)
def test_a_reservation_that_the_project_cannot_use_is_not_found(path: str) -> None:
    """At any size, as somebody of cluster-toolkit saw it (pull request 5043)."""
    words = (
        f'Google Compute Engine: reservation "{path}" not found for node pool "gpu-.*" at zone '
        '"us-central1-a".'
    )
    with pytest.raises(Refused, match=words):
        stack().pool(nodeConfig=out_of(path))


def test_a_reservation_of_another_zone_is_not_found() -> None:
    """GKE looks in the pool's zones alone."""
    elsewhere = Reservation(name="mine", count=2, **T4 | {"zone": "us-central1-b"})
    with pytest.raises(Refused, match=r'reservation "mine" not found .* zone "us-central1-a"'):
        stack(elsewhere).pool(nodeConfig=out_of("mine"))


def test_another_machine_has_no_share_in_a_reservation() -> None:
    """GKE makes the pool, and no machine starts; with nodes at once, GKE refuses."""
    made = stack()
    made.pool(nodeConfig=out_of("mine", machineType="n1-standard-8"))
    (name,) = [group.name for group in made.cloud.node_groups() if group.gpus]
    with pytest.raises(RefusedError, match=r"^No available resources in specified reservations 'm"):
        made.cloud.set_size(name, 1)
    with pytest.raises(Refused, match=r"required 1 and short of 1 VM count of machine type n1-st"):
        made.pool("more", nodeConfig=out_of("mine", machineType="n1-standard-8"),
                  initialNodeCount=1)  # fmt: skip


def test_a_reserved_machine_has_as_many_local_ssds_as_the_pool() -> None:
    """Compute Engine uses a reservation only for the same ones."""
    made = stack(replace(MINE, ssds=2))
    block = {"localNvmeSsdBlockConfig": {"localSsdCount": 2}}
    made.pool(nodeConfig=out_of("mine", **block), initialNodeCount=1)
    with pytest.raises(Refused, match="required 1 and short of 1"):
        made.pool("more", nodeConfig=out_of("mine"), initialNodeCount=1)


def test_two_pools_share_a_reservation() -> None:
    """What one has taken the other cannot have."""
    made = stack()
    made.pool(nodeConfig=out_of("mine"))
    made.pool("more", nodeConfig=out_of("mine"))
    one, other = [group.name for group in made.cloud.node_groups() if group.gpus]
    made.cloud.set_size(one, 1)
    with pytest.raises(RefusedError, match=r"\(1 free, needed: 2\)"):
        made.cloud.set_size(other, 2)
    made.cloud.set_size(other, 1)


def test_what_is_reserved_counts_against_the_quota() -> None:
    """Whether it runs or not, and once: other pools get what is left."""
    made = GoogleStack.with_cluster(quota={"NVIDIA_T4_GPUS": 3}, reservations=[MINE, THEIRS])
    made.pool(nodeConfig=out_of("mine"), initialNodeCount=2)
    made.pool("other", initialNodeCount=1)
    with pytest.raises(Refused, match=r"Limit: 3.0 in region us-central1, needed: 4.0"):
        made.pool("more", initialNodeCount=1)


def test_nodes_that_boot_count_against_the_quota() -> None:
    """Their machines are there, although the cluster does not see them yet."""
    made = GoogleStack.with_cluster(quota={"NVIDIA_T4_GPUS": 1})
    made.pool(initialNodeCount=1)
    for pool in made.cloud.of(NODE_POOL):
        pool.state["status"] = "PROVISIONING"
    with pytest.raises(Refused, match=r"Limit: 1.0 in region us-central1, needed: 2.0"):
        made.pool("more", initialNodeCount=1)


NAMED = {
    "cloud.google.com/gke-accelerator": "nvidia-tesla-t4",
    "cloud.google.com/reservation-name": "mine",
    "cloud.google.com/reservation-affinity": "specific",
}
SHARED = NAMED | {
    "cloud.google.com/reservation-name": "theirs",
    "cloud.google.com/reservation-project": "owner",
}
BLOCK = SHARED | {"cloud.google.com/reservation-blocks": "b1"}


def autopilot(*selectors: dict[str, str], reservations: tuple[Reservation, ...]) -> GoogleStack:
    """An Autopilot cluster whose pods have these node selectors."""
    quota = {"NVIDIA_T4_GPUS": 0}
    made = GoogleStack.with_cluster(quota=quota, reservations=reservations, **AUTOPILOT)
    made.cloud.asked(selectors)
    return made


def selected(stack: GoogleStack, selector: dict[str, str]) -> NodeGroup:
    """The one group whose nodes a pod with the selector can run on."""
    (found,) = [
        group
        for group in stack.cloud.node_groups()
        if selector.items() <= group.node.labels.items()
        and group.node.labels["cloud.google.com/gke-accelerator-count"] == "1"
    ]
    return found


@pytest.mark.parametrize(("selector", "there"), [(NAMED, 2), (SHARED, 1), (BLOCK, 1)])
def test_autopilot_takes_reserved_machines_for_pods_that_name_them(
    selector: dict[str, str], there: int
) -> None:
    """In the reservation's zone, of its machine type, whatever the quota, and no more than it has;
    the API counts them as used, and a node's instance names the reservation."""
    made = autopilot(selector, reservations=(MINE, THEIRS, HIDDEN))
    group = selected(made, selector)
    assert group.node.labels["node.kubernetes.io/instance-type"] == "n1-standard-4"
    assert group.node.labels["topology.kubernetes.io/zone"] == "us-central1-a"
    made.cloud.set_size(group.name, there)
    with pytest.raises(RefusedError, match=rf"does not have available .*\(.* needed: {there + 1}"):
        made.cloud.set_size(group.name, there + 1)
    used = [used_of(made.cloud, one) for one in (MINE, THEIRS)]
    assert used == ([2, 0] if selector is NAMED else [0, 1])
    assert [nodes.reservation.rpartition("/")[2] for nodes in running(made.cloud)] == [
        {2: "mine", 1: "theirs"}[there] if selector is not BLOCK else "b1"
    ]


def test_pods_that_name_no_reservation_get_nothing_out_of_one() -> None:
    """Autopilot takes one for a pod that names it, and with the affinity `specific` alone."""
    for missing in ("cloud.google.com/reservation-name", "cloud.google.com/reservation-affinity"):
        selector = {key: value for key, value in NAMED.items() if key != missing}
        made = autopilot(selector, reservations=(MINE,))
        assert not [group for group in made.cloud.node_groups() if selector.items()
                    <= group.node.labels.items() and "mine" in group.name]  # fmt: skip
        assert used_of(made.cloud, MINE) == 0


@pytest.mark.parametrize(
    ("reservation", "words"),
    [
        (HIDDEN, r"Specified reservations \[mine\] do not exist"),
        (Reservation(name="mine", count=2, **T4 | {"zone": "us-east1-c"}), "do not exist"),
        (Reservation(name="mine", count=2, used=2, **T4), r"\(0 free, needed: 1\)"),
        (Reservation(name="mine", count=2, type="a2-highgpu-1g", zone="us-central1-a"),
         "No available resources in specified reservations 'mine' .a2-highgpu-1g, and"),
    ],
)  # fmt: skip
def test_what_a_reservation_does_not_have_stays_pending(
    reservation: Reservation, words: str
) -> None:
    """Another project's or region's, a full one, one of other machines: in Compute Engine's
    words."""
    made = autopilot(NAMED, reservations=(reservation,))
    with pytest.raises(RefusedError, match=words):
        made.cloud.set_size(selected(made, NAMED).name, 1)
