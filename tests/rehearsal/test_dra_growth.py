"""Pools that grow for pods with claims: on GKE and with Karpenter from no node, with Cluster
Autoscaler on EKS from one; and one mistake at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.sandbox import SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import (
    Rehearse,
    changed,
    configured,
    entered,
    found_by_its_words,
    until,
    up,
    whole_life,
    without_pods,
)
from tests.rehearsal.test_dra import create_pod

pytestmark = pytest.mark.prove(reason="rehearsals; test_dra_driver.py has what is declared")


def on_eks(config: dict[str, Any]) -> None:
    """Two jobs on a pool of one V100 a node, which has one, and what only nodes tell a scaler."""
    pool, workloads = config["gpu-cluster:gpuPools"]["train-gpu"], config["gpu-cluster:workloads"]
    pool |= {"devicePlugin": "dra", "minNodes": 1, "maxNodes": 2}
    workloads["sample-gpu-job"]["gpuSelector"] = {"memory": "8Gi", "computeCapability": "7.0"}
    workloads["second"] = dict(workloads["sample-gpu-job"])


def with_karpenter(config: dict[str, Any]) -> None:
    """The same jobs, and no node before them. Another pool has the device plugin, and its one node
    starts for the pod with which a rehearsal tries each pool."""
    on_eks(config)
    cluster, pools = config["gpu-cluster:cluster"], config["gpu-cluster:gpuPools"]
    del cluster["autoscaler"], pools["train-gpu"]["minNodes"]
    cluster["scaler"] = "karpenter"
    pools["plugin"] = {"instanceTypes": ["g4dn.2xlarge"], "maxNodes": 1}
    config["gpu-cluster:workloads"]["second"]["gpuSelector"] = {"product": "T4"}


def two_jobs(config: dict[str, Any]) -> None:
    """Two jobs on a pool of one T4 a node, which starts without nodes."""
    pool, workloads = config["gpu-cluster:gpuPools"]["train-gpu"], config["gpu-cluster:workloads"]
    pool |= {"devicePlugin": "dra", "maxNodes": 2}
    workloads["train"]["gpuSelector"] = {"product": "T4"}
    workloads["second"] = dict(workloads["train"])


@pytest.mark.parametrize(
    ("stack", "change", "started"),
    [("train-gke", two_jobs, 2), ("train", on_eks, 1), ("train", with_karpenter, 3)],
)
def test_jobs_claim_gpus_of_nodes_that_start_for_them(
    stack: str, change: Callable[[dict[str, Any]], None], started: int, tmp_path: Path
) -> None:
    """To two nodes and back; a second up changes nothing, and nothing is left."""
    with whole_life(
        stack, tmp_path / "sandbox", configured(change), options=SandboxOptions(job_seconds=12)
    ) as rehearsal:
        events = rehearsal.sandbox.event_log.events
        joined = [event for event in events if event.what == "member"]
        assert [event.detail["gpus"] for event in joined if event.detail["added"]] == [1] * started


def test_nodes_start_for_pods_of_ones_own_that_request_gpus(tmp_path: Path) -> None:
    """On GKE 1.36 also the first, one after the other; they leave with their pods."""

    def alone(config: dict[str, Any]) -> None:
        two_jobs(config)
        config["gpu-cluster:cluster"]["version"] = "1.36"
        config["gpu-cluster:workloads"] = {}

    with entered("train-gke", tmp_path / "sandbox", configured(alone)) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, deadline=180)
        assert rehearsal.run_up_only(), rehearsal.failures
        api, pods = sandbox.control_plane.api, "/api/v1/namespaces/default/pods"

        def nodes() -> list[str]:
            named = "cloud.google.com/gke-accelerator"
            items = [item["metadata"] for item in api.items("/api/v1/nodes")]
            return [item["name"] for item in items if named in item["labels"]]

        assert nodes() == []
        for name in ("first", "second"):
            create_pod(sandbox, name, 1, {"role": "train-gpu"})
        until(
            lambda: [pod["status"]["phase"] for pod in api.items(pods)] == ["Running"] * 2,
            "both pods have a GPU",
        )
        assert len(nodes()) == 2
        for name in ("first", "second"):
            api.delete(f"{pods}/{name}")
        until(lambda: nodes() == [], "the nodes have left")
        assert sandbox.event_log.findings == []
        rehearsal.teardown()
        assert rehearsal.failures == []


def test_on_gke_the_device_class_follows_the_nodes(tmp_path: Path) -> None:
    """The stack upgrades the control plane, Google the nodes: only then may pods request the GPUs,
    once the state knows. Until then an update changes nothing."""

    def version(number: str) -> Mutation:
        def change(config: dict[str, Any]) -> None:
            config["gpu-cluster:cluster"]["version"] = number
            config["gpu-cluster:gpuPools"]["train-gpu"]["devicePlugin"] = "dra"
            config["gpu-cluster:workloads"] = {}

        return configured(change)

    with entered("train-gke", tmp_path / "sandbox", version("1.35")) as sandbox:

        def served() -> str | None:
            (spec,) = (
                row["inputs"]["spec"]
                for row in sandbox.engine.resources()
                if row["urn"].endswith("DeviceClass::gpu.nvidia.com")
            )
            return spec.get("extendedResourceName")  # type: ignore[no-any-return]

        up(sandbox)
        up(sandbox, version("1.36"))
        assert served() is None
        assert sandbox.engine.up().changed == 0
        (cluster,) = sandbox.cloud.of("container.clusters")  # type: ignore[attr-defined]
        for pool in sandbox.cloud.of("container.nodePools"):  # type: ignore[attr-defined]
            assert pool.state["version"].startswith("1.35.")
            pool.state["version"] = cluster.state["currentMasterVersion"]
        assert sandbox.engine.up().changed == 0
        assert sandbox.engine.up(refresh=True).ok
        # The API server is still the one of 1.35 and drops it; so each update sends it again.
        assert served() == "nvidia.com/gpu"


POOL = "gcp:container/nodePool:NodePool"
TEMPLATE = "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
DRIVER = "nvidia-dra-driver-on-train-gpu"
_REQUEST = 'props["spec"]["spec"]["devices"]["requests"][0]["exactly"]'
_LABELS = 'props["node_config"]["labels"]'


def _select(expression: str) -> Mutation:
    """Every claim selects by this condition."""
    return changed(
        TEMPLATE, f'{_REQUEST}["selectors"] = [{{"cel": {{"expression": {expression!r}}}}}]'
    )


MISTAKES: dict[str, tuple[Mutation, str]] = {
    "a wrong DeviceClass": (
        changed(TEMPLATE, f'{_REQUEST}["deviceClassName"] = "gpu.example.com"'),
        "its claim names the DeviceClass gpu.example.com, which does not exist",
    ),
    "memory, which the autoscaler does not know without a node": (
        _select("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('8Gi')) >= 0"),
        "its memory is 0 bytes without a node, less than 8Gi",
    ),
    "compute capability, which it does not know either": (
        _select(
            "device.attributes['gpu.nvidia.com'].cudaComputeCapability"
            ".compareTo(semver('7.0.0')) >= 0"
        ),
        "its cudaComputeCapability is not known without a node",
    ),
    "a product that the GPU is not": (
        _select("device.attributes['gpu.nvidia.com'].productName.contains('H100')"),
        "no free device of its nodes meets device.attributes",
    ),
    "no driver on the nodes": (
        without_pods(DRIVER),
        f"DaemonSet kube-system/{DRIVER} does not select it",
    ),
    "NVIDIA's driver in the root of the nodes": (
        changed(
            DAEMON_SET,
            'spec = props["spec"]["template"]["spec"]\n'
            'for container in [*spec["init_containers"], *spec["containers"]]:\n'
            '    for variable in container["env"]:\n'
            '        if variable["name"] == "NVIDIA_DRIVER_ROOT":\n'
            '            variable["value"] = "/"',
            name=DRIVER,
        ),
        "which waits for ever for NVIDIA's driver in /: on this node it is in /home/kubernetes",
    ),
    "GKE's device plugin besides the driver": (
        changed(POOL, f'del {_LABELS}["gke-no-default-nvidia-gpu-device-plugin"]',
                name="train-gpu"),
        "has two owners of its GPUs, which would give one to two pods",
    ),
    "no label for the autoscaler": (
        changed(POOL, f'del {_LABELS}["cloud.google.com/gke-nvidia-gpu-dra-driver"]',
                name="train-gpu"),
        "claims devices, and a node there offers none",
    ),
    "too old a version": (
        changed("gcp:container/cluster:Cluster",
                'props["release_channel"] = {"channel": "EXTENDED"}\n'
                'props["min_master_version"] = "1.33.5-gke.1125000"'),
        "claims devices, and a node there offers none",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_wrong_thing_about_claims_is_named(rehearse: Rehearse, mistake: str) -> None:
    """Each by its own words."""
    found_by_its_words(rehearse, two_jobs, MISTAKES[mistake], stack="train-gke", deadline=60)


WITH_KARPENTER: dict[str, tuple[Mutation, str]] = {
    "Karpenter that ignores pods with claims": (
        changed(
            "kubernetes:apps/v1:Deployment",
            'for container in props["spec"]["template"]["spec"]["containers"]:\n'
            '    container["env"] = [\n'
            '        item for item in container["env"] if item["name"] != "IGNORE_DRA_REQUESTS"\n'
            '    ]',
            name="karpenter",
        ),
        "pod has Dynamic Resource Allocation requirements that are not yet supported",
    ),
    "a product that the GPU is not": (
        _select("device.attributes['gpu.nvidia.com'].productName.contains('H100')"),
        "Karpenter says: Failed to schedule pod",
    ),
    "no driver on the nodes": (
        MISTAKES["no driver on the nodes"][0],
        f"DaemonSet kube-system/{DRIVER} does not select it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WITH_KARPENTER)
def test_what_karpenter_lacks_for_claims_is_named(rehearse: Rehearse, mistake: str) -> None:
    """Each by its own words."""
    found_by_its_words(
        rehearse, with_karpenter, WITH_KARPENTER[mistake], stack="train", deadline=120
    )
