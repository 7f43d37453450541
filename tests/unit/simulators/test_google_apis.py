"""Google's own client library against the simulated APIs: what it takes as an answer is the
test."""

import json
from collections.abc import Iterator
from typing import Any

import httplib2
import pytest
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from gpu_cluster.rehearsal.simulators.google import GoogleCloud, serve_api
from gpu_cluster.rehearsal.simulators.google_inventory import Bucket
from tests.unit.plugins.offline_engine import Plane

REGION = {"project": "p", "region": "us-central1"}
ACCOUNT = "projects/p/serviceAccounts/nodes-of-dev@p.iam.gserviceaccount.com"


class Google:
    """A cloud, and clients of its APIs."""

    def __init__(self) -> None:
        self.cloud = GoogleCloud(control_plane=Plane())
        self.api = serve_api(self.cloud)

    def client(self, service: str, version: str) -> Any:
        base = f"{self.api.endpoint}/{service}/"
        versioned = service in ("compute", "storage")
        options = {"api_endpoint": f"{base}{version}/" if versioned else base}
        return build(service, version, http=httplib2.Http(), client_options=options)


@pytest.fixture
def google() -> Iterator[Google]:
    """A project without anything."""
    found = Google()
    yield found
    found.api.stop()


@pytest.fixture
def compute(google: Google) -> Any:
    """Compute Engine with the network `net` and the subnetwork `nodes`."""
    client = google.client("compute", "v1")
    done(client, client.networks().insert(project="p", body=network("net")))
    body = {"name": "nodes", "network": "global/networks/net", "ipCidrRange": "10.0.0.0/20"}
    done(client, client.subnetworks().insert(**REGION, body=body))
    return client


def network(name: str) -> dict[str, Any]:
    return {"name": name, "autoCreateSubnetworks": False}


def done(client: Any, request: Any) -> dict[str, Any]:
    """The operation of a request, once it is done; Compute Engine says RUNNING first."""
    operation = request.execute()
    assert operation["status"] == "RUNNING"
    named = {"project": "p", "operation": operation["name"]}
    if region := operation.get("region"):
        named["region"] = region.rpartition("/")[2]
        found = client.regionOperations().get(**named).execute()
    else:
        found = client.globalOperations().wait(**named).execute()
    assert found["status"] == "DONE"
    return dict(found)


def refused(request: Any) -> tuple[int, str, str]:
    """Status, reason and words of a refusal."""
    with pytest.raises(HttpError) as error:
        request.execute()
    (detail,) = error.value.error_details
    return error.value.status_code, detail["reason"], error.value.reason


def test_lists_have_pages_and_filters(compute: Any) -> None:
    """The client library walks through pages of one, and a filter leaves one name."""
    for name in ("a", "b"):
        done(compute, compute.networks().insert(project="p", body=network(name)))
    names, request = [], compute.networks().list(project="p", maxResults=1)
    while request is not None:
        answer = request.execute()
        names += [one["name"] for one in answer["items"]]
        request = compute.networks().list_next(request, answer)
    assert names == ["a", "b", "net"]
    found = compute.networks().list(project="p", filter='name = "b"').execute()
    assert [one["name"] for one in found["items"]] == ["b"]
    assert refused(compute.networks().list(project="p", filter="a AND b"))[0] == 501


def test_a_network_names_its_subnetworks_and_stays_while_it_has_any(compute: Any) -> None:
    """As the console shows it; the refusal has Google's reason."""
    found = compute.networks().get(project="p", network="net").execute()
    (link,) = found["subnetworks"]
    assert link.endswith("/compute/v1/projects/p/regions/us-central1/subnetworks/nodes")
    assert (found["mtu"], found["routingConfig"]["routingMode"]) == (1460, "REGIONAL")
    status, reason, _ = refused(compute.networks().delete(project="p", network="net"))
    assert (status, reason) == (400, "resourceInUseByAnotherResource")
    done(compute, compute.subnetworks().delete(**REGION, subnetwork="nodes"))
    done(compute, compute.networks().delete(project="p", network="net"))
    gone = refused(compute.networks().get(project="p", network="net"))
    assert gone == (404, "notFound", "The resource 'projects/p/global/networks/net' was not found")


