"""Three `GpuStack`s of one program, on the cluster of the first, in a simulated account."""

from pathlib import Path

import pytest

from gpu_cluster.rehearsal.sandbox import Sandbox
from tests.rehearsal.conftest import until
from tests.rehearsal.test_own_vpc import as_the_example, life_of

pytestmark = pytest.mark.prove(reason="a whole life in the cloud, of a program like the others")
FURTHER = """
from gpu_cluster import EksExistingClusterArgs, ExistingClusterArgs, ExistingGpuPoolArgs
from gpu_cluster.components.eks.existing_args import EksExistingNetworkArgs


def job(pool: str) -> WorkloadArgs:
    return WorkloadArgs(
        kind="job",
        pool=pool,
        image="nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0",
    )


GpuStack(
    "second",
    GpuStackArgs(
        prefix="more",
        cluster=EksExistingClusterArgs(
            existing="own-vpc",
            version="1.35",
            endpoint=stack.endpoint,
            certificate_authority=stack.certificate_authority,
            network=EksExistingNetworkArgs(subnet_ids=[first, second]),
        ),
        gpu_pools={"infer": EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"])},
        workloads={"more-vectoradd": job("infer")},
    ),
)
GpuStack(
    "third",
    GpuStackArgs(
        prefix="guests",
        cluster=ExistingClusterArgs(name="guests", kubeconfig=stack.kubeconfig),
        gpu_pools={
            "theirs": ExistingGpuPoolArgs(
                node_selector={"gpu-cluster/pool": "train"}, gpus_per_node=1, device_plugin="none"
            )
        },
        workloads={"guest-vectoradd": job("theirs")},
    ),
)
"""
JOBS = {"vectoradd", "more-vectoradd", "guest-vectoradd"}


def as_three_stacks(program: Path) -> None:
    """Adds two stacks to the program of the example."""
    as_the_example(program)
    with (program / "__main__.py").open("a") as file:
        file.write(FURTHER)


def finished(sandbox: Sandbox) -> set[str]:
    """The jobs of which a pod has succeeded."""
    return {
        pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        for pod in sandbox.cluster_cache.pods
        if pod["status"].get("phase") == "Succeeded"
    }


def test_stacks_on_the_cluster_of_the_first_live_and_end_with_it(tmp_path: Path) -> None:
    """The second has a node group of its own, the third uses the first's: each one's job runs on a
    GPU. A second `up` changes nothing, and nothing remains."""
    with life_of(tmp_path / "sandbox", as_three_stacks) as sandbox:
        until(lambda: finished(sandbox) == JOBS, "the job of each stack runs on a GPU")
