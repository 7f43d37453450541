"""GKE through Google's own client library: whole lives, errors, stale etags, sizes that somebody
else changes."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.simulators import cloud
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, Progress
from gpu_cluster.rehearsal.simulators.stock import Stock, Stocks
from tests.unit.plugins.offline_engine import Plane
from tests.unit.simulators.test_google_apis import Google, done, network, refused

LOCATION = "projects/p/locations/us-central1-a"
CLUSTER = f"{LOCATION}/clusters/dev"
POOL = f"{CLUSTER}/nodePools/gpu"
T4 = {"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": "1"}


class Gke(Google):
    """A network `net` with a subnetwork `nodes`, and GKE's v1."""

    def __init__(self) -> None:
        super().__init__()
        self.cloud.faults = Faults(quota={"NVIDIA_T4_GPUS": 4})
        self.compute = self.client("compute", "v1")
        done(self.compute, self.compute.networks().insert(project="p", body=network("net")))
        ranges = [{"rangeName": "pods", "ipCidrRange": "10.8.0.0/14"}]
        body = {
            "name": "nodes",
            "network": "global/networks/net",
            "ipCidrRange": "10.0.0.0/20",
            "secondaryIpRanges": ranges,
        }
        place = {"project": "p", "region": "us-central1"}
        done(self.compute, self.compute.subnetworks().insert(**place, body=body))
        self.container = self.client("container", "v1")
        self.locations = self.container.projects().locations()
        self.clusters = self.locations.clusters()
        self.pools = self.clusters.nodePools()

    def finished(self, request: Any) -> dict[str, Any]:
        """The operation of a request, once it is done."""
        operation = request.execute()
        ends = time.monotonic() + 20
        while operation["status"] != "DONE" and time.monotonic() < ends:
            operation = self.operation(operation).execute()
        assert operation["status"] == "DONE"
        return dict(operation)

    def operation(self, begun: dict[str, Any]) -> Any:
        """The request for how far an operation is."""
        return self.locations.operations().get(name=f"{LOCATION}/operations/{begun['name']}")

    def creating(self, **fields: Any) -> Any:
        """The request for the cluster `dev`."""
        body = {"name": "dev", "network": "net", "subnetwork": "nodes", "initialNodeCount": 1}
        return self.clusters.create(parent=LOCATION, body={"cluster": body | fields})

    def cluster(self, **fields: Any) -> dict[str, Any]:
        """The cluster `dev`, once it runs."""
        self.finished(self.creating(**fields))
        return self.shown()

    def shown(self) -> dict[str, Any]:
        """The cluster as it is."""
        return dict(self.clusters.get(name=CLUSTER).execute())

    def pool(self, **fields: Any) -> dict[str, Any]:
        """The pool `gpu`, with a T4 for each node."""
        config = {"machineType": "n1-standard-4", "accelerators": [T4]}
        body = {"nodePool": {"name": "gpu", "config": config} | fields}
        self.finished(self.pools.create(parent=CLUSTER, body=body))
        return dict(self.pools.get(name=POOL).execute())

    def size(self) -> int:
        """The target size of the pool's instance group."""
        rows = self.compute.instanceGroupManagers().list(project="p", zone="us-central1-a")
        (found,) = (r for r in rows.execute()["items"] if r["name"] == "gke-dev-gpu-grp")
        return int(found["targetSize"])

    def group(self) -> NodeGroup:
        """The pool's nodes."""
        (found,) = (one for one in self.cloud.node_groups() if one.name == "gpu")
        return found

    def recycling(self) -> threading.Event:
        """Until it is set, nodes are being recycled."""
        recycled = threading.Event()
        self.cloud.followed(lambda *_: "done" if recycled.is_set() else "going on")
        return recycled


@pytest.fixture
def gke() -> Iterator[Gke]:
    """A project with a network and no cluster."""
    found = Gke()
    yield found
    found.api.stop()


