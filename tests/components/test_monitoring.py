"""GPU monitoring: what runs on the nodes, and what Google Cloud, Prometheus and Grafana get."""

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from gpu_cluster.components.cluster import GPU_TAINT, Cluster, GpuPool, Taint
from gpu_cluster.components.gpu.monitoring import GpuMonitoring
from gpu_cluster.components.gpu.monitoring_args import MonitoringArgs
from tests.components.recording import Recording, record
from tests.components.test_device_plugin import DAEMON_SET, pod, pool, terms
from tests.components.test_gke import CLUSTER
from tests.components.test_gke_control_plane import autopilot_cluster

EXPORTER = "dcgm-exporter"
DASHBOARD = "gcp:monitoring/dashboard:Dashboard"


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


def test_the_exporter_runs_where_the_pools_are_and_past_their_taints() -> None:
    """One DaemonSet serves all pools: any pool's selector, every taint of any pool."""
    team = Taint(key="team", value="ml")
    spec = pod(declare(pool("a"), pool("b", taints=[GPU_TAINT, team])), EXPORTER)
    assert terms(spec) == [{"gpu-cluster/pool": ["a"]}, {"gpu-cluster/pool": ["b"]}]
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
    ]


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
    assert pod(recording, f"{EXPORTER}-nvidia")["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in pod(declare(pool("a")), EXPORTER)


def test_without_monitoring_autopilot_is_left_to_gke() -> None:
    """With it, GKE's own exporter is switched on: `autopilot.txt`."""
    found = autopilot_cluster()
    assert "monitoringConfig" not in found.one(CLUSTER).inputs
    assert not found.of(DASHBOARD)
