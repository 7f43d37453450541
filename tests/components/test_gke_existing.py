"""GPU pools on a GKE cluster of another owner: what is declared, and what never is."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from gpu_cluster.components.access.service_accounts import ServiceAccountArgs
from gpu_cluster.components.cluster import Runs
from gpu_cluster.components.gke.cpu_pool_args import GkeCpuPoolArgs
from gpu_cluster.components.gke.existing_args import (
    FoundCluster,
    GkeExistingClusterArgs,
    GkeExistingNetworkArgs,
    bounded,
    doubts,
    unfit,
)
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gke_existing import settings as gke_existing
from gpu_cluster.components.schema.refusal import Refusals
from tests.components import recording
from tests.components.declaring import CONFIG, declared
from tests.components.recording import Recording, record

CLUSTER = "projects/my-project/locations/us-central1/clusters/platform"
NODE_POOL = "gcp:container/nodePool:NodePool"
REACHED = {"endpoint": "203.0.113.10", "certificate_authority": "Q0E="}
STACK = "gpu-cluster_test"
T4 = GkeGpuNodePoolArgs(machine_type="n1-standard-4", accelerator="nvidia-tesla-t4", max_nodes=2)
CLAIMED = replace(T4, device_plugin="dra", driver="daemonset")
LARGE = replace(
    CLAIMED, machine_type="a3-ultragpu-8g", accelerator=None, capacity_type="spot", min_nodes=1,
    zones=["us-central1-b"],
)  # fmt: skip
READ: Mapping[str, Any] = {
    "endpoint": "198.51.100.7",
    "masterAuths": [{"clusterCaCertificate": "Rk9VTkQ="}],
    "masterVersion": "1.35.1-gke.1200",
    "enableAutopilot": False,
    "workloadIdentityConfigs": [{"workloadPool": "my-project.svc.id.goog"}],
    "network": "projects/my-project/global/networks/main",
    "nodePools": [
        {"name": "default-node-pool", "nodeConfigs": [{"labels": {}, "resourceLabels": {}}]}
    ],
    "controlPlaneEndpointsConfigs": [
        {
            "dnsEndpointConfigs": [
                {"endpoint": "gke-0a.us-central1.gke.goog", "allowExternalTraffic": True}
            ]
        }
    ],
    "addonsConfigs": [],
    "clusterAutoscalings": [],
    "confidentialNodes": [],
    "monitoringConfigs": [],
    "privateClusterConfigs": [{"enablePrivateNodes": True}],
}  # fmt: skip
"""What the data source has of a cluster that the Terraform module creates."""


def args_of(**given: Any) -> GkeExistingClusterArgs:
    return GkeExistingClusterArgs(**{"existing": "platform", "location": "us-central1", **given})


def declare(
    runs: Runs | None = None, pools: Mapping[str, GkeGpuNodePoolArgs] | None = None, **given: Any
) -> Recording:
    """Records a pool of T4s on the cluster `platform`."""
    pools = {"train-gpu": T4} if pools is None else pools
    email = "nodes@my-project.iam.gserviceaccount.com"
    return record(
        lambda: declared("gke-existing", args_of(**given), pools, runs),
        outputs={"gcp:serviceaccount/account:Account": {"email": email}},
    )


def test_what_is_in_the_cluster_follows_its_owners_network() -> None:
    """That of Filestore, which `everything-gke_choices.txt` has not; nor pools that start nodes."""
    runs = Runs(storage_classes=frozenset({"gpu-cluster-filestore"}))
    loaders = GkeCpuPoolArgs(machine_type="n2-standard-4", zones=["us-central1-b"], min_nodes=2)
    network = GkeExistingNetworkArgs(vpc="main")
    found = declare(runs, **REACHED, network=network, cpu_pools={"loaders": loaders})
    assert found.one(NODE_POOL, "loaders").inputs["initialNodeCount"] == 2
    (storage,) = found.of("kubernetes:storage.k8s.io/v1:StorageClass")
    assert storage.inputs["parameters"]["network"] == "main"


def test_pools_with_their_own_service_accounts_need_none_of_the_stack() -> None:
    """Nor the right to create one; one pool without its own, or a CPU pool, does."""
    accounts = "gcp:serviceaccount/account:Account"
    own = replace(T4, service_account="theirs@my-project.iam.gserviceaccount.com")
    found = declare(**REACHED, pools={"a": own})
    assert not found.of(accounts)
    assert not found.of("gcp:projects/iAMMember:IAMMember")
    assert found.one(NODE_POOL).inputs["nodeConfig"]["serviceAccount"] == own.service_account
    assert len(declare(**REACHED, pools={"a": own, "b": T4}).of(accounts)) == 1
    cpu = {"loaders": GkeCpuPoolArgs(machine_type="n2-standard-4", zones=["us-central1-b"])}
    assert len(declare(**REACHED, pools={"a": own}, cpu_pools=cpu).of(accounts)) == 1


BY_DNS = "https://gke-0a.us-central1.gke.goog"


@pytest.mark.parametrize(
    ("given", "addresses", "server"),
    [
        ({}, [], "https://198.51.100.7"),
        ({}, [{"enabled": True}], "https://198.51.100.7"),
        ({}, [{"enabled": False}], BY_DNS),
        ({"dns_endpoint": True}, [{"enabled": True}], BY_DNS),
    ],
)
def test_the_cluster_is_read_by_name(
    monkeypatch: pytest.MonkeyPatch, given: Mapping[str, Any], addresses: Any, server: str
) -> None:
    """If the settings do not say how it is reached; a DNS name, the only way if the owner has
    turned off addresses, has a certificate that everybody knows."""
    (endpoints,) = READ["controlPlaneEndpointsConfigs"]
    endpoints = {**endpoints, "ipEndpointsConfigs": addresses}
    asked = []

    def call(_: object, args: pulumi.runtime.MockCallArgs) -> dict[Any, Any]:
        asked.append((args.token, args.args["name"], args.args["location"]))
        return {**READ, "controlPlaneEndpointsConfigs": [endpoints]}

    monkeypatch.setattr(recording.Answers, "call", call)
    (provider,) = declare(**given).of("pulumi:providers:kubernetes")
    assert server in provider.inputs["kubeconfig"]
    by_dns = server == BY_DNS
    assert ("certificate-authority-data" in provider.inputs["kubeconfig"]) is not by_dns
    assert asked == [("gcp:container/getCluster:getCluster", "platform", "us-central1")]


def test_a_preview_refuses_a_cluster_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the key's path; no pool is created."""
    answer = {**READ, "enableAutopilot": True}
    monkeypatch.setattr(recording.Answers, "call", lambda *_: answer)
    with pytest.raises(Exception, match=r"gpu-cluster:cluster\.existing: platform is an Autopilot"):
        declare()


