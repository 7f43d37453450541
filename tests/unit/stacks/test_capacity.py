"""Quota needs of pools, verdicts, and what Google Cloud and AWS answer, without either."""

import json
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from google.auth.exceptions import DefaultCredentialsError, RefreshError

from gpu_cluster.components.batch.training_args import TrainingArgs
from gpu_cluster.components.catalog.gke import machine_type
from gpu_cluster.components.cluster import ResolvedPool
from gpu_cluster.components.eks.cluster_args import EksClusterArgs
from gpu_cluster.components.eks.network_args import EksNetworkArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.warm_pool_args import EksWarmPoolArgs
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
from gpu_cluster.components.gke.fallback_args import GkeFallbackArgs
from gpu_cluster.components.gke.network_args import GkeNetworkArgs
from gpu_cluster.components.gke.node_account import registry_warnings
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gke.settings import GkeSettings
from gpu_cluster.components.gke_autopilot.cluster_args import GkeAutopilotArgs
from gpu_cluster.components.gke_autopilot.pool_args import GkeAutopilotPoolArgs
from gpu_cluster.components.gpu.acceptance_args import GpuTestArgs
from gpu_cluster.components.gpu.workload_args import WorkloadArgs
from gpu_cluster.stacks.capacity import aws_reservations, choices, google_grants, offers
from gpu_cluster.stacks.capacity import eks as aws_quota
from gpu_cluster.stacks.capacity import gke as gke_quota
from gpu_cluster.stacks.capacity import gke_autopilot as autopilot_quota
from gpu_cluster.stacks.capacity import google as google_quota
from gpu_cluster.stacks.capacity import stack_capacity as quota
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.offers import Offer, Wanted
from gpu_cluster.stacks.capacity.questions import simulator
from gpu_cluster.stacks.capacity.reserved import CloudReservation, Reserved
from gpu_cluster.stacks.capacity.verdict import (
    Known,
    Need,
    Unknown,
    exit_code,
    judge_need,
    needs_own_use,
    no_answer,
)
from gpu_cluster.stacks.definition.files import EXAMPLES, PLACEHOLDER
from gpu_cluster.stacks.definition.settings import config_of, settings_of
from gpu_cluster.stacks.outcome import CheckError
from tests.unit.stacks.served import serving

REGION = "us-central1"
T4_POOL: dict[str, Any] = {"machine_type": "n1-standard-4", "accelerator": "nvidia-tesla-t4"}


IN_CLASSES = GkeClusterArgs(
    name="c", location="us-central1-a", dns_endpoint=True, scaler="compute-classes"
)
ON_EKS = EksClusterArgs(
    name="c",
    admins=["arn:aws:iam::123456789012:role/deployer"],
    authorized_networks={"office": "203.0.113.0/24"},
    network=EksNetworkArgs(zones=["us-east-1a", "us-east-1b"]),
)


def need(units: int, quota: str = "NVIDIA_T4_GPUS", scope: str = REGION) -> Need:
    return Need(quota=quota, scope=scope, unit="GPUs", pools={"pool": units}, link="https://x")


@pytest.mark.parametrize(
    ("answer", "word", "code"),
    [
        (Known(limit=4, use=0), "enough", 0),
        (Known(limit=3, use=0), "enough", 0),
        (Known(limit=2, use=0), "too little", 1),
        (Known(limit=2, use=None), "too little", 1),
        (Known(limit=9, use=None), "unknown", 2),
        (Known(limit=4, use=2), "unknown", 2),
        (Known(limit=4, use=2, own=0), "too little", 1),
        (Known(limit=4, use=2, own=1), "enough", 0),
        (Known(limit=3, use=3, own=3), "enough", 0),
        (Unknown(reason="not allowed to look"), "unknown", 2),
    ],
)
def test_verdict(answer: Known | Unknown, word: str, code: int) -> None:
    """Three GPUs against what the cloud says; where the numbers allow two verdicts, `unknown`."""
    verdict = judge_need(need(3), answer)
    assert verdict.word == word
    assert exit_code([verdict]) == code
    assert bool(verdict.reason) == (word != "enough")


def test_a_finding_outweighs_what_is_not_known() -> None:
    """With one quota too little and one unknown, the exit code is 1."""
    verdicts = [
        judge_need(need(3), Unknown(reason="?")),
        judge_need(need(3), Known(limit=0, use=0)),
    ]
    assert exit_code(verdicts) == 1


def test_own_use_is_asked_only_where_it_decides() -> None:
    """Own nodes are counted only where the limit would do without what is in use."""
    asked = {limit: needs_own_use(need(3), Known(limit=limit, use=2)) for limit in range(7)}
    assert asked == {0: False, 1: False, 2: False, 3: True, 4: True, 5: False, 6: False}


OFFICE = {"office": "203.0.113.0/24"}


def standard(
    location: str, /, **pools: GkeGpuNodePoolArgs
) -> Mapping[str, ResolvedPool[GkeGpuNodePoolArgs]]:
    """The pools as they are resolved in a cluster there."""
    cluster = GkeClusterArgs(name="c", location=location, authorized_networks=OFFICE)
    return {name: pool.resolve(name, cluster) for name, pool in pools.items()}


def autopilot(
    **pools: GkeAutopilotPoolArgs,
) -> Mapping[str, ResolvedPool[GkeAutopilotPoolArgs]]:
    """The pools as they are resolved in a cluster."""
    cluster = GkeAutopilotArgs(name="c", location=REGION, authorized_networks=OFFICE)
    return {name: pool.resolve(name, cluster) for name, pool in pools.items()}


def gke_needs(**args: GkeGpuNodePoolArgs) -> dict[str, tuple[str, dict[str, int]]]:
    pools = standard("us-central1-a", **args)
    gpus = gke_quota.pool_gpus(pools)
    found, _ = google_quota.needs(pools, gpus, project="p", region=REGION)
    return {one.quota: (one.scope, dict(one.pools)) for one in found}


