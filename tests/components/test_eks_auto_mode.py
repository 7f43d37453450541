"""EKS Auto Mode: what the cluster turns on, what it no longer brings, and what it launches."""

from functools import partial

import pytest

from gpu_cluster.components.eks.cpu_pool_args import EksCpuPoolArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from tests.components.recording import Recording
from tests.components.test_eks_karpenter import launched, objects

CLUSTER = "aws:eks/cluster:Cluster"


automatic = partial(launched, scaler="auto-mode")
"""A stack of Auto Mode whose first pool is `train-gpu`."""


@pytest.fixture(scope="module")
def stack() -> Recording:
    """A cluster of Auto Mode."""
    return automatic()


def test_nothing_runs_twice(stack: Recording) -> None:
    """No addon that Auto Mode has, no node group, no device plugin, no Karpenter, no autoscaler."""
    included = {"vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns", "aws-ebs-csi-driver",
        "eks-node-monitoring-agent"}  # fmt: skip
    assert not included & set(stack_addons(stack))
    assert not stack.of("aws:eks/nodeGroup:NodeGroup")
    assert not [one for one in stack.resources if one.type.endswith(("Deployment", "DaemonSet"))]
    (storage,) = stack.of("kubernetes:storage.k8s.io/v1:StorageClass")
    assert storage.inputs["provisioner"] == "ebs.csi.eks.amazonaws.com"
    assert "metrics-server" not in stack_addons(stack)
    assert "metrics-server" in stack_addons(automatic(metrics_server=True))


def stack_addons(stack: Recording) -> list[str]:
    """Their names."""
    return [one.inputs["addonName"] for one in stack.of("aws:eks/addon:Addon")]


def test_a_pool_is_a_node_pool_with_a_node_class() -> None:
    """Its nodes come out of the reservation, with the pool's disk, and none drifts under a job."""
    stack = automatic(
        EksGpuNodeGroupArgs(
            instance_types=["p5.48xlarge"],
            capacity_type="capacity-block",
            reservation="cr-0123456789abcdef0",
            zones=["us-east-1a"],
            disk_size_gb=200,
        ),
        tags={"team": "ml"},
        cpu_pools={"loaders": EksCpuPoolArgs(instance_types=["m7i.xlarge"])},
    )
    classes = {
        resource.inputs["metadata"]["name"]: resource.inputs["spec"]
        for resource in stack.resources
        if resource.type == "kubernetes:eks.amazonaws.com/v1:NodeClass"
    }
    spec = classes["train-gpu"]
    assert spec["role"] == "k8s-ml-nodes"
    assert spec["capacityReservationSelectorTerms"] == [{"id": "cr-0123456789abcdef0"}]
    assert spec["ephemeralStorage"] == {"size": "200Gi", "throughput": 500, "iops": 3000}
    assert spec["tags"] == {"team": "ml"}
    assert len(spec["subnetSelectorTerms"]) == 1
    pool = objects(stack, "NodePool")["train-gpu"]
    assert pool["template"]["spec"]["nodeClassRef"]["group"] == "eks.amazonaws.com"
    assert pool["template"]["spec"]["expireAfter"] == "480h"
    assert {"nodes": "0", "reasons": ["Drifted"]} in pool["disruption"]["budgets"]
    loaders = objects(stack, "NodePool")["loaders"]
    assert loaders["disruption"]["budgets"] == pool["disruption"]["budgets"]
    assert loaders["limits"] == {"nodes": "3", "cpu": "12"}
    required = {one["key"]: one["values"] for one in pool["template"]["spec"]["requirements"]}
    assert required["karpenter.sh/capacity-type"] == ["reserved"]
    assert "kubernetes.io/os" not in required
    assert set(classes) == {"train-gpu", "loaders"}
    statements = stack.one("aws:iam/rolePolicy:RolePolicy", "k8s-ml-cluster").inputs["policy"]
    assert "eks:kubernetes-node-pool-name" in statements
