"""Whether a reservation holds what a pool wants; and what Google says of one."""

from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import botocore.exceptions
import pytest

from gpu_cluster.stacks.capacity import aws_reservations, google_reservations
from gpu_cluster.stacks.capacity.reserved import (
    CloudReservation,
    Reserved,
    Wanted,
    missing,
    reserved_text,
)
from gpu_cluster.stacks.capacity.verdict import Unknown, exit_code

WANTED = Wanted(
    pool="training", reservation="cr-1", types=("p5.48xlarge",), places="zones",
    zones=("us-east-1a",), nodes=2, kind="capacity-block",
)  # fmt: skip
END = datetime(2026, 11, 29, 11, 30, tzinfo=UTC)
START = datetime(2026, 11, 28, 11, 30, tzinfo=UTC)


def held(**changes: Any) -> CloudReservation:
    given: dict[str, Any] = {
        "name": "cr-1", "type": "p5.48xlarge", "zone": "us-east-1a", "zone_id": "use1-az6",
        "total": 2, "free": 2, "state": "active", "state_name": "active", "kind": "capacity-block",
        "end": END,
    }  # fmt: skip
    return CloudReservation(**given | changes)


@pytest.mark.parametrize(
    ("found", "word", "says"),
    [
        (held(), "enough", ""),
        (held(free=0, own=2), "enough", ""),
        (held(zone="us-east-1b", zone_id="use1-az1"), "wrong",
         "cr-1 is in us-east-1b (use1-az1), and the pool in us-east-1a; set zones to the "
         "reservation's zone"),
        (held(type="p4d.24xlarge"), "wrong", "cr-1 is of p4d.24xlarge, and the pool has p5.48xlar"),
        (held(kind="reservation"), "wrong",
         "cr-1 is for capacityType reservation, and the pool has capacity-block"),
        (held(state="over", state_name="expired"), "wrong",
         "cr-1 is expired since 2026-11-29 11:30 UTC; look there"),
        (held(total=1, free=1), "too little",
         "maxNodes is 2, and cr-1 has 1; lower maxNodes to that, or extend the reservation"),
        (held(free=0, own=1), "too little", "maxNodes is 2, and others use 1 of the 2 in cr-1"),
        (held(free=0, state="later", state_name="scheduled", start=START), "later",
         "cr-1 is scheduled: from 2026-11-28 11:30 UTC to 2026-11-29 11:30 UTC"),
        (held(refusal="not yours"), "wrong", "not yours"),
        (None, "wrong", "cr-1 does not exist, or is not visible to this account; look there"),
        (Unknown(reason="not allowed to look"), "unknown", "not allowed to look"),
    ],
)  # fmt: skip
def test_a_reservation_is_enough_or_says_why_not(
    found: CloudReservation | Unknown | None, word: str, says: str
) -> None:
    """What is the stack's own counts for it; a block that has not begun is no finding."""
    answer = found if isinstance(found, Unknown) else (found,) if found else ()
    one = Reserved(wanted=WANTED, reservations=answer, hint="look there")
    assert (one.word, one.reason[: len(says) or None]) == (word, says)
    codes = {"enough": 0, "later": 0, "too little": 1, "wrong": 1, "unknown": 2}
    assert exit_code([one]) == codes[word]
    # Instead of one that ended or does not exist, another can be bought.
    gone = found is None or (isinstance(found, CloudReservation) and found.state == "over")
    assert [machines.way for machines in missing([one])] == ["capacity-block"] * gone
    assert ("training: " in reserved_text([one])) == (word != "enough")


def test_times_are_in_utc() -> None:
    """Google writes its own with the offset of somewhere."""
    row = {"name": "r", "deleteAtTime": "2026-11-29T17:30:00.000-07:00", "status": "READY"}
    assert google_reservations.described(row, "us-east1-a", 0, "p", "p").window == (
        "until 2026-11-30 00:30 UTC"
    )


def test_zones_may_be_ids() -> None:
    """A pool in use1-az6 is where us-east-1a is in this account."""
    by_id = Wanted(**{name: getattr(WANTED, name) for name in WANTED.__slots__}
                   | {"zones": ("use1-az6",)})  # fmt: skip
    assert Reserved(wanted=by_id, reservations=(held(),)).word == "enough"


