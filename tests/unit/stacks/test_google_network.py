"""What a check finds of an existing network before an update, asked of the simulated APIs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.components.gke.network_args import GkeNetworkArgs
from gpu_cluster.rehearsal.simulators.google.compute.resources import new
from gpu_cluster.rehearsal.simulators.google.container.shared_vpc import GKE_AGENT
from gpu_cluster.rehearsal.simulators.google_inventory import Missing, Out
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.google_network import network_findings
from gpu_cluster.stacks.capacity.verdict import Finding, Unknown
from tests.unit.simulators.test_google_shared_vpc import SUBNETWORK, SharedStack

NETWORK = GkeNetworkArgs(
    host_project="company-net",
    vpc="shared",
    subnetwork="gke",
    pods_range="pods",
    services_range="services",
)
GKE = "service-123456789012@container-engine-robot.iam.gserviceaccount.com"
NOT_ASKED = "; permissions inherited from a folder were not checked"
NO_NAT = "no Cloud NAT of shared in us-central1 serves gke"
CUDA = "nvcr.io/nvidia/cuda:12.9.1-base-ubuntu24.04"


def found(
    stack: SharedStack,
    network: GkeNetworkArgs = NETWORK,
    region: str = "us-central1",
    nodes: int | None = 9,
    images: Sequence[str] = (CUDA, "us-docker.pkg.dev/p/images/train:1"),
) -> list[tuple[str, str, str]]:
    """What is asked and found, as (about, word, reason)."""
    asked = network_findings(
        network,
        project="p",
        region=region,
        nodes=nodes,
        images=images,
        api=GoogleApi(stack.api.endpoint),
    )
    stack.api.stop()
    return [_shown(one) for one in asked]


def _shown(one: Finding) -> tuple[str, str, str]:
    return one.about.removeprefix("cluster.network."), one.word, one.reason


def test_a_network_as_it_shall_be_has_no_finding() -> None:
    """With attachment, roles, ranges and Cloud NAT nothing is wrong and nothing unknown."""
    assert found(SharedStack()) == []


def test_nothing_is_asked_of_a_network_that_the_stack_makes() -> None:
    """No API answers there, and nobody asks it."""
    given: dict[str, Any] = {"project": "p", "region": "r", "nodes": 1, "images": []}
    assert network_findings(GkeNetworkArgs(), **given, api=GoogleApi("http://127.0.0.1:1")) == []


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (
            "attachment",
            [("hostProject", "wrong",
              "p is attached to no host project; attach it: gcloud compute shared-vpc "
              "associated-projects add p --host-project=company-net")],
        ),
        (
            "hostServiceAgentUser",
            [("hostProject", "wrong",
              f"{GKE} lacks roles/container.hostServiceAgentUser on company-net{NOT_ASKED}")],
        ),
        (
            "networkUser",
            [("subnetwork", "wrong",
              f"{agent} lacks roles/compute.networkUser on gke, or on company-net{NOT_ASKED}")
             for agent in (GKE, "123456789012@cloudservices.gserviceaccount.com")],
        ),
    ],
)  # fmt: skip
def test_what_the_network_team_left_out(missing: Missing, expected: Any) -> None:
    """Each is one line with what to do."""
    assert found(SharedStack(missing)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"subnetwork": "gk"}, [("subnetwork", "wrong", "company-net has no subnetwork gk in "
                                                        "us-central1; nor in any other region; "
                                                        "name an existing one")]),
        ({"vpc": "other"}, [("vpc", "wrong", "gke is a subnetwork of shared; set vpc to that")]),
        ({"pods_range": "a", "services_range": "b"},
         [(f"{what}Range", "wrong",
           f"gke has no secondary range {name}; it has: pods, services")
          for what, name in (("pods", "a"), ("services", "b"))]),
    ],
)  # fmt: skip
def test_a_name_that_is_not_there(changes: Mapping[str, str], expected: Any) -> None:
    """The line has the names that are."""
    asked = found(SharedStack(), replace(NETWORK, **changes))
    assert [one for one in asked if "lacks" not in one[2]] == expected


def test_a_subnetwork_of_another_region() -> None:
    """Where it is."""
    (wrong, *_) = found(SharedStack(), region="us-east1")
    assert wrong == (
        "subnetwork",
        "wrong",
        "company-net has no subnetwork gke in us-east1; it is in us-central1: name one of us-east1",
    )


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (1024, []),
        (None, []),
        (1025, [("podsRange", "wrong", "10.64.0.0/14 has room for 1024 nodes, and the pools grow "
                                       "to 1025; use a larger range, or lower maxNodes")]),
        (4093, ["podsRange", "10.10.0.0/20 has room for 4092 nodes, and the pools grow to 4093; "
                             "use a larger range, or lower maxNodes"]),
    ],
)  # fmt: skip
def test_ranges_have_room_for_every_node(nodes: int | None, expected: Any) -> None:
    """A /24 of the pods' range and an address for each; Autopilot's nodes nobody bounds."""
    asked = found(SharedStack(), nodes=nodes)
    if nodes == 4093:
        assert [asked[0][0], asked[1][2]] == expected
    else:
        assert asked == expected


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        ("none", ("subnetwork", "wrong", f"{NO_NAT}, and it has no Private Google Access: private "
                  "nodes do not register; add a Cloud NAT")),
        ("google", ("subnetwork", "wrong", f"{NO_NAT}, so nodes pull only from Google's "
                    "registries, and the stack's images are in nvcr.io too; add a Cloud NAT, or "
                    "set images.registry and copy them: gpu-cluster images")),
        ("firewall", None),
    ],
)  # fmt: skip
def test_a_way_out(out: Out, expected: Any) -> None:
    """Without any it is wrong, and so is one to Google alone where an image is elsewhere; a route
    through a firewall is one."""
    assert found(SharedStack(out=out)) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("image", "outside"),
    [
        ("europe-west4-docker.pkg.dev/p/mirror/nvidia/cuda:1", None),
        ("gcr.io/p/train:1", None),
        ("eu.gcr.io/p/train:1", None),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io"),
        ("ubuntu:24.04", "docker.io"),
        ("pytorch/pytorch:2", "docker.io"),
        ("notgcr.io/p/train:1", "notgcr.io"),
    ],
)
def test_which_registries_private_google_access_reaches(image: str, outside: str | None) -> None:
    """Google's own: an image of any other needs a way out."""
    said = [reason for _, _, reason in found(SharedStack(out="google"), images=[image])]
    assert [f"are in {outside} too" in reason for reason in said] == ([True] if outside else [])


