"""The driver installer and workloads, on a pool of any platform."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from gpu_cluster.components.cluster import GPU_TAINT, Cluster, GpuPool
from gpu_cluster.components.gpu.driver import DriverInstaller
from gpu_cluster.components.gpu.pod_args import EnvFromArgs
from gpu_cluster.components.gpu.prerequisites import Prerequisites
from gpu_cluster.components.gpu.workload import GpuWorkload
from gpu_cluster.components.gpu.workload_args import WorkloadArgs
from tests.components.recording import Recording, record

DAEMON_SET = "kubernetes:apps/v1:DaemonSet"


def pool(name: str = "train", **changes: Any) -> GpuPool:
    """A pool of four one-GPU nodes behind the GPU taint."""
    given: dict[str, Any] = {
        "name": name,
        "accelerator": "nvidia-tesla-t4",
        "gpus_per_node": 1,
        "min_nodes": 0,
        "max_nodes": 4,
        "taints": [GPU_TAINT],
        "node_selector": {"pool": name},
    }
    return GpuPool(**{**given, **changes})


def cluster(pools: Sequence[GpuPool]) -> Cluster:
    """A cluster of which nothing but the provider exists."""
    return Cluster(
        name="c",
        platform="gke",
        provider=kubernetes.Provider("c", kubeconfig="{}"),
        kubeconfig=pulumi.Output.from_input("{}"),
        pools={each.name: each for each in pools},
    )


def installers(*pools: GpuPool) -> Recording:
    return record(lambda: DriverInstaller("driver", cluster=cluster(pools)))


def workload(target: GpuPool, **changes: Any) -> Mapping[str, Any]:
    """The pod spec of a pod on `target`."""
    given: dict[str, Any] = {"kind": "pod", "pool": target.name, "image": "example.com/i:1"}
    args = WorkloadArgs(**{**given, **changes})
    recording = record(lambda: GpuWorkload("w", args, Prerequisites(cluster=cluster([target]))))
    spec: Mapping[str, Any] = recording.one("kubernetes:core/v1:Pod").inputs["spec"]
    return spec


def terms(daemon_set: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The node selector terms of a DaemonSet."""
    affinity = daemon_set["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    found: list[dict[str, Any]] = affinity["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return found


def test_an_installer_runs_on_the_pools_that_ask_for_it_alone() -> None:
    """One DaemonSet serves all pools of an OS; a pool whose driver GKE installs is not in it."""
    recording = installers(pool("a", installer="cos"), pool("b", installer="cos"), pool("managed"))
    found = terms(recording.one(DAEMON_SET).inputs)
    chosen = [term["matchExpressions"][0] for term in found]
    assert chosen == [
        {"key": "pool", "operator": "In", "values": ["a"]},
        {"key": "pool", "operator": "In", "values": ["b"]},
    ]


def test_each_os_and_each_own_image_has_its_daemon_set() -> None:
    """COS, Ubuntu and a pool with an image of its own do not share an installer."""
    recording = installers(
        pool("a", installer="cos"),
        pool("b", installer="ubuntu"),
        pool("c", installer="cos", installer_image="example.com/installer:1"),
    )
    images = {
        each.name: each.inputs["spec"]["template"]["spec"]["initContainers"][0]
        for each in recording.of(DAEMON_SET)
    }
    assert {name: container["image"] for name, container in images.items()} == {
        "nvidia-driver-installer-cos": "cos-nvidia-installer:fixed",
        "nvidia-driver-installer-ubuntu": "gke-nvidia-installer:fixed",
        "nvidia-driver-installer-cos-c": "example.com/installer:1",
    }
    assert {name: container["imagePullPolicy"] for name, container in images.items()} == {
        "nvidia-driver-installer-cos": "Never",
        "nvidia-driver-installer-ubuntu": "Never",
        "nvidia-driver-installer-cos-c": "IfNotPresent",
    }


def test_a_pod_enters_the_hosts_ipc_only_where_its_gpus_need_it() -> None:
    """For GKE's MPS daemon; a pod without GPUs has no business there."""
    assert workload(pool(host_ipc=True), gpus=1)["hostIPC"] is True
    assert "hostIPC" not in workload(pool(host_ipc=True), gpus=0)
    assert "hostIPC" not in workload(pool(), gpus=1)


def test_a_pod_brings_the_driver_where_nobody_else_does() -> None:
    """As in `dev_choices.txt`, unless its own path or variable is another; a pod without GPUs needs
    no driver."""
    given = pool(driver_directory="/home/kubernetes/bin/nvidia", device_plugin=True)
    own = EnvFromArgs(config_map="a", key="b", name="LD_LIBRARY_PATH")
    (variable,) = workload(given, env_from=[own])["containers"][0]["env"]
    assert "valueFrom" in variable
    assert workload(given, driver_libraries="/opt/nvidia")["volumes"][0]["hostPath"]["path"] == (
        "/opt/nvidia"
    )
    assert "volumes" not in workload(given, gpus=0)


def test_without_shared_memory_pods_have_the_container_runtimes_own() -> None:
    """Otherwise several GPUs of a pod meet in a memory volume, as in `onprem_choices.txt`."""
    assert "volumes" not in workload(pool(gpus_per_node=4), gpus=2, shared_memory="0")


def test_shared_memory_and_mps_exclude_each_other() -> None:
    """On GKE, MPS clients reach their daemon through the host's."""
    args = WorkloadArgs(kind="pod", pool="train", image="example.com/i:1", shared_memory="1Gi")
    with pytest.raises(ValueError, match=r"^sharedMemory: pods of pool train use the host's"):
        args.check_fits(pool(host_ipc=True))
