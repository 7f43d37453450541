"""The addons of an EKS cluster: when each is made, and what its pods may do in AWS.

Read on 2026-11-21: aws/eks-node-monitoring-agent charts/eks-node-monitoring-agent/values.yaml
(v1.7.0), kubernetes-sigs/aws-ebs-csi-driver charts/aws-ebs-csi-driver/values.yaml, EKS user guide
workloads-add-ons-available-eks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

LEAST_ADDRESSES: Final = 10
"""Pod addresses that the VPC CNI keeps on every node; more than the stack's own pods take."""
SPARE_ADDRESSES: Final = 5
"""Pod addresses that it keeps beyond those in use. Both are for nodes that run few pods: each
change of the number asks EC2 (amazon-vpc-cni-k8s docs/eni-and-ip-target.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addon:
    """An addon, all of them in kube-system."""

    name: str
    before_nodes: bool
    """Whether nodes need it in order to be ready. The others have pods that need a node: without
    one, EKS would call them degraded."""
    service_account: str | None = None
    """Whose pods get a role of the addon's own, by Pod Identity; with `policy`."""
    policy: str | None = None
    """The policy of that role, after `policy/` of its ARN; AWS manages it."""
    buckets: bool = False
    """Whether it is there only where pods mount buckets."""
    auto_mode: bool = False
    """Whether EKS Auto Mode has it in its nodes and control plane, where it is not to be installed
    (https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html, read 2026-11-24)."""
    switch: str | None = None
    """The field of the cluster's args without which it is not there."""
    disks: bool = False
    """Whether its role uses the key of disks."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """The addon's `configurationValues`."""


ADDONS: Final = (
    Addon(
        name="vpc-cni",
        before_nodes=True,
        auto_mode=True,
        service_account="aws-node",
        policy="AmazonEKS_CNI_Policy",
        # By default a node keeps the addresses of a whole further interface ready, 49 on a p5.
        configuration={
            "enableNetworkPolicy": "true",
            "env": {
                "MINIMUM_IP_TARGET": str(LEAST_ADDRESSES),
                "WARM_IP_TARGET": str(SPARE_ADDRESSES),
            },
        },
    ),
    Addon(name="kube-proxy", before_nodes=True, auto_mode=True),
    Addon(name="eks-pod-identity-agent", before_nodes=True, auto_mode=True),
    Addon(name="coredns", before_nodes=False, auto_mode=True),
    # Without it, node auto repair knows the kubelet's word alone, and no fault of a GPU (XID, ECC,
    # NVLink). The agent tolerates every taint; the DCGM server that it asks tolerates none.
    # https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html
    Addon(name="eks-node-monitoring-agent", before_nodes=False, auto_mode=True,
        configuration={"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}}),
    # Its node pods tolerate every taint (`node.tolerateAllTaints`). Its controller gets no role
    # from the node, whose metadata no pod reaches. The policy's predecessor lets it attach and
    # modify every volume of the account; this one those with the tag that the driver sets since its
    # v1.0, and that the disks of claims have.
    # https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/2918
    Addon(name="aws-ebs-csi-driver", before_nodes=False, auto_mode=True,
        service_account="ebs-csi-controller-sa", policy="AmazonEBSCSIDriverPolicyV2", disks=True),
    # Its node pods tolerate no taint by themselves, and buckets are mounted on GPU nodes. It has no
    # role: each pod's own rights count (`authenticationSource: pod`), which need its version 2.
    # awslabs/mountpoint-s3-csi-driver docs/CONFIGURATION.md (v2.3.0)
    Addon(name="aws-mountpoint-s3-csi-driver", before_nodes=False, buckets=True,
        configuration={"node": {"tolerateAllTaints": True}}),
    # https://docs.aws.amazon.com/eks/latest/userguide/community-addons.html
    Addon(name="metrics-server", before_nodes=False, switch="metrics_server"),
)  # fmt: skip
