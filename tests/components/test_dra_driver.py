"""NVIDIA's DRA driver: where it runs, its rights, and the claims of pods on its pools."""

from typing import Any

import pytest

from gpu_cluster.components.cluster import Sharing
from gpu_cluster.components.kube.gpu_daemons import is_device_plugin, is_dra_driver
from gpu_cluster.rehearsal.nodes.gpus import dra_fault
from tests.components.recording import Recording, record
from tests.components.test_device_plugin import DAEMON_SET, declare, pod, pool, terms
from tests.program.environments import ANSWERS, as_engine_config, recorded, run_program, values_of

DRIVER = "nvidia-dra-driver"
ON_ITS_POOL = f"{DRIVER}-on-claimed"
CLAIMED: dict[str, Any] = {"device_plugin": False, "device_class": "gpu.nvidia.com"}
SHARED = pool("a", sharing=Sharing(strategy="time-slicing", replicas=2))
TEMPLATE = "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate"


@pytest.fixture(scope="module")
def mixed() -> Recording:
    """A pool of each kind."""
    return declare(pool("whole"), pool("claimed", **CLAIMED), pool("theirs", device_plugin=False))


def test_driver_and_device_plugin_never_run_on_one_node(mixed: Recording) -> None:
    """Each DaemonSet has the pools of its kind, and the driver's follows the plugin's."""
    assert terms(pod(mixed)) == [{"gpu-cluster/pool": ["whole"]}]
    assert terms(pod(mixed, ON_ITS_POOL)) == [{"gpu-cluster/pool": ["claimed"]}]
    before = mixed.one(DAEMON_SET, ON_ITS_POOL).depends_on
    assert any(urn.endswith("DaemonSet::nvidia-device-plugin") for urn in before)


def test_a_pool_that_is_removed_leaves_the_driver_of_another_as_it_is() -> None:
    """And its own is deleted, after the pods that depend on it."""
    both, rest = declare(pool("a", **CLAIMED), pool("b", **CLAIMED)), declare(pool("b", **CLAIMED))
    assert terms(pod(both, f"{DRIVER}-on-a")) == [{"gpu-cluster/pool": ["a"]}]
    assert pod(both, f"{DRIVER}-on-b") == pod(rest, f"{DRIVER}-on-b")
    assert f"{DRIVER}-on-a" not in rest.one(DAEMON_SET, f"{DRIVER}-on-b").former_names


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([pool("a")], [pool("a", **CLAIMED)]),
        ([pool("a", cdi=True)], [pool("a", **CLAIMED, cdi=True)]),
        ([SHARED], [pool("a", **CLAIMED)]),
        ([pool("a", **CLAIMED)], [pool("a")]),
        ([pool("a", **CLAIMED)], [SHARED]),
    ],
)
def test_the_only_pool_changes_hands_by_a_replacement(before: Any, after: Any) -> None:
    """The new DaemonSet replaces the former one, which is deleted first."""
    (old,) = declare(*before).of(DAEMON_SET)
    (new,) = declare(*after).of(DAEMON_SET)
    assert old.name != new.name
    assert old.name in new.former_names
    assert new.delete_before_replace


def test_the_driver_works_on_the_node(mixed: Recording) -> None:
    """It has what its program needs; nothing takes it for a device plugin."""
    spec = pod(mixed, ON_ITS_POOL)
    assert is_dra_driver(spec)
    assert not is_device_plugin(spec)
    assert dra_fault(spec) == ""
    assert spec["serviceAccountName"] == DRIVER
    assert spec["automountServiceAccountToken"] is True


def test_the_driver_looks_for_nvidias_driver_where_gke_has_it() -> None:
    """In the directory of Container-Optimized OS, and its init container in the one above."""
    cos = declare(pool("a", **CLAIMED, driver_directory="/home/kubernetes/bin/nvidia"))
    spec = pod(cos, f"{DRIVER}-on-a")
    assert dra_fault(spec, "cos") == ""
    assert dra_fault(spec, "al2023") == (
        "which waits for ever for NVIDIA's driver in /home/kubernetes/bin/nvidia: on this node it "
        "is in /"
    )
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"]}
    (above,) = spec["initContainers"][0]["volumeMounts"]
    assert (above["mountPath"], paths[above["name"]]) == (
        "/driver-root-parent",
        "/home/kubernetes/bin",
    )


