"""The driver installer and workloads, on a pool of any platform."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from gpu_cluster.components.cluster import GPU_TAINT, Cluster, GpuPool, Sharing, Taint, Toleration
from gpu_cluster.components.gpu.driver import DriverInstaller
from gpu_cluster.components.gpu.pod_args import EnvFromArgs
from gpu_cluster.components.gpu.prerequisites import Prerequisites
from gpu_cluster.components.gpu.workload import GpuWorkload
from gpu_cluster.components.gpu.workload_args import WorkloadArgs
from tests.components.recording import Recording, Registration, record

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


def test_a_pod_reaches_its_pool_through_the_pool() -> None:
    """Selector, tolerations and resource are the pool's, whatever its taints."""
    target = pool(
        taints=[GPU_TAINT, Taint(key="team", value="ml", effect="NoExecute")],
        extra_tolerations=[Toleration(key="CriticalAddonsOnly")],
    )
    spec = workload(target, gpus=1, node_selector={"zone": "a"})
    assert spec["nodeSelector"] == {"pool": "train", "zone": "a"}
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoExecute"},
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
    ]
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def test_a_spot_pod_ends_within_the_notice() -> None:
    """A Spot node's notice is 25 s; a pod there gets no more than 15."""
    assert workload(pool(spot=True))["terminationGracePeriodSeconds"] == 15
    assert "terminationGracePeriodSeconds" not in workload(pool())


def test_a_pod_enters_the_hosts_ipc_only_where_its_gpus_need_it() -> None:
    """For GKE's MPS daemon; a pod without GPUs has no business there."""
    assert workload(pool(host_ipc=True), gpus=1)["hostIPC"] is True
    assert "hostIPC" not in workload(pool(host_ipc=True), gpus=0)
    assert "hostIPC" not in workload(pool(), gpus=1)


def test_a_pod_brings_the_driver_where_nobody_else_does() -> None:
    """NVIDIA's plugin on GKE hands out the device alone; a pod without GPUs needs no driver."""
    host = "/home/kubernetes/bin/nvidia"
    given = pool(driver_directory=host, device_plugin=True)
    spec = workload(given, gpus=1)
    (container,) = spec["containers"]
    assert spec["volumes"] == [{"name": "driver", "hostPath": {"path": host, "type": "Directory"}}]
    assert container["volumeMounts"] == [
        {"name": "driver", "mountPath": "/usr/local/nvidia", "readOnly": True}
    ]
    assert container["env"] == [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}]
    own = EnvFromArgs(config_map="a", key="b", name="LD_LIBRARY_PATH")
    (variable,) = workload(given, env_from=[own])["containers"][0]["env"]
    assert "valueFrom" in variable
    assert workload(given, driver_libraries="/opt/nvidia")["volumes"][0]["hostPath"]["path"] == (
        "/opt/nvidia"
    )
    assert "volumes" not in workload(given, gpus=0)
    assert given.contract()["driverLibraries"] == host


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"gpus_per_node": 2}, [1, 2]),
        ({"gpus_per_node": 4, "pod_gpus": [1, 2, 4]}, [1, 2, 4]),
        ({"sharing": Sharing(strategy="time-slicing", replicas=4)}, [1]),
        ({"sharing": Sharing(strategy="mig", replicas=1, partition="1g.5gb", partitions=7)},
         [1, 2, 3, 4, 5, 6, 7]),
    ],
)  # fmt: skip
def test_the_contract_says_what_one_pod_may_ask_for(
    changes: dict[str, Any], counts: list[int]
) -> None:
    """Other projects see which counts a pod can have, with the platform's own restrictions."""
    assert pool(**changes).contract()["gpusPerPod"] == counts


@pytest.mark.parametrize(
    ("sharing", "allocatable"),
    [
        (None, 2),
        (Sharing(strategy="time-slicing", replicas=4), 8),
        (Sharing(strategy="mig", replicas=1, partition="1g.5gb", partitions=7), 14),
        (Sharing(strategy="time-slicing", replicas=3, partition="1g.5gb", partitions=7), 42),
    ],
)
def test_what_a_node_offers_follows_from_its_sharing(
    sharing: Sharing | None, allocatable: int
) -> None:
    """Allocatable is GPUs times partitions times replicas, and the contract says so."""
    shared = pool(gpus_per_node=2, sharing=sharing)
    assert shared.allocatable == shared.contract()["allocatablePerNode"] == allocatable


def job(target: GpuPool) -> Registration:
    """A job on `target`."""
    args = WorkloadArgs(kind="job", pool=target.name, image="example.com/i:1")
    recording = record(lambda: GpuWorkload("w", args, Prerequisites(cluster=cluster([target]))))
    return recording.one("kubernetes:batch/v1:Job")


def test_what_may_move_does() -> None:
    """A deployment's pods go where the autoscaler wants them; on their own they are never evicted;
    GKE Autopilot does not let Spot pods stay."""
    args = WorkloadArgs(kind="deployment", pool="train", image="example.com/i:1")
    recording = record(lambda: GpuWorkload("w", args, Prerequisites(cluster=cluster([pool()]))))
    deployment = recording.one("kubernetes:apps/v1:Deployment").inputs
    assert "annotations" not in deployment["spec"]["template"]["metadata"]
    bound = job(pool(stay_annotations={})).inputs["spec"]
    assert not bound["template"]["metadata"].get("annotations")
    assert "podFailurePolicy" in bound


SHARED_MEMORY = {"name": "shared-memory", "emptyDir": {"medium": "Memory"}}


def test_several_gpus_meet_in_a_memory_of_their_own_size() -> None:
    """A container's own has 64 MiB, in which NCCL does not start; with one GPU nobody meets."""
    four = pool(gpus_per_node=4)
    spec = workload(four, gpus=2)
    assert spec["volumes"] == [SHARED_MEMORY]
    mounts = spec["containers"][0]["volumeMounts"]
    assert mounts == [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    assert "volumes" not in workload(four, gpus=1)
    with_driver = workload(four, gpus=2, driver_libraries="/opt/nvidia")
    assert [volume["name"] for volume in with_driver["volumes"]] == ["shared-memory", "driver"]


def test_the_shared_memory_is_as_large_as_one_says() -> None:
    """With one GPU as well; 0 is the container runtime's own."""
    spec = workload(pool(), shared_memory="8Gi")
    assert spec["volumes"] == [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    ]
    assert "volumes" not in workload(pool(gpus_per_node=4), gpus=2, shared_memory="0")


def test_shared_memory_and_mps_exclude_each_other() -> None:
    """On GKE, MPS clients reach their daemon through the host's."""
    args = WorkloadArgs(kind="pod", pool="train", image="example.com/i:1", shared_memory="1Gi")
    with pytest.raises(ValueError, match=r"^sharedMemory: pods of pool train use the host's"):
        args.check_fits(pool(host_ipc=True))
