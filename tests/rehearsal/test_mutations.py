"""One thing wrong at a time, in the program or in the cloud: each fails the rehearsal, in words.

Only the engine, a real scheduler and a real autoscaler show that a pod stays pending.
"""

import pytest

from gpu_cluster.components.cluster import GPU_TAINT
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import Rehearse, changed, configured, plain, pools

DEPLOYMENT, DAEMON_SET = "kubernetes:apps/v1:Deployment", "kubernetes:apps/v1:DaemonSet"
NODE_POOL = "gcp:container/nodePool:NodePool"

WHO = "Deployment default/sample-gpu-pod"
INSTALLER = "DaemonSet kube-system/nvidia-driver-installer-cos"
REFUSED = f"pool train-gpu: {WHO} cannot be scheduled: "
WAITS = f"pool train-gpu: {WHO} waits for GPUs that never become allocatable on node NODE: "

POD = 'pod = props["spec"]["template"]["spec"]\n'
NODES = 'config = props["node_config"]\n'
OWN_DRIVER = (
    'config["guest_accelerators"][0]["gpu_driver_installation_config"] = '
    '{"gpu_driver_version": "DEFAULT"}'
)
NO_DRIVER = OWN_DRIVER.replace("DEFAULT", "INSTALLATION_DISABLED")


def sample(code: str) -> Mutation:
    """Changes the sample's pod template, which `code` calls `pod`."""
    return changed(DEPLOYMENT, POD + code)


def installer(code: str) -> Mutation:
    """Changes the driver installer's pod template, which `code` calls `pod`."""
    return changed(DAEMON_SET, POD + code)


def gpu_pool(code: str) -> Mutation:
    """Changes the GPU node pool, whose `nodeConfig` the code calls `config`."""
    return changed(NODE_POOL, NODES + code, name="train-gpu")


ANY_GPU_NODE = """
pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": [{"matchExpressions": [
        {"key": "cloud.google.com/gke-accelerator", "operator": "Exists"}]}]}}}
"""

MUTATIONS = {
    "a toleration is dropped": ([sample('pod["tolerations"] = []')],
        REFUSED + f"it does not tolerate the taint {GPU_TAINT}"),
    "a toleration has another value": (
        [sample('pod["tolerations"] = [{"key": "nvidia.com/gpu", "value": "true"}]')],
        REFUSED + f"it does not tolerate the taint {GPU_TAINT}, only "
        "nvidia.com/gpu=true:any effect",
    ),
    "the pool has one more taint": (
        [gpu_pool('config["taints"].append(dict(key="team", value="ml", effect="NO_SCHEDULE"))')],
        REFUSED + "it does not tolerate the taint team=ml:NoSchedule",
    ),
    "the pool's label is another": ([gpu_pool('config["labels"]["gpu-cluster/pool"] = "other"')],
        REFUSED + "it selects label gpu-cluster/pool=train-gpu, a node there has "
        "gpu-cluster/pool=other"),
    "the sample selects another GPU": (
        [sample('pod["node_selector"]["cloud.google.com/gke-accelerator"] = "nvidia-l4"')],
        REFUSED + "it selects label cloud.google.com/gke-accelerator=nvidia-l4, a node there has "
        "cloud.google.com/gke-accelerator=nvidia-tesla-t4",
    ),
    "two GPUs are asked of one-GPU nodes": (
        [sample('pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"')],
        REFUSED + "it requests 2 nvidia.com/gpu, and a node there has 1",
    ),
    "more CPU is asked than a node has": (
        [sample('pod["containers"][0]["resources"]["requests"] = {"cpu": "8"}')],
        REFUSED + "it requests 8 cpu, and a node there has 3920m",
    ),
    "more replicas than the pool may have nodes": (
        [changed(DEPLOYMENT, 'props["spec"]["replicas"] = 4')],
        REFUSED + "the pool has all 3 nodes of its maximum, and none has 1 nvidia.com/gpu free, "
        f"used by {WHO}",
    ),
    "the pool may have no node": (
        [gpu_pool('props["autoscaling"] = dict(props["autoscaling"], total_max_node_count=0)')],
        REFUSED + "the pool's maximum is 0 nodes",
    ),
    "the pool does not autoscale": ([gpu_pool('props["autoscaling"] = None')],
        REFUSED + "the pool has 0 nodes and no autoscaling"),
    "the installer does not tolerate the GPU taint": ([installer('pod["tolerations"] = []')],
        WAITS + f"{INSTALLER} does not select it: it does not tolerate the taint {GPU_TAINT}"),
    "the installer selects another node": ([installer('pod["nodeSelector"] = {"gpus": "true"}')],
        WAITS + f"{INSTALLER} does not select it: it selects label gpus=true, a node there has no "
                "label gpus"),
    "the driver is disabled and nobody installs it": (
        [pools(driver="managed"), gpu_pool(NO_DRIVER)],
        WAITS + "the cloud does not install a driver there, and the stack has no driver installer "
        "DaemonSet"),
    "the installer is built for another node image": (
        [gpu_pool('config["image_type"] = "UBUNTU_CONTAINERD"')],
        WAITS + f"{INSTALLER} is built for cos, but the node runs ubuntu",
    ),
    "the driver is installed twice": ([gpu_pool(OWN_DRIVER), installer(ANY_GPU_NODE)],
        "pool train-gpu: node NODE has two driver installers: "
        "kube-system/nvidia-driver-installer-cos-POD and the cloud"),
    "the installer runs on every node": ([installer('pod["affinity"] = None')],
        "kube-system/nvidia-driver-installer-cos-POD runs on node gpu-dev-system-NODE of pool "
        "gpu-dev-system, which has no GPU"),
    "the zone has no T4": ([gpu_pool('props["node_locations"] = ["us-central1-d"]')],
        "gcp:container/nodePool:NodePool train-gpu: error creating NodePool: "
        "googleapi: Error 400: Accelerator type "
        "'nvidia-tesla-t4' does not exist in zone 'us-central1-d', badRequest"),
}  # fmt: skip