def test_the_exporter_works_with_the_libraries_of_the_stacks_installer() -> None:
    """Where GKE installs no driver, since pods claim the GPUs."""
    values = values_of("dev")
    pools = values["gpu-cluster:gpuPools"]
    claimed = {"train-gpu": {**pools["train-gpu"], "devicePlugin": "dra"}}
    monitoring = {"enabled": True, "source": "exporter"}
    found = recorded(
        {**values, "gpu-cluster:gpuPools": claimed, "gpu-cluster:monitoring": monitoring}
    )
    names = {row.name for row in found.of(DAEMON_SET)}
    # With GKE's plugin, the exporter's name would end with -gke.
    assert names == {f"{DRIVER}-on-train-gpu", "nvidia-driver-installer-cos", "dcgm-exporter"}


def test_the_driver_may_change_resource_slices_of_its_node_only(mixed: Recording) -> None:
    """Its role is not by node, and the admission policy is."""
    (role,) = mixed.of("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole")
    writes = [
        rule["resources"]
        for rule in role.inputs["rules"]
        if not {"create", "update", "delete"}.isdisjoint(rule["verbs"])
    ]
    assert writes == [["resourceslices"]]
    assert not mixed.of("kubernetes:rbac.authorization.k8s.io/v1:Role")
    (policy,) = mixed.of("kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy")
    (condition,) = policy.inputs["spec"]["matchConditions"]
    assert f"system:serviceaccount:kube-system:{DRIVER}" in condition["expression"]


def stack(**blocks: Any) -> Recording:
    """onprem with a pool whose GPUs pods claim, and these blocks on it."""
    values = values_of("onprem")
    pools = {"gpus": {**values["gpu-cluster:gpuPools"]["gpus"], "devicePlugin": "dra"}}
    return recorded(
        {**values, "gpu-cluster:gpuPools": pools, "gpu-cluster:workloads": {}, **blocks}
    )


CLASS = "kubernetes:resource.k8s.io/v1:DeviceClass"
NODE_POOL = "gcp:container/nodePool:NodePool"
VERSIONS: dict[tuple[str, str | None], bool] = {
    ("onprem", None): False,
    ("onprem", "1.35.6"): False,
    ("onprem", "1.36"): True,
    ("onprem", "1.36.3"): True,
    ("train", "1.35"): False,
    ("train", "1.36"): True,
}


def mapped(
    stack: str,
    cluster: dict[str, Any],
    *,
    outputs: dict[str, Any] | None = None,
    plugin: dict[str, Any] | None = None,
    **changed: Any,
) -> bool:
    """Whether the DeviceClass of whole GPUs serves pods that request them, if the stack's first
    pool has the DRA driver and is `changed`, and another one, `plugin`, has none. It waits for
    nodes of the first pool only."""
    values = values_of(stack)
    name, pool = next(iter(values["gpu-cluster:gpuPools"].items()))
    pools = {name: {**pool, "devicePlugin": "dra", **changed}}
    if plugin is not None:
        pools["plugin"] = {**pool, **plugin}
    cluster = {
        key: value
        for key, value in {**values["gpu-cluster:cluster"], **cluster}.items()
        if value is not None
    }
    values |= {"gpu-cluster:cluster": cluster, "gpu-cluster:gpuPools": pools}
    config = as_engine_config({**values, "gpu-cluster:workloads": {}})
    found = record(run_program, config=config, outputs={**ANSWERS, **(outputs or {})})
    names = {row.name: row.inputs["spec"].get("extendedResourceName") for row in found.of(CLASS)}
    assert names.pop("mig.nvidia.com") is None
    nodes = found.one(CLASS, "gpu.nvidia.com").depends_on
    assert not [urn for urn in nodes if "::plugin" in urn]
    served = {"nvidia.com/gpu": True, None: False}[names.pop("gpu.nvidia.com")]
    assert stack == "onprem" or not served or [urn for urn in nodes if f"::{name}" in urn]
    return served


