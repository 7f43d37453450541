"""What GKE's controllers have made, through Google's own client library: somebody finds what a
deleted cluster left behind, and removes it in the order that Compute Engine asks for."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.rehearsal.simulators.cloud import Mount, Wanted
from tests.unit.simulators.google_stack import CLUSTER as CLUSTER_TYPE
from tests.unit.simulators.google_stack import NETWORK, SUBNETWORK, GoogleStack
from tests.unit.simulators.test_google_apis import refused
from tests.unit.simulators.test_google_container_api import CLUSTER, Gke

WANTED = (
    Wanted(uid="1234-5678", kind="load balancer", name="default/web", ports=(80,)),
    Wanted(uid="9abc", kind="disk", name="default/data", gib=2),
    Wanted(uid="in", kind="ingress", name="default/web", backends=(("default/web", 80),)),
    Wanted(uid="own", kind="ingress", name="default/own", class_name="gce-internal",
           backends=(("default/api", 8080),)),
)  # fmt: skip
ZONE = {"project": "p", "zone": "us-central1-a"}
REGION = {"project": "p", "region": "us-central1"}
GLOBAL = {"project": "p"}
WITH_FILESTORE = {"addonsConfig": {"gcpFilestoreCsiDriverConfig": {"enabled": True}}}


@pytest.fixture
def gke() -> Iterator[Gke]:
    """A cluster with a Service, a claim and two Ingresses, which is deleted with all of them."""
    found = Gke()
    found.cluster()
    found.cloud.attach(WANTED)
    found.finished(found.clusters.delete(name=CLUSTER))
    yield found
    found.api.stop()


def names(answer: dict[str, Any]) -> list[str]:
    return [one["name"] for one in answer["items"]]


def everywhere(collection: Any, key: str) -> dict[str, list[str]]:
    """Place -> names, as `aggregatedList` has them."""
    found = collection.aggregatedList(project="p").execute()["items"]
    return {place: [one["name"] for one in rows[key]] for place, rows in found.items()}


def test_all_that_stayed_is_listed(gke: Gke) -> None:
    """In its zone, region or globally, with what it stands for."""
    compute = gke.compute
    disk = compute.disks().get(**ZONE, disk="pvc-9abc").execute()
    assert (disk["sizeGb"], disk["labels"]) == ("2", {"goog-k8s-cluster-name": "dev"})
    rule = compute.forwardingRules().get(**REGION, forwardingRule="a12345678").execute()
    assert (rule["loadBalancingScheme"], rule["IPAddress"]) == ("EXTERNAL", "198.51.100.1")
    assert '"default/web"' in rule["description"]
    rules = everywhere(compute.forwardingRules(), "forwardingRules")
    assert {place: len(found) for place, found in rules.items()} == {
        "global": 1,
        "regions/us-central1": 2,
    }
    groups = everywhere(compute.networkEndpointGroups(), "networkEndpointGroups")
    assert {place: len(found) for place, found in groups.items()} == {"zones/us-central1-a": 3}
    assert names(compute.disks().list(**ZONE, filter="name=pvc-9abc").execute()) == ["pvc-9abc"]
    walls = compute.firewalls().list(project="p").execute()["items"]
    assert [(wall["name"][:11], wall["allowed"][0]["ports"]) for wall in walls] == [
        ("k8s-fw-a123", ["80"]),
        ("k8s-fw-l7--", ["80", "8080"]),
    ]


def test_it_goes_from_the_forwarding_rule_to_the_network(gke: Gke) -> None:
    """Each keeps what it uses; the network goes last."""
    compute = gke.compute
    nodes, net = {**REGION, "subnetwork": "nodes"}, {"project": "p", "network": "net"}
    status, reason, words = refused(compute.subnetworks().delete(**nodes))
    assert (status, reason) == (400, "resourceInUseByAnotherResource")
    assert words.startswith("The subnetwork resource 'projects/p/regions/us-central1/subnetworks/")
    steps = [
        (compute.forwardingRules(), REGION, "forwardingRule"),
        (compute.globalForwardingRules(), GLOBAL, "forwardingRule"),
        (compute.regionTargetHttpProxies(), REGION, "targetHttpProxy"),
        (compute.targetHttpProxies(), GLOBAL, "targetHttpProxy"),
        (compute.regionUrlMaps(), REGION, "urlMap"),
        (compute.urlMaps(), GLOBAL, "urlMap"),
        (compute.regionBackendServices(), REGION, "backendService"),
        (compute.backendServices(), GLOBAL, "backendService"),
        (compute.regionHealthChecks(), REGION, "healthCheck"),
        (compute.healthChecks(), GLOBAL, "healthCheck"),
        (compute.networkEndpointGroups(), ZONE, "networkEndpointGroup"),
        (compute.firewalls(), GLOBAL, "firewall"),
        (compute.disks(), ZONE, "disk"),
    ]
    used = (2, 3, 4, 5, 6, 7, 8, 9, 10)
    for number in used:
        collection, place, key = steps[number]
        name = names(collection.list(**place).execute())[0]
        assert refused(collection.delete(**place, **{key: name}))[1] == (
            "resourceInUseByAnotherResource"
        )
    for collection, place, key in steps:
        found = names(collection.list(**place).execute())
        assert found
        if key == "firewall":
            compute.subnetworks().delete(**nodes).execute()
            assert "/firewalls/k8s-fw-" in refused(compute.networks().delete(**net))[2]
        for name in found:
            collection.delete(**place, **{key: name}).execute()
            assert refused(collection.get(**place, **{key: name}))[:2] == (404, "notFound")
    compute.networks().delete(**net).execute()
    assert gke.cloud.list_resources() == []


FILES = "filestore.csi.storage.gke.io"
DISKS = "pd.csi.storage.gke.io"
SERVICE = "gcp:projects/service:Service"


def files(**parameters: str) -> Wanted:
    return Wanted(uid="f1", kind="disk", name="default/data", gib=1024, driver=FILES,
                  parameters=parameters)  # fmt: skip


def with_filestore() -> GoogleStack:
    """A cluster with Filestore's driver, in a project whose API is enabled."""
    stack = GoogleStack.with_cluster(**WITH_FILESTORE)
    stack.up(SERVICE, "file", {"service": "file.googleapis.com", "project": "p"})
    return stack