GOOGLE = "projects/company-net/global/gateways/default-internet-gateway"
ANYWHERE = "0.0.0.0/0"


@pytest.mark.parametrize(
    ("routes", "peers", "word", "says"),
    [
        ([(ANYWHERE, 1000, GOOGLE)], [], "wrong", "are in nvcr.io too"),
        ([], [], "wrong", "no route of shared leads to Google: Private Google Access needs one of "
         "0.0.0.0/0, or of 199.36.153.8/30, to default-internet-gateway"),
        ([("199.36.153.8/30", 1000, GOOGLE)], [], "unknown", "it was not checked whether the DNS "
                                                             "zones of shared resolve "
                                                             "googleapis.com, gcr.io and pkg.dev "
                                                             "to it"),
        ([(ANYWHERE, 1000, GOOGLE)], [{"name": "office"}], "unknown", "it was not checked "
                                                                      "whether a BGP peer of "
                                                                      "shared-us-central1 "
                                                                      "provides internet access"),
        ([(ANYWHERE, 1000, GOOGLE), (ANYWHERE, 1001, "")], [], "wrong", "are in nvcr.io too"),
        ([(ANYWHERE, 1000, GOOGLE), (ANYWHERE, 999, "")], [], None, ""),
    ],
)  # fmt: skip
def test_routes_say_where_nodes_without_nat_come(
    monkeypatch: pytest.MonkeyPatch,
    routes: Sequence[tuple[str, int, str]],
    peers: Sequence[Any],
    word: str | None,
    says: str,
) -> None:
    """The first of those to anywhere counts, and Google needs one through its own gateway."""
    stack = SharedStack(out="google")
    link = "https://www.googleapis.com/compute/v1/"
    network = f"{link}projects/company-net/global/networks/shared"
    rows = [
        {"name": "r", "network": network, "destRange": block, "priority": priority}
        | ({"nextHopGateway": link + hop} if hop else {"nextHopIlb": "10.10.15.253"})
        for block, priority, hop in routes
    ]
    monkeypatch.setattr(
        "gpu_cluster.rehearsal.simulators.google.compute.routes._rows", lambda call: iter(rows)
    )
    router = {"name": "shared-us-central1", "network": network, "bgpPeers": peers}
    identity = "projects/company-net/regions/us-central1/routers/shared-us-central1"
    stack.cloud.resources[identity] = new(identity, "compute.routers", "router", router)
    asked = found(stack)
    assert [one[1] for one in asked] == ([word] if word else [])
    assert all(says in reason for _, _, reason in asked), asked