def test_a_stale_fingerprint_is_refused(compute: Any) -> None:
    """Of two who read the same subnetwork, the second one's patch is a 412."""
    nodes = {**REGION, "subnetwork": "nodes"}
    mark = compute.subnetworks().get(**nodes).execute()["fingerprint"]
    ranges = [{"rangeName": "pods", "ipCidrRange": "10.8.0.0/14"}]
    body = {"fingerprint": mark, "secondaryIpRanges": ranges}
    done(compute, compute.subnetworks().patch(**nodes, body=body))
    assert refused(compute.subnetworks().patch(**nodes, body=body))[0] == 412
    status, reason, _ = refused(compute.subnetworks().patch(**nodes, body={"purpose": "PRIVATE"}))
    assert (status, reason) == (400, "required")


def test_a_range_grows_and_never_shrinks(compute: Any) -> None:
    """`expandIpCidrRange` takes only a range that holds the present one."""
    nodes = {**REGION, "subnetwork": "nodes"}
    wider = {"ipCidrRange": "10.0.0.0/19"}
    done(compute, compute.subnetworks().expandIpCidrRange(**nodes, body=wider))
    for narrower in ("10.0.0.0/20", "10.1.0.0/19"):
        body = {"ipCidrRange": narrower}
        assert refused(compute.subnetworks().expandIpCidrRange(**nodes, body=body))[0] == 400
    assert compute.subnetworks().get(**nodes).execute()["gatewayAddress"] == "10.0.0.1"


def test_the_document_decides_what_a_body_may_have(compute: Any) -> None:
    """An unknown field, a wrong type and an unknown enum value are refused before any rule."""
    for extra, words in (
        ({"colour": "red"}, 'Unknown name "colour"'),
        ({"mtu": "a lot"}, "Invalid value at 'mtu'"),
        ({"routingConfig": {"routingMode": "SOMETIMES"}}, "is not one of GLOBAL, REGIONAL"),
    ):
        body = network("x") | extra
        status, _, said = refused(compute.networks().insert(project="p", body=body))
        assert status == 400
        assert words in said


def test_what_is_not_simulated_says_so(compute: Any) -> None:
    """A method of the document that nothing here answers is a 501 with its name."""
    status, _, said = refused(compute.addresses().list(**REGION))
    assert (status, said) == (501, "a rehearsal does not simulate compute.addresses.list")


def test_a_planned_fault_is_an_answer_of_the_api(google: Google, compute: Any) -> None:
    """Whoever makes the next network is refused once, in the planned words."""
    words = "googleapi: Error 503: try again"
    google.cloud.faults.errors["gcp:compute/network:Network"] = [words]
    request = compute.networks().insert(project="p", body=network("x"))
    assert refused(request) == (503, "backendError", "try again")
    done(compute, compute.networks().insert(project="p", body=network("x")))


