"""A GKE cluster of another owner in the simulated project, and what `gpu-cluster capacity` finds of
it before a stack's first update."""

import re
import weakref
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.settings import load as settings
from gpu_cluster.rehearsal.existing import inventory_gke
from gpu_cluster.rehearsal.plugins import gcp
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.simulators.google import Existing, GoogleCloud, serve_api
from gpu_cluster.rehearsal.simulators.google.container.tokens import CLUSTER as CLUSTERS
from gpu_cluster.rehearsal.simulators.google.container.tokens import NODE_POOL
from gpu_cluster.rehearsal.simulators.google_inventory import gke_cluster, networks
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES
from gpu_cluster.stacks.capacity import gke, google_existing
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.definition.names import StackError
from tests.unit.components.test_settings import changed
from tests.unit.plugins.offline_engine import Plane

CLUSTER, POOL = "gpu-cluster:cluster", ["gpu-cluster:gpuPools", "train-gpu"]
BY_NAME = [[CLUSTER, "endpoint", "absent"], [CLUSTER, "certificateAuthority", "absent"]]
GET = "gcp:container/getCluster:getCluster"
BY_NAME_ONLY = {"ipEndpointsConfig": {"enabled": False}}


def read(*changes: list[Any]) -> Any:
    return settings.from_config(changed("on-gke", [*BY_NAME, *changes]))


class Made:
    """The project of the sample, with the cluster of its inventory."""

    def __init__(self, **given: Any) -> None:
        own = read()
        cluster = gke_cluster("on-gke", own)[0]
        assert cluster is not None
        existing = Existing(networks=networks("on-gke", own)[0])
        self.cloud = GoogleCloud(control_plane=Plane(), existing=existing)
        self.cloud.open(replace(cluster, **given))
        self.api = api = serve_api(self.cloud)
        weakref.finalize(self, api.stop)
        (self.row,) = self.cloud.of(CLUSTERS)

    def found(self, *changes: list[Any], owner: str = "gpu-cluster/on-gke") -> dict[str, str]:
        """Key -> reason of each finding."""
        asked = gke.questions(read(*changes), self.api.endpoint)
        found = [(one.about, one.reason) for one in asked.existing(owner)]
        assert len(dict(found)) == len(found)
        return dict(found)

    def answer(self, **arguments: Any) -> dict[str, Any]:
        """What the provider's data source answers."""
        plugin = gcp.settings_for(self.api.environment, faults=Faults())
        return plugin.functions[GET]({"project": "my-project"}, arguments)


@pytest.fixture(scope="module")
def made() -> Made:
    return Made()


def test_it_is_as_the_terraform_module_makes_it(made: Made) -> None:
    """By default: a release channel, Workload Identity, public nodes with an account of their own,
    and no addon for buckets."""
    state = made.row.state
    assert state["status"] == "RUNNING"
    assert state["workloadIdentityConfig"] == {"workloadPool": "my-project.svc.id.goog"}
    assert state["releaseChannel"] == {"channel": "REGULAR"}
    assert "gcsFuseCsiDriverConfig" not in state["addonsConfig"]
    pools = {one.state["name"]: one for one in made.cloud.of(NODE_POOL)}
    assert {name: pool.nodes for name, pool in pools.items()} == {
        "default-pool": 0,
        "default-node-pool": 2,
    }
    account = pools["default-node-pool"].state["config"]["serviceAccount"]
    assert account.startswith("tf-gke-platform-")
    assert made.cloud.list_resources() == []


def test_the_sample_fits_its_cluster(made: Made) -> None:
    """Of its inventory."""
    assert made.found() == {}