def test_google_counts_by_card_market_and_project() -> None:
    """GPUs count by model in the region, apart for Spot and flex-start, and all in the project."""
    assert gke_needs(
        one=GkeGpuNodePoolArgs(**T4_POOL, max_nodes=3),
        two=GkeGpuNodePoolArgs(**T4_POOL, gpus_per_node=2, max_nodes=4),
        spot=GkeGpuNodePoolArgs(**T4_POOL, max_nodes=5, capacity_type="spot"),
        flex=GkeGpuNodePoolArgs(
            machine_type="g2-standard-24", max_nodes=2, capacity_type="flex-start"
        ),
    ) == {
        "NVIDIA_T4_GPUS": (REGION, {"one": 3, "two": 8}),
        "PREEMPTIBLE_NVIDIA_T4_GPUS": (REGION, {"spot": 5}),
        "PREEMPTIBLE_NVIDIA_L4_GPUS": (REGION, {"flex": 4}),
        "GPUS_ALL_REGIONS": ("all regions", {"one": 3, "two": 8, "spot": 5, "flex": 4}),
    }


@pytest.mark.parametrize(
    ("direct", "network", "networks"),
    [("tcpxo", {}, [1 + 8] * 2), ("tcpx", {}, [1 + 4] * 2), (None, {}, []),
     ("tcpxo", {"vpc": "v", "subnetwork": "s", "pods_range": "p", "services_range": "q"}, [8] * 2)],
)  # fmt: skip
def test_networks_between_gpus_count_against_the_projects_quota(
    direct: Any, network: dict[str, str], networks: list[int]
) -> None:
    """Those for all pools, and the cluster's if the stack creates it; what the stack already has
    of them is not known."""
    cluster = GkeClusterArgs(
        name="c",
        location="us-central1-a",
        authorized_networks=OFFICE,
        network=GkeNetworkArgs(**network),
    )
    machine = "a3-highgpu-8g" if direct == "tcpx" else "a3-megagpu-8g"
    args = GkeGpuNodePoolArgs(machine_type=machine, gpu_direct=direct)
    pools = {name: ResolvedPool(args=args, pool=args.gpu_pool(name)) for name in "ab"}
    found = [*google_quota.network_needs(pools, cluster=cluster, project="p")]
    assert [need.units for need in found] == networks
    for need, name in zip(found, ("NETWORKS", "SUBNETWORKS"), strict=False):
        assert (need.quota, need.scope) == (name, "all regions")
        unasked = google_quota.GoogleQuotas("p", REGION, GoogleApi("http://localhost:1"))
        assert unasked.own_use(need, "c") is None


def test_local_ssds_count_by_market_and_family() -> None:
    """Those that a pool adds, and those that its machine includes; a reservation has counted its
    own. Of families but N1, and of Spot without a quota of its own, the API does not tell."""
    nodes = {
        name: google_quota.Nodes(
            machine=machine_type(machine), way=way, disk="pd-ssd", gigabytes=1, count=2, ssd_gib=gib
        )
        for name, machine, way, gib in [
            ("t4", "n1-standard-4", "on-demand", 750), ("plain", "n1-standard-4", "on-demand", 0),
            ("h100", "a3-megagpu-8g", "on-demand", 6000), ("l4", "g2-standard-4", "on-demand", 375),
            ("spot", "a3-megagpu-8g", "spot", 6000),
            ("held", "a3-megagpu-8g", "reservation", 6000),
        ]
    }  # fmt: skip
    found = google_quota.node_needs(nodes, project="p", region=REGION)
    ssds = {need.quota: need for need in found if "LOCAL_SSD" in need.quota}
    assert {quota: dict(need.pools) for quota, need in ssds.items()} == {
        "LOCAL_SSD_TOTAL_GB": {"t4": 1500},
        "LOCAL_SSD_TOTAL_GB_PER_VM_FAMILY of A3": {"h100": 12000},
        "LOCAL_SSD_TOTAL_GB_PER_VM_FAMILY of G2": {"l4": 750},
        "PREEMPTIBLE_LOCAL_SSD_GB": {"spot": 12000},
    }
    listed = {"quotas": [{"metric": "LOCAL_SSD_TOTAL_GB", "limit": 1000, "usage": 375},
                         {"metric": "PREEMPTIBLE_LOCAL_SSD_GB", "limit": 0}]}  # fmt: skip
    quotas = google_quota.GoogleQuotas("p", REGION, Mock(get=lambda *_: listed))
    assert quotas.answer(ssds["LOCAL_SSD_TOTAL_GB"]) == Known(limit=1000, use=375)
    for name in ssds.keys() - {"LOCAL_SSD_TOTAL_GB"}:
        answer = quotas.answer(ssds[name])
        assert isinstance(answer, Unknown)
        assert "see the link" in answer.reason


def test_capacity_counts_the_local_ssds_of_a_node() -> None:
    """Of a pool with several, and of a machine that includes them."""
    pools = standard(
        "us-central1-a",
        t4=GkeGpuNodePoolArgs(**T4_POOL, local_storage="block", local_ssd_count=2),
        h100=GkeGpuNodePoolArgs(machine_type="a3-megagpu-8g"),
        none=GkeGpuNodePoolArgs(**T4_POOL),
    )
    cluster = GkeClusterArgs(name="c", location="us-central1-a", authorized_networks=OFFICE)
    own = GkeSettings(project="p", cluster=cluster, pools=pools)
    found = {name: of.ssd_gib for name, of in gke_quota.nodes(own).items()}
    assert found == {"systemPool": 0, "t4": 750, "h100": 6000, "none": 0}


def test_reserved_nodes_are_left_out_and_named() -> None:
    """A pool on a reservation counts nothing, and the check says so."""
    pools = standard(
        "us-central1-a",
        r=GkeGpuNodePoolArgs(
            machine_type="a3-highgpu-8g", capacity_type="reservation", reservation="mine"
        ),
    )
    found, notes = google_quota.needs(pools, {"r": 8}, project="p", region=REGION)
    assert found == []
    assert notes == ["pool r: not counted, because its nodes use reservation mine"]


def test_capacity_says_which_choice_would_be_taken_now() -> None:
    """The first that has quota, or a free machine of its reservation; the last one is counted."""
    args = GkeGpuNodePoolArgs(machine_type="g2-standard-4", fallback=("spot", "on-demand"))
    pools = {"l4": args.resolve("l4", IN_CLASSES)}
    found, _ = google_quota.needs(pools, {"l4": 1}, project="p", region=REGION)
    assert [one.quota for one in found] == ["NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"]
    quotas = {"PREEMPTIBLE_NVIDIA_L4_GPUS": Known(limit=2, use=2),
              "NVIDIA_L4_GPUS": Known(limit=4, use=1)}  # fmt: skip
    cloud = Mock(answer=lambda need: quotas[need.quota])
    assert choice(pools, cloud, partial(google_quota.one_node, region=REGION)) == (
        "pool l4: according to quotas and reservations, the next node would use on-demand (spot: "
        "0 of 2 PREEMPTIBLE_NVIDIA_L4_GPUS are left; on-demand: 3 of 4 NVIDIA_L4_GPUS are left)"
    )