@pytest.mark.parametrize("private", [True, False])
def test_a_preview_warns_of_public_nodes(monkeypatch: pytest.MonkeyPatch, private: bool) -> None:
    """The pools follow the cluster's default, whose owner can change it."""
    said: list[str] = []
    answer = {**READ, "privateClusterConfigs": [{"enablePrivateNodes": private}]}
    monkeypatch.setattr(recording.Answers, "call", lambda *_: answer)
    monkeypatch.setattr(pulumi.log, "warn", lambda line, *_: said.append(line))
    declare()
    assert [f"{UPDATE} --enable-private-nodes" in line for line in said] == [True] * (not private)


def test_a_cluster_that_cannot_be_read_ends_the_preview_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the provider's reason."""
    answer = {}, [("name", "clusters/platform not found")]
    monkeypatch.setattr(recording.Answers, "call", lambda *_: answer)
    expected = r"gpu-cluster:cluster\.existing: .*platform not found \(name\); give the name of a"
    with pytest.raises(pulumi.RunError, match=expected):
        declare()


GOOD: Mapping[str, Any] = {
    "version": "1.35.1-gke.1200",
    "workload_pool": "my-project.svc.id.goog",
    "network": "projects/my-project/global/networks/main",
    "drivers": frozenset({"gcePersistentDiskCsiDriverConfig"}),
}
BUCKETS = Runs(accounts={"trainer": ServiceAccountArgs(buckets={"data": "read"})})
UPDATE = "gcloud container clusters update platform --location us-central1 --project my-project"


def lines(
    found: Mapping[str, Any], runs: Runs | None = None, pool: GkeGpuNodePoolArgs = T4, **given: Any
) -> list[str]:
    args = args_of(**given)
    config = CONFIG["gke-existing"]
    pools = gke_existing.resolve(config, args, {"train-gpu": pool}, Refusals()).pools
    cluster = FoundCluster(**{**GOOD, **found})
    what = unfit(args, pools, runs or Runs(), cluster, project="my-project", stack=STACK)
    more = [*doubts(args, pools, cluster), *bounded(args, pools, cluster)]
    return [*(str(one).removeprefix("cluster.") for one in what), *more]


