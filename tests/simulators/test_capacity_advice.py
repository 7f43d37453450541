"""What `gpu-cluster capacity` and the clouds' own clients learn of free machines from both
simulated clouds, and what those refuse."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import requests
import yaml
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from google.auth.exceptions import DefaultCredentialsError

from gpu_cluster.cli.main import main
from gpu_cluster.rehearsal.simulators.google import Existing, GoogleCloud, serve_api
from gpu_cluster.rehearsal.simulators.stock import Stock, Stocks
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.verdict import Unknown
from gpu_cluster.stacks.definition.files import EXAMPLES, INSTEAD, ROOT
from tests.simulators.aws_account import Account, account
from tests.unit.plugins.offline_engine import Plane

PAGE = ROOT / "docs" / "how-to" / "check-quota-cost-and-gpus.md"
L4S = ["g6.xlarge", "g6.2xlarge", "g6.4xlarge"]
P5 = {"instanceTypes": ["p5.48xlarge"], "capacityType": "capacity-block",
      "reservation": "cr-0123456789abcdef0", "zones": ["us-east-1b"], "maxNodes": 2}  # fmt: skip
Advised = tuple[int, list[Any], str]


def advised(
    example: str,
    url: str | None,
    pools: dict[str, Any],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> Advised:
    """The exit code for the example with these pools, its advice, and the text."""
    name = f"fallback{example}"
    document = yaml.safe_load((EXAMPLES.parent / "fallback" / f"Pulumi.{name}.yaml").read_text())
    del document["config"]["gpu-cluster:workloads"]
    document["config"]["gpu-cluster:gpuPools"] = pools
    (folder / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump(document))
    command = ["capacity", name, *(["--endpoint", url] if url else [])]
    main(command)
    text = capsys.readouterr().out
    code = main([*command, "--json"])
    return code, json.loads(capsys.readouterr().out)["advice"], text


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(INSTEAD, str(tmp_path))
    return tmp_path


@pytest.fixture
def aws() -> Iterator[Account]:
    with account(()) as made:
        made.ec2.describe_vpcs()  # the first request sets the region
        yield made


def test_spot_placement_scores_of_a_pool_s_zones(
    aws: Account, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the zones' names, with the time; two of three types sold out make a zone worse. A low
    score is not reported as a finding."""
    aws.cloud.account.stock = Stocks(
        [Stock(machine_type=name, zone="us-east-1b", capacity_type="spot") for name in L4S[1:]]
    )
    pool = {"instanceTypes": L4S, "maxNodes": 4, "fallback": ["spot", "on-demand"]}
    _, (advice,), text = advised("-eks", aws.cloud.endpoint, {"l4": pool}, files, capsys)
    scores = [(zone["zone"], zone["zoneId"], zone["placementScore"]) for zone in advice["zones"]]
    assert scores == [("us-east-1a", "use1-az6", 9), ("us-east-1b", "use1-az1", 3)]
    assert (advice["verdict"], advice["nodes"], advice["types"]) == ("estimated", 4, L4S)
    at = datetime.fromisoformat(advice["at"])
    assert abs(datetime.now(at.tzinfo) - at) < timedelta(minutes=5)
    assert re.search(r"us-east-1b  placement score 3 of 10  \d{4}-\d\d-\d\d \d\d:\d\d UTC", text)
    assert "no cloud tells whether machines are free on demand: pool l4" in text


