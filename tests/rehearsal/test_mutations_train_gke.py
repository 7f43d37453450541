"""One thing wrong at a time in training on GKE that test_mutations.py has not: each fails the
rehearsal, in words.

The job, unlike the deployment of `dev`, selects the pool's role as well.
"""

import pytest

from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import Rehearse, changed, patched, pools, said

JOB = "kubernetes:batch/v1:Job"
NODE_POOL = "gcp:container/nodePool:NodePool"
WHO = "Job default/train"
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
    "the job selects another role": ([sample('pod["node_selector"]["role"] = "serve"')],
        REFUSED + "it selects label role=serve, a node there has role=train-gpu"),
    "the pool has lost its role": ([gpu_pool('del config["labels"]["role"]')],
        REFUSED + "it selects label role=train-gpu, a node there has no label role"),
    "nobody installs the driver": (
        [patched("import gpu_cluster.components.gpu.driver as driver\n"
                 "driver.DriverInstaller = lambda name, cluster, opts: None")],
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
}  # fmt: skip


@pytest.mark.prove
@pytest.mark.parametrize("what", MUTATIONS)
def test_one_wrong_thing_in_the_program_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails with the pool, the workload and the mismatch in one line."""
    mutations, message = MUTATIONS[what]
    failures = said(rehearse(*mutations, stack="train-gke"))
    assert any(message in failure for failure in failures), failures