def test_a_cluster_comes_with_what_gke_fills_in(gke: Gke) -> None:
    """The default pool, versions, endpoints and ranges; deleted, all of it is gone."""
    cluster = gke.cluster(ipAllocationPolicy={"clusterSecondaryRangeName": "pods"})
    assert (cluster["status"], cluster["location"]) == ("RUNNING", "us-central1-a")
    assert [pool["name"] for pool in cluster["nodePools"]] == ["default-pool"]
    assert cluster["clusterIpv4Cidr"] == "10.8.0.0/14"
    assert cluster["releaseChannel"] == {"channel": "REGULAR"}
    assert cluster["currentMasterVersion"] == cluster["nodePools"][0]["version"]
    assert cluster["selfLink"] == f"https://container.googleapis.com/v1/{CLUSTER}"
    listed = gke.clusters.list(parent="projects/p/locations/-").execute()["clusters"]
    assert [one["name"] for one in listed] == ["dev"]
    gke.finished(gke.clusters.delete(name=CLUSTER))
    assert gke.clusters.list(parent=LOCATION).execute() == {}
    assert refused(gke.clusters.get(name=CLUSTER))[:2] == (404, "notFound")
    kinds = [operation["operationType"] for operation in
             gke.locations.operations().list(parent=LOCATION).execute()["operations"]]  # fmt: skip
    assert kinds == ["CREATE_CLUSTER", "DELETE_CLUSTER"]


def test_a_cluster_that_does_not_start_says_why_in_its_operation(gke: Gke) -> None:
    """The call is taken; the operation ends with an error, in both of its forms."""

    class Broken(Plane):
        def ensure_started(self, version: str = "") -> None:
            raise RuntimeError("no port")

    gke.cloud.control_plane = Broken()
    operation = gke.finished(gke.creating())
    assert operation["error"] == {"code": 13, "message": "no port"}
    assert operation["statusMessage"] == "no port"
    assert refused(gke.clusters.get(name=CLUSTER))[0] == 404


def test_what_fails_half_way_stays_with_its_reason(gke: Gke) -> None:
    """The operation ends with an error; cluster and pool are listed in the state ERROR, have no
    node, and keep their names until somebody deletes them."""
    words = "Google Compute Engine: Not all instances running in IGM."
    gke.cloud.faults.halfway = {"CREATE_CLUSTER": [words], "CREATE_NODE_POOL": [words]}
    operation = gke.finished(gke.creating())
    assert operation["statusMessage"] == words
    (cluster,) = gke.clusters.list(parent="projects/p/locations/-").execute()["clusters"]
    assert (cluster["status"], cluster["statusMessage"]) == ("ERROR", words)
    assert refused(gke.creating())[0] == 409
    pool = {"nodePool": {"name": "gpu", "initialNodeCount": 1}}
    code, reason, said = refused(gke.pools.create(parent=CLUSTER, body=pool))
    assert (code, reason) == (400, "failedPrecondition")
    assert said.endswith("cannot be updated.")
    assert gke.cloud.node_groups() == []
    gke.finished(gke.clusters.delete(name=CLUSTER))
    gke.cluster()
    operation = gke.finished(gke.pools.create(parent=CLUSTER, body=pool))
    assert operation["statusMessage"] == words
    found = gke.pools.get(name=POOL).execute()
    assert (found["status"], found["statusMessage"]) == ("ERROR", words)
    assert "gpu" not in [group.name for group in gke.cloud.node_groups()]
    assert refused(gke.pools.create(parent=CLUSTER, body=pool))[0] == 409
    gke.finished(gke.pools.delete(name=POOL))
    gke.pool(initialNodeCount=1)
    assert gke.size() == 1