def test_a_nat_is_a_part_of_its_router(compute: Any) -> None:
    """It is read in the router, and gone with it."""
    nat = {"name": "nat", "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}
    body = {"name": "r", "network": "global/networks/net", "nats": [nat]}
    done(compute, compute.routers().insert(**REGION, body=body))
    (found,) = compute.routers().get(**REGION, router="r").execute()["nats"]
    assert (found["minPortsPerVm"], found["natIpAllocateOption"]) == (64, "AUTO_ONLY")
    done(compute, compute.routers().delete(**REGION, router="r"))
    assert refused(compute.routers().get(**REGION, router="r"))[0] == 404


def test_zones_have_machines_and_accelerators(compute: Any) -> None:
    """The quota check's reads: an L4 and its machine are offered in the same zones of Iowa."""
    found = {}
    for kind, name in (("acceleratorTypes", "nvidia-l4"), ("machineTypes", "g2-standard-4")):
        listed = getattr(compute, kind)().aggregatedList(project="p", filter=f"name={name}")
        found[kind] = {zone for zone in listed.execute()["items"] if "us-central1" in zone}
    assert found["acceleratorTypes"] == found["machineTypes"] != set()
    quotas = compute.regions().get(**REGION).execute()["quotas"]
    assert {"metric": "NVIDIA_L4_GPUS", "limit": 16.0, "usage": 0.0} in quotas
    # Compute Engine lists none of these for a region.
    assert not [quota for quota in quotas if quota["metric"] == "NVIDIA_H100_GPUS"]


def test_links_are_of_the_version_that_is_asked(google: Google) -> None:
    """In lists and of one thing alike."""
    beta, zone = google.client("compute", "beta"), {"project": "p", "zone": "us-central1-a"}
    asked = [
        beta.machineTypes().get(**zone, machineType="g2-standard-4"),
        beta.machineTypes().list(**zone, filter="name=g2-standard-4"),
        beta.zones().get(**zone),
        beta.regions().get(**REGION),
        beta.projects().get(project="p"),
    ]
    for request in asked:
        said = json.dumps(request.execute())
        assert "/compute/beta/projects/p" in said
        assert "/compute/v1/" not in said


def test_of_two_policies_that_were_read_together_the_second_is_refused(google: Google) -> None:
    """Who writes a policy back gives the etag that it was read with."""
    accounts = google.client("iam", "v1").projects().serviceAccounts()
    body = {"accountId": "nodes-of-dev", "serviceAccount": {"displayName": "Nodes"}}
    accounts.create(name="projects/p", body=body).execute()
    assert refused(accounts.create(name="projects/p", body=body))[:2] == (409, "alreadyExists")
    projects = google.client("cloudresourcemanager", "v1").projects()
    policy = projects.getIamPolicy(resource="p").execute()
    member = f"serviceAccount:{ACCOUNT.rpartition('/')[2]}"
    bindings = [{"role": "roles/viewer", "members": [member]}]
    body = {"policy": {"etag": policy["etag"], "bindings": bindings}}
    projects.setIamPolicy(resource="p", body=body).execute()
    assert refused(projects.setIamPolicy(resource="p", body=body))[:2] == (409, "aborted")
    gone = {"role": "roles/editor", "members": ["serviceAccount:gone@p.iam.gserviceaccount.com"]}
    status, _, said = refused(
        projects.setIamPolicy(resource="p", body={"policy": {"bindings": [*bindings, gone]}})
    )
    assert (status, said) == (
        400, "Service account gone@p.iam.gserviceaccount.com does not exist.",
    )  # fmt: skip
    accounts.delete(name=ACCOUNT).execute()
    (left,) = projects.getIamPolicy(resource="p").execute()["bindings"]
    assert left["members"][0].startswith(f"deleted:{member}?uid=")


def test_a_bucket_has_a_policy_of_its_own(google: Google) -> None:
    """Cloud Storage's method takes the policy itself and refuses a stale one with 412, not 409;
    it knows the members that there are."""
    buckets = google.client("storage", "v1").buckets()
    policy = buckets.getIamPolicy(bucket="data", optionsRequestedPolicyVersion=3).execute()
    assert policy["resourceId"] == "projects/_/buckets/data"
    reader = {"role": "roles/storage.objectViewer", "members": ["user:a@b.c"]}
    changed = {**policy, "bindings": [reader]}
    assert buckets.setIamPolicy(bucket="data", body=changed).execute()["bindings"] == [reader]
    code, reason, _ = refused(buckets.setIamPolicy(bucket="data", body=changed))
    assert (code, reason) == (412, "conditionNotMet")
    pod = {**reader, "members": ["serviceAccount:p.svc.id.goog[default/trainer]"]}
    code, _, said = refused(buckets.setIamPolicy(bucket="data", body={"bindings": [pod]}))
    assert (code, said) == (400, "Identity Pool does not exist (p.svc.id.goog)")
    assert "bindings" not in buckets.getIamPolicy(bucket="other").execute()


def test_a_bucket_without_uniform_access_takes_no_condition(google: Google) -> None:
    """It takes the same binding without one."""
    buckets = google.client("storage", "v1").buckets()
    google.cloud.buckets["data"] = Bucket(uniform_access=False)
    reader = {"role": "roles/storage.objectViewer", "members": ["user:a@b.c"]}
    condition = {"title": "t", "expression": "true"}
    body = {"version": 3, "bindings": [{**reader, "condition": condition}]}
    code, _, said = refused(buckets.setIamPolicy(bucket="data", body=body))
    assert (code, "uniform bucket-level access" in said) == (412, True)
    body = {"bindings": [reader]}
    assert buckets.setIamPolicy(bucket="data", body=body).execute()["bindings"] == [reader]


def test_an_api_is_enabled_for_the_whole_project(google: Google) -> None:
    """By a long-running operation; then it is in the list of those enabled."""
    services = google.client("serviceusage", "v1")
    name = "projects/p/services/container.googleapis.com"
    assert services.services().get(name=name).execute()["state"] == "DISABLED"
    operation = services.services().enable(name=name, body={}).execute()
    assert not operation["done"]
    found = services.operations().get(name=operation["name"]).execute()
    assert found["response"]["service"]["state"] == "ENABLED"
    listed = services.services().list(parent="projects/p", filter="state:ENABLED").execute()
    assert [one["config"]["name"] for one in listed["services"]] == ["container.googleapis.com"]
    services.services().disable(name=name, body={}).execute()
    assert services.services().get(name=name).execute()["state"] == "DISABLED"


def test_a_repository_keeps_its_format(google: Google) -> None:
    """It is made, listed, changed and deleted; another format is refused."""
    repositories = google.client("artifactregistry", "v1").projects().locations().repositories()
    parent = "projects/p/locations/us-central1"
    body = {"format": "DOCKER"}
    repositories.create(parent=parent, repositoryId="images", body=body).execute()
    (found,) = repositories.list(parent=parent).execute()["repositories"]
    assert found["registryUri"] == "us-central1-docker.pkg.dev/p/images"
    named = {"name": f"{parent}/repositories/images"}
    changed = {"description": "x"}
    repositories.patch(**named, updateMask="description", body=changed).execute()
    assert repositories.get(**named).execute()["description"] == "x"
    assert (
        refused(repositories.patch(**named, updateMask="format", body={"format": "NPM"}))[0] == 400
    )
    repositories.delete(**named).execute()
    assert refused(repositories.get(**named))[0] == 404


def test_dashboards_and_alerts_get_their_names(google: Google) -> None:
    """Monitoring names them; a patch with a mask leaves the rest, a stale etag is refused."""
    dashboards = google.client("monitoring", "v1").projects().dashboards()
    made = dashboards.create(parent="projects/p", body={"displayName": "GPUs"}).execute()
    changed = {"displayName": "All", "etag": made["etag"]}
    dashboards.patch(name=made["name"], body=changed).execute()
    assert refused(dashboards.patch(name=made["name"], body=changed))[0] == 409
    (found,) = dashboards.list(parent="projects/p").execute()["dashboards"]
    assert found["displayName"] == "All"
    dashboards.delete(name=made["name"]).execute()
    alerts = google.client("monitoring", "v3").projects().alertPolicies()
    body = {
        "displayName": "down",
        "combiner": "OR",
        "conditions": [{"displayName": "c", "conditionAbsent": {"duration": "60s"}}],
    }
    alert = alerts.create(name="projects/p", body=body).execute()
    assert alert["conditions"][0]["name"].startswith(f"{alert['name']}/conditions/")
    mask = {"updateMask": "displayName", "body": {"displayName": "up", "combiner": "AND"}}
    found = alerts.patch(name=alert["name"], **mask).execute()
    assert (found["displayName"], found["combiner"]) == ("up", "OR")
    empty = body | {"conditions": []}
    assert refused(alerts.create(name="projects/p", body=empty))[0] == 400
    alerts.delete(name=alert["name"]).execute()
    assert google.cloud.list_resources() == []
