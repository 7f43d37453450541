"""GPUs of an existing cluster, and a job on them, in a program of one's own."""

import pulumi

from gpu_cluster import ExistingClusterArgs, ExistingGpuPoolArgs, GpuStack, GpuStackArgs

config = pulumi.Config()
args = GpuStackArgs(
    cluster=ExistingClusterArgs(name="shared", kubeconfig=config.require_secret("kubeconfig")),
    gpu_pools={
        "gpus": ExistingGpuPoolArgs(
            node_selector=config.require_object("nodeSelector"),
            gpus_per_node=config.require_int("gpusPerNode"),
            device_plugin="none",
        )
    },
    workloads=config.require_object("workloads"),
)
pulumi.export("gpuPools", GpuStack("gpus", args).gpu_pools)
