"""The addons of an EKS cluster: when each is created, and what its pods may do in AWS.

Read on 2026-11-21: aws/eks-node-monitoring-agent charts/eks-node-monitoring-agent/values.yaml
(v1.7.0), kubernetes-sigs/aws-ebs-csi-driver charts/aws-ebs-csi-driver/values.yaml, EKS user guide
workloads-add-ons-available-eks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

LEAST_ADDRESSES: Final = 10
"""Pod addresses that the VPC CNI keeps on every node; more than the stack's own pods need."""
SPARE_ADDRESSES: Final = 5
"""Pod addresses that it keeps in addition to those in use. Both suit nodes that run few pods: each
change of the number calls the EC2 API (amazon-vpc-cni-k8s docs/eni-and-ip-target.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addon:
    """An addon; all of them are in kube-system."""

    name: str
    before_nodes: bool
    """Whether nodes need it to become ready. The pods of the others need a node: without one, EKS
    would report the addons as degraded."""
    service_account: str | None = None
    """The service account whose pods get the addon's own role by Pod Identity; with `policy`."""
    policy: str | None = None
    """The AWS managed policy of that role: the part of its ARN after `gpu_cluster/policy/`."""
    buckets: bool = False
    """Whether it is installed only if pods mount buckets."""
    auto_mode: bool = False
    """Whether EKS Auto Mode includes it, so that it must not be installed
    (https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html, read 2026-11-24)."""
    switch: str | None = None
    """The boolean field of the cluster's args that enables it; None if it is always installed."""
    disks: bool = False
    """Whether its role uses the KMS key of disks."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """The addon's `configurationValues`."""


ADDONS: Final = (
    Addon(
        name="vpc-cni",
        before_nodes=True,
        auto_mode=True,
        service_account="aws-node",
        policy="AmazonEKS_CNI_Policy",
        # By default, a node keeps a whole additional interface's addresses ready, 49 on a p5.
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
    # Without it, node auto repair only knows the kubelet's conditions, and no GPU faults (XID, ECC,
    # NVLink). The agent tolerates every taint; the DCGM server that it queries tolerates none.
    # https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html
    Addon(name="eks-node-monitoring-agent", before_nodes=False, auto_mode=True,
        configuration={"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}}),
    # Its node pods tolerate every taint (`node.tolerateAllTaints`). Its controller gets no role
    # from the node, because pods cannot reach the node's metadata. The policy's predecessor allows
    # attaching and modifying every volume of the account; this one only those with the tag that the
    # driver has set since v1.0, and that the disks of claims have.
    # https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/2918
    Addon(name="aws-ebs-csi-driver", before_nodes=False, auto_mode=True,
        service_account="ebs-csi-controller-sa", policy="AmazonEBSCSIDriverPolicyV2", disks=True),
    # Its node pods tolerate no taint by default, and buckets are mounted on GPU nodes. It has no
    # role: each pod's own permissions apply (`authenticationSource: pod`), which requires its
    # version 2. awslabs/mountpoint-s3-csi-driver docs/CONFIGURATION.md (v2.3.0)
    Addon(name="aws-mountpoint-s3-csi-driver", before_nodes=False, buckets=True,
        configuration={"node": {"tolerateAllTaints": True}}),
    # https://docs.aws.amazon.com/eks/latest/userguide/community-addons.html
    Addon(name="metrics-server", before_nodes=False, switch="metrics_server"),
)  # fmt: skip