def test_one_update_at_a_time(gke: Gke) -> None:
    """Two are refused, none as well; one is there afterwards, with another etag."""
    etag = gke.cluster()["etag"]
    logging = {"componentConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}}

    def update(**fields: Any) -> Any:
        return gke.clusters.update(name=CLUSTER, body={"update": fields})

    both = update(desiredLoggingConfig=logging, desiredVerticalPodAutoscaling={"enabled": True})
    assert "Exactly one update can be applied" in refused(both)[2]
    assert refused(update())[2] == "Must specify a field to update."
    gke.finished(update(desiredLoggingConfig=logging, etag=etag))
    cluster = gke.shown()
    assert cluster["loggingConfig"] == logging
    assert cluster["etag"] != etag
    assert refused(update(desiredLoggingConfig=logging, etag=etag))[0] == 412
    newer = update(desiredMasterVersion="1.34")
    assert "Master cannot be downgraded" in refused(newer)[2]


def test_labels_and_maintenance_go_by_what_was_read(gke: Gke) -> None:
    """A stale fingerprint or version is refused, and changes nothing."""
    cluster = gke.cluster(resourceLabels={"a": "b"})

    def labels(fingerprint: str, **wanted: str) -> Any:
        body = {"resourceLabels": wanted, "labelFingerprint": fingerprint}
        return gke.clusters.setResourceLabels(name=CLUSTER, body=body)

    gke.finished(labels(cluster["labelFingerprint"], c="d"))
    assert gke.shown()["resourceLabels"] == {"c": "d"}
    assert refused(labels(cluster["labelFingerprint"], e="f"))[0] == 412
    fingerprint = gke.shown()["labelFingerprint"]
    for wrong in ({"Été": "a"}, {"a": "a€"}, {"a": "b" * 64}, {"1a": "b"}):
        assert "of a resource label" in refused(labels(fingerprint, **wrong))[2]
    gke.finished(labels(fingerprint, équipe="2-größe_東京"))
    window = {"dailyMaintenanceWindow": {"startTime": "03:00"}}

    def maintenance(version: str) -> Any:
        body = {"maintenancePolicy": {"window": window, "resourceVersion": version}}
        return gke.clusters.setMaintenancePolicy(name=CLUSTER, body=body)

    version = cluster["maintenancePolicy"]["resourceVersion"]
    gke.finished(maintenance(version))
    assert refused(maintenance(version))[0] == 409
    policy = gke.shown()["maintenancePolicy"]
    assert policy["window"]["dailyMaintenanceWindow"]["startTime"] == "03:00"


def test_a_pool_lives(gke: Gke) -> None:
    """Created, listed, changed, deleted; the driver that GKE installs unasked is in it."""
    gke.cluster()
    pool = gke.pool(autoscaling={"enabled": True, "totalMaxNodeCount": 3})
    (accelerator,) = pool["config"]["accelerators"]
    assert accelerator["gpuDriverInstallationConfig"] == {"gpuDriverVersion": "DEFAULT"}
    assert pool["config"]["taints"][0]["key"] == "nvidia.com/gpu"
    assert pool["upgradeSettings"] == {"maxSurge": 1, "strategy": "SURGE"}
    names = [one["name"] for one in gke.pools.list(parent=CLUSTER).execute()["nodePools"]]
    assert names == ["default-pool", "gpu"]
    gke.finished(gke.pools.update(name=POOL, body={"labels": {"labels": {"x": "y"}}}))
    gke.cloud.set_size("gpu", 1)
    recycled = gke.recycling()
    begun = gke.pools.update(name=POOL, body={"machineType": "n1-standard-8"}).execute()
    update = gke.operation(begun)
    assert update.execute()["status"] == "RUNNING"
    # GKE waits an hour for a PodDisruptionBudget, and then evicts.
    assert all(group.forced for group in gke.cloud.node_groups())
    recycled.set()
    gke.finished(update)
    managed = {"management": {"autoUpgrade": True}}
    gke.finished(gke.pools.setManagement(name=POOL, body=managed))
    changed = gke.pools.get(name=POOL).execute()
    assert changed["config"]["labels"] == {"x": "y"}
    assert changed["config"]["machineType"] == "n1-standard-8"
    assert changed["management"] == {"autoUpgrade": True}
    listed = gke.locations.operations().list(parent=LOCATION).execute()["operations"]
    assert [one["operationType"] for one in listed] == [
        "CREATE_CLUSTER", "CREATE_NODE_POOL", "UPGRADE_NODES", "UPGRADE_NODES",
        "SET_NODE_POOL_MANAGEMENT",
    ]  # fmt: skip
    assert "cannot have" in refused(
        gke.pools.update(name=POOL, body={"machineType": "n1-standard-96"})
    )[2]  # fmt: skip
    again = gke.pools.create(parent=CLUSTER, body={"nodePool": {"name": "gpu"}})
    assert refused(again)[:2] == (409, "alreadyExists")
    gke.finished(gke.pools.delete(name=POOL))
    assert refused(gke.pools.get(name=POOL))[0] == 404


SOAKING = {
    "standardRolloutPolicy": {"batchNodeCount": 2, "batchSoakDuration": "600s"},
    "nodePoolSoakDuration": "6600s",
}
"""Three batches of at most two nodes, with ten minutes after each, and 110 minutes at the end."""


@pytest.mark.parametrize(
    ("settings", "room", "surging", "minutes"),
    [
        ({"maxSurge": 5}, 5, 5, 7),
        ({"maxSurge": 5}, 2, 2, 21),
        ({"maxSurge": 5}, 0, None, 0),
        ({"maxSurge": 5, "maxUnavailable": 1}, 2, 2, 14),
        ({"maxSurge": 5, "maxUnavailable": 1}, 0, 0, 35),
        ({"maxUnavailable": 1}, 5, 0, 35),
        ({"strategy": "BLUE_GREEN"}, 5, 5, 102),
        ({"strategy": "BLUE_GREEN", "blueGreenSettings": SOAKING}, 5, 5, 168),
        ({"strategy": "BLUE_GREEN"}, 4, None, 0),
    ],
)
def test_an_upgrade_starts_as_many_nodes_as_it_may(
    gke: Gke, settings: dict[str, Any], room: int, surging: int | None, minutes: int
) -> None:
    """The table of "Ensure resources for node upgrades", for a pool of five nodes with a GPU each;
    None: it fails, and the pool stays as it was. Each batch takes 7 minutes."""
    gke.cluster()
    gke.cloud.faults.quota["NVIDIA_T4_GPUS"] = 5 + room
    gke.pool(initialNodeCount=5, upgradeSettings=settings)
    recycled = gke.recycling()
    begun = gke.pools.update(name=POOL, body={"machineType": "n1-standard-8"}).execute()
    operation, group = gke.operation(begun), gke.group()
    assert (group.target_nodes - 5, group.surging) == ((surging or 0,) * 2)
    if surging is None:
        assert "NVIDIA_T4_GPUS" in operation.execute()["error"]["message"]
        found = gke.pools.get(name=POOL).execute()
        assert found["config"]["machineType"] == "n1-standard-4"
        return
    (metric,) = begun["progress"]["metrics"]
    assert metric["doubleValue"] == minutes * 60
    if surging:
        gke.cloud.left("gpu", "")
    recycled.set()
    gke.finished(operation)
    assert (gke.group().target_nodes, gke.group().surging) == (5, 0)
    gke.cloud.left("gpu", "")  # it is over: the node stays
    assert gke.pools.get(name=POOL).execute()["config"]["machineType"] == "n1-standard-8"
    assert gke.group().target_nodes == 5


@pytest.mark.parametrize("settings", [{"maxSurge": 1}, {"maxUnavailable": 1}])
def test_an_upgrade_to_other_machines_needs_them_for_all_nodes(
    gke: Gke, settings: dict[str, Any]
) -> None:
    """Those that it has are no reason for it to fail; too few are, also for one without a surge.
    The autoscaler's limit on a cluster's GPUs is none."""
    gpus = {"resourceType": "nvidia-tesla-t4", "maximum": 2}
    rest = [{"resourceType": name, "maximum": 1000} for name in ("cpu", "memory")]
    own = {"enableNodeAutoprovisioning": True, "resourceLimits": [gpus, *rest]}
    gke.cluster(autoscaling=own)
    gke.pool(initialNodeCount=2, upgradeSettings=settings)
    for nodes in (1, 2):
        gke.cloud.stock = Stocks([Stock(machine_type="n1-standard-8", nodes=nodes)])
        done = gke.finished(gke.pools.update(name=POOL, body={"machineType": "n1-standard-8"}))
        assert ("ZONE_RESOURCE_POOL_EXHAUSTED" in str(done.get("error"))) == (nodes < 2)
    (unknown,) = gke.cloud.assumptions()
    assert unknown.startswith("node pool gpu: it is not known which settings GKE shows after")


def test_only_nodes_that_the_cloud_started_get_successors_before_they_go(gke: Gke) -> None:
    """Karpenter drains and replaces those of the autoscaler. Until all have joined, they count."""
    gke.cluster()
    gke.pool(initialNodeCount=1, upgradeSettings={"maxSurge": 2})
    gke.cloud.set_size("gpu", 2)
    progress: list[Progress] = ["going on"]
    gke.cloud.followed(lambda *_: progress[0])
    begun = gke.pools.update(name=POOL, body={"diskSizeGb": "200"}).execute()
    gke.cloud.set_size("gpu", 1)
    group = gke.group()
    assert (group.target_nodes, group.surging, group.max_nodes) == (2, 1, 2)
    progress[0] = "done"
    gke.finished(gke.operation(begun))


def test_an_upgrade_whose_nodes_never_register_fails(
    gke: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its additional nodes are ended."""
    monkeypatch.setattr(cloud, "RECYCLE_SECONDS", 0.05)
    gke.cluster()
    gke.pool(initialNodeCount=1, upgradeSettings={"maxSurge": 1})
    gke.cloud.followed(lambda *_: "starting")
    done = gke.finished(gke.pools.update(name=POOL, body={"diskSizeGb": "200"}))
    assert "new nodes have not registered" in done["error"]["message"]
    assert gke.group().target_nodes == 1


def test_one_operation_at_a_time(gke: Gke) -> None:
    """While a pool is upgraded, GKE changes neither it nor its cluster, but another pool."""
    gke.cluster()
    gke.pool(initialNodeCount=1)
    recycled = gke.recycling()
    begun = gke.pools.update(name=POOL, body={"machineType": "n1-standard-8"}).execute()
    shielded = {"update": {"desiredShieldedNodes": {"enabled": True}}}
    scaling = {"desiredNodePoolId": "gpu", "desiredNodePoolAutoscaling": {"enabled": False}}
    for request in (
        gke.pools.setSize(name=POOL, body={"nodeCount": 2}),
        gke.pools.delete(name=POOL),
        gke.clusters.update(name=CLUSTER, body=shielded),
        gke.clusters.update(name=CLUSTER, body={"update": scaling}),
        gke.clusters.delete(name=CLUSTER),
    ):
        message = f"Cluster is running incompatible operation {begun['name']}."
        assert refused(request) == (400, "failedPrecondition", message)
    assert gke.shown()["status"] == "RECONCILING"
    other = {"nodePool": {"name": "gpu-2", "initialNodeCount": 1}}
    gke.finished(gke.pools.create(parent=CLUSTER, body=other))
    scaling["desiredNodePoolId"] = "gpu-2"
    gke.finished(gke.clusters.update(name=CLUSTER, body={"update": scaling}))
    recycled.set()
    gke.finished(gke.operation(begun))
    gke.finished(gke.clusters.update(name=CLUSTER, body=shielded))
    assert gke.shown()["status"] == "RUNNING"


def test_whoever_changes_a_size_brings_and_takes_nodes(gke: Gke) -> None:
    """GKE's own method, and the resize of the instance group, as a foreign autoscaler asks."""
    gke.cluster()
    gke.pool()

    def target() -> int:
        assert gke.group().provider_id == "gce://p/us-central1-a/"
        return gke.group().target_nodes

    assert (gke.size(), target()) == (0, 0)
    gke.finished(gke.pools.setSize(name=POOL, body={"nodeCount": 2}))
    assert (gke.size(), target()) == (2, 2)
    group = {"project": "p", "zone": "us-central1-a",
             "instanceGroupManager": "gke-dev-gpu-grp"}  # fmt: skip
    gke.compute.instanceGroupManagers().resize(**group, size=1).execute()
    assert (gke.size(), target()) == (1, 1)
    too_many = gke.pools.setSize(name=POOL, body={"nodeCount": 5})
    assert refused(too_many)[:2] == (403, "quotaExceeded")
    assert (gke.size(), target()) == (1, 1)


def test_the_document_refuses_what_gke_does_not_have(gke: Gke) -> None:
    """Unknown fields, values and methods, before any rule of ours."""
    wrong = {"cluster": {"name": "dev", "nodeCount": 1}}
    assert 'Unknown name "nodeCount"' in refused(
        gke.clusters.create(parent=LOCATION, body=wrong)
    )[2]  # fmt: skip
    channel = {"cluster": {"name": "dev", "releaseChannel": {"channel": "FAST"}}}
    assert "'FAST' is not one of" in refused(
        gke.clusters.create(parent=LOCATION, body=channel)
    )[2]  # fmt: skip
    rotation = gke.clusters.startIpRotation(name=CLUSTER, body={})
    assert refused(rotation)[0] == 501


def test_versions_and_images_of_a_location(gke: Gke) -> None:
    """What `getServerConfig` offers is what a cluster gets."""
    found = gke.locations.getServerConfig(name=LOCATION).execute()
    assert gke.cluster()["currentMasterVersion"] == found["defaultClusterVersion"]
    assert "COS_CONTAINERD" in found["validImageTypes"]
    nowhere = gke.locations.getServerConfig(name="projects/p/locations/here")
    assert "Location 'here' does not exist" in refused(nowhere)[2]


def test_v1beta1_has_more_than_v1(gke: Gke) -> None:
    """Each version shows what its document has: the same cluster, fewer fields."""
    beta = gke.client("container", "v1beta1").projects().locations().clusters()
    request = gke.creating(clusterTelemetry={"type": "DISABLED"})
    assert 'Unknown name "clusterTelemetry"' in refused(request)[2]
    gke.finished(beta.create(parent=LOCATION, body=json.loads(request.body)))
    wide, narrow = beta.get(name=CLUSTER).execute(), gke.shown()
    assert set(wide) - set(narrow) == {"clusterTelemetry"}
    assert wide["selfLink"].startswith("https://container.googleapis.com/v1beta1/")
