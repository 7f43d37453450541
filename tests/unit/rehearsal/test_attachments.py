"""Load balancers and disks that the simulated clouds make for a cluster's users."""

import re

import pytest

from rehearsal.control_plane.attachments import wanted
from simulators.cloud import Wanted
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import CLUSTER, NETWORK, SUBNETWORK, GoogleStack

SERVICE = Wanted(uid="1234-5678", kind="load balancer", name="default/web")
CLAIM = Wanted(uid="9abc", kind="disk", name="default/data")
FIREWALL = "projects/p/global/firewalls/k8s-fw-a12345678"


def test_only_some_objects_have_something_in_the_cloud() -> None:
    """A Service inside the cluster has not."""
    service = {
        "metadata": {"uid": "1234-5678", "name": "web", "namespace": "default"},
        "spec": {"type": "LoadBalancer"},
    }
    inside = {**service, "spec": {"type": "ClusterIP"}}
    claim = {"metadata": {"uid": "9abc", "name": "data", "namespace": "default"}, "spec": {}}
    assert wanted([service, inside], [claim]) == [SERVICE, CLAIM]


def test_gke_makes_them_and_takes_them_away_with_the_object() -> None:
    """Under the names that GKE gives them."""
    stack = GoogleStack()
    stack.cluster()
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
    stack = GoogleStack()
    stack.cluster()
    stack.cloud.attach([SERVICE])
    stack.delete(CLUSTER, "dev")
    assert stack.cloud.attach([]) == {}
    stack.delete(SUBNETWORK, "nodes")
    says = f"already being used by '{FIREWALL}', resourceInUseByAnotherResource"
    with pytest.raises(Refused, match=re.escape(says)):
        stack.delete(NETWORK, "net")