@pytest.mark.parametrize(
    "change",
    [{"networkConfig": {"datapathProvider": "ADVANCED_DATAPATH"}},
     {"networkPolicy": {"enabled": True, "provider": "CALICO"},
      "addonsConfig": {"networkPolicyConfig": {"disabled": False}}}],
    ids=["Dataplane V2", "Calico"],
)  # fmt: skip
def test_network_policies_that_gke_does_not_enforce_are_unknown(
    made: Made, monkeypatch: pytest.MonkeyPatch, change: dict[str, dict[str, Any]]
) -> None:
    """The module turns on neither; a stack without services declares none."""
    service = {"chat": {"pool": "train-gpu", "image": "example.com/i:1", "port": 8000}}
    serving = ["gpu-cluster:services", service]
    assert "ask its owner to turn on Calico" in made.found(serving)["cluster.existing"]
    for key, value in change.items():
        monkeypatch.setitem(made.row.state, key, {**made.row.state.get(key, {}), **value})
    assert made.found(serving) == {}


def test_the_data_source_answers_as_the_provider_does(made: Made) -> None:
    """With lists for blocks, as `pulumi_gcp.container.GetClusterResult` has them, and all of its
    properties."""
    found = made.answer(name="platform", location="us-central1")
    assert found["id"] == "projects/my-project/locations/us-central1/clusters/platform"
    assert found["masterVersion"] == made.row.state["currentMasterVersion"]
    assert found["masterAuths"][0]["clusterCaCertificate"]
    assert found["workloadIdentityConfigs"] == [{"workloadPool": "my-project.svc.id.goog"}]
    assert found["monitoringConfigs"][0]["managedPrometheuses"][0]["enabled"] is True
    assert "DCGM" in found["monitoringConfigs"][0]["enableComponents"]
    assert found["network"] == "projects/my-project/global/networks/main"
    (pool,) = (one for one in found["nodePools"] if one["name"] == "default-node-pool")
    assert pool["nodeConfigs"][0]["labels"]["node_pool"] == "default-node-pool"
    with pytest.raises(CloudError, match="locations/us-east1/clusters/platform not found"):
        made.answer(name="platform", location="us-east1")


def test_what_is_read_of_it_is_its_inventory(made: Made, tmp_path: Path) -> None:
    """`gpu-cluster inventory` finds what the simulated cluster was made from."""
    found, _ = inventory_gke.read_inventory(read(), "gpu-cluster/on-gke", made.api.endpoint)
    written = yaml.safe_load((INVENTORIES / "on-gke.yaml").read_text())
    assert found["subnetworks"] == [one | {"out": "nat"} for one in written["subnetworks"]]
    (tmp_path / "on-gke.yaml").write_text(yaml.safe_dump(found))
    again, expected = (gke_cluster("on-gke", read(), of)[0] for of in (tmp_path, INVENTORIES))
    assert again is not None
    assert expected is not None
    labels = {"cluster_name": "platform"}
    pools: dict[str, Any] = {
        name: pool | {"labels": labels | {"node_pool": name}}
        for name, pool in expected.node_pools.items()
    }
    pools["default-node-pool"]["autoscaling"] = {"minNodeCount": 1, "maxNodeCount": 100}
    told = {"version": again.version, "addons": again.addons, "metrics": again.metrics}
    assert again == replace(expected, node_pools=pools, **told)
    assert again.version == "1.35"
    # What GKE turns on in every new cluster.
    assert again.addons == ["GcePersistentDiskCsiDriver"]
    assert set(again.metrics) >= {"SYSTEM_COMPONENTS", "DCGM"}


def test_limits_and_taints_of_node_pools_are_read() -> None:
    """Also of the whole pool, whose nodes are in both zones: a cluster of it has them again."""
    row = {
        "machineType": "e2-medium",
        "nodes": 2,
        "taints": [{"key": "team", "value": "a", "effect": "NO_SCHEDULE"}],
        "autoscaling": {"totalMinNodeCount": 4, "totalMaxNodeCount": 9},
    }
    made = Made(node_pools={"batch": row})
    found, _ = inventory_gke.read_inventory(read(), "gpu-cluster/on-gke", made.api.endpoint)
    again = found["cluster"]["nodePools"]["batch"]
    assert again == row | {"labels": {"cluster_name": "platform", "node_pool": "batch"}}