def test_a_network_has_compute_engine_s_routes() -> None:
    """One to anywhere through Google's gateway, one for each subnetwork, and what was added."""
    stack = SharedStack(out="firewall")
    rows = GoogleApi(stack.api.endpoint).get("compute", "projects/company-net/global/routes")
    stack.api.stop()
    assert not isinstance(rows, Unknown)
    hops = [
        (one["destRange"], one["priority"], next(key for key in one if key.startswith("nextHop")))
        for one in rows["items"]
    ]
    assert hops == [
        ("0.0.0.0/0", 1000, "nextHopGateway"),
        ("10.10.0.0/20", 0, "nextHopNetwork"),
        ("0.0.0.0/0", 900, "nextHopIlb"),
    ]


def test_a_network_of_the_cluster_s_own_project() -> None:
    """It needs no grant, and GKE itself turns Private Google Access on."""
    asked = found(SharedStack(out="none", project="p"), replace(NETWORK, host_project=None))
    assert [(about, word) for about, word, _ in asked] == [("subnetwork", "wrong")]
    assert "are in nvcr.io too" in asked[0][2]


def test_a_group_may_have_the_agent_in_it() -> None:
    """Who is in a group is not asked, so it is unknown."""
    stack = SharedStack()
    for binding in stack.cloud.policies[SUBNETWORK]["bindings"]:
        binding["members"] = ["group:agents@example.com"]
    asked = found(stack)
    assert {word for _, word, _ in asked} == {"unknown"}
    assert asked[0][2] == (
        f"{GKE} lacks roles/compute.networkUser on gke, or on company-net, unless it is a member "
        "of group:agents@example.com"
    )


def test_a_role_on_the_whole_host_project_does_as_well() -> None:
    """The network team may grant it there."""
    stack = SharedStack()
    policies = stack.cloud.policies
    policies["projects/company-net"]["bindings"] += policies.pop(SUBNETWORK)["bindings"]
    assert f"serviceAccount:{GKE}" == GKE_AGENT
    assert found(stack) == []


def test_nobody_answers() -> None:
    """Then each thing is unknown, for one reason, which is said once."""
    given: dict[str, Any] = {"project": "p", "region": "r", "nodes": 1, "images": []}
    asked = network_findings(NETWORK, **given, api=GoogleApi("http://127.0.0.1:1"))
    assert {one.word for one in asked} == {"unknown"}
    assert all("http://127.0.0.1:1 does not respond" in one.reason for one in asked)
