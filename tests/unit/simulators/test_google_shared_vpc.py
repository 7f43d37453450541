"""Networks that were there before the stack: what GKE demands of them, in GKE's words."""

import ipaddress
import re
from typing import Any

import pytest

from gpu_cluster.rehearsal.plugins import gcp
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.simulators.cloud import Wanted
from gpu_cluster.rehearsal.simulators.google import Existing, GoogleCloud, serve_api
from gpu_cluster.rehearsal.simulators.google_inventory import Missing, Networks, Out, Subnetwork
from tests.unit.plugins.offline_engine import Engine, Plane, Refused
from tests.unit.simulators.google_stack import CLUSTER, GoogleStack, cluster

VPC = "projects/company-net/global/networks/shared"
SUBNETWORK = "projects/company-net/regions/us-central1/subnetworks/gke"


class SharedStack(GoogleStack):
    """Project `p` beside the host project `company-net`."""

    def __init__(self, *missing: Missing, out: Out = "nat", project: str = "company-net") -> None:
        subnetwork = Subnetwork(
            project=project,
            vpc="shared",
            name="gke",
            region="us-central1",
            cidr=ipaddress.IPv4Network("10.10.0.0/20"),
            ranges={
                "pods": ipaddress.IPv4Network("10.64.0.0/14"),
                "services": ipaddress.IPv4Network("10.10.16.0/20"),
            },
            out=out,
        )
        there = Networks(service_project="p", subnetworks=[subnetwork], missing=frozenset(missing))
        self.plane = Plane()
        self.cloud = GoogleCloud(control_plane=self.plane, existing=Existing(networks=there))
        self.api = serve_api(self.cloud)
        settings = gcp.settings_for(
            self.api.environment, faults=Faults(), changed=self.cloud.notify
        )
        Engine.__init__(self, settings, {"project": "p", "region": "us-central1"})

    def up_cluster(self, **changes: Any) -> dict[str, Any]:
        """A cluster with private nodes in the subnetwork."""
        given = cluster(
            {"network": VPC, "selfLink": SUBNETWORK},
            privateClusterConfig={"enablePrivateNodes": True},
        )
        return self.up(CLUSTER, "dev", given | changes)


def test_a_cluster_stands_in_a_network_of_the_host_project() -> None:
    """With the attachment and the three grants; it holds nothing but the cluster. The firewall rule
    of a load balancer is beside its network."""
    stack = SharedStack()
    assert stack.cloud.list_resources() == []
    made = stack.up_cluster()
    assert (made["network"], made["subnetwork"]) == (VPC, SUBNETWORK)
    assert stack.cloud.list_resources() == [
        "cluster projects/p/locations/us-central1-a/clusters/dev"
    ]
    stack.cloud.attach([Wanted(uid="1", kind="load balancer", name="default/web")])
    wall = "firewall rule projects/company-net/global/firewalls/k8s-fw-a1"
    assert wall in stack.cloud.list_resources()


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("attachment", '400: Project "p" does not have an associated Shared-VPC host project.'),
        ("hostServiceAgentUser",
            'required "container.hostServiceAgent.use" permission(s) for "projects/company-net".'),
        ("networkUser", "Error waiting for creating GKE cluster: Google Compute Engine: Required "
            f"'compute.subnetworks.get' permission for '{SUBNETWORK}'"),
    ],
)  # fmt: skip
def test_each_thing_that_the_network_team_must_grant(missing: Missing, says: str) -> None:
    """What it did not is refused with the words of GKE."""
    with pytest.raises(Refused, match=re.escape(says)):
        SharedStack(missing).up_cluster()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"location": "us-east1-c", "subnetwork": SUBNETWORK.replace("central1", "east1")},
            '404: Not found: project "company-net" does not have a subnetwork named "gke" in '
            'region "us-east1".'),
        ({"ipAllocationPolicy": {"clusterSecondaryRangeName": "others"}},
            '400: Pod secondary range "others" not found in network '
            f'"https://www.googleapis.com/compute/v1/{VPC}", subnetwork "gke".'),
    ],
)  # fmt: skip
def test_a_subnetwork_or_range_that_is_not_there(changes: dict[str, Any], says: str) -> None:
    """Another region has no such subnetwork, and a subnetwork only its own ranges."""
    with pytest.raises(Refused, match=re.escape(says)):
        SharedStack().up_cluster(**changes)


@pytest.mark.parametrize("out", ["nat", "google", "firewall"])
def test_nodes_register_with_a_way_to_google(out: Out) -> None:
    """Cloud NAT, Private Google Access alone, or a route through the company's firewall."""
    assert SharedStack(out=out).up_cluster()["name"] == "dev"


def test_private_nodes_without_a_way_out_do_not_register() -> None:
    """The cluster stays, with an error, as in life; public nodes need neither."""
    stack = SharedStack(out="none")
    with pytest.raises(Refused, match="only 0 nodes out of 1 have registered; cluster may be"):
        stack.up_cluster()
    (made,) = stack.cloud.of("container.clusters")
    assert made.state["status"] == "ERROR"
    assert SharedStack(out="none").up_cluster(privateClusterConfig=None)["name"] == "dev"


def test_what_somebody_else_made_and_is_gone_is_left_over() -> None:
    """The leak check finds a foreign network that a stack took away."""
    stack = SharedStack()
    stack.cloud.remove(SUBNETWORK)
    assert stack.cloud.list_resources() == [
        f"not any more: subnetwork {SUBNETWORK}, which is somebody else's"
    ]


def test_a_network_of_the_cluster_s_own_project_needs_no_grant() -> None:
    """Nobody asks for a Shared VPC there, and GKE itself turns Private Google Access on."""
    missing: tuple[Missing, ...] = ("attachment", "hostServiceAgentUser", "networkUser")
    stack = SharedStack(*missing, out="none", project="p")
    names = {"network": VPC, "subnetwork": SUBNETWORK}
    own = {key: name.replace("company-net", "p") for key, name in names.items()}
    assert stack.up_cluster(**own)["name"] == "dev"
