"""GPU monitoring: what runs on the nodes, and what Google Cloud, Prometheus and Grafana get."""

import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from gpu_cluster.components.cluster import GPU_TAINT, Cluster, GpuPool, Runs, Sharing, Taint
from gpu_cluster.components.gpu.monitoring import GpuMonitoring
from gpu_cluster.components.gpu.monitoring_args import MonitoringArgs
from tests.components.declaring import declared
from tests.components.recording import Recording, record

DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
DASHBOARD = "gcp:monitoring/dashboard:Dashboard"
CLUSTER = "gcp:container/cluster:Cluster"


def pool(name: str, **fields: Any) -> GpuPool:
    """A pool behind the GPU taint."""
    given: dict[str, Any] = {
        "accelerator": "nvidia-tesla-t4",
        "gpus_per_node": 1,
        "min_nodes": 0,
        "max_nodes": 1,
        "node_selector": {"gpu-cluster/pool": name},
        "taints": [GPU_TAINT],
        "device_plugin": True,
    }
    return GpuPool(name=name, **{**given, **fields})


DRIVER = "/home/kubernetes/bin/nvidia"


def declare(*pools: GpuPool, google: bool = False, **args: Any) -> Recording:
    """Records the monitoring of a cluster with these pools."""

    def program() -> None:
        cluster = Cluster(
            name="lab",
            platform="gke" if google else "eks",
            managed_prometheus=google,
            provider=kubernetes.Provider("lab", cluster_identifier="a"),
            kubeconfig=pulumi.Output.from_input("{}"),
            pools={each.name: each for each in pools},
        )
        given = {"enabled": True, "source": "exporter", **args}
        GpuMonitoring("gpu-monitoring", MonitoringArgs(**given), cluster=cluster)

    return record(program)


def gke(**args: Any) -> Recording:
    """Records a GKE Standard cluster with one T4 pool, monitored as Google Cloud does."""

    def program() -> None:
        from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
        from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs

        pools = {
            "t4": GkeGpuNodePoolArgs(machine_type="n1-standard-4", accelerator="nvidia-tesla-t4")
        }
        cluster = GkeClusterArgs(
            name="gpu-dev", location="us-central1-a", authorized_networks={"o": "203.0.113.0/24"}
        )
        declared("gke", cluster, pools, Runs(**args))

    email = {"email": "nodes@my-project.iam.gserviceaccount.com"}
    return record(program, outputs={"gcp:serviceaccount/account:Account": email})


def pod(recording: Recording, name: str = "dcgm-exporter") -> dict[str, Any]:
    """The pod's spec of one DaemonSet."""
    spec: dict[str, Any] = recording.one(DAEMON_SET, name).inputs["spec"]["template"]["spec"]
    return spec


def env(spec: Mapping[str, Any]) -> dict[str, str | None]:
    (container,) = spec["containers"]
    return {one["name"]: one.get("value") for one in container["env"]}


def selected(spec: Mapping[str, Any]) -> list[dict[str, list[str]]]:
    """The node selector's alternatives: key -> values."""
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [
        {expression["key"]: expression["values"] for expression in term["matchExpressions"]}
        for term in required["nodeSelectorTerms"]
    ]


def test_the_exporter_runs_where_the_pools_are_and_past_their_taints() -> None:
    """One DaemonSet serves all pools: any pool's selector, every taint of any pool."""
    team = Taint(key="team", value="ml")
    spec = pod(declare(pool("a"), pool("b", taints=[GPU_TAINT, team])))
    assert selected(spec) == [{"gpu-cluster/pool": ["a"]}, {"gpu-cluster/pool": ["b"]}]
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
    ]