def test_capacity_asks_for_the_zones_and_machines_of_each_entry() -> None:
    """Each with what it is in words; the offers are asked for once."""
    args = GkeGpuNodePoolArgs(
        machine_type="g2-standard-4",
        fallback=(
            "spot",
            "on-demand",
            GkeFallbackArgs(zones=["us-central1-b"], machine_type="g2-standard-8"),
            GkeFallbackArgs(capacity_type="spot", zones=["us-central1-b"]),
        ),
    )
    pools = {"l4": args.resolve("l4", IN_CLASSES)}
    assert [(one.types, one.zones) for one in gke_quota.wanted(pools, REGION)] == [
        (("g2-standard-4",), ("us-central1-a",)),
        (("g2-standard-8",), ("us-central1-b",)),
        (("g2-standard-4",), ("us-central1-b",)),
    ]
    assert [one.zones for one in gke_quota.spot(pools)] == [("us-central1-a",), ("us-central1-b",)]
    cloud = Mock(answer=lambda need: Known(limit=4, use=4 if "PREEMPT" in need.quota else 0))
    line = choice(pools, cloud, partial(google_quota.one_node, region=REGION))
    assert "the next node would use on-demand (spot, spot in us-central1-b: 0 of 4" in line
    assert "on-demand, on-demand in us-central1-b with g2-standard-8: 4 of 4" in line


def test_on_autopilot_no_reservation_is_looked_up() -> None:
    """A machine of it must be the one that GKE chooses; whether it is, is not known."""
    args = GkeAutopilotPoolArgs(
        accelerator="nvidia-l4", gpus_per_node=1, fallback=("reservation", "spot"),
        reservation="mine",
    )  # fmt: skip
    pools = {"l4": Mock(args=args, fallback=())}
    cloud = Mock(answer=lambda need: Known(limit=2, use=0))
    need = lambda pool, way: Mock(quota=way, units=1)  # noqa: E731
    line = choice(pools, cloud, need)
    assert "it is not known which choice has room (reservation: not looked up on Autop" in line


@pytest.mark.parametrize(
    ("quotas", "says"),
    [
        ({}, "it is not known which choice has room (spot, on-demand: no credentials)"),
        ({"NVIDIA_L4_GPUS": Known(limit=4, use=1)},
         "it is not known which choice has room (spot: no credentials; on-demand: 3 of 4 "
         "NVIDIA_L4_GPUS are left)"),
        ({"PREEMPTIBLE_NVIDIA_L4_GPUS": Known(limit=2, use=1)},
         "the next node would use spot (spot: 1 of 2 PREEMPTIBLE_NVIDIA_L4_GPUS are left; "
         "on-demand: no credentials)"),
        ({"PREEMPTIBLE_NVIDIA_L4_GPUS": Known(limit=2, use=2),
          "NVIDIA_L4_GPUS": Known(limit=4, use=4)},
         "no choice has room (spot: 0 of 2 PREEMPTIBLE_NVIDIA_L4_GPUS are left; on-demand: 0 of 4 "
         "NVIDIA_L4_GPUS are left)"),
    ],
)  # fmt: skip
def test_what_the_cloud_does_not_say_is_no_lack_of_room(
    quotas: dict[str, Known], says: str
) -> None:
    """Nor is a later choice the next one, if the first may have room; a reason is given once."""
    args = GkeGpuNodePoolArgs(machine_type="g2-standard-4", fallback=("spot", "on-demand"))
    pools = {"l4": Mock(args=args, fallback=())}
    cloud = Mock(answer=lambda need: quotas.get(need.quota, Unknown(reason="no credentials")))
    names = {"spot": "PREEMPTIBLE_NVIDIA_L4_GPUS", "on-demand": "NVIDIA_L4_GPUS"}
    need = lambda pool, way: Mock(quota=names[way], units=1)  # noqa: E731
    line = choice(pools, cloud, need)
    assert line == f"pool l4: according to quotas and reservations, {says}"


_HELD = CloudReservation(
    name="cr-0123456789abcdef0", type="g6.xlarge", zone="us-east-1a", total=1, free=1,
    state="active", state_name="active",
)  # fmt: skip


@pytest.mark.parametrize(
    ("held", "taken", "says"),
    [
        ({}, "reservation", "1 machines of cr-0123456789abcdef0 are free"),
        ({"free": 0}, "on-demand", "0 machines of cr-0123456789abcdef0 are free"),
        ({"state": "later"}, "on-demand", "0 machines of cr-0123456789abcdef0 are free"),
        ({"zone": "us-east-1b"}, "on-demand",
         "cr-0123456789abcdef0 is in us-east-1b, and the pool in us-east-1a; set zones to the "
         "reservation's zone"),
        ({"state": "over", "state_name": "expired"}, "on-demand",
         "cr-0123456789abcdef0 is expired; name an active one"),
    ],
)  # fmt: skip
def test_capacity_says_which_choice_would_be_taken_on_eks(
    held: dict[str, Any], taken: str, says: str
) -> None:
    """The quotas are EC2's, and a reservation may be fewer machines than the pool has; one that
    cannot be used has no room."""
    args = EksGpuNodeGroupArgs(
        instance_types=["g6.xlarge"],
        fallback=["spot", "reservation", "on-demand"],
        reservation="cr-0123456789abcdef0",
        zones=["us-east-1a"],
        max_nodes=9,
    )
    pools = {"l4": args.resolve("l4", ON_EKS)}
    (wanted,) = aws_reservations.wanted(pools, "zones")
    assert (wanted.nodes, wanted.kind) == (0, "reservation")
    quotas = {"L-3819A6DF G/VT Spot": Known(limit=8, use=6),
              "L-DB2E81BA G/VT on demand": Known(limit=8, use=4)}  # fmt: skip
    cloud = Mock(
        answer=lambda need: quotas[need.quota],
        reserved=lambda one, cluster: Reserved(wanted=one, reservations=(replace(_HELD, **held),)),
    )
    need = partial(aws_quota.one_node, region="us-east-1")
    assert choice(pools, cloud, need, [wanted]) == (
        "pool l4: according to quotas and reservations, the next node would use "
        f"{taken} (spot: 2 of 8 L-3819A6DF G/VT Spot are left; reservation: {says}; "
        "on-demand: 4 of 8 L-DB2E81BA G/VT on demand are left)"
    )
    # The quota of the other choices counts, so nothing is left out.
    assert aws_quota.needs(pools, region="us-east-1")[1] == []
    block = replace(wanted, kind="capacity-block")
    assert "--instance-count 1 " in aws_reservations._hint(block, "us-east-1")