def test_a_group_counts_what_fits() -> None:
    """Of its reservations those of the pool's zone and type, together."""
    found = (held(total=1, free=1), held(name="cr-2", total=1, free=1),
             held(name="cr-3", type="p4d.24xlarge"))  # fmt: skip
    assert Reserved(wanted=WANTED, reservations=found).word == "enough"
    assert Reserved(wanted=WANTED, reservations=found[1:]).word == "too little"


def test_the_table_and_the_document_say_what_was_found() -> None:
    """Free of all, the window, the zone's ID."""
    one = Reserved(wanted=WANTED, reservations=(held(free=1),))
    lines = reserved_text([one]).splitlines()
    assert lines[1].split("  ")[-2:] == ["until 2026-11-29 11:30 UTC", "too little"]
    assert "1 of 2" in lines[1]
    (found,) = one.document()["found"]
    assert (found["zoneId"], found["end"]) == ("use1-az6", "2026-11-29T11:30:00+00:00")


T4 = {"machineType": "n1-standard-4", "guestAccelerators": [
    {"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}]}  # fmt: skip
ROW = {
    "name": "theirs", "status": "READY", "specificReservationRequired": True,
    "specificReservation": {"count": "3", "inUseCount": "1", "instanceProperties": T4},
    "shareSettings": {"shareType": "SPECIFIC_PROJECTS", "projectMap": {"q": {"projectId": "q"}}},
}  # fmt: skip


def test_what_google_says_of_a_reservation() -> None:
    """Counts are strings, the attached GPUs are part of the machine."""
    found = google_reservations.described(ROW, "us-central1-a", 1, "q", "owner")
    assert (found.type, found.total, found.free, found.own, found.state, found.refusal) == (
        "n1-standard-4 with 1 nvidia-tesla-t4", 3, 2, 1, "active", "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "project", "says"),
    [
        ({}, "p", "theirs of owner is not shared with p; have owner share it"),
        ({"shareSettings": {"shareType": "LOCAL"}}, "q", "theirs of owner is not shared with q"),
        ({"shareSettings": {"shareType": "ORGANIZATION"}}, "p", ""),
        ({"specificReservationRequired": False}, "q", "theirs is open to any matching machine"),
        ({"shareSettings": {}}, "owner", ""),
    ],
)
def test_who_may_use_a_reservation(change: dict[str, Any], project: str, says: str) -> None:
    """The owner, and those with whom it shares one that has to be named."""
    found = google_reservations.described(ROW | change, "us-central1-a", 0, project, "owner")
    assert found.refusal.startswith(says)
    assert bool(found.refusal) == bool(says)


def test_on_gke_each_zone_must_have_it() -> None:
    """The API looks for it in each of the pool's zones."""
    wanted = Wanted(
        pool="l4", reservation="mine", types=("g2-standard-4",), places="zones", nodes=1,
        zones=("us-central1-a", "us-central1-b"), each_zone=True,
    )  # fmt: skip
    there = held(type="g2-standard-4", zone="us-central1-a", kind="reservation")
    one = Reserved(wanted=wanted, reservations=(there,))
    assert one.word == "wrong"
    assert one.reason.startswith("mine is not in us-central1-b, and must be in each zone of the po")


LOST = [
    kind
    for kind in vars(botocore.exceptions).values()
    if isinstance(kind, type) and issubclass(kind, botocore.exceptions.HTTPClientError)
]


@pytest.mark.parametrize("kind", LOST)
def test_a_reservation_that_a_lost_connection_hides_is_unknown(
    kind: type[botocore.exceptions.HTTPClientError],
) -> None:
    """Whatever botocore raises of a connection, whose `response` is None."""
    of = {"endpoint_url": "https://ec2", "proxy_url": "https://proxy"}
    ec2 = Mock()
    ec2.meta.region_name = "us-east-1"
    ec2.describe_capacity_reservations.side_effect = kind(**of, error=OSError("reset"))
    found = aws_reservations.reserved(ec2, Mock(), WANTED, [])
    assert isinstance(found.reservations, Unknown)
    assert found.reservations.reason.startswith("AWS could not be queried: ")