def test_the_gpu_taint_is_tolerated_where_somebody_else_made_the_nodes() -> None:
    """Also on nodes of whose taints the stack knows nothing."""
    spec = pod(declare(pool("a", taints=[])))
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_a_daemon_set_s_pods_are_its_own() -> None:
    """Where there are two, neither selects the other's pods."""
    recording = declare(pool("a"), pool("b", runtime_class="nvidia"))
    selectors = []
    for found in recording.of(DAEMON_SET):
        spec = found.inputs["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        selectors.append(spec["selector"]["matchLabels"])
    assert len(selectors) == 2
    assert selectors[0] != selectors[1]


def test_the_runtime_class_is_the_pool_s() -> None:
    """Where the NVIDIA runtime is not the default, the exporter asks for it."""
    recording = declare(pool("a", runtime_class="nvidia"))
    assert pod(recording, "dcgm-exporter-nvidia")["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in pod(declare(pool("a")))


def test_gpus_are_matched_with_pods_as_the_device_plugin_names_them() -> None:
    """GKE's plugin counts devices, NVIDIA's names UUIDs, and shared GPUs have a suffix."""
    recording = declare(
        pool("gke", device_plugin=False, driver_directory=DRIVER),
        pool("nvidia", driver_directory=DRIVER),
        pool(
            "shared", sharing=Sharing(strategy="time-slicing", replicas=4), driver_directory=DRIVER
        ),
        google=True,
    )
    key = "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE"
    assert env(pod(recording, "dcgm-exporter-gke"))[key] == "device-name"
    assert key not in env(pod(recording, "dcgm-exporter"))
    shared = {
        found.name: "KUBERNETES_VIRTUAL_GPUS" in env(pod(recording, found.name))
        for found in recording.of(DAEMON_SET)
    }
    assert shared == {
        "dcgm-exporter-gke": False, "dcgm-exporter": False, "dcgm-exporter-shared": True,
    }  # fmt: skip


def test_grafana_s_dashboard_is_a_config_map_that_its_sidecar_loads() -> None:
    """The label is the one that Grafana's chart looks for, and the content is a dashboard."""
    found = declare(pool("a")).one(CONFIG_MAP, "gpu-dashboard").inputs
    assert found["metadata"]["labels"] == {"grafana_dashboard": "1"}
    (text,) = found["data"].values()
    dashboard = json.loads(text)
    assert dashboard["title"] == "GPUs of lab"
    assert all(panel["targets"][0]["expr"] for panel in dashboard["panels"])


def test_autopilot_has_managed_dcgm() -> None:
    """On Autopilot GKE's own exporter is switched on, and left to GKE where nobody asks."""

    def program(runs: Runs) -> None:
        from gpu_cluster.components.gke_autopilot.cluster_args import GkeAutopilotArgs

        cluster = GkeAutopilotArgs(
            name="auto", location="us-central1", authorized_networks={"o": "203.0.113.0/24"}
        )
        declared("gke-autopilot", cluster, {}, runs)

    outputs = {"gcp:serviceaccount/account:Account": {"email": "a@p.iam.gserviceaccount.com"}}
    on = record(lambda: program(Runs(metrics="managed")), outputs=outputs)
    off = record(lambda: program(Runs()), outputs=outputs)
    assert on.one(CLUSTER).inputs["monitoringConfig"] == {
        "enableComponents": ["SYSTEM_COMPONENTS", "DCGM"]
    }
    assert "monitoringConfig" not in off.one(CLUSTER).inputs
    assert len(on.of(DASHBOARD)) == 1
    assert not off.of(DASHBOARD)


def test_google_s_dashboard_shows_every_measure_by_node_pod_and_gpu() -> None:
    """Three charts in a row for each measure, all of this cluster alone."""
    dashboard = json.loads(gke(metrics="exporter").one(DASHBOARD).inputs["dashboardJson"])
    tiles = dashboard["mosaicLayout"]["tiles"]
    titles = [tile["widget"]["title"] for tile in tiles]
    assert titles[:3] == [f"Utilisation (%) by {one}" for one in ("node", "pod", "GPU")]
    assert len(tiles) == 33
    for tile in tiles:
        (lines,) = tile["widget"]["xyChart"]["dataSets"]
        query = lines["timeSeriesQuery"]["prometheusQuery"]
        assert 'cluster="gpu-dev", location="us-central1-a"' in query
    places = {(tile.get("xPos", 0), tile.get("yPos", 0)) for tile in tiles}
    assert len(places) == len(tiles)
    # The API leaves zeros out of what it answers.
    assert not any(value == 0 for tile in tiles for value in tile.values())


def test_google_s_dashboard_says_what_managed_dcgm_does_not_collect() -> None:
    """No empty chart: what is missing stands there in words, with the way to get it."""
    dashboard = json.loads(gke(metrics="managed").one(DASHBOARD).inputs["dashboardJson"])
    tiles = dashboard["mosaicLayout"]["tiles"]
    assert not any("XID" in tile["widget"]["title"] for tile in tiles)
    said = tiles[-1]["widget"]["text"]["content"]
    for missing in ("Last XID error", "Throttled for power", "alert GpuXidError"):
        assert missing in said
    assert "monitoring.source: exporter" in said