@pytest.mark.parametrize("state", ["stopped", "running"])
def test_warm_instances_count_against_the_quota(state: str) -> None:
    """One boots, and perhaps stops then, in addition to nine nodes of 4 vCPUs each."""
    args = EksGpuNodeGroupArgs(
        instance_types=["g6.xlarge"],
        zones=["us-east-1a"],
        max_nodes=9,
        warm_pool=EksWarmPoolArgs(max_group_prepared_capacity=2, min_size=1, pool_state=state),
    )
    (found,), _ = aws_quota.needs({"l4": args.resolve("l4", ON_EKS)}, region="us-east-1")
    assert found.units == 40


def test_a_reservation_in_an_order_may_be_smaller_than_the_pool_and_in_one_of_its_zones() -> None:
    """The other choices make up for it; alone, it must have all of the pool."""
    cluster = GkeClusterArgs(
        name="c", location="us-central1", dns_endpoint=True, scaler="compute-classes"
    )
    zones = ["us-central1-a", "us-central1-b"]
    given = {"machine_type": "g2-standard-4", "max_nodes": 3, "zones": zones, "reservation": "mine"}
    ordered = GkeGpuNodePoolArgs(**given, fallback=("reservation", "spot"))
    alone = GkeGpuNodePoolArgs(**given, capacity_type="reservation")
    found = gke_quota.reservations(
        {"ordered": ordered.resolve("ordered", cluster), "alone": alone.resolve("alone", cluster)}
    )
    assert [(one.nodes, one.each_zone) for one in found] == [(0, False), (3, True)]


def filled(pools: Any, *entries: Any) -> dict[str, int]:
    """The GPUs of the nodes that the pods of these entries fill."""
    on = {name: pool.pool for name, pool in pools.items()}
    return autopilot_quota.filled_gpus(
        pools, [pods for entry in entries for pods in entry.pod_groups("x", on)]
    )


def workload(**given: Any) -> WorkloadArgs:
    return WorkloadArgs(**{"kind": "pod", "pool": "t4", "image": "x", **given})


@pytest.mark.parametrize(
    ("pool", "workloads", "gpus"),
    [
        ({}, [workload()], 1),
        ({}, [workload(kind="deployment", replicas=3, gpus=2)], 6),
        ({}, [workload(kind="deployment", replicas=0)], 0),
        ({}, [workload(kind="job", parallelism=4, completions=9), workload(gpus=0)], 4),
        ({"gpus_per_node": 4}, [workload(kind="deployment", replicas=3, gpus=2)], 8),
    ],
)
def test_autopilot_counts_what_the_workloads_fill(
    pool: dict[str, Any], workloads: list[WorkloadArgs], gpus: int
) -> None:
    """An Autopilot pool needs the GPUs of the nodes that the stack's own pods fill."""
    pools = autopilot(t4=GkeAutopilotPoolArgs(accelerator="nvidia-tesla-t4", **pool))
    assert filled(pools, *workloads) == {"t4": gpus}


@pytest.mark.parametrize(("on_node", "needed"), [(None, 3 * 2 + 1), (4, 3 * 4 + 4)])
def test_autopilot_counts_training_jobs_and_the_acceptance_workload(
    on_node: int | None, needed: int
) -> None:
    """Each worker has a node of its own, and so has whoever measures the GPUs."""
    pools = autopilot(t4=GkeAutopilotPoolArgs(accelerator="nvidia-tesla-t4", gpus_per_node=on_node))
    job = TrainingArgs(pool="t4", image="x", nodes=3, gpus=2, command=["train.py"])
    check = GpuTestArgs(pools=["t4"], image="x")
    assert filled(pools, job, check) == {"t4": needed}


def test_pools_that_need_nothing_have_no_row() -> None:
    """An Autopilot pool that no workload uses asks for no quota."""
    pools = autopilot(t4=GkeAutopilotPoolArgs(accelerator="nvidia-tesla-t4"))
    assert google_quota.needs(pools, {"t4": 0}, project="p", region=REGION) == ([], [])


@dataclass
class Google:
    """An API on loopback, and the Authorization headers it got."""

    url: str = ""
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """Path -> status and body."""
    tokens: list[str] = field(default_factory=list)

    @property
    def quotas(self) -> google_quota.GoogleQuotas:
        """What a check of project p asks."""
        return google_quota.GoogleQuotas("p", REGION, GoogleApi(self.url))


def refusal_of(api: GoogleApi) -> str:
    """Why this API says nothing of a quota."""
    answer = google_quota.GoogleQuotas("p", REGION, api).answer(need(1))
    assert isinstance(answer, Unknown)
    return answer.reason


def choice(pools: Any, cloud: Any, need: Any, wanted: Sequence[Any] = ()) -> str:
    """The line that says which choice of the only pool would be taken now."""
    (line,) = choices.lines(pools, wanted, cloud=cloud, cluster="c", need=need)
    return line


@pytest.fixture
def google() -> Iterator[Google]:
    found = Google()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.tokens.append(self.headers.get("Authorization", ""))
            status, body = found.answers.get(
                self.path, (404, {"error": {"message": f"{self.path} was not found"}})
            )
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None: ...

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as found.url:
        yield found


RESERVED = {"consumeReservationType": "SPECIFIC_RESERVATION", "values": ["ours"]}
PROJECT = "/compute/v1/projects/p"
FAMILY = (
    "newer GPUs count against GPUS_PER_GPU_FAMILY, which this API does not report: see the link"
)
IN_REGION = f"{PROJECT}/regions/{REGION}"


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        (
            200,
            {"quotas": [{"metric": "NVIDIA_T4_GPUS", "limit": 4.0, "usage": 1.0}]},
            Known(limit=4, use=1),
        ),
        (200, {"quotas": []}, Unknown(reason=f"{REGION} lists no quota of this name; {FAMILY}")),
        (
            200,
            {"quotaStatusWarning": {"message": "partly down"}},
            Unknown(reason="Google Cloud returned no complete answer: partly down"),
        ),
        (
            403,
            {"error": {"message": "Required 'compute.regions.get' permission"}},
            Unknown(
                reason="not allowed to look: HTTP 403 Required 'compute.regions.get' permission"
            ),
        ),
        (
            404,
            {"error": {"message": "no such\nproject"}},
            Unknown(reason="no answer: HTTP 404 no such project"),
        ),
        (200, b"<html>", Unknown(reason="no answer: HTTP 200")),
    ],
)
def test_what_google_answers(
    google: Google, status: int, body: Any, answer: Known | Unknown
) -> None:
    """The region's number of the metric, or why it is not known; a simulator gets no token."""
    google.answers[IN_REGION] = (status, body)
    assert google.quotas.answer(need(3)) == answer
    assert set(google.tokens) == {""}