@pytest.mark.parametrize(("stack", "version"), VERSIONS)
def test_pods_that_request_gpus_get_them_from_kubernetes_1_36_on(
    stack: str, version: str | None
) -> None:
    """By the DeviceClass of whole GPUs, once the pool's nodes have that version."""
    group = {"minNodes": 1, "maxNodes": 1} if stack == "train" else {}
    assert mapped(stack, {"version": version}, **group) == VERSIONS[stack, version]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [({}, False), ({"version": "1.35.6-gke.1000"}, False), ({"version": "1.36.4-gke.1"}, True)],
)
@pytest.mark.parametrize("version", [None, "1.36"])
def test_on_gke_they_do_once_the_nodes_have_that_version(
    version: str | None, nodes: dict[str, str], expected: bool
) -> None:
    """GKE upgrades them later than the control plane, whose version the stack may raise."""
    assert mapped("dev", {"version": version}, outputs={NODE_POOL: nodes}) == expected


def test_a_node_pool_of_the_device_plugin_may_be_older() -> None:
    """Nothing waits for it, since no pod on it has a claim."""
    assert mapped("dev", {}, outputs={NODE_POOL: {"version": "1.36.4-gke.1"}}, plugin={})


def test_karpenter_starts_no_nodes_for_pods_that_request_claimable_gpus() -> None:
    """It would wait for ever for `nvidia.com/gpu` on such a node, and never remove it."""
    cluster = {"version": "1.36", "scaler": "karpenter", "autoscaler": None}
    assert not mapped("train", cluster, instanceTypes=["g6.xlarge"], minNodes=0, maxNodes=4)


def test_the_kubelet_in_an_image_of_ones_own_may_be_older() -> None:
    """That of another pool, with the device plugin, does not matter."""
    cluster, group = {"version": "1.36"}, {"minNodes": 1, "maxNodes": 1}
    image = {"amiId": "ami-0123456789abcdef0"}
    assert not mapped("train", cluster, **group, **image)
    assert mapped("train", cluster, plugin=image, **group)


IMAGE = "docker.io/nvidia/cuda:12.6.3-base-ubuntu24.04"
BLOCKS: dict[str, Any] = {
    "gpu-cluster:workloads": {
        "a": {"kind": "deployment", "pool": "gpus", "gpus": 2, "image": IMAGE}
    },
    "gpu-cluster:services": {"a": {"pool": "gpus", "gpus": 2, "image": IMAGE, "port": 80}},
    "gpu-cluster:trainingJobs": {
        "a": {"pool": "gpus", "gpus": 2, "nodes": 1, "image": IMAGE, "command": ["train.py"]}
    },
    "gpu-cluster:gpuTest": {"pools": ["gpus"], "gpus": 2, "image": f"{IMAGE}@sha256:{'0' * 64}"},
}


def _pods(value: Any) -> list[dict[str, Any]]:
    """Every pod's spec in the inputs of a resource."""
    if isinstance(value, list):
        return [spec for item in value for spec in _pods(item)]
    if not isinstance(value, dict):
        return []
    own = [value] if isinstance(value.get("containers"), list) else []
    return [*own, *(spec for item in value.values() for spec in _pods(item))]


@pytest.mark.parametrize("block", BLOCKS)
def test_pods_claim_their_gpus(block: str) -> None:
    """By a template for as many GPUs as they have, which is deleted before the driver; and they
    request none."""
    more = {"gpu-cluster:batch": {"jobSet": True}} if block.endswith("trainingJobs") else {}
    found = stack(**{block: BLOCKS[block]}, **more)
    (template,) = found.of(TEMPLATE)
    (request,) = template.inputs["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 2,
    }  # fmt: skip
    assert any(urn.endswith(f"DaemonSet::{DRIVER}-on-gpus") for urn in template.depends_on)
    (spec, user) = next(
        (spec, row)
        for row in found.resources
        for spec in _pods(row.inputs)
        if spec.get("resourceClaims")
    )
    (claim,), (container,) = spec["resourceClaims"], spec["containers"]
    assert claim["resourceClaimTemplateName"] == template.inputs["metadata"]["name"]
    assert container["resources"]["claims"] == [{"name": claim["name"]}]
    assert "nvidia.com/gpu" not in container["resources"].get("limits", {})
    assert any(urn.endswith(f"ResourceClaimTemplate::{template.name}") for urn in user.depends_on)


