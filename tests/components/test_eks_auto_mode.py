"""EKS Auto Mode: what its nodes have; `everything-eks_choices.txt` has all that it declares."""

from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from tests.components.test_eks_karpenter import launched


def test_nodes_have_the_disk_of_their_pool_and_the_tags_of_the_stack() -> None:
    """Which the cluster's role may only set with a policy of the stack."""
    pool = EksGpuNodeGroupArgs(instance_types=["g5.xlarge"], disk_size_gb=200)
    stack = launched(pool, scaler="auto-mode", tags={"team": "ml"})
    spec = stack.one("kubernetes:eks.amazonaws.com/v1:NodeClass").inputs["spec"]
    assert spec["ephemeralStorage"] == {"size": "200Gi", "throughput": 500, "iops": 3000}
    assert spec["tags"] == {"team": "ml"}
    statements = stack.one("aws:iam/rolePolicy:RolePolicy", "k8s-ml-cluster").inputs["policy"]
    assert "eks:kubernetes-node-pool-name" in statements