def test_a_list_is_read_to_its_last_page(google: Google) -> None:
    """A Shared VPC's host has more routes than one answer of Compute Engine holds."""
    path = f"{PROJECT}/global/routes?maxResults=500"
    google.answers[path] = (200, {"items": [{"name": "a"}], "nextPageToken": "b/c"})
    google.answers[f"{path}&pageToken=b%2Fc"] = (200, {"items": [{"name": "b"}]})
    rows = GoogleApi(google.url).listed("projects/p/global/routes")
    assert rows == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(
    ("preemptible", "standard", "expected"),
    [
        (0, 8, ("unknown", "is 0; a project that never requested preemptible quota uses "
                "NVIDIA_T4_GPUS instead, of which 2 of 8 are in use, and 3 are needed")),
        (None, 8, ("unknown", "is not listed; a project")),
        (0, 2, ("too little", "3 GPUs are needed and the limit is 2")),
        (3, 0, ("enough", "")),
        (2, 8, ("too little", "3 GPUs are needed and the limit is 2")),
        (None, None, ("unknown", "lists no quota of this name")),
    ],
)  # fmt: skip
def test_spot_without_preemptible_quota_is_judged_by_the_standard_one_too(
    google: Google, preemptible: int | None, standard: int | None, expected: tuple[str, str]
) -> None:
    """Only a project that asked for preemptible quota has one that bounds it."""
    limits = {"PREEMPTIBLE_NVIDIA_T4_GPUS": (preemptible, 0), "NVIDIA_T4_GPUS": (standard, 2)}
    listed = [
        {"metric": metric, "limit": limit, "usage": min(used, limit)}
        for metric, (limit, used) in limits.items()
        if limit is not None
    ]
    google.answers[IN_REGION] = (200, {"quotas": listed})
    spot = need(3, "PREEMPTIBLE_NVIDIA_T4_GPUS")
    verdict = judge_need(spot, google.quotas.answer(spot))
    assert verdict.word == expected[0]
    assert expected[1] in verdict.reason


