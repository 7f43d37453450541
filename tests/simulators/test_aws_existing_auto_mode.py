"""An EKS cluster of another owner with Auto Mode, as an inventory describes it."""

from pathlib import Path

import pytest
import yaml

from gpu_cluster.rehearsal.existing import inventory_eks
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES, eks_cluster, network
from gpu_cluster.stacks.capacity import aws_existing
from tests.simulators.aws_account import account
from tests.simulators.test_aws_existing import CLUSTER, POOL, read


def test_auto_mode_is_written_as_it_was_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its built-in node pools, and a stack with that scaler fits the cluster."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "simulated")
    written = yaml.safe_load((INVENTORIES / "on-eks.yaml").read_text())
    written["cluster"] |= {"autoMode": ["general-purpose"], "nodeGroups": {}, "podIdentities": {}}
    (tmp_path / "on-eks.yaml").write_text(yaml.safe_dump(written))
    own = read([CLUSTER, "scaler", "auto-mode"], [*POOL, "nodeRepair", None])
    cluster, _ = eks_cluster("on-eks", own, tmp_path)
    vpc, _ = network("on-eks", own, tmp_path)
    with account(existing=vpc, cluster=cluster) as made:
        made.cloud.open("us-east-1")
        found, _ = inventory_eks.read_inventory(own, "gpu-cluster/on-eks", made.cloud.endpoint)
        assert found["cluster"]["autoMode"] == ["general-purpose"]
        lines = aws_existing.cluster_findings(made.eks, made.ec2, own, "gpu-cluster/on-eks")
        assert list(lines) == []