@pytest.mark.parametrize(
    ("found", "given", "says"),
    [
        ({"confidential": True}, {}, "existing: platform has Confidential GKE Nodes"),
        ({"workload_pool": ""}, {}, "existing: platform has no Workload Identity Federation"),
        ({"version": "1.34.9-gke.1"}, {"version": "1.35"}, "version: platform runs 1.34.9-gke.1"),
        ({}, {"version": "1.36"}, "version: platform runs 1.35.1-gke.1200, which is older than"),
        ({"version": "1.32.0-gke.1"},
            {"pool": GkeGpuNodePoolArgs(machine_type="g2-standard-4", capacity_type="flex-start")},
            "gpuPools.train-gpu.capacityType: flex-start needs GKE 1.33.0-gke.1712000; ask the "
            "owner of platform, 1.32.0-gke.1, to upgrade"),
        ({"version": "1.34.9-gke.1"}, {"pool": CLAIMED},
            "gpuPools.train-gpu.devicePlugin: Google's page on DRA has asked for GKE 1.35 since "
            "2026, and the cluster's version is 1.34.9-gke.1"),
        ({"version": "1.34.9-gke.1"}, {"pool": LARGE},
            "gpuPools.train-gpu.minNodes: 1 is below maxNodes, which with devicePlugin dra and "
            "nvidia-h200-141gb needs GKE 1.35.0-gke.0; ask the owner of platform, 1.34.9-gke.1"),
        ({"pools": [("theirs", "train-gpu", None)]}, {},
            "gpuPools.train-gpu: the node pool theirs of another owner has the label"),
        ({"pools": [("theirs", "train-gpu", "project_other")]}, {},
            "gpuPools.train-gpu: the node pool theirs of project_other has the label"),
        ({}, {"runs": BUCKETS}, "serviceAccounts.trainer.buckets: need the driver of Cloud Storage "
         f"FUSE, which platform does not have; ask its owner to run {UPDATE} "
         "--update-addons=GcsFuseCsiDriver=ENABLED"),
        ({}, {"runs": Runs(storage_classes=frozenset({"gpu-cluster-filestore"}))},
            "volumeClaims: need the driver of Filestore"),
        ({"drivers": frozenset()}, {"runs": Runs(storage_classes=frozenset({"premium-rwo"}))},
            "volumeClaims: need the driver of persistent disks"),
        ({"dcgm": True}, {"runs": Runs(metrics="exporter")}, "monitoring.source: platform coll"),
        ({}, {"runs": Runs(metrics="managed")}, "monitoring.source: platform does not collect"),
        ({"managed_prometheus": False}, {"runs": Runs(metrics="exporter")},
            "monitoring: Google's managed Prometheus, which collects the metrics, is off"),
        ({}, {"network": GkeExistingNetworkArgs(vpc="other")},
            "network.vpc: platform is in projects/my-project/global/networks/main; name that "
            "network, and its project"),
        ({"limits": {"cpu": 4, "memory": 640, "nvidia-tesla-t4": 2}}, {},
            "gpuPools: at maxNodes the pools have 8 of cpu, and node auto-provisioning limits the "
            "whole of platform to 4"),
        ({"limits": {"nvidia-tesla-t4": 1}}, {}, "gpuPools: at maxNodes the pools have 2 of nvid"),
        ({"limits": {"cpu": 19}}, {"cpu_pools": {"a": GkeCpuPoolArgs(
            machine_type="n2-standard-4", zones=["us-central1-b"])}},
            "gpuPools: at maxNodes the pools have 20 of cpu"),
    ],
    ids=str,
)  # fmt: skip
def test_each_conflict_is_found_once(
    found: Mapping[str, Any], given: dict[str, Any], says: str
) -> None:
    """With the key that it is about, and what to do."""
    (line,) = lines(found, **given)
    assert line.startswith(says)


@pytest.mark.parametrize(
    ("found", "given"),
    [
        ({}, {}),
        ({}, {"version": "1.35"}),
        ({}, {"version": "1.35.1"}),
        ({"pools": [("mine", "train-gpu", STACK), ("theirs", "other", None)]}, {}),
        ({"drivers": frozenset({"gcsFuseCsiDriverConfig"})}, {"runs": BUCKETS}),
        ({"dcgm": True}, {"runs": Runs(metrics="managed")}),
        ({}, {"runs": Runs(metrics="exporter")}),
        ({}, {"network": GkeExistingNetworkArgs(vpc="main")}),
        ({"limits": {"cpu": 8, "nvidia-l4": 1}}, {}),
    ],
)
def test_a_cluster_that_fits_is_accepted(found: Mapping[str, Any], given: dict[str, Any]) -> None:
    """Newer versions, other pools and limits of other GPUs are no conflict."""
    assert lines(found, **given) == []


def test_an_autopilot_cluster_is_refused_for_that_alone() -> None:
    """What else it lacks does not matter any more."""
    (line,) = lines({"autopilot": True, "workload_pool": ""})
    assert line.startswith("existing: platform is an Autopilot cluster")
