"""What a check finds of the buckets that pods use, asked of the simulated API."""

import pytest

from gpu_cluster.components.access.service_accounts import ServiceAccountArgs
from gpu_cluster.rehearsal.simulators.google import Existing, GoogleCloud, serve_api
from gpu_cluster.rehearsal.simulators.google.container.tokens import CLUSTER
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google_inventory import Bucket
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.google_buckets import bucket_findings
from tests.unit.plugins.offline_engine import Plane


def asked(
    bucket: Bucket, right: str = "write", *, region: str = "us-central1", only: bool = False
) -> tuple[list[tuple[str, str]], list[str]]:
    """What is found of the bucket `data` as (word, reason), and the notes."""
    existing = Existing(buckets={"data": bucket})
    api = serve_api(GoogleCloud(control_plane=Plane(), existing=existing))
    account = ServiceAccountArgs(
        buckets={"data": right},  # type: ignore[dict-item]
        this_cluster_only=only,
    )
    found, notes = bucket_findings({"trainer": account}, region=region, api=GoogleApi(api.endpoint))
    api.stop()
    assert all(one.about == "serviceAccounts.trainer.buckets.data" for one in found)
    return [(one.word, one.reason) for one in found], notes


@pytest.mark.parametrize("location", ["US", "US-CENTRAL1", "NAM4"])
def test_a_bucket_near_the_cluster_with_uniform_access_has_no_finding(location: str) -> None:
    """In its region, in a multi-region around it, or in a dual-region, which is not judged."""
    assert asked(Bucket(location=location)) == ([], [])


@pytest.mark.parametrize(("right", "word"), [("write", "wrong"), ("read", "unknown")])
def test_a_bucket_without_uniform_access_is_named_with_the_command(right: str, word: str) -> None:
    """Pods are federated identities, whose writes Cloud Storage refuses there."""
    (((given, reason),), _) = asked(Bucket(uniform_access=False), right)
    assert given == word
    assert "gcloud storage buckets update gs://data --uniform-bucket-level-access" in reason


def test_a_bucket_that_does_not_exist_is_wrong() -> None:
    """The update would end at its grant."""
    (found, _) = asked(Bucket(missing=True))
    assert found == [("wrong", "no such bucket exists; create it, or correct its name")]


def test_a_bucket_that_nobody_described_is_near_the_cluster() -> None:
    """What a rehearsal makes up must not look like advice."""
    cloud = GoogleCloud(control_plane=Plane())
    identity = "projects/p/locations/europe-west4-a/clusters/dev"
    cloud.resources[identity] = CloudResource(
        token=CLUSTER, display_name="cluster", identity=identity,
        state={"location": "europe-west4-a"},
    )  # fmt: skip
    api = serve_api(cloud)
    accounts = {"trainer": ServiceAccountArgs(buckets={"data": "read"})}
    assert bucket_findings(accounts, region="europe-west4", api=GoogleApi(api.endpoint)) == ([], [])
    api.stop()


@pytest.mark.parametrize("location", ["EU", "US-EAST1", "EUROPE-WEST4"])
def test_a_bucket_far_from_the_cluster_is_a_note(location: str) -> None:
    """It works, slowly, and its traffic is billed."""
    found, (note,) = asked(Bucket(location=location))
    assert found == []
    assert note.startswith(f"bucket data is in {location}, and the cluster in us-central1")


def test_a_bucket_of_a_region_whose_name_begins_alike_is_far() -> None:
    """europe-west12 is in Turin, europe-west1 in Belgium."""
    _, (note,) = asked(Bucket(location="EUROPE-WEST1"), region="europe-west12")
    assert note.startswith("bucket data is in EUROPE-WEST1, and the cluster in europe-west12")
    assert asked(Bucket(location="EUROPE-WEST12"), region="europe-west12") == ([], [])


def test_a_condition_needs_uniform_access_to_read_too() -> None:
    """The update would end at its grant."""
    (((word, reason),), _) = asked(Bucket(uniform_access=False), "read", only=True)
    assert (word, "thisClusterOnly is refused" in reason) == ("wrong", True)
