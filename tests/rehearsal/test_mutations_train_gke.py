"""One thing wrong at a time in training on GKE: each fails the rehearsal, in words.

The job, unlike the deployment of `dev`, selects the pool's role as well, and ends by itself.
"""

import pytest

from components.cluster import GPU_TAINT
from rehearsal.plugins.faults import Faults
from stacks.definition.program import Mutation
from tests.rehearsal.conftest import Rehearse, changed, patched, pools, said

JOB, DAEMON_SET = "kubernetes:batch/v1:Job", "kubernetes:apps/v1:DaemonSet"
NODE_POOL = "gcp:container/nodePool:NodePool"
WHO = "Job default/train"
INSTALLER = "DaemonSet kube-system/nvidia-driver-installer-cos"
REFUSED = f"pool train-gpu: {WHO} cannot be scheduled: "
WAITS = f"pool train-gpu: {WHO} waits for GPUs that never become allocatable on node NODE: "
POD = 'pod = props["spec"]["template"]["spec"]\n'


def sample(code: str) -> Mutation:
    """Changes the job's pod template, which `code` calls `pod`."""
    return changed(JOB, POD + code)


def gpu_pool(code: str) -> Mutation:
    """Changes the GPU node pool, whose `nodeConfig` the code calls `config`."""
    return changed(NODE_POOL, 'config = props["node_config"]\n' + code, name="train-gpu")


MUTATIONS: dict[str, tuple[list[Mutation], str]] = {
    "a toleration is dropped": ([sample('pod["tolerations"] = []')],
        REFUSED + f"it does not tolerate the taint {GPU_TAINT}"),
    "the job selects another role": ([sample('pod["node_selector"]["role"] = "serve"')],
        REFUSED + "it selects label role=serve, a node there has role=train-gpu"),
    "the pool has lost its role": ([gpu_pool('del config["labels"]["role"]')],
        REFUSED + "it selects label role=train-gpu, a node there has no label role"),
    "two GPUs are asked of one-GPU nodes": (
        [sample('pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"')],
        REFUSED + "it requests 2 nvidia.com/gpu, and a node there has 1",
    ),
    "nobody autoscales the pool": ([gpu_pool('props["autoscaling"] = None')],
        REFUSED + "the pool has 0 nodes and no autoscaling"),
    "the installer misses the node": (
        [changed(DAEMON_SET, POD + 'pod["nodeSelector"] = {"gpus": "true"}')],
        WAITS + f"{INSTALLER} does not select it: it selects label gpus=true, a node there has no "
                "label gpus",
    ),
    "nobody installs the driver": (
        [patched("import components.gpu.driver as driver\n"
                 "driver.DriverInstaller = lambda name, cluster: None")],
        WAITS + "the cloud does not install a driver there, and the stack has no driver installer "
        "DaemonSet",
    ),
    "Google's device plugin is kept away and none takes its place": (
        [gpu_pool('config["labels"]["gke-no-default-nvidia-gpu-device-plugin"] = "true"')],
        WAITS + "the cloud does not install a device plugin there, and the stack has no device "
                "plugin DaemonSet",
    ),
    "NVIDIA's device plugin beside Google's": (
        [pools(devicePlugin="nvidia"),
         gpu_pool('config["labels"].pop("gke-no-default-nvidia-gpu-device-plugin")')],
        "pool train-gpu: node NODE has two device plugins: "
        "kube-system/nvidia-device-plugin-POD and the cloud",
    ),
    "a runtime that is not there": ([sample('pod["runtime_class_name"] = "nvidia"')],
        'RuntimeClass "nvidia" not found'),
}  # fmt: skip


@pytest.mark.prove
@pytest.mark.parametrize("what", MUTATIONS)
def test_one_wrong_thing_in_the_program_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails with the pool, the workload and the mismatch in one line."""
    mutations, message = MUTATIONS[what]
    failures = said(rehearse(*mutations, stack="train-gke"))
    assert any(message in failure for failure in failures), failures


@pytest.mark.prove
def test_a_quota_of_zero_is_passed_on_in_the_clouds_words(rehearse: Rehearse) -> None:
    """The node pool is made, as in life, and its first node refused."""
    rehearsal = rehearse(stack="train-gke", faults=Faults(quota={"NVIDIA_T4_GPUS": 0}))
    (failure,) = said(rehearsal)
    assert failure.startswith(REFUSED + "the cloud refuses another node: ")
