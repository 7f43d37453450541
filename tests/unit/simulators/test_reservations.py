"""Reservations that were there before the stack: written down, or as its pools want them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.simulators.inventory import network
from gpu_cluster.rehearsal.simulators.reservations import reservations
from gpu_cluster.stacks.definition.names import StackError
from tests.unit.refusals import one_line
from tests.unit.simulators.test_inventory import STACKS, settings


def test_without_an_inventory_they_are_as_the_pools_want_them(tmp_path: Path) -> None:
    """In the zones of the pools' subnets, as large as the pools grow, and the report says so."""
    wanted = settings("prod")
    found, (note,) = reservations("prod", wanted, network("prod", wanted, tmp_path)[0], tmp_path)
    assert [(one.name, one.type, one.zone, one.count, one.block) for one in found] == [
        ("cr-0123456789abcdef0", "p5.48xlarge", "us-east-1b", 2, True),
        ("cr-0fedcba9876543210", "g6.xlarge", "us-east-1a", 2, False),
    ]
    block, other = found
    now = datetime.now(UTC)
    assert block.start is not None
    assert block.end is not None
    assert block.start < now < now + timedelta(days=6) < block.end
    assert other.end is None
    assert note.startswith(
        "these reservations are simulated: cr-0123456789abcdef0, cr-0fedcba9876543210; no "
    )


def test_on_google_cloud_they_are_shared_with_the_project(tmp_path: Path) -> None:
    """With what is attached to N1, and the block that the pool names."""
    found, _ = reservations("reserved", settings("reserved"), folder=tmp_path)
    ours, theirs = found
    assert (ours.name, ours.type, ours.accelerator, ours.gpus, ours.count) == (
        "ours", "n1-standard-4", "nvidia-tesla-t4", 1, 2,
    )  # fmt: skip
    assert (theirs.name, theirs.accelerator) == ("projects/platform-team/reservations/l4s", "")
    assert (theirs.shared_with, theirs.blocks) == (("my-project",), ("l4s-block-1",))


def test_on_autopilot_they_are_of_the_largest_machine_with_these_gpus(tmp_path: Path) -> None:
    """In the first zone of the region that has them; nothing else bounds what pods ask for."""
    cluster = {"platform": "gke-autopilot", "name": "a", "location": "us-central1",
               "authorizedNetworks": {"office": "203.0.113.0/24"}}  # fmt: skip
    named = {"capacityType": "reservation", "reservation": "mine"}
    pools = {
        "l4": {"accelerator": "nvidia-l4", "gpusPerNode": 2, **named},
        "t4": {"accelerator": "nvidia-tesla-t4", "gpusPerNode": 1, **named,
               "reservation": "projects/owner-1/reservations/theirs"},
    }  # fmt: skip
    given = settings("reserved", cluster=cluster, gpuPools=pools, workloads={})
    found, (note,) = reservations("reserved", given, folder=tmp_path)
    assert [(one.name, one.type, one.zone, one.accelerator, one.gpus) for one in found] == [
        ("mine", "g2-standard-24", "us-central1-a", "", 0),
        ("projects/owner-1/reservations/theirs", "n1-standard-32", "us-central1-a",
         "nvidia-tesla-t4", 1),
    ]  # fmt: skip
    assert [one.shared_with for one in found] == [(), ("my-project",)]
    assert note.startswith("these reservations are simulated: mine, projects/owner-1/")


def test_pools_of_one_reservation_are_both_in_it(tmp_path: Path) -> None:
    """It has room for all of them."""
    pool = {"machineType": "g2-standard-4", "capacityType": "reservation", "reservation": "a"}
    given = settings("reserved", gpuPools={"b": pool, "c": {**pool, "maxNodes": 3}}, workloads={})
    (one,) = reservations("reserved", given, folder=tmp_path)[0]
    assert one.count == 1 + 3


def test_what_is_written_down_is_taken_without_a_note() -> None:
    """Beside subnets or alone."""
    for stack in ("prod", "reserved"):
        found, notes = reservations(stack, settings(stack), folder=STACKS / "inventories")
        assert notes == []
        assert len(found) == 2


def test_a_stack_without_reservations_has_none(tmp_path: Path) -> None:
    """Nor one whose settings the program refuses."""
    assert reservations("lab", settings("lab"), folder=tmp_path) == ([], [])
    assert reservations("lab", None, folder=tmp_path) == ([], [])


CR = "cr-0123456789abcdef0"
GOOD: dict[str, Any] = {"type": "p5.48xlarge", "zone": "us-east-1b", "count": 2}


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        (CR, {"size": 2}, f".{CR}.size: there is no such key; allowed: type, zone, count, used,"),
        (CR, {"count": "2"}, f".{CR}.count: '2' is not a number of count"),
        (CR, {"used": -1}, f".{CR}.used: -1 is not a number of used"),
        (CR, {"zone": None}, f".{CR}.zone: null is not the name of a zone"),
        (CR, {"block": "yes"}, f".{CR}.block: 'yes' is not a boolean (true or false)"),
        (CR, {"end": "soon"}, f".{CR}.end: 'soon' is not a time such as 2026-11-22T11:30:00Z"),
        ("mine", {"block": True}, ".mine: is not the ID of a Capacity Reservation, such as cr-0"),
        ("mine", {"sharedWith": "p"}, ".mine.sharedWith: 'p' is not a list"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, name: str, change: dict[str, Any], says: str
) -> None:
    """With its path, in one line."""
    (tmp_path / "prod.yaml").write_text(yaml.safe_dump({"reservations": {name: GOOD | change}}))
    with pytest.raises(StackError, match=one_line(says, "inventories/prod.yaml reservations")):
        reservations("prod", settings("prod"), folder=tmp_path)
