"""NVIDIA's device plugin: where it runs, with what privilege, and how it shares GPUs."""

import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from gpu_cluster.components.cluster import GPU_TAINT, Cluster, GpuPool, Sharing
from gpu_cluster.components.gpu.device_plugin import DevicePlugin
from tests.components.recording import Recording, record

DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"


def pool(name: str, **fields: Any) -> GpuPool:
    """A pool whose nodes the stack makes, and which has the plugin."""
    given: dict[str, Any] = {
        "accelerator": "nvidia-tesla-t4",
        "gpus_per_node": 4,
        "min_nodes": 0,
        "max_nodes": 1,
        "labels": {"gpu-cluster/pool": name, "nvidia.com/gpu.present": "true"},
        "node_selector": {"gpu-cluster/pool": name},
        "taints": [GPU_TAINT],
        "device_plugin": True,
    }
    return GpuPool(name=name, **{**given, **fields})


def declare(*pools: GpuPool) -> Recording:
    """Records the plugin for a cluster with these pools."""

    def program() -> None:
        provider = kubernetes.Provider("cluster", cluster_identifier="a")
        cluster = Cluster(
            name="cluster",
            platform="eks",
            provider=provider,
            kubeconfig=pulumi.Output.from_input("{}"),
            pools={each.name: each for each in pools},
        )
        DevicePlugin("nvidia-device-plugin", cluster=cluster)

    return record(program)


def pod(recording: Recording, name: str = "nvidia-device-plugin") -> dict[str, Any]:
    """The pod's spec of one DaemonSet."""
    spec: dict[str, Any] = recording.one(DAEMON_SET, name).inputs["spec"]["template"]["spec"]
    return spec


def terms(spec: Mapping[str, Any]) -> list[dict[str, list[str]]]:
    """The node selector's alternatives: key -> values."""
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [
        {one["key"]: one["values"] for one in term["matchExpressions"] if one["operator"] == "In"}
        for term in required["nodeSelectorTerms"]
    ]


def env(spec: Mapping[str, Any]) -> dict[str, str]:
    """Variables of the first container."""
    return {one["name"]: one["value"] for one in spec["containers"][0].get("env", [])}


def test_a_runtime_class_has_a_daemon_set_of_its_own() -> None:
    """Pods on nodes with another default runtime name theirs, and those alone."""
    found = declare(pool("one"), pool("two", runtime_class="nvidia"))
    assert "runtimeClassName" not in pod(found)
    assert pod(found, "nvidia-device-plugin-nvidia")["runtimeClassName"] == "nvidia"
    assert terms(pod(found))[0]["gpu-cluster/pool"] == ["one"]


def test_another_number_of_replicas_rolls_the_pods_of_the_same_daemon_set() -> None:
    """The plugin reads its config once, so the pod's template changes with it, and no name does."""

    def shared(replicas: int) -> Recording:
        sharing = Sharing(strategy="time-slicing", replicas=replicas)
        return declare(pool("shared", sharing=sharing))

    two, four = shared(2), shared(4)
    assert [r.urn for r in two.resources] == [r.urn for r in four.resources]
    templates = [r.one(DAEMON_SET).inputs["spec"]["template"]["metadata"] for r in (two, four)]
    assert templates[0]["labels"] == templates[1]["labels"]
    assert templates[0]["annotations"] != templates[1]["annotations"]


def test_a_pool_alone_that_begins_or_ends_sharing_replaces_its_daemon_set() -> None:
    """Its other DaemonSet would be deleted last, and with it the socket of the new one's plugin:
    on an H100, the node then offered no GPU."""
    sharing = Sharing(strategy="time-slicing", replicas=2)
    whole, shares = "nvidia-device-plugin", "nvidia-device-plugin-on-one"
    begins = declare(pool("one", sharing=sharing, cdi=True)).one(DAEMON_SET, shares)
    assert begins.former_names == {whole, f"{whole}-cdi", "nvidia-dra-driver-on-one"}
    assert begins.delete_before_replace
    assert shares in declare(pool("one")).one(DAEMON_SET, whole).former_names
    # Another pool keeps the common one, which then lets go of the nodes first.
    mixed = declare(pool("one", sharing=sharing), pool("two")).one(DAEMON_SET, shares)
    assert mixed.former_names == {"nvidia-dra-driver-on-one"}
    # A former DaemonSet has one successor.
    both = declare(pool("one", sharing=sharing), pool("two", sharing=sharing))
    assert both.one(DAEMON_SET, f"{whole}-on-two").former_names == {"nvidia-dra-driver-on-two"}