def test_capacity_asks_the_simulator_that_the_environment_names(
    google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gpu-cluster simulate` prints it, without a credential or an option, and the text says so;
    an address elsewhere gets nobody's token."""
    monkeypatch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", f"{google.url}/compute/beta/")
    _, document, text = quota.answer("dev")
    assert f"a simulated cloud answered, at {google.url}" in text
    assert document["notes"][-1] == f"a simulated cloud answered, at {google.url}"
    assert set(google.tokens) == {""}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:5000/")
    assert simulator("aws") == "http://localhost:5000"
    monkeypatch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "https://compute.example.com/compute/v1/")
    assert simulator("google") is None


def test_a_rehearsal_that_has_ended_is_not_asked(tmp_path: Path, monkeypatch: Any) -> None:
    """Its file stays, and its port is dead, or soon somebody else's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        api = f"http://127.0.0.1:{server.getsockname()[1]}"
        kept = tmp_path / ".rehearsal" / "dev" / "sandbox.json"
        kept.parent.mkdir(parents=True)
        kept.write_text(json.dumps({"cloudApi": api}))
        monkeypatch.setattr(quota, "ROOT", tmp_path)
        assert quota.rehearsed_endpoint("dev") == api
    with pytest.raises(CheckError) as refusal:
        quota.rehearsed_endpoint("dev")
    assert str(refusal.value).startswith("no rehearsal of dev is kept in ")


def test_what_a_finding_says_in_full_is_not_said_for_each_pool() -> None:
    """A subnet that is not there concerns every pool in it."""
    wanted = Wanted(pool="p", types=("x",), region="us-east-1", zones=("subnet-1",))
    for said in (True, False):
        text = offers.offers_text(
            [Offer(wanted=wanted, zones=Unknown(reason="no subnet", explained=said))]
        )
        assert ("pool p: unknown: no subnet" in text) is not said


class Policies(GoogleApi):
    """APIs that answer with these IAM policies, by the end of the path that is asked."""

    def __init__(self, **bindings: list[tuple[str, str]] | None) -> None:
        super().__init__()
        self.bindings = bindings

    def get(self, service: str, path: str) -> Mapping[str, Any] | Unknown:
        return {"projectNumber": "42"}

    def policy(self, service: str, path: str) -> Mapping[str, Any] | Unknown:
        granted = self.bindings.get(service, [])
        if granted is None:
            return Unknown(reason="not allowed to look")
        return {"bindings": [{"role": role, "members": [member]} for role, member in granted]}


KMS = "projects/keys/locations/us-central1/keyRings/r/cryptoKeys/k"
GKE_AGENT = "service-42@container-engine-robot.iam.gserviceaccount.com"
ENCRYPTER = "roles/cloudkms.cryptoKeyEncrypterDecrypter"


@pytest.mark.parametrize(
    ("bindings", "word", "says"),
    [
        ({}, "wrong", f"{GKE_AGENT} lacks {ENCRYPTER} on the key, its ring or project; grant it: "
         f"gcloud kms keys add-iam-policy-binding {KMS} --member serviceAccount:{GKE_AGENT}"),
        ({"cloudkms": None}, "unknown", "not allowed to look"),
        ({"cloudkms": [("roles/cloudkms.viewer", f"serviceAccount:{GKE_AGENT}")]}, "wrong", ""),
        ({"cloudkms": [(ENCRYPTER, f"serviceAccount:{GKE_AGENT}")]}, None, ""),
        ({"cloudresourcemanager": [(ENCRYPTER, f"serviceAccount:{GKE_AGENT}")]}, None, ""),
    ],
)  # fmt: skip
def test_gke_s_agent_may_use_the_key_of_secrets(
    bindings: dict[str, Any], word: str | None, says: str
) -> None:
    """Without the role the cluster is not created."""
    cluster = GkeClusterArgs(
        name="c", location="us-central1-a", dns_endpoint=True, secrets_encryption_key=KMS
    )
    found = list(google_grants.grant_findings(cluster, None, project="p", api=Policies(**bindings)))
    assert [one.word for one in found] == ([word] if word else [])
    assert all(one.about == "cluster.secretsEncryptionKey" and says in one.reason for one in found)


def test_nodes_may_pull_from_a_registry_of_another_project() -> None:
    """The roles that the stack grants are in its own project."""
    cluster = GkeClusterArgs(name="c", location="us-central1-a", dns_endpoint=True)
    reader, nodes = "roles/artifactregistry.reader", "c-nodes@p.iam.gserviceaccount.com"
    registry = "europe-docker.pkg.dev/company/mirror/gpu"
    (one,) = google_grants.grant_findings(cluster, registry, project="p", api=Policies())
    assert (one.about, one.word) == ("images.registry", "wrong")
    assert one.reason.endswith(
        "gcloud artifacts repositories add-iam-policy-binding mirror --project company --location "
        f"europe --member serviceAccount:{nodes} --role {reader}"
    )
    granted = Policies(artifactregistry=[(reader, f"serviceAccount:{nodes}")])
    assert not list(google_grants.grant_findings(cluster, registry, project="p", api=granted))
    own = registry.replace("company", "p")
    for harmless in (own, "registry.example.com/mirror", None):
        assert not list(
            google_grants.grant_findings(cluster, harmless, project="p", api=Policies())
        )
    (warning,) = registry_warnings({"gpu-cluster:images": json.dumps({"registry": registry})},
                                   "p", "c")  # fmt: skip
    assert "in project company" in warning
    assert "add-iam-policy-binding mirror" in warning
    for text in ("", "[]", "5", "{", json.dumps({"registry": own})):
        assert registry_warnings({"gpu-cluster:images": text}, "p", "c") == []


def test_a_metric_that_is_only_presumed_is_called_so() -> None:
    """Where the API has not the metric of a GPU whose metric was never read, that is said."""
    quotas = google_quota.GoogleQuotas("p", REGION, GoogleApi("http://127.0.0.1:1"))
    quotas._api._answers["compute", f"projects/p/regions/{REGION}"] = {"quotas": []}
    answer = quotas.answer(need(1, "NVIDIA_RTX_PRO_6000_GPUS"))
    assert isinstance(answer, Unknown)
    assert ", and its name is only assumed; " in answer.reason


def test_google_does_not_answer() -> None:
    """An API that nobody serves makes the quota unknown."""
    assert "does not respond" in refusal_of(GoogleApi("http://127.0.0.1:1"))


@pytest.mark.parametrize("variable", [None, "/no/such/key.json"])
def test_google_without_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str | None
) -> None:
    """Without credentials the check says how to get some, and asks nobody.

    A variable that names a file wins over whatever signing in leaves, so then it is named.
    """
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    if variable:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", variable)
    reason = refusal_of(GoogleApi())
    assert "gcloud auth application-default login" in reason
    assert ("unset GOOGLE_APPLICATION_CREDENTIALS" in reason) == bool(variable)
    assert "\n" not in reason


def test_google_is_signed_in_to_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without credentials takes seconds to say so, and there are a dozen questions."""
    none = Mock(side_effect=DefaultCredentialsError)
    monkeypatch.setattr("google.auth.default", none)
    api = GoogleApi()
    for path in ("projects/p", "projects/q"):
        assert isinstance(api.get("compute", path), Unknown)
    assert none.call_count == 1


def test_google_credentials_that_do_not_work_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own words have line ends, or there are none."""
    for said in (["Status: 404 Response:\nb''"], []):
        broken = Mock(side_effect=RefreshError(*said))
        monkeypatch.setattr("google.auth.default", broken)
        reason = refusal_of(GoogleApi())
        assert reason.startswith("the Google Cloud credentials do not work: ")
        assert "\n" not in reason


def test_own_gpus_are_counted_by_card_market_and_state(google: Google) -> None:
    """Of the cluster's machines those count that run, with the GPU model and market of the quota.

    Neither another region's cluster of the same name, nor what a reservation has counted.
    """
    t4, l4 = "nvidia-tesla-t4", "nvidia-l4"
    types = {t4: "n1-standard-4", l4: "g2-standard-16"}

    def machine(kind: str, count: int, model: str = "STANDARD", status: str = "RUNNING") -> Any:
        accelerator = f"https://x/zones/{REGION}-a/acceleratorTypes/{kind}"
        return {
            "status": status,
            "scheduling": {"provisioningModel": model},
            "guestAccelerators": [{"acceleratorType": accelerator, "acceleratorCount": count}],
            "machineType": f"https://x/zones/{REGION}-a/machineTypes/{types[kind]}",
        }

    query = "filter=labels.goog-k8s-cluster-name%3Dmine&maxResults=500"
    path = f"{PROJECT}/aggregated/instances?{query}"
    google.answers[path] = (200, {
        "items": {
            f"zones/{REGION}-a": {"instances": [
                machine(t4, 2), machine(t4, 8, status="TERMINATED"), machine(l4, 16),
                machine(t4, 32, model="SPOT"),
                {**machine(t4, 128), "reservationAffinity": RESERVED},
            ]},
            "zones/us-south1-ai1b": {"warning": {"code": "NO_RESULTS_ON_PAGE"}},
            "zones/us-east1-b": {"instances": [machine(t4, 64)]},
        },
        "nextPageToken": "more",
    })  # fmt: skip
    last = {"items": {f"zones/{REGION}-b": {"instances": [machine(t4, 1)]}}}
    google.answers[f"{path}&pageToken=more"] = (200, last)
    quotas = google.quotas
    assert quotas.own_use(need(1), "mine") == 2 + 1
    assert quotas.own_use(need(1, "PREEMPTIBLE_NVIDIA_T4_GPUS"), "mine") == 32
    everything = need(1, "GPUS_ALL_REGIONS", "all regions")
    assert quotas.own_use(everything, "mine") == 2 + 16 + 32 + 1
    cpus = replace(everything, unit="vCPUs", quota="CPUS_ALL_REGIONS")
    assert quotas.own_use(cpus, "mine") == 4 + 16 + 4
    assert quotas.own_use(replace(cpus, quota="CPUS", scope=REGION), "mine") == 4 + 4
    assert quotas.own_use(need(1), "another") is None


def offer(
    google: Google, collection: str, name: str, zones: Collection[str], *, project: str = PROJECT
) -> None:
    """Lets the API have this type in these zones, and an empty part for another zone."""
    items: dict[str, Any] = {
        f"zones/{zone}": {collection: [{"name": name, "zone": f"https://x/zones/{zone}"}]}
        for zone in zones
    }
    items["zones/us-west9-z"] = {"warning": {"code": "NO_RESULTS_ON_PAGE"}}
    path = f"{project}/aggregated/{collection}?filter=name%3D{name}&maxResults=500"
    google.answers[path] = (200, {"items": items})


@pytest.mark.parametrize(
    ("machines", "gpu_models", "word", "reason"),
    [
        ({"us-central1-a"}, {"us-central1-a"}, "offered", ""),
        (
            {"us-central1-a", "us-central1-c"},
            {"us-central1-b", "us-central1-c"},
            "not offered",
            "n1-standard-4 with nvidia-tesla-t4 is not in us-central1-a; zones of us-central1 that "
            "have it: us-central1-c",
        ),
        (
            {"us-central1-a", "us-east1-b", "europe-west1-d"},
            {"us-east1-b", "europe-west1-d"},
            "not offered",
            "n1-standard-4 with nvidia-tesla-t4 is not in us-central1-a, nor anywhere else in "
            "us-central1; regions that have it: europe-west1, us-east1",
        ),
        (
            set(),
            set(),
            "not offered",
            "n1-standard-4 with nvidia-tesla-t4 is not in us-central1-a, nor anywhere else in "
            "us-central1; regions that have it: none that is visible to this account",
        ),
    ],
)
def test_what_a_zone_offers(
    google: Google, machines: set[str], gpu_models: set[str], word: str, reason: str
) -> None:
    """The machine type and the accelerator must both be in the pool's zone, as the cloud says."""
    offer(google, "machineTypes", "n1-standard-4", machines)
    offer(google, "acceleratorTypes", "nvidia-tesla-t4", gpu_models)
    pools = standard("us-central1-a", t4=GkeGpuNodePoolArgs(**T4_POOL))
    (wanted,) = gke_quota.wanted(pools, REGION)
    found = google.quotas.offer(wanted)
    assert (found.word, found.reason) == (word, reason)
    assert exit_code([found]) == (0 if word == "offered" else 1)


def test_a_type_that_the_zone_no_longer_starts_is_not_offered(google: Google) -> None:
    """The API lists retired types with a state; `DEPRECATED` ones still start."""
    kinds = {"nvidia-l4": "OBSOLETE", "nvidia-tesla-t4": "DEPRECATED"}
    for name, state in kinds.items():
        path = f"{PROJECT}/aggregated/acceleratorTypes?filter=name%3D{name}&maxResults=500"
        one = {"name": name, "deprecated": {"state": state}}
        google.answers[path] = (200, {"items": {f"zones/{REGION}-a": {"acceleratorTypes": [one]}}})
    pools = autopilot(**{name: GkeAutopilotPoolArgs(accelerator=name) for name in kinds})
    words = [google.quotas.offer(one).word for one in autopilot_quota.wanted(pools, REGION)]
    assert words == ["not offered", "offered"]


def test_what_is_wanted_where() -> None:
    """A machine type that has its GPUs says where they are; for Autopilot any zone will do."""
    pools = standard(
        "us-central1-a",
        l4=GkeGpuNodePoolArgs(machine_type="g2-standard-4", zones=["us-central1-b"]),
        t4=GkeGpuNodePoolArgs(**T4_POOL),
    )
    assert gke_quota.wanted(pools, REGION) == [
        Wanted(pool="l4", types=("g2-standard-4",), region=REGION, zones=("us-central1-b",)),
        Wanted(
            pool="t4",
            types=("n1-standard-4", "nvidia-tesla-t4"),
            region=REGION,
            zones=("us-central1-a",),
        ),
    ]
    auto = autopilot(t4=GkeAutopilotPoolArgs(accelerator="nvidia-tesla-t4"))
    assert autopilot_quota.wanted(auto, "europe-west9") == [
        Wanted(pool="t4", types=("nvidia-tesla-t4",), region="europe-west9")
    ]


def test_offers_that_cannot_be_asked_are_unknown(google: Google) -> None:
    """A 403 says why, and the check ends with 2."""
    path = f"{PROJECT}/aggregated/machineTypes?filter=name%3Dg2-standard-4&maxResults=500"
    google.answers[path] = (403, {"error": {"message": "Required 'compute.machineTypes.list'"}})
    pools = standard("us-central1-a", l4=GkeGpuNodePoolArgs(machine_type="g2-standard-4"))
    (wanted,) = gke_quota.wanted(pools, REGION)
    found = google.quotas.offer(wanted)
    assert (found.word, exit_code([found])) == ("unknown", 2)
    assert "compute.machineTypes.list" in offers.offers_text([found])


def test_a_zone_begins_with_its_whole_region() -> None:
    """us-central10 is no part of us-central1."""
    wanted = Wanted(pool="p", types=("x",), region="us-central1")
    assert Offer(wanted=wanted, zones=("us-central10-a",)).word == "not offered"


@pytest.mark.parametrize(
    ("kind", "spot", "expected"),
    [
        ("g6.xlarge", False, "L-DB2E81BA G/VT on demand"),
        ("gr6.4xlarge", True, "L-3819A6DF G/VT Spot"),
        ("vt1.3xlarge", False, "L-DB2E81BA G/VT on demand"),
        ("p4d.24xlarge", True, "L-7212CCBC P Spot"),
        ("p5.48xlarge", False, "L-417A185B P on demand"),
        ("p5.48xlarge", True, "L-C4BD4855 P5 Spot"),
        ("p5en.48xlarge", True, "L-C4BD4855 P5 Spot"),
        ("p6-b200.48xlarge", False, "L-417A185B P on demand"),
        ("p6-b200.48xlarge", True, "Spot p6-b200"),
        ("m7i.large", False, "L-1216C47A standard on demand"),
        ("c7i-flex.large", True, "L-34B43A08 standard Spot"),
        ("inf2.xlarge", False, None),
        ("u-6tb1.metal", False, None),
        ("mac1.metal", False, None),
    ],
)
def test_quota_of_an_instance_type(kind: str, spot: bool, expected: str | None) -> None:
    """Family and market decide the quota; where its code is uncertain there is none."""
    assert aws_quota.quota_of(kind, spot=spot) == expected


def test_check_exits_1_with_a_limit_below_the_need(google: Google) -> None:
    """The dev stack's three T4 against a limit of two, its 450 GB of balanced disks against 449, or
    its 18 vCPUs against 17: exit code 1, with the link to raise it."""
    project = "/compute/v1/projects/my-project"
    many = {"metric": "GPUS_ALL_REGIONS", "limit": 9, "usage": 0}
    offer(google, "machineTypes", "e2-standard-2", {f"{REGION}-a"}, project=project)
    offer(google, "machineTypes", "n1-standard-4", {f"{REGION}-a"}, project=project)
    offer(google, "acceleratorTypes", "nvidia-tesla-t4", {f"{REGION}-a"}, project=project)
    for limit, disks, cpus, all_cpus, expected in (
        (2, 500, 18, 18, 1), (3, 449, 18, 18, 1), (3, 500, 17, 18, 1), (3, 500, 18, 17, 1),
        (3, 500, 18, 18, 0),
    ):  # fmt: skip
        every = {"metric": "CPUS_ALL_REGIONS", "limit": all_cpus, "usage": 0}
        google.answers[project] = (200, {"quotas": [many, every]})
        own = {"metric": "CPUS", "limit": cpus, "usage": 0}
        t4 = {"metric": "NVIDIA_T4_GPUS", "limit": limit, "usage": 0}
        ssd = {"metric": "SSD_TOTAL_GB", "limit": disks, "usage": 0}
        google.answers[f"{project}/regions/{REGION}"] = (200, {"quotas": [t4, ssd, own]})
        code, document, text = quota.answer("dev", google.url)
        assert code == expected
        # Three nodes with a GPU, 100 GB and 4 vCPUs each, three of the system pool with 50 and 2.
        assert [one["need"] for one in document["quotas"]] == [3, 3, 450, 18, 18]
        assert ("https://console.cloud.google.com/" in text) == (code == 1)


def test_an_existing_cluster_has_no_quota() -> None:
    """On an existing cluster there is nothing to ask, and nothing amiss."""
    code, document, text = quota.answer("onprem")
    assert code == 0
    for key in ("quotas", "offers", "reservations", "findings"):
        assert document[key] == []
    assert "autoscaled node groups are unknown" in text


def test_unknown_stack_names_those_that_exist() -> None:
    """A stack without a file is refused with the stacks that have one."""
    with pytest.raises(CheckError, match=r"^there is no Pulumi.no.yaml: the stacks here are .*dev"):
        config_of("no")


def test_settings_are_refused_in_the_programs_words(tmp_path: Path, monkeypatch: Any) -> None:
    """With the file's name and the program's own line; a defect of the program is not."""
    (tmp_path / "Pulumi.x.yaml").write_text(
        "config:\n  gcp:project: p\n  gpu-cluster:cluster: {platform: gkee}\n"
    )
    with pytest.raises(CheckError, match=r"^Pulumi.x.yaml: gpu-cluster:cluster.platform: 'gkee' "):
        settings_of("x", config_of("x", tmp_path))
    monkeypatch.setattr("gpu_cluster.stacks.definition.settings.from_config", lambda *_: int("x"))
    with pytest.raises(ValueError, match="invalid literal"):
        settings_of("x", config_of("x", tmp_path))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("2026-11-21", "2026-11-21 00:00:00 +0000 UTC"),
        ("2026-11-21T10:20:30Z", "2026-11-21 10:20:30 +0000 UTC"),
        ("!!binary eA==", "eA=="),
        ("{secure: AAABAK==}", PLACEHOLDER),
        ("[{secure: AAABAK==}]", [PLACEHOLDER]),
    ],
)
def test_a_stack_file_is_read_as_the_engine_reads_it(
    tmp_path: Path, text: str, value: object
) -> None:
    """Only true and false are truth values, dates are text, and nobody needs the secrets' key."""
    (tmp_path / "Pulumi.x.yaml").write_text(f"config:\n  gpu-cluster:cluster: {{key: {text}}}\n")
    assert config_of("x", tmp_path) == {"gpu-cluster:cluster": {"key": value}}


def test_a_file_in_another_encoding_is_one_line(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are refused with the file's name, without a traceback."""
    (tmp_path / "Pulumi.x.yaml").write_bytes(b"config: # caf\xe9\n  gcp:project: p\n")
    with pytest.raises(CheckError, match=r"^Pulumi.x.yaml is not YAML: .*UTF-8") as refused:
        config_of("x", tmp_path)
    assert "\n" not in str(refused.value)


def test_a_secret_in_the_environment_hinders_no_check(tmp_path: Path) -> None:
    """A stack with an encrypted value, of which no check has need, is read like any other."""
    document = yaml.safe_load((EXAMPLES / "Pulumi.dev.yaml").read_text())
    workload = document["config"]["gpu-cluster:workloads"]["sample-gpu-pod"]
    workload["env"] = {"HF_TOKEN": {"secure": "v1:abc:def"}}
    (tmp_path / "Pulumi.x.yaml").write_text(yaml.safe_dump(document))
    read = settings_of("x", config_of("x", tmp_path))
    assert read.running["workloads"]["sample-gpu-pod"].env == {"HF_TOKEN": PLACEHOLDER}


def test_an_encrypted_project_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which project to ask is in the file, or the check says what to do."""
    config = {**config_of("dev"), "gcp:project": PLACEHOLDER}
    monkeypatch.setattr(quota, "config_of", lambda _: config)
    with pytest.raises(CheckError, match=r"^Pulumi.dev.yaml: gcp:project: is encrypted"):
        quota.answer("dev")


def test_one_answer_among_others_is_its_own() -> None:
    """What one part of the cloud refuses is no reason for all."""
    refused = judge_need(need(4), Unknown(reason="not allowed to look"))
    enough = judge_need(need(4), Known(limit=4, use=0))
    assert no_answer([refused, enough]) == ""
    assert no_answer([refused]) == ""
    assert no_answer([refused, refused]) == "not allowed to look"


def test_a_rehearsal_of_machines_that_are_there_is_asked_nothing() -> None:
    """Kept or not, the answer is that of the cluster itself: no quota bounds it."""
    assert quota.rehearsed_endpoint("onprem") is None
    plain = quota.answer("onprem")
    assert quota.answer("onprem", quota.rehearsed_endpoint("onprem")) == plain
    assert plain[0] == 0