def network_of(stack: GoogleStack) -> str:
    """The name of the cluster's network."""
    (network,) = stack.cloud.of("compute.networks")
    return str(network.state["name"])


def test_filestore_goes_to_the_network_default_unless_its_class_names_another() -> None:
    """The driver never looks for the cluster's network; in one that does not exist it fails."""
    stack = with_filestore()
    assert "network 'default' does not exist" in stack.cloud.why_not_provisioned(files())
    own = files(network=network_of(stack))
    assert stack.cloud.why_not_provisioned(own) == ""
    assert stack.cloud.attach([own]) == {
        "f1": f"{FILES}:modeInstance/projects/p/locations/us-central1-a/instances/pvc-f1/vol1"
    }
    held = "Filestore instance projects/p/locations/us-central1-a/instances/pvc-f1"
    assert held in stack.cloud.list_resources()


def test_a_network_with_filestore_may_keep_a_peering() -> None:
    """Whether it outlives the instance is not known, so a rehearsal says what it assumes."""
    stack = with_filestore()
    network = network_of(stack)
    stack.cloud.attach([files(network=network)])
    stack.cloud.attach([])
    for token, name in ((CLUSTER_TYPE, "dev"), (SUBNETWORK, "nodes"), (NETWORK, "net")):
        stack.delete(token, name)
    (line,) = stack.cloud.assumptions()
    assert line.startswith(f"network {network}: a Filestore instance was in it, whose peering ")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (files(tier="enterprise", network="net"), "the maximum of tier enterprise is 10240 GiB"),
        (files(tier="regional", network="net"), "network 'net' does not exist"),
        (files(tier="enterprise", multishare="true"), "a share has 100 GiB to 1024 GiB"),
        (replace(files(), driver=DISKS, gib=65_537), "cannot be larger than 65536 GB"),
        (replace(files(), driver=DISKS, gib=65_536), ""),
    ],
)
def test_volumes_have_a_maximum_size(given: Wanted, says: str) -> None:
    """By tier; the drivers' maxima, not the catalog's."""
    if given.driver == FILES:
        given = replace(given, gib=20 * 1024)
    assert says in with_filestore().cloud.why_not_provisioned(given)
    assert bool(says) == bool(with_filestore().cloud.why_not_provisioned(given))


def test_filestore_needs_its_driver_and_its_api() -> None:
    """Each is named."""
    stack = GoogleStack.with_cluster()
    assert "gcpFilestoreCsiDriverConfig" in stack.cloud.why_not_provisioned(files())
    stack = GoogleStack.with_cluster(**WITH_FILESTORE)
    found = stack.cloud.why_not_provisioned(files(network=network_of(stack)))
    assert "Cloud Filestore API has not been used in project p before" in found


