"""A recorded EKS stack, with what AWS answers beyond the inputs."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.components.cluster import Runs
from gpu_cluster.components.eks.cluster_args import EksClusterArgs
from gpu_cluster.components.eks.network_args import EksNetworkArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.provider_args import AwsProviderArgs
from tests.components.declaring import declared
from tests.components.recording import Recording, record
from tests.program.environments import ANSWERS

ADMIN = "arn:aws:iam::123456789012:role/deployer"
TRAIN = EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"], labels={"role": "train-gpu"})

OUTPUTS: dict[str, dict[str, Any]] = {
    **ANSWERS,
    "aws:eks/cluster:Cluster": {"endpoint": "https://0a1b2c.gr7.us-east-1.eks.amazonaws.com",
        "certificateAuthority": {"data": "Q0E="}},
    "aws:eks/nodeGroup:NodeGroup": {"resources": [{"autoscalingGroups": [{"name": "eks-0a1b2c"}]}]},
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
}  # fmt: skip


def declare(
    pools: Mapping[str, EksGpuNodeGroupArgs] | None = None,
    *,
    network: EksNetworkArgs | None = None,
    preview: bool = False,
    region: str = "us-east-1",
    outputs: Mapping[str, Mapping[str, Any]] = {},
    provider: AwsProviderArgs | None = None,
    runs: Runs | None = None,
    **cluster: Any,
) -> Recording:
    """Records the cluster k8s-ml with these pools, or with the one T4 pool train-gpu."""
    zones = EksNetworkArgs(zones=[f"{region}a", f"{region}b"])

    def program() -> None:
        given: dict[str, Any] = {
            "name": "k8s-ml",
            "admins": [ADMIN],
            "authorized_networks": {"office": "203.0.113.0/24"},
            "network": network or zones,
        }
        declared(
            "eks",
            EksClusterArgs(**{**given, **cluster}),
            {"train-gpu": TRAIN} if pools is None else pools,
            runs,
            config={"aws:region": region},
            **({"provider": provider} if provider else {}),
        )

    return record(program, outputs={} if preview else {**OUTPUTS, **outputs}, preview=preview)
