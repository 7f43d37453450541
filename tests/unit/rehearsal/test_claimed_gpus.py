"""GPUs that simulated nodes publish for claims, and what a rehearsal says if pods get none."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.catalog.accelerators import GPUS
from gpu_cluster.components.kube import quantity
from gpu_cluster.rehearsal.control_plane.cluster_cache import ClusterCache
from gpu_cluster.rehearsal.control_plane.pods import (
    CLAIMED,
    PUBLISHED,
    allocatable_gpus,
    gpus_asked,
    with_published,
)  # fmt: skip
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes.gpus import conflicts, dra_fault, gpu_parts
from gpu_cluster.rehearsal.nodes.matching import offered, shape_of
from gpu_cluster.rehearsal.nodes.resource_slices import _GPUS, publish
from gpu_cluster.rehearsal.verify.diagnosis import ClusterSnapshot, Diagnosis, diagnose
from tests.unit.rehearsal.rehearsed import DEVICE_PLUGIN, daemon_pod, group, node, pod

TABLES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
ENV = [{"name": "NODE_NAME"}, {"name": "IMAGE_NAME"}]
PATHS = ("plugins_registry", "plugins")


def driver(**changes: Any) -> dict[str, Any]:
    """The spec of the driver's pod."""
    container = {
        "name": "gpus",
        "image": "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1",
        "env": ENV,
        "securityContext": {"privileged": True},
    }
    paths = [*(f"/var/lib/kubelet/{path}" for path in PATHS), "/", "/var/run/cdi"]
    volumes = [{"name": path[1:], "hostPath": {"path": path}} for path in paths]
    return {"containers": [{**container, **changes}], "volumes": volumes}


def template(device_class: str = "gpu.nvidia.com", count: int = 2, **more: Any) -> dict[str, Any]:
    exactly = {"deviceClassName": device_class, "count": count, **more}
    return {
        "metadata": {"name": "two", "namespace": "default", "uid": "t"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}},
    }


CLAIMS = [{"name": "gpus", "resourceClaimTemplateName": "two"}]


class Recorded:
    """An API that keeps what is created, and by whom."""

    def __init__(self) -> None:
        self.who = ""
        self.made: list[tuple[str, dict[str, Any]]] = []

    def as_pod_of(self, account: str, node: str) -> "Recorded":
        self.who = f"{account} on {node}"
        return self

    def create(self, path: str, manifest: dict[str, Any]) -> None:
        self.made.append((path, manifest))


def test_a_slice_has_the_drivers_attributes() -> None:
    """Those of deviceinfo.go, GetDevice, in dra-driver-nvidia-gpu v0.4.1."""
    api: Any = Recorded()
    machine = node(name="n")
    machine["metadata"]["uid"] = "1"
    publish(api, "kube-system:driver", machine, "T4", 2)
    ((path, made),) = api.made
    assert api.who == "kube-system:driver on n"
    assert path == "/apis/resource.k8s.io/v1/resourceslices"
    spec = made["spec"]
    assert (spec["driver"], spec["nodeName"], spec["pool"]["name"]) == ("gpu.nvidia.com", "n", "n")
    assert [device["name"] for device in spec["devices"]] == ["gpu-0", "gpu-1"]
    device = spec["devices"][0]
    assert set(device["attributes"]) == {
        "type", "uuid", "productName", "brand", "architecture", "cudaComputeCapability",
        "driverVersion", "cudaDriverVersion", "resource.kubernetes.io/pciBusID",
        "resource.kubernetes.io/pcieRoot",
    }  # fmt: skip
    assert device["attributes"]["type"] == {"string": "gpu"}
    assert device["attributes"]["productName"] == {"string": "Tesla T4"}
    assert device["attributes"]["cudaComputeCapability"] == {"version": "7.5.0"}
    assert device["capacity"] == {"memory": {"value": "15360Mi"}}
    uuids = {device["attributes"]["uuid"]["string"] for device in spec["devices"]}
    assert len(uuids) == 2


@pytest.fixture
def cache(tmp_path: Any) -> ClusterCache:
    return ClusterCache(EventLog(tmp_path / "events.jsonl"))


@pytest.mark.parametrize("model", _GPUS)
def test_a_selector_is_refused_only_if_the_device_does_not_meet_it(model: str) -> None:
    """The catalog's GPU has the name and compute capability of the driver's, and no less memory."""
    product, _, capability, mib = _GPUS[model]
    gpu = GPUS[model]
    assert gpu.driver_name in (None, product)
    assert f"{gpu.compute_capability}.0" == capability
    assert quantity.parse(gpu.memory_most) >= mib * 2**20


