"""`gpu-cluster capacity` against both simulated clouds: reservations that are right, and each thing
that can be wrong with one."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpu_cluster.cli.main import main
from gpu_cluster.rehearsal.simulators.google import Existing, GoogleCloud, serve_api
from gpu_cluster.rehearsal.simulators.inventory import network
from gpu_cluster.rehearsal.simulators.reservations import Reservation, reservations
from gpu_cluster.stacks.definition.files import INSTEAD
from tests.simulators.aws_account import account
from tests.unit.plugins.offline_engine import Plane
from tests.unit.simulators.test_inventory import STACKS, settings

INVENTORIES = STACKS / "inventories"
NOW = datetime.now(UTC)
DAY = timedelta(days=1)
L4S = "projects/platform-team/reservations/l4s"


@pytest.fixture(autouse=True)
def our_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSTEAD, str(STACKS))


def asked(stack: str, url: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[Any]]:
    """Exit code, and what is said of each reservation: pool, verdict, reason."""
    code = main(["capacity", stack, "--endpoint", url, "--json"])
    document = json.loads(capsys.readouterr().out)
    said = [(one["pool"], one["verdict"], one["reason"]) for one in document["reservations"]]
    assert document["exit"] == code
    return code, said


def of(stack: str) -> list[Reservation]:
    """Those of the stack's inventory."""
    return reservations(stack, settings(stack), folder=INVENTORIES)[0]


def prod(changed: list[Reservation], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[Any]]:
    existing, _ = network("prod", settings("prod"), INVENTORIES)
    with account(changed, existing=existing) as made:
        return asked("prod", made.cloud.endpoint, capsys)


def test_a_block_and_a_reservation_of_ec2_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """Subnets say where the pools are; the rest of the account answers as well."""
    code, said = prod(of("prod"), capsys)
    assert said == [("training", "enough", ""), ("notebooks", "enough", "")]
    assert code == 1  # who signs in to the simulated account is no admin of this cluster


@pytest.mark.parametrize(
    ("change", "word", "says"),
    [
        ({"zone": "us-east-1c"}, "wrong", "cr-0123456789abcdef0 is in us-east-1c (use1-az2), and "
                                          "the pool in us-east-1b; set subnetIds to the "
                                          "reservation's zone"),
        ({"type": "p4d.24xlarge"}, "wrong", "cr-0123456789abcdef0 is of p4d.24xlarge, and the"),
        ({"used": 1}, "too little", "maxNodes is 2, and others use 1 of the 2 in cr-01234567"),
        ({"count": 1}, "too little", "maxNodes is 2, and cr-0123456789abcdef0 has 1; lower"),
        ({"start": NOW - 2 * DAY, "end": NOW - DAY}, "wrong",
         "cr-0123456789abcdef0 is expired since "),
        ({"start": NOW + DAY, "end": NOW + 2 * DAY}, "later",
         "cr-0123456789abcdef0 is scheduled: from "),
        ({"block": False, "start": None, "end": None}, "wrong",
         "cr-0123456789abcdef0 is for capacityType reservation, and the pool has capacity-block"),
        ({"name": "cr-00000001"}, "wrong", "cr-0123456789abcdef0 does not exist, or is not "
                                           "visible to this account; list the available "
                                           "offerings: aws ec2 describe-capacity-block-offerings "
                                           "--region us-east-1 --instance-type p5.48xlarge "
                                           "--instance-count 2 --capacity-duration-hours 24"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_block_is_said(
    change: dict[str, Any], word: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As EC2 describes it now; a block that has not begun is no finding of its own."""
    block, other = of("prod")
    _, (training, notebooks) = prod([replace(block, **change), other], capsys)
    assert training[1] == word
    assert training[2].startswith(says)
    assert notebooks[1] == "enough"


def reserved(
    changed: list[Reservation], capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[Any]]:
    cloud = GoogleCloud(control_plane=Plane(), existing=Existing(reservations=changed))
    api = serve_api(cloud)
    try:
        return asked("reserved", api.endpoint, capsys)
    finally:
        api.stop()


def test_reservations_of_compute_engine_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """The project's own, and a block of one that another project shares."""
    code, said = reserved(of("reserved"), capsys)
    assert said == [("training", "enough", ""), ("inference", "enough", "")]
    assert code == 0


@pytest.mark.parametrize(
    ("change", "word", "says"),
    [
        ({"zone": "us-central1-b"}, "wrong", f"{L4S} is in us-central1-b, and the pool in "
                                             "us-central1-a; set zones to the reservation's zone"),
        ({"type": "g2-standard-8"}, "wrong", f"{L4S} is of g2-standard-8, and the pool has "
         "g2-standard-4"),
        ({"used": 1}, "too little", "maxNodes is 1, and others use 1 of the 1 in projects/plat"),
        ({"shared_with": ("q",)}, "wrong", "l4s of platform-team is not shared with my-project"),
        ({"name": "projects/platform-team/reservations/others"}, "wrong",
         f"{L4S}/reservationBlocks/l4s-block-1 does not exist"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_shared_reservation_is_said(
    change: dict[str, Any], word: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the project that owns it."""
    ours, theirs = of("reserved")
    code, (training, inference) = reserved([ours, replace(theirs, **change)], capsys)
    assert (code, training[1]) == (1, "enough")
    assert inference[1] == word
    assert inference[2].startswith(says)