BUCKETS = ["gpu-cluster:serviceAccounts", {"a": {"buckets": {"data": "read"}}}]
RDMA = [
    "gpu-cluster:gpuPools",
    "train-gpu",
    {"machineType": "a3-ultragpu-8g", "capacityType": "spot", "zones": ["us-central1-b"],
     "labels": {"role": "train-gpu"}, "gpuDirect": "rdma"},
]  # fmt: skip
FILES = [
    "gpu-cluster:volumeClaims",
    {"a": {"size": "1Ti", "storageClass": "gpu-cluster-filestore"}},
]


@pytest.mark.parametrize(
    ("changes", "state", "about", "says"),
    [
        ([[CLUSTER, "existing", "other"]], {}, "cluster.existing",
         "my-project has no GKE cluster other; it has platform in us-central1"),
        ([[CLUSTER, "location", "us-east1"], [*POOL, "zones", ["us-east1-c"]]], {},
         "cluster.location", "platform is in us-central1, not in us-east1; correct"),
        ([], {"autopilot": {"enabled": True}}, "cluster.existing", "is an Autopilot cluster"),
        ([], {"status": "STOPPING"}, "cluster.existing", "is STOPPING in GKE; wait until"),
        ([], {"workloadIdentityConfig": {}}, "cluster.existing", "no Workload Identity"),
        ([], {"confidentialNodes": {"enabled": True}}, "cluster.existing", "has Confidential GKE"),
        ([[CLUSTER, "version", "1.36"]], {"currentMasterVersion": "1.35.1-gke.1000"},
         "cluster.version", "platform runs 1.35.1-gke.1000, which is older than 1.36; lower it"),
        ([[CLUSTER, "version", "absent"], [*POOL, "capacityType", "flex-start"]],
         {"currentMasterVersion": "1.32.9-gke.1000"}, "gpuPools.train-gpu.capacityType",
         "flex-start needs GKE 1.33"),
        ([RDMA], {"networkConfig": {"datapathProvider": "LEGACY_DATAPATH"}},
         "gpuPools.train-gpu.gpuDirect", "clusters with Dataplane V2, which platform has not"),
        ([BUCKETS], {}, "serviceAccounts.a.buckets",
         "need the driver of Cloud Storage FUSE, which platform does not have; ask its owner to "
         "run gcloud container clusters update platform --location us-central1 --project "
         "my-project --update-addons=GcsFuseCsiDriver=ENABLED"),
        ([FILES, [CLUSTER, "network", {"vpc": "main"}]], {}, "volumeClaims",
         "need the driver of Filestore"),
        ([[CLUSTER, "network", {"vpc": "other"}]], {}, "cluster.network.vpc",
         "platform is in projects/my-project/global/networks/main"),
        ([["gpu-cluster:monitoring", {"enabled": True, "source": "exporter"}]], {},
         "monitoring.source", "collects the metrics of GPUs by GKE's own DCGM"),
        ([["gpu-cluster:monitoring", {"enabled": True}]],
         {"monitoringConfig": {"managedPrometheusConfig": {"enabled": True}}},
         "monitoring.source", "does not collect the metrics of GPUs; set it to exporter"),
        ([["gpu-cluster:monitoring", {"enabled": True}]],
         {"monitoringConfig": {"componentConfig": {"enableComponents": ["DCGM"]}}},
         "monitoring", "managed Prometheus, which collects the metrics, is off"),
        ([], {"autoscaling": {"enableNodeAutoprovisioning": True, "resourceLimits": [
            {"resourceType": "nvidia-tesla-t4", "maximum": "1"}]}}, "gpuPools",
         "at maxNodes the pools have 2 of nvidia-tesla-t4, and node auto-provisioning limits"),
        ([[CLUSTER, "dnsEndpoint", True]], {}, "cluster.dnsEndpoint", "is disabled; ask its"),
        ([], {"controlPlaneEndpointsConfig": BY_NAME_ONLY}, "cluster.existing",
         "the DNS endpoint of platform, its only endpoint, is disabled; ask its owner to run "
         "gcloud container clusters update platform --location us-central1 --project "
         "my-project --enable-dns-access"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_does_not_fit_is_found(
    made: Made, changes: list[Any], state: Mapping[str, Any], about: str, says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Once, with the key and what to do."""
    monkeypatch.setattr(made.row, "state", deepcopy(made.row.state) | state)
    found = made.found(*changes)
    assert list(found) == [about]
    assert says in found[about]


def test_a_cluster_without_addresses_is_reached_by_its_name(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever `dnsEndpoint` says; an address in the stack's file is not its endpoint."""
    name = made.row.state["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"]
    given = {**BY_NAME_ONLY, "dnsEndpointConfig": {"allowExternalTraffic": True, "endpoint": name}}
    monkeypatch.setitem(made.row.state, "controlPlaneEndpointsConfig", given)
    endpoint = made.row.state["endpoint"]
    address = [CLUSTER, "endpoint", endpoint], [CLUSTER, "certificateAuthority", "Q0E="]
    api = GoogleApi(made.api.endpoint)
    assert f"https://{name}" in google_existing.kubeconfig_of(api, read().own)
    assert made.found() == {}
    told = google_existing.cluster_findings(api, read(*address), "gpu-cluster/on-gke")
    assert [one.about for one in told] == ["cluster.endpoint", "cluster.certificateAuthority"]


def test_an_inventory_may_have_a_cluster_without_addresses() -> None:
    """The data source says so, and where its DNS name leads."""
    there = Made(ip_access=False, dns_access=True)
    answer = there.answer(name="platform", location="us-central1")
    (endpoints,) = answer["controlPlaneEndpointsConfigs"]
    assert there.found() == {}
    assert endpoints["ipEndpointsConfigs"] == [{"enabled": False}]
    assert endpoints["dnsEndpointConfigs"][0]["allowExternalTraffic"] is True


def test_a_given_endpoint_is_that_of_the_cluster(made: Made) -> None:
    """A simulator's is reached elsewhere, and not compared."""
    own = settings.from_config(changed("on-gke", []))
    api = GoogleApi(made.api.endpoint)
    found = google_existing.cluster_findings(api, own, "gpu-cluster/on-gke")
    assert [one.about for one in found] == ["cluster.endpoint", "cluster.certificateAuthority"]
    assert google_existing.cluster_findings(api, own, "gpu-cluster/on-gke", simulated=True) == []


def test_a_pool_of_another_stack_keeps_its_name(made: Made) -> None:
    """Pods of the one would run on nodes of the other; the stack's own pool does not count."""
    pool = next(one for one in made.cloud.of(NODE_POOL) if one.nodes)
    labels = {"labels": {"gpu-cluster/pool": "train-gpu"},
              "resourceLabels": {"gpu-cluster-stack": "gpu-cluster_a"}}  # fmt: skip
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(pool.state, "config", pool.state["config"] | labels)
        ((about, reason),) = made.found().items()
        assert about == "gpuPools.train-gpu"
        assert "the node pool default-node-pool of gpu-cluster_a has the label" in reason
        assert made.found(owner="gpu-cluster/a") == {}
        assert made.cloud.list_resources() == [
            f"changed: node pool {pool.identity}, which is somebody else's"
        ]
    assert made.cloud.list_resources() == []


@pytest.mark.parametrize(
    ("inventory", "says"),
    [
        ({"cluster": []}, "cluster: is not a map"),
        ({"cluster": {"addon": []}}, "cluster.addon: is not known; allowed: version, "),
    ],
)
def test_a_wrong_inventory_is_refused(
    inventory: Mapping[str, Any], says: str, tmp_path: Any
) -> None:
    """With its path."""
    (tmp_path / "on-gke.yaml").write_text(yaml.safe_dump(inventory))
    with pytest.raises(StackError, match=rf"inventories/on-gke.yaml {re.escape(says)}"):
        gke_cluster("on-gke", read(), tmp_path)
