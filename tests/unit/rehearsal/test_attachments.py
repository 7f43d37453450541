"""Load balancers and disks that the simulated clouds make for a cluster's users."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.attachments import Attachments, wanted
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.simulators.cloud import Wanted, storage_class
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import CLUSTER, NETWORK, SUBNETWORK, GoogleStack

SERVICE = Wanted(uid="1234-5678", kind="load balancer", name="default/web", ports=(80,))
CLAIM = Wanted(uid="9abc", kind="disk", name="default/data", gib=2)
INGRESS = Wanted(uid="in", kind="ingress", name="default/web", backends=(("default/web", 80),))
FIREWALL = "projects/p/global/firewalls/k8s-fw-a12345678"
ROUTE = {"parentRefs": [{"name": "out"}], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]}


def named(uid: str, name: str, **annotations: str) -> dict[str, Any]:
    return {"uid": uid, "name": name, "namespace": "default", "annotations": annotations}


def claim(node: str = "", **spec: Any) -> dict[str, Any]:
    """A claim, for which the scheduler may have chosen a node."""
    chosen = {"volume.kubernetes.io/selected-node": node} if node else {}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500Mi"}}}
    return {"metadata": named("9abc", "data", **chosen), "spec": asked | spec}


def test_only_some_objects_have_something_in_the_cloud() -> None:
    """A Service inside the cluster has not; an Ingress names the ports of Services that are there,
    a Gateway leads where its routes do."""
    service = {
        "metadata": named("1234-5678", "web"),
        "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]},
    }
    inside = {"metadata": named("0", "inside"), "spec": {"type": "ClusterIP", "ports": []}}
    paths = [
        {"backend": {"service": {"name": name, "port": port}}}
        for name, port in (("web", {"name": "http"}), ("web", {"number": 80}), ("gone", {}))
    ]
    ingress = {"metadata": named("in", "web"), "spec": {"rules": [{"http": {"paths": paths}}]}}
    gateway = {"metadata": named("gw", "out"), "spec": {"gatewayClassName": "gke-l7-gxlb"}}
    assert wanted({
        "Service": [service, inside],
        "PersistentVolumeClaim": [claim(storageClassName="standard")],
        "StorageClass": [storage_class("standard", "kubernetes.io/gce-pd", waits=False)],
        "Ingress": [ingress],
        "Gateway": [gateway],
        "HTTPRoute": [{"metadata": named("r", "way"), "spec": ROUTE}],
    }) == [
        SERVICE,
        replace(CLAIM, driver="kubernetes.io/gce-pd"),
        INGRESS,
        Wanted(uid="gw", kind="gateway", name="default/out", class_name="gke-l7-gxlb",
               backends=(("default/web", 80),)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "node", "disk"),
    [
        ({"storageClassName": "waits"}, "", False),
        ({"storageClassName": "waits"}, "node-1", True),
        ({"storageClassName": "at-once"}, "", True),
        ({"storageClassName": "local"}, "node-1", False),
        ({"storageClassName": "nobodys"}, "node-1", False),
        ({"storageClassName": "nobodys", "volumeName": "pvc-9abc"}, "", True),
        ({"storageClassName": "", "volumeName": "a-bucket"}, "", False),
        ({}, "", False),
    ],
)
def test_a_claim_has_a_disk_when_its_class_makes_one(
    spec: dict[str, str], node: str, disk: bool
) -> None:
    """Where the class waits, once the scheduler has a node for a pod; without a class, never. One
    that is bound keeps its disk, also without its class."""
    classes = [
        storage_class("waits", "pd.csi.storage.gke.io"),
        storage_class("at-once", "kubernetes.io/gce-pd", waits=False),
        storage_class("local", "kubernetes.io/no-provisioner"),
    ]
    found = wanted({"PersistentVolumeClaim": [claim(node, **spec)], "StorageClass": classes})
    assert [(one.uid, one.gib) for one in found] == ([("9abc", 2)] if disk else [])
    assert all(one.node == node for one in found)


class LateDriver:
    """A cloud whose driver makes a disk when it is asked for the second time."""

    def __init__(self) -> None:
        self.asked = 0
        self.volumes: list[str] = []

    def storage_classes(self) -> list[dict[str, Any]]:
        return []

    def why_not_provisioned(self, wanted: Wanted) -> str:
        return ""

    def attach(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        self.asked += 1
        return {one.uid: "ebs.csi.aws.com:vol-1" for one in wanted if self.asked > 1}

    def disk_zone(self, handle: str) -> str:
        return ""

    def create(self, path: str, manifest: dict[str, Any]) -> None:
        self.volumes.append(manifest["spec"]["csi"]["volumeHandle"])


class Disks(LateDriver):
    """A cloud that keeps the disks that it is asked for, and volumes with this reclaim policy."""

    def __init__(self, policy: str | None) -> None:
        super().__init__()
        self.policy = policy
        self.disks: list[str] = []
        self.deleted: list[str] = []

    def attach(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        self.disks = [one.uid for one in wanted]
        return {one.uid: "ebs.csi.aws.com:vol-1" for one in wanted}

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/api/v1/persistentvolumes/pvc-9abc"
        if self.policy is None:
            raise ApiError(404, "NotFound", "persistentvolumes not found")
        return {"spec": {"persistentVolumeReclaimPolicy": self.policy}}

    def delete(self, path: str) -> None:
        self.deleted.append(path.rpartition("/")[2])


@pytest.mark.parametrize("policy", ["Retain", "Delete", None])
def test_a_disk_stays_if_its_volume_is_retained(policy: str | None) -> None:
    """Also when the cluster is deleted. Any other is deleted with its claim."""
    cloud = Disks(policy)
    attachments = Attachments(cloud, cast("Api", cloud))
    classes = [storage_class("at-once", "ebs.csi.aws.com", waits=False)]
    claims = [claim(storageClassName="at-once")]
    attachments.follow({"PersistentVolumeClaim": claims, "StorageClass": classes})
    assert cloud.disks == ["9abc"]
    for _ in range(3):
        attachments.follow({"StorageClass": classes})
    attachments.end({})
    kept = policy == "Retain"
    assert cloud.disks == (["9abc"] if kept else [])
    assert cloud.deleted == ([] if kept else ["pvc-9abc"])


class ZonalDisks(LateDriver):
    """A cloud whose disks are in the zone in which they are requested."""

    def attach(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        return {one.uid: f"pd.csi.storage.gke.io:{one.zone}" for one in wanted}

    def disk_zone(self, handle: str) -> str:
        return handle

    def create(self, path: str, manifest: dict[str, Any]) -> None:
        affinity = manifest["spec"].get("nodeAffinity")
        terms = affinity["required"]["nodeSelectorTerms"] if affinity else [{}]
        self.volumes += [one["values"][0] for one in terms[0].get("matchExpressions", ())]


def placed(name: str, zone: str, gpus: int = 0) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone}
    allocatable = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


@pytest.mark.parametrize(
    ("waits", "node", "nodes", "zones"),
    [
        (True, "gpu", [placed("system", "a"), placed("gpu", "b", 1)], ["b"]),
        # The trap of GKE's class `standard`: the pods of the only GPU node cannot use it.
        (False, "", [placed("gpu", "a", 1), placed("system", "b")], ["b"]),
        (False, "", [placed("gpu", "b", 1)], ["b"]),
        (False, "", [], []),
    ],
)
def test_a_disk_is_in_one_zone(
    waits: bool, node: str, nodes: list[dict[str, Any]], zones: list[str]
) -> None:
    """In that of its first pod's node if its class waits for one, else in any that has a node. Its
    volume says so, and the scheduler holds pods to it."""
    cloud = ZonalDisks()
    attachments = Attachments(cloud, cast("Api", cloud))
    objects = {
        "PersistentVolumeClaim": [claim(node, storageClassName="disks")],
        "StorageClass": [storage_class("disks", "pd.csi.storage.gke.io", waits=waits)],
    }
    attachments.follow({**objects, "Node": nodes})
    attachments.follow({**objects, "Node": [placed("another", "c")]})  # a disk never moves
    assert cloud.volumes == zones


def test_a_disk_is_made_once_its_driver_is_up() -> None:
    """A provisioner tries again; what is made is asked for no more."""
    cloud = LateDriver()
    attachments = Attachments(cloud, cast("Api", cloud))
    objects = {
        "PersistentVolumeClaim": [claim(storageClassName="at-once")],
        "StorageClass": [storage_class("at-once", "ebs.csi.aws.com", waits=False)],
    }
    for _ in range(3):
        attachments.follow(objects)
    assert (cloud.asked, cloud.volumes) == (2, ["vol-1"])


def test_gke_s_classes_are_those_of_its_drivers() -> None:
    """Those of Filestore come with its driver."""
    stack = GoogleStack.with_cluster()
    names = [each["metadata"]["name"] for each in stack.cloud.storage_classes()]
    assert names == ["standard", "standard-rwo", "premium-rwo"]
    stack = GoogleStack()
    assert stack.cloud.storage_classes() == []
    stack.cluster(addonsConfig={"gcpFilestoreCsiDriverConfig": {"enabled": True}})
    assert "standard-rwx" in {each["metadata"]["name"] for each in stack.cloud.storage_classes()}


class RefusingDriver(LateDriver):
    """A cloud whose driver creates no volume."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for: list[str] = []
        self.events: list[dict[str, Any]] = []

    def why_not_provisioned(self, wanted: Wanted) -> str:
        return f"rpc error: network {wanted.parameters['network']} does not exist"

    def attach(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        self.asked_for += [one.uid for one in wanted]
        return {}

    def create(self, path: str, manifest: dict[str, Any]) -> None:
        assert path == "/api/v1/namespaces/default/events"
        self.events.append(manifest)


def test_a_volume_that_the_driver_refuses_is_an_event_of_its_claim() -> None:
    """Written once, with the parameters of the class; the cloud holds nothing of it."""
    cloud = RefusingDriver()
    attachments = Attachments(cloud, cast("Api", cloud))
    its = storage_class("files", "filestore.csi.storage.gke.io", waits=False)
    objects = {
        "PersistentVolumeClaim": [claim(storageClassName="files")],
        "StorageClass": [its | {"parameters": {"network": "shared"}}],
    }
    for _ in range(3):
        attachments.follow(objects)
    attachments.end(objects)
    (event,) = cloud.events
    assert event["involvedObject"]["name"] == "data"
    assert event["message"] == (
        'failed to provision volume with StorageClass "files": rpc error: network shared does not '
        "exist"
    )
    assert cloud.asked_for == []


HASH = re.compile(r"[0-9a-f]{16}$|(?<=-)([0-9a-z]{8}|[0-9a-z]{12})(?=-|$)|(?<=gkegw1-)[0-9a-z]{4}")


def made(stack: GoogleStack, *wanted: Wanted) -> list[str]:
    """What there is beside the cluster and its network; hashes in the names are left out."""
    before = set(stack.cloud.list_resources())
    stack.cloud.attach(wanted)
    lines = sorted(set(stack.cloud.list_resources()) - before)
    parts = [line.rpartition("/") for line in lines]
    return [f"{place}/{HASH.sub('*', name)}" for place, _, name in parts]


def test_gke_makes_them_and_takes_them_away_with_the_object() -> None:
    """Under the names that GKE gives them."""
    stack = GoogleStack.with_cluster()
    before = stack.cloud.list_resources()
    assert stack.cloud.attach([SERVICE, CLAIM]) == {
        "1234-5678": "198.51.100.1",
        "9abc": "pd.csi.storage.gke.io:projects/p/zones/us-central1-a/disks/pvc-9abc",
    }
    assert sorted(set(stack.cloud.list_resources()) - set(before)) == [
        "disk projects/p/zones/us-central1-a/disks/pvc-9abc",
        f"firewall rule {FIREWALL}",
        "forwarding rule projects/p/regions/us-central1/forwardingRules/a12345678",
    ]
    assert stack.cloud.attach([]) == {}
    assert stack.cloud.list_resources() == before


def test_what_a_deleted_cluster_leaves_keeps_the_network() -> None:
    """Nobody is left who would remove it; Google names what is in the way."""
    stack = GoogleStack.with_cluster()
    stack.cloud.attach([SERVICE])
    stack.delete(CLUSTER, "dev")
    assert stack.cloud.attach([]) == {}
    stack.delete(SUBNETWORK, "nodes")
    says = f"already being used by '{FIREWALL}', resourceInUseByAnotherResource"
    with pytest.raises(Refused, match=re.escape(says)):
        stack.delete(NETWORK, "net")


def test_an_ingress_has_a_load_balancer_before_its_pods() -> None:
    """Under the names of ingress-gce, with the backend that answers where no rule fits; the network
    endpoint groups keep the network, whose firewall rule is the cluster's one."""
    stack = GoogleStack.with_cluster()
    zone, start = "projects/p/zones/us-central1-a", "projects/p/global"
    groups = ("k8s1-*-default-web-80-*", "k8s1-*-kube-system-default-http-backend-80-*")
    assert made(stack, INGRESS) == [
        *(f"backend service {start}/backendServices/{name}" for name in groups),
        f"firewall rule {start}/firewalls/k8s-fw-l7--*",
        f"forwarding rule {start}/forwardingRules/k8s2-fr-*-default-web-*",
        *(f"health check {start}/healthChecks/{name}" for name in groups),
        *(f"network endpoint group {zone}/networkEndpointGroups/{name}" for name in groups),
        f"target http proxy {start}/targetHttpProxies/k8s2-tp-*-default-web-*",
        f"url map {start}/urlMaps/k8s2-um-*-default-web-*",
    ]
    assert stack.cloud.attach([INGRESS]) == {"in": "198.51.100.1"}
    stack.delete(CLUSTER, "dev")
    stack.delete(SUBNETWORK, "nodes")
    says = "already being used by 'projects/p/zones/us-central1-a/networkEndpointGroups/k8s1-"
    with pytest.raises(Refused, match=re.escape(says)):
        stack.delete(NETWORK, "net")


@pytest.mark.parametrize(
    ("given", "scope"),
    [
        ({}, "global"),
        ({"class_name": "gce"}, "global"),
        ({"class_name": "gce-internal"}, "regions/us-central1"),
        ({"class_name": "nginx"}, None),
        ({"spec_class": "gce"}, None),
    ],
)
def test_the_annotation_says_whose_an_ingress_is(given: dict[str, str], scope: str | None) -> None:
    """GKE's controller passes over `spec.ingressClassName`, whatever it says."""
    stack = GoogleStack.with_cluster()
    one = Wanted(uid="in", kind="ingress", name="default/web", **given)  # type: ignore[arg-type]
    rules = [line.split()[2] for line in made(stack, one) if line.startswith("forwarding rule")]
    wanted = [f"projects/p/{scope}/forwardingRules/k8s2-fr-*-default-web-*"] if scope else []
    assert rules == wanted


def test_without_the_addon_an_ingress_has_nothing() -> None:
    """`httpLoadBalancing` is what answers it."""
    stack = GoogleStack.with_cluster(addonsConfig={"httpLoadBalancing": {"disabled": True}})
    assert made(stack, INGRESS) == []


@pytest.mark.parametrize(
    ("kind", "place"),
    [("gke-l7-global-external-managed", "global"), ("gke-l7-rilb", "us-central1"), ("istio", None)],
)
def test_a_gateway_of_gkes_classes_has_a_load_balancer(kind: str, place: str | None) -> None:
    """Global or of the region, as its class says; what an internal one has keeps the subnetwork."""
    stack = GoogleStack.with_cluster(gatewayApiConfig={"channel": "CHANNEL_STANDARD"})
    assert {"Gateway", "HTTPRoute"} <= set(stack.plane.kinds)
    one = Wanted(uid="gw", kind="gateway", name="default/out", class_name=kind,
                 backends=(("default/web", 80),))  # fmt: skip
    found = {line.partition(" projects/")[0]: line.split("/")[-1] for line in made(stack, one)}
    if place is None:
        assert found == {}
        return
    network = stack.state[stack.urn(NETWORK, "net")][2]["name"]
    assert found["network endpoint group"] == "k8s1-*-default-web-80-*"
    assert found["forwarding rule"] == "gkegw1-*-default-out-*"
    assert found["firewall rule"].replace("-*", "") in f"gkegw1-l7-{network}-{place}"
    stack.delete(CLUSTER, "dev")
    if place != "global":
        with pytest.raises(Refused, match=r"already being used by .*/forwardingRules/gkegw1-"):
            stack.delete(SUBNETWORK, "nodes")


def test_a_load_balancer_inside_keeps_the_subnetwork() -> None:
    """Its address is one of the subnetwork's."""
    stack = GoogleStack.with_cluster()
    one = Wanted(uid="1", kind="load balancer", name="default/web", class_name="Internal")
    assert stack.cloud.attach([one]) == {"1": "10.0.15.253"}
    stack.delete(CLUSTER, "dev")
    with pytest.raises(Refused, match=r"already being used by .*/forwardingRules/a1"):
        stack.delete(SUBNETWORK, "nodes")


def test_the_next_cluster_leaves_alone_what_an_earlier_one_left() -> None:
    """Its controllers know their own alone."""
    stack = GoogleStack.with_cluster()
    stack.cloud.attach([SERVICE])
    stack.delete(CLUSTER, "dev")
    stack.cluster()
    stack.cloud.attach([])
    assert any(FIREWALL in line for line in stack.cloud.list_resources())