ORDINARY = "the installer does not tolerate the GPU taint"
"""A node comes, and its GPUs never do. Without scheduler and autoscaler, in every run,
tests/unit/rehearsal/test_diagnosis.py has the words of what waits and test_gpus.py those of a wrong
placement, and the unit tests of the simulators what the cloud refuses."""


@pytest.mark.prove
@pytest.mark.parametrize("what", [mutation for mutation in MUTATIONS if mutation != ORDINARY])
def test_one_wrong_thing_in_the_program_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails with the pool, the workload and the mismatch in one line."""
    mutations, message = MUTATIONS[what]
    rehearsal = rehearse(*mutations)
    assert message in [plain(failure) for failure in rehearsal.failures]


@pytest.mark.prove(reason="test_diagnosis and the simulator's unit tests have both halves")
def test_a_quota_of_zero_is_passed_on_in_the_clouds_words(rehearse: Rehearse) -> None:
    """The node pool is made, as in life, and its first node refused."""
    rehearsal = rehearse(faults=Faults(quota={"NVIDIA_T4_GPUS": 0}))
    (failure,) = rehearsal.failures
    assert plain(failure).startswith(REFUSED + "the cloud refuses another node: ")
    assert "Quota 'NVIDIA_T4_GPUS' exceeded" in failure


@pytest.mark.prove(reason="a zone without the GPU is an error of the cloud, too")
def test_an_error_of_the_cloud_ends_the_rehearsal(rehearse: Rehearse) -> None:
    """A stockout while a pool is created is reported with the resource's name, and in the
    provider's words, which has no others for it."""
    stockout = "Google Compute Engine: Not all instances running in IGM after 35m4s. Expected 1"
    rehearsal = rehearse(faults=Faults(halfway={"CREATE_NODE_POOL": [stockout]}))
    assert rehearsal.failures  # the official plugin says it twice: as a log line, too
    for failure in rehearsal.failures:
        assert failure.startswith(f"{NODE_POOL} ")
        assert 'was created in the error state "ERROR"' in failure


@pytest.mark.prove(reason="tests/unit/plugins/test_google_client.py has it without an engine")
def test_an_error_that_passes_is_nobodys_concern(rehearse: Rehearse) -> None:
    """The provider, whichever it is, asks again."""
    rehearsal = rehearse(faults=Faults(errors={NODE_POOL: ["googleapi: Error 503: try again"]}))
    assert rehearsal.failures == []


def test_an_awaited_workload_does_not_hold_up_the_verdict(rehearse: Rehearse) -> None:
    """With `wait: true` the engine would sit in `up` for half an hour; the rehearsal ends it, with
    the pool, the workload and the mismatch in one line."""
    mutations, message = MUTATIONS[ORDINARY]
    rehearsal = rehearse(
        configured(lambda c: c["gpu-cluster:workloads"]["sample-gpu-pod"].update(wait=True)),
        *mutations,
        deadline=120,
    )
    assert message in [plain(failure) for failure in rehearsal.failures]
    assert rehearsal.steps[-1].name == "pulumi up"