@pytest.mark.parametrize("block", ["gpu-cluster:workloads", "gpu-cluster:trainingJobs"])
def test_a_selector_is_part_of_the_claim(block: str) -> None:
    """In a template with another name, since the API refuses to change one."""
    more = {"gpu-cluster:batch": {"jobSet": True}} if block.endswith("trainingJobs") else {}
    selector = {"product": "H100", "memory": "70Gi", "computeCapability": "9.0"}
    entry = {**BLOCKS[block]["a"], "gpuSelector": selector}
    (template,) = stack(**{block: {"a": entry}}, **more).of(TEMPLATE)
    (request,) = template.inputs["spec"]["spec"]["devices"]["requests"]
    assert [each["cel"]["expression"] for each in request["exactly"]["selectors"]] == [
        "device.attributes['gpu.nvidia.com'].productName.contains('H100')",
        "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('70Gi')) >= 0",
        "device.attributes['gpu.nvidia.com'].cudaComputeCapability.compareTo(semver('9.0.0')) >= 0",
    ]
    names = {template.name}
    for other in ({}, {"gpuSelector": {"product": "H200"}}):
        (found,) = stack(**{block: {"a": {**BLOCKS[block]["a"], **other}}}, **more).of(TEMPLATE)
        names.add(found.name)
    assert len(names) == 3


@pytest.mark.parametrize("block", ["gpu-cluster:workloads", "gpu-cluster:services"])
def test_pods_share_the_gpus_of_one_claim(block: str) -> None:
    """It exists beside them, and none gets another from a template."""
    entry = {**BLOCKS[block]["a"], "sharedGpus": True, "replicas": 30}
    found = stack(**{block: {"a": entry}})
    assert not found.of(TEMPLATE)
    (claim,) = found.of("kubernetes:resource.k8s.io/v1:ResourceClaim")
    (request,) = claim.inputs["spec"]["devices"]["requests"]
    assert request["exactly"]["count"] == 2
    assert any(urn.endswith(f"DaemonSet::{DRIVER}-on-gpus") for urn in claim.depends_on)
    deployment = found.one("kubernetes:apps/v1:Deployment", "a")
    spec = deployment.inputs["spec"]["template"]["spec"]
    assert spec["resourceClaims"] == [
        {"name": "gpus", "resourceClaimName": claim.inputs["metadata"]["name"]}
    ]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "gpus"}]
    assert any(urn.endswith(f"ResourceClaim::{claim.name}") for urn in deployment.depends_on)


@pytest.mark.parametrize(("shared", "most"), [(True, "100%"), (False, 1)])
def test_pods_that_share_gpus_may_be_evicted_together(shared: bool, most: str | int) -> None:
    """None of them starts on another node before the last one has left, and a drain would wait."""
    service = {**BLOCKS["gpu-cluster:services"]["a"], "sharedGpus": shared, "replicas": 2}
    found = stack(**{"gpu-cluster:services": {"a": service}})
    budget = found.one("kubernetes:policy/v1:PodDisruptionBudget", "a")
    assert budget.inputs["spec"]["maxUnavailable"] == most


def test_another_number_of_gpus_is_another_template() -> None:
    """The API refuses to change one."""
    names = set()
    for gpus in (1, 2):
        workload = {**BLOCKS["gpu-cluster:workloads"]["a"], "gpus": gpus}
        (template,) = stack(**{"gpu-cluster:workloads": {"a": workload}}).of(TEMPLATE)
        names.add((template.name, template.inputs["metadata"]["name"]))
    assert len(names) == 2
    assert not stack(
        **{"gpu-cluster:workloads": {"a": {**BLOCKS["gpu-cluster:workloads"]["a"], "gpus": 0}}}
    ).of(TEMPLATE)