def test_mps_has_its_control_daemon_before_the_plugin() -> None:
    """MPS clients go through a daemon on the node, with which the plugin shares two folders."""
    found = declare(pool("shared", sharing=Sharing(strategy="mps", replicas=2)))
    daemon = "nvidia-mps-control-daemon-on-shared"
    plugin = found.one(DAEMON_SET, "nvidia-device-plugin-on-shared")
    assert any(urn.endswith(f"DaemonSet::{daemon}") for urn in plugin.depends_on)
    spec, served = pod(found, daemon), pod(found, plugin.name)
    assert terms(spec) == terms(served)
    assert spec["tolerations"] == served["tolerations"]
    assert spec["initContainers"][0]["command"] == ["mps-control-daemon", "mount-shm"]
    assert spec["containers"][0]["command"] == ["mps-control-daemon"]
    assert env(served)["MPS_ROOT"] == "/run/nvidia/mps"
    mounts = {m["name"]: m["mountPath"] for m in served["containers"][0]["volumeMounts"]}
    assert (mounts["mps-root"], mounts["mps-shm"]) == ("/mps", "/dev/shm")
    assert served["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    config = json.loads(found.one(CONFIG_MAP).inputs["data"]["config.yaml"])
    assert config["sharing"]["mps"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 2}]


@pytest.mark.parametrize(
    ("fields", "security", "strategy", "host_root"),
    [
        # Own machines: NVIDIA's runtime takes the variable of unprivileged containers by default.
        ({}, {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}, None, False),
        # Images of AL2023, some of which do not.
        ({"cdi": True}, {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}, "cdi-cri", True),
        # GKE: there is no NVIDIA runtime.
        ({"driver_directory": "/home/kubernetes/bin/nvidia"}, {"privileged": True}, None, False),
    ],
)
@pytest.mark.parametrize("sharing", [None, "time-slicing", "mps"])
def test_the_plugin_gets_gpus_whatever_the_nodes_runtime_accepts(
    fields: dict[str, Any],
    security: dict[str, Any],
    strategy: str | None,
    host_root: bool,
    sharing: str | None,
) -> None:
    """NVIDIA's runtime may refuse variables of a pod without SYS_ADMIN, both of the plugin and of
    the pods that it gives GPUs to."""
    shared = Sharing(strategy=sharing, replicas=2) if sharing else None  # type: ignore[arg-type]
    name = "nvidia-device-plugin" + ("-on-one" if sharing else "")
    spec = pod(declare(pool("one", sharing=shared, **fields)), name)
    container = spec["containers"][0]
    assert container["securityContext"] == security
    assert env(spec).get("DEVICE_LIST_STRATEGY") == strategy
    paths = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert ("/" in paths.values()) is ("/driver-root" in mounts) is host_root
    if host_root:
        root = mounts["/driver-root"]
        assert (paths[root["name"]], root["readOnly"]) == ("/", True)
        # A volume that the node unmounts is unmounted in the pod too.
        assert root["mountPropagation"] == "HostToContainer"
        assert paths[mounts["/var/run/cdi"]["name"]] == "/var/run/cdi"


def test_pools_with_and_without_cdi_have_two_daemon_sets() -> None:
    """If all pools are alike, the name is the plain one; a pool that begins to use CDI leaves the
    common DaemonSet before its own one starts."""
    alike = declare(pool("one", cdi=True), pool("two", cdi=True))
    assert [r.name for r in alike.of(DAEMON_SET)] == ["nvidia-device-plugin"]
    mixed = declare(pool("one", cdi=True), pool("two"))
    found = mixed.one(DAEMON_SET, "nvidia-device-plugin-cdi")
    assert terms(pod(mixed, found.name)) == [{"gpu-cluster/pool": ["one"]}]
    assert terms(pod(mixed)) == [{"gpu-cluster/pool": ["two"]}]
    assert any(urn.endswith("DaemonSet::nvidia-device-plugin") for urn in found.depends_on)


def test_partitions_are_plain_gpus_to_pods() -> None:
    """With MIG the plugin counts partitions as nvidia.com/gpu, and may watch them."""
    mig = Sharing(strategy="mig", replicas=1, partition="1g.5gb", partitions=7)
    spec = pod(declare(pool("parts", sharing=mig)), "nvidia-device-plugin-on-parts")
    assert env(spec) == {"MIG_STRATEGY": "single", "NVIDIA_MIG_MONITOR_DEVICES": "all"}
    assert spec["containers"][0]["securityContext"] == {
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    }