def mount(driver: str, handle: str, machine: str, **more: Any) -> Mount:
    return Mount(
        volume="pvc-1", namespace="default", service_account="default", driver=driver,
        attributes={}, handle=handle, options=(), writes=True, annotations={}, taints=(),
        node_labels={"node.kubernetes.io/instance-type": machine}, **more,
    )  # fmt: skip


def test_a_file_system_in_another_network_does_not_answer() -> None:
    """It exists and bills; the mount times out."""
    stack = with_filestore()
    stack.up(NETWORK, "default", {"name": "default", "autoCreateSubnetworks": False})
    found = files()
    assert stack.cloud.why_not_provisioned(found) == ""
    handle = stack.cloud.attach([found])["f1"].partition(":")[2]
    said = stack.cloud.why_not_mounted(mount(FILES, handle, "n1-standard-4"))
    assert "mount.nfs: Connection timed out" in said


@pytest.mark.parametrize(
    ("machine", "kind", "attached"),
    [
        ("n1-standard-4", "pd-balanced", True),
        ("n1-standard-4", "hyperdisk-balanced", False),
        ("a3-highgpu-8g", "pd-ssd", True),
        ("g4-standard-48", "pd-balanced", False),
        ("g4-standard-48", "pd-ssd", False),
        ("a3-ultragpu-8g", "hyperdisk-balanced", True),
    ],
)
def test_a_disk_is_attached_to_machines_that_take_its_type(
    machine: str, kind: str, attached: bool
) -> None:
    """Else in Compute Engine's words, after the node has started."""
    stack = GoogleStack.with_cluster()
    disk = Wanted(uid="d1", kind="disk", name="default/d", driver=DISKS, parameters={"type": kind})
    handle = stack.cloud.attach([disk])["d1"].partition(":")[2]
    said = stack.cloud.why_not_mounted(mount(DISKS, handle, machine))
    assert (f"{kind} disk type cannot be used by {machine} machine type" in said) is not attached
    assert (said == "") is attached


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"size": "200Gi", "mode": "writeback"}, ""),
        ({"size": "200Gi"}, ""),
        ({"size": "200G"}, "data-cache-size 200G is not a number of Gi"),
        ({"size": "200Gi", "mode": "readonly"}, "data-cache-mode readonly is not writethrough"),
        ({"mode": "writeback"}, "data-cache-mode needs data-cache-size"),
    ],
)
def test_a_disk_has_a_cache_by_its_class(parameters: dict[str, str], says: str) -> None:
    """Of whole GiB, in two modes."""
    given = {f"data-cache-{key}": value for key, value in parameters.items()}
    disk = Wanted(uid="d1", kind="disk", name="default/d", driver=DISKS, parameters=given)
    found = GoogleStack.with_cluster().cloud.why_not_provisioned(disk)
    assert says in found
    assert bool(found) is bool(says)


@pytest.mark.parametrize(
    ("ssds", "size", "other", "mounted"),
    [("1", "374Gi", "", True), ("1", "375Gi", "", False), ("", "1Gi", "", False),
     ("2", "300Gi", "449Gi", True), ("2", "300Gi", "450Gi", False)],
)  # fmt: skip
def test_a_cache_is_on_local_ssds_of_the_node(
    ssds: str, size: str, other: str, mounted: bool
) -> None:
    """Which the node pool has for Data Cache, and other disks on the node use too."""
    stack = GoogleStack.with_cluster()
    disk = Wanted(uid="d1", kind="disk", name="default/d", driver=DISKS)
    handle = stack.cloud.attach([disk])["d1"].partition(":")[2]
    asked = mount(DISKS, handle, "n1-standard-4")
    labels = {"cloud.google.com/gke-data-cache-disk": ssds} if ssds else {}
    asked = replace(asked, attributes={"data-cache-size": size},
                    mounted={"pvc-2": {"data-cache-size": other} if other else {}},
                    node_labels={**asked.node_labels, **labels})  # fmt: skip
    assert ("Error setting up cache" in stack.cloud.why_not_mounted(asked)) is not mounted


@pytest.mark.parametrize(
    ("user", "group", "denied"), [(0, None, False), (1000, None, True), (1000, 1000, False)]
)
def test_a_new_file_system_is_roots(user: int, group: int | None, denied: bool) -> None:
    """Another user writes to it once the kubelet has given it to the pod's fsGroup."""
    stack = GoogleStack.with_cluster()
    disk = Wanted(uid="d1", kind="disk", name="default/d", driver=DISKS)
    handle = stack.cloud.attach([disk])["d1"].partition(":")[2]
    asked = mount(DISKS, handle, "n1-standard-4", user=user, group=group)
    assert ("Permission denied" in stack.cloud.why_not_mounted(asked)) is denied