def test_pods_with_a_claim_ask_for_its_gpus(cache: ClusterCache) -> None:
    """As soon as their template is known."""
    cache.change("Pod", "ADDED", pod(resourceClaims=CLAIMS, gpus=0))
    assert [gpus_asked(item["spec"]) for item in cache.pods] == [0]
    cache.change("ResourceClaimTemplate", "ADDED", template())
    assert [gpus_asked(item["spec"]) for item in cache.pods] == [2]


def gpu_class(name: str, kind: str = "gpu", driver: str = "gpu.nvidia.com") -> dict[str, Any]:
    text = f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"
    spec = {"selectors": [{"cel": {"expression": text}}]}
    return {"metadata": {"name": name, "uid": name}, "spec": spec}


CLASSES = [
    gpu_class("gpu.nvidia.com"),
    gpu_class("mig.nvidia.com", "mig"),
    gpu_class("large"),
    gpu_class("compute-domain-daemon.nvidia.com", "daemon", "compute-domain.nvidia.com"),
]


@pytest.mark.parametrize(("request_", "gpus"), TABLES["needs"])
def test_a_claim_needs_gpus_of_any_class_of_their_driver(
    cache: ClusterCache, request_: dict[str, Any], gpus: int
) -> None:
    """The least number of several alternatives, while it has none."""
    for item in CLASSES:
        cache.change("DeviceClass", "ADDED", item)
    claim = template()
    claim["spec"]["spec"]["devices"]["requests"] = [{"name": "gpus", **request_}]
    cache.change("ResourceClaimTemplate", "ADDED", claim)
    cache.change("Pod", "ADDED", pod(resourceClaims=CLAIMS, gpus=0))
    assert [gpus_asked(item["spec"]) for item in cache.pods] == [gpus]


def test_what_a_claim_has_got_counts(cache: ClusterCache) -> None:
    """Not what its template asks for."""
    cache.change("ResourceClaimTemplate", "ADDED", template())
    one = pod(resourceClaims=CLAIMS, gpus=0)
    one["status"]["resourceClaimStatuses"] = [{"name": "gpus", "resourceClaimName": "two-x"}]
    cache.change("Pod", "ADDED", one)
    cache.change("ResourceClaim", "ADDED", TABLES["allocated"])
    assert [gpus_asked(item["spec"]) for item in cache.pods] == [1]


def test_a_claim_that_pods_share_counts_once(cache: ClusterCache) -> None:
    """For the first of them, or for each as long as none has it."""
    shared = [{"name": "gpus", "resourceClaimName": "two"}]
    for name in ("a", "b"):
        cache.change("Pod", "ADDED", pod(name, resourceClaims=shared, gpus=0))
    claim = {**template(), "spec": template()["spec"]["spec"]}
    cache.change("ResourceClaim", "ADDED", claim)
    assert [gpus_asked(item["spec"]) for item in cache.pods] == [2, 2]
    cache.change("ResourceClaim", "MODIFIED", {**claim, "status": {"reservedFor": [{"uid": "b"}]}})
    assert [gpus_asked(item["spec"]) for item in cache.pods] == [0, 2]


def test_published_gpus_count_like_others_except_for_requests() -> None:
    """A pod that requests nvidia.com/gpu finds none there."""
    machine = node(gpus=0, **{PUBLISHED: "4"})
    assert allocatable_gpus(machine) == 4
    assert offered(machine).capacity["nvidia.com/gpu"] == "4"
    assert offered(machine).devices == {"gpu.nvidia.com": 4}
    assert shape_of(machine).capacity.get("nvidia.com/gpu", "0") == "0"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, ""),
        ({"env": ENV[1:]}, "which ends at once: it needs NODE_NAME"),
        ({"securityContext": {}}, "which is not privileged and cannot open the GPUs"),
    ],
)
def test_a_driver_that_cannot_work_is_named(changes: Any, fault: str) -> None:
    """Its program reads its flags from variables, and opens devices of the host."""
    assert dra_fault(driver(**changes)) == fault


def test_a_driver_needs_directories_of_the_host() -> None:
    """The container runtime reads its CDI files there."""
    spec = driver()
    spec["volumes"] = spec["volumes"][:-1]
    assert dra_fault(spec) == "which does not mount /var/run/cdi of the host"