def test_with_fewer_than_three_types_ec2_is_not_asked(
    aws: Account, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The score would always be low, so the line says how to get one."""
    pool = {"instanceTypes": ["g6.xlarge", "g6.2xlarge"], "capacityType": "spot"}
    _, (advice,), text = advised("-eks", aws.cloud.endpoint, {"l4": pool}, files, capsys)
    assert advice["verdict"] == "not asked"
    assert aws.cloud.account.scored == {}
    assert (
        "pool l4: not asked: gpuPools.l4.instanceTypes names 2, and EC2's Spot placement score is "
        "always low for fewer than three; name three or more instance types"
    ) in text


def test_a_block_that_does_not_exist_can_be_bought(
    aws: Account, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first offering of each zone that has the type, with start, end and price."""
    code, (advice,), text = advised("-eks", aws.cloud.endpoint, {"h100": P5}, files, capsys)
    assert code == 1
    assert "us-east-1b" in {zone["zone"] for zone in advice["zones"]}
    for zone in advice["zones"]:
        start, end = (datetime.fromisoformat(zone[key]) for key in ("start", "end"))
        assert end - start == timedelta(days=1)
        assert zone["nodes"] == 2
        assert f"2 from {start:%Y-%m-%d %H:%M} UTC to {end:%Y-%m-%d %H:%M} UTC" in text


def test_what_ec2_refuses_to_tell(aws: Account) -> None:
    """The codes for a missing, a wrong and one configuration too many; one that was used within a
    day can be used again, and with fewer than three types the score is the lowest."""

    def scores(*types: str, capacity: int = 1, **more: Any) -> list[int]:
        rows = aws.ec2.get_spot_placement_scores(
            InstanceTypes=types, TargetCapacity=capacity, SingleAvailabilityZone=True, **more
        )["SpotPlacementScores"]
        return [row["Score"] for row in rows]

    assert set(scores(*L4S[:2])) == {1}
    for count in range(1, 10):
        assert max(scores(*L4S, capacity=count)) == 9
    assert set(scores(*L4S[:2])) == {1}
    block = aws.ec2.describe_capacity_block_offerings
    p5 = {"InstanceType": "p5.48xlarge", "InstanceCount": 1}
    for code, refused in {
        "MaxConfigLimitExceeded": lambda: scores(*L4S, capacity=10),
        "MissingParameter": scores,
        "InvalidParameterValue": lambda: scores("g6.huge"),
        "InvalidParameter": lambda: aws.ec2.get_spot_placement_scores(
            TargetCapacity=1, InstanceRequirementsWithMetadata={"ArchitectureTypes": ["x86_64"]}
        ),
        "OptInRequired": lambda: scores(*L4S, RegionNames=["eu-west-1"]),
    }.items():
        with pytest.raises(ClientError, match=rf"\({code}\)"):
            refused()
    for changes in ({"CapacityDurationHours": 36}, {"CapacityDurationHours": 360},
                    {"InstanceCount": 65}, {"InstanceType": "g6.xlarge"}):  # fmt: skip
        with pytest.raises(ClientError, match=r"\(InvalidParameterValue\)"):
            block(**({"CapacityDurationHours": 24, **p5} | changes))
    assert block(CapacityDurationHours=182 * 24, **p5)["CapacityBlockOfferings"]


def test_what_ec2_does_not_allow_to_ask_is_named(
    aws: Account, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the action, and the page names all of them."""
    asked: list[str] = []
    call = BaseClient._make_api_call  # type: ignore[attr-defined]

    def denied(client: Any, name: str, params: Any) -> Any:
        asked.append(name)
        if name in ("GetSpotPlacementScores", "DescribeCapacityBlockOfferings"):
            error = {"Code": "UnauthorizedOperation", "Message": "no"}
            raise ClientError({"Error": error}, name)  # type: ignore[typeddict-item]
        return call(client, name, params)

    monkeypatch.setattr(BaseClient, "_make_api_call", denied)
    pools = {"l4": {"instanceTypes": L4S, "capacityType": "spot"}, "h100": P5}
    _, advice, text = advised("-eks", aws.cloud.endpoint, pools, files, capsys)
    assert [row["verdict"] for row in advice] == ["unknown", "unknown"]
    assert "UnauthorizedOperation no; allow ec2:GetSpotPlacementScores" in text
    page = PAGE.read_text()
    for name in ("GetSpotPlacementScores", "DescribeCapacityBlockOfferings",
                 "DescribeAvailabilityZones"):  # fmt: skip
        assert name in asked
        assert f"`ec2:{name}`" in page


def google(
    pools: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str], *stock: Stock,
    example: str = "",
) -> tuple[Advised, list[Any]]:  # fmt: skip
    """As `advised`, and the bodies of the requests for advice."""
    seen: list[Any] = []
    cloud = GoogleCloud(control_plane=Plane(), existing=Existing(stock=stock))
    api = serve_api(cloud, lambda request: seen.append(request) if "/advice/" in request[1] else 0)
    try:
        return advised(example, api.endpoint, pools, folder, capsys), [body for *_, body in seen]
    finally:
        api.stop()


def test_obtainability_of_spot_by_zone(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A request for each zone, as a recommendation has one score for all of its zones; attached
    GPUs are part of it. The exit code is 0, however low."""
    pools = {
        "l4": {"machineType": "g2-standard-4", "maxNodes": 3, "fallback": ["spot", "flex-start"],
               "zones": ["us-central1-a", "us-central1-b"]},
        "t4": {"machineType": "n1-standard-4", "accelerator": "nvidia-tesla-t4",
               "gpusPerNode": 2, "capacityType": "spot", "zones": ["us-central1-a"]},
    }  # fmt: skip
    short = Stock(machine_type="g2-standard-4", zone="us-central1-b", nodes=2)
    (code, advice, text), bodies = google(pools, files, capsys, short)
    assert code == 0
    assert [(row["pool"], row["verdict"]) for row in advice] == [("l4", "estimated"),
                                                                 ("t4", "estimated")]  # fmt: skip
    assert advice[0]["zones"] == [
        {"zone": "us-central1-a", "obtainability": 0.9, "estimatedUptimeSeconds": 3600.0},
        {"zone": "us-central1-b", "obtainability": 0.1, "estimatedUptimeSeconds": 60.0},
    ]
    assert re.search(r"us-central1-b  obtainability 0.1 of 1, most run 1 min +\d{4}-", text)
    assert "no cloud tells whether machines are free with flex-start: pool l4" in text
    assert bodies[0]["size"] == 3
    selection = bodies[2]["instanceFlexibilityPolicy"]["instanceSelections"]["pool"]
    assert selection["guestAccelerators"] == [
        {"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 2}
    ]


def test_advice_that_is_refused_is_no_finding(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An identity that may read quotas, and not ask for advice, is told so and goes on."""
    monkeypatch.setattr(GoogleApi, "post", lambda *_: Unknown(reason="not allowed to look: no"))
    pool = {"machineType": "g2-standard-4", "capacityType": "spot", "zones": ["us-central1-a"]}
    (code, _, text), _ = google({"l4": pool}, files, capsys)
    assert code == 0
    assert "\npool l4: unknown: not allowed to look: no" in text


@pytest.mark.parametrize(
    ("example", "pool", "reason"),
    [
        ("-eks", {"instanceTypes": L4S, "capacityType": "spot"},
         "AWS could not be queried: Unable to locate credentials"),
        ("", {"machineType": "g2-standard-4", "capacityType": "spot", "zones": ["us-central1-a"]},
         "no Google Cloud credentials: run"),
    ],
)  # fmt: skip
def test_without_credentials_one_line_says_so(
    example: str, pool: dict[str, Any], reason: str, files: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """For the advice as for quotas and zones, with the exit code 2."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(files / "none"))
    monkeypatch.setattr("google.auth.default", Mock(side_effect=DefaultCredentialsError()))
    code, (advice,), text = advised(example, None, {"l4": pool}, files, capsys)
    assert (code, advice["verdict"]) == (2, "unknown")
    assert advice["reason"].startswith(reason)
    assert text.count(reason) == 1


def test_a_reservation_that_does_not_exist_may_be_had_in_calendar_mode(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of A3 and newer; each other zone says why not."""
    reserved = {"capacityType": "reservation", "reservation": "none", "zones": ["us-central1-a"]}
    pools = {"h100": {"machineType": "a3-highgpu-8g", "maxNodes": 2, **reserved},
             "l4": {"machineType": "g2-standard-4", **reserved}}  # fmt: skip
    (code, advice, text), bodies = google(pools, files, capsys, example="")
    assert code == 1
    assert [row["pool"] for row in advice] == ["h100"]
    first, *others = advice[0]["zones"]
    start, end = (datetime.fromisoformat(first[key]) for key in ("start", "end"))
    assert end - start == timedelta(days=1)
    assert {"RECOMMENDED", "NOT_SUPPORTED"} == {zone["status"] for zone in others}
    assert "can be reserved too" in text
    assert len(bodies) == 2  # text, and JSON


def test_on_autopilot_google_is_not_asked(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """GKE chooses the machine."""
    pool = {"accelerator": "nvidia-l4", "gpusPerNode": 1, "fallback": ["spot", "on-demand"]}
    (_, (advice,), text), bodies = google({"l4": pool}, files, capsys, example="-autopilot")
    assert (advice["verdict"], bodies) == ("not asked", [])
    assert "pool l4: not asked: GKE chooses machine and zone of its nodes on Autopilot" in text


SELECTION = {"instanceFlexibilityPolicy": {"instanceSelections": {"a": {"machineTypes": [
    "g2-standard-4"]}}}}  # fmt: skip
SPOT = {"instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}}}
ZONE = {"distributionPolicy": {"zones": [{"zone": "zones/us-central1-a"}]}}


@pytest.mark.parametrize(
    ("method", "body", "message"),
    [
        ("capacity", SELECTION | {"size": 1}, "Must be SPOT"),
        ("capacity", SELECTION | SPOT, "'size': '0'. Must be from 1 to 1000"),
        ("capacity", SELECTION | SPOT | {"size": 1001}, "'size': '1001'"),
        ("capacity", SPOT | {"size": 1}, "Exactly one instance selection"),
        ("capacity", {**SELECTION, **SPOT, "size": 1, "count": 1}, 'Unknown name "count"'),
        ("capacity", SELECTION | SPOT | {"size": 1, "distributionPolicy": {
            "zones": [{"zone": "zones/europe-west4-a"}]}}, "Must be a zone of us-central1"),
        ("capacity", SPOT | ZONE | {"size": 1, "instanceFlexibilityPolicy": {
            "instanceSelections": {"a": {"machineTypes": ["g9-huge"]}}}}, "Unknown machine type"),
        ("calendarMode", {}, "Exactly one future resources specification"),
        ("calendarMode", {"futureResourcesSpecs": {"a": {"targetResources": {
            "specificSkuResources": {"machineType": "a3-highgpu-8g", "instanceCount": "81"}}}}},
         "Must be from 1 to 80"),
        ("calendarMode", {"futureResourcesSpecs": {"a": {"targetResources": {
            "specificSkuResources": {"machineType": "a3-highgpu-8g", "instanceCount": "1"}},
            "timeRangeSpec": {"minDuration": "3600s", "maxDuration": "3600s"}}}},
         "Must be from 1 to 90 days"),
    ],
)  # fmt: skip
def test_what_compute_engine_refuses_to_tell(method: str, body: Any, message: str) -> None:
    """With its status 400 for a field's value, and unknown fields as for every method; and v1 says
    nothing of Spot."""
    api = serve_api(GoogleCloud(control_plane=Plane()))
    url = "/projects/p/regions/us-central1/advice/"
    try:
        answer = requests.post(f"{api.endpoint}/compute/beta{url}{method}", json=body, timeout=10)
        spot = SELECTION | SPOT | {"size": 1}
        old = requests.post(f"{api.endpoint}/compute/v1{url}capacity", json=spot, timeout=10)
    finally:
        api.stop()
    assert (answer.status_code, old.status_code) == (400, 400)
    assert message in answer.json()["error"]["message"]
    assert "Use beta" in old.json()["error"]["message"]


def test_advice_alone_is_asked_with_a_scope_that_could_change_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its methods accept no other one; the permissions that it needs are on the page."""
    asked: list[Any] = []
    monkeypatch.setattr(
        "google.auth.default", lambda scopes: (asked.append(scopes), (object(), "p"))[1]
    )
    api = GoogleApi()
    advice = api.scoped("https://www.googleapis.com/auth/compute")
    assert advice.scoped("https://www.googleapis.com/auth/compute") is advice
    advice._session()
    assert [len(scopes) for scopes in asked] == [2, 1]
    assert all("readonly" in scope or "read-only" in scope for scope in asked[0])
    for name in ("capacity", "calendarMode"):
        assert f"`compute.advice.{name}`" in PAGE.read_text()