def test_driver_and_device_plugin_are_two_owners() -> None:
    """Each would give its GPUs away."""
    own = group(plugin="pod")
    both = [daemon_pod("dra", driver(), on="n"), daemon_pod("plugin", DEVICE_PLUGIN, on="n")]
    (line,) = (line for line in conflicts("n", own, gpu_parts(own, both)) if "two" in line)
    assert "node n has two owners of its GPUs, which would give one to two pods: " in line


def why_waits(claims: list[dict[str, str]], **known: Any) -> Diagnosis:
    """The diagnosis of a pod with these claims; a node publishes four GPUs. `known`: what else the
    cluster has."""
    machine = node(gpus=0, **{PUBLISHED: "4"})
    waiting, own = pod(resourceClaims=claims, gpus=0), group()
    nodes = {own.name: [machine]}
    return diagnose(waiting, ClusterSnapshot(groups=[own], nodes=nodes, pods=[waiting], **known))


@pytest.mark.parametrize(("requests", "words"), TABLES["unmet"])
def test_a_claim_that_nothing_fulfils_is_explained(requests: Any, words: str) -> None:
    """While the node has GPUs."""
    known = {"default/two": {"spec": {"spec": {"devices": {"requests": requests}}}}}
    found = why_waits(
        CLAIMS, device_classes=["gpu.nvidia.com"], claim_templates=known if requests else {}
    )
    assert words in found.message
    assert found.permanent


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, "its ResourceClaim two does not exist"),
        ({"status": {}}, "no free device of its nodes meets false"),
        ({"status": {"allocation": {"devices": {}}}}, ""),
    ],
)
def test_a_claim_that_pods_share_is_looked_for(known: dict[str, Any], words: str) -> None:
    """If it has its devices, the pod waits for something else."""
    spec = template(selectors=[{"cel": {"expression": "false"}}])["spec"]["spec"]
    found = why_waits(
        [{"name": "gpus", "resourceClaimName": "two"}],
        device_classes=["gpu.nvidia.com"],
        resource_claims={"default/two": {**known, "spec": spec}} if known else {},
    )
    assert words in found.message
    assert ("meets false" in found.message) == ("meets" in words)


@pytest.mark.parametrize("mapped", [True, False])
def test_a_pod_that_requests_gpus_of_the_driver_is_explained(mapped: bool) -> None:
    """Without a DeviceClass that maps them, it never runs."""
    machine = node(gpus=0, **{PUBLISHED: "1"})
    waiting, taken = pod("a", gpus=1), pod("b", gpus=1, on=machine["metadata"]["name"])
    own = group(max_nodes=1)
    snapshot = ClusterSnapshot(
        groups=[own], nodes={own.name: [machine]}, pods=[waiting, taken], mapped=mapped
    )
    found = diagnose(waiting, snapshot)
    assert ("that run as Kubernetes before 1.36 drop" in found.message) == (not mapped)
    assert (
        "none has 1 unclaimed GPUs, used by Deployment default/sample" in found.message
    ) == mapped


def test_a_pod_that_waits_for_the_real_nodes_gpus_is_explained() -> None:
    """By the ResourceSlice that NVIDIA's driver wrote there, and the claims of the pods."""
    report = Path(__file__).parents[3] / "docs/measured/real-node/1-nvidia-h200-580.159.04.txt"
    _, _, text = report.read_text().partition("\nResourceSlice: published on this-machine\n")
    slices = [yaml.safe_load(text.partition("\n\n")[0])]
    machine = with_published(node("this-machine", gpus=0), slices)
    assert allocatable_gpus(with_published(node("other", gpus=0), slices)) == 0
    pods = [pod(name, owner=None, gpus=0, resourceClaims=CLAIMS) for name in ("first", "second")]
    pods[0]["spec"]["nodeName"] = "this-machine"
    for item in pods:
        item["spec"][CLAIMED] = 1
        claim = {"name": "gpus", "resourceClaimName": f"{item['metadata']['name']}-gpus-x"}
        item["status"]["resourceClaimStatuses"] = [claim]
    own = group(target_nodes=1, autoscaled=False)
    known: Any = {
        "device_classes": ["gpu.nvidia.com"],
        "claim_templates": {"default/two": template()},
    }
    found = diagnose(
        pods[1], ClusterSnapshot(groups=[own], nodes={own.name: [machine]}, pods=pods, **known)
    )
    assert found.message == (
        "pool train-gpu: Pod default/second cannot be scheduled: the pool has 1 node, no "
        "autoscaling, and none has 1 unclaimed GPUs for its claim second-gpus-x, used by Pod "
        "default/first (claim first-gpus-x)"
    )
