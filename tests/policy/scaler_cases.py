"""Cases of the rules on pools of Karpenter, Auto Mode and compute classes."""

from typing import Any

from policy.reading import Resource, get
from tests.policy.cases import DROP, Rows, cases_of, changed
from tests.policy.resources import DEPLOYMENT, GKE_CLUSTER, plugin, resource

NODE_POOL = resource(
    "kubernetes:karpenter.sh/v1:NodePool",
    "v100",
    {
        "metadata": {"name": "v100"},
        "spec": {
            "limits": {"nodes": "1", "nvidia.com/gpu": "1"},
            "template": {
                "metadata": {"labels": {"role": "train"}},
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "v100",
                    },
                    "requirements": [
                        {
                            "key": "node.kubernetes.io/instance-type",
                            "operator": "In",
                            "values": ["p3.2xlarge"],
                        },
                        {
                            "key": "karpenter.sh/capacity-type",
                            "operator": "In",
                            "values": ["spot", "on-demand"],
                        },
                    ],
                    "taints": [
                        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
                    ],
                },
            },
        },
    },
    provider="gpu",
)  # fmt: skip
EC2_NODE_CLASS = resource(
    "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass",
    "v100-class",
    {
        "metadata": {"name": "v100"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": True}}],
            "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
        },
    },
    provider="gpu",
)
AUTO_CLASS = resource("kubernetes:eks.amazonaws.com/v1:NodeClass", "v100-class", {"spec": {}})
AUTO_POOL = changed(
    NODE_POOL,
    ("spec", "template", "spec", "nodeClassRef"),
    {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "v100"},
)
CLASS_CLUSTER = changed(
    GKE_CLUSTER,
    ("clusterAutoscaling",),
    {
        "enabled": True,
        "resourceLimits": [
            {"resourceType": "cpu", "maximum": 400},
            {"resourceType": "nvidia-tesla-t4", "maximum": 3},
        ],
        "autoProvisioningDefaults": {
            "serviceAccount": "nodes@p.iam.gserviceaccount.com",
            "shieldedInstanceConfig": {"enableSecureBoot": True},
        },
    },
)


def _class(name: str) -> Resource:
    gpu: dict[str, Any] = {"type": "nvidia-tesla-t4", "count": 1, "driverVersion": "default"}
    return resource(
        "kubernetes:cloud.google.com/v1:ComputeClass",
        name,
        {
            "metadata": {"name": name},
            "spec": {
                "nodePoolAutoCreation": {"enabled": True},
                "nodePoolConfig": {"nodeLabels": {"role": "train"}},
                "priorities": [
                    {"machineType": "n1-standard-4", "gpu": gpu, "spot": True},
                    {"machineType": "n1-standard-4", "gpu": gpu, "spot": False},
                ],
            },
        },
        provider="gpu",
    )


CLASS = _class("t4")
TYPES = ("spec", "template", "spec", "requirements", 0, "values")
SPEC = ("spec", "template", "spec")
PRIORITIES = ("spec", "priorities")
LIMITS = ("clusterAutoscaling", "resourceLimits")
UNLIMITED = "neither the number of nodes that pool {} starts nor their cost is limited; set {}"
_CEILING: dict[str, Any] = {"stacks": {"dev": 10000}}
_AWS = "prices of 2026-01-19"
_GOOGLE = "prices of 2026-06-23, and of sources without a date"


def _above(dollars: str, ceiling: int, pool: str, prices: str) -> str:
    return (
        f"the machines of all pools cost ${dollars} a month at maximum size, on demand (disks, "
        "network and control plane are not counted), and $10,000 is confirmed for stack dev; pool "
        f"{pool} accounts for the largest part, ${dollars}: lower its maximum, "
        "or confirm the new amount: "
        f'"monthly-ceiling": {{"stacks": {{"dev": {ceiling}}}}} in policy/config.json ({prices})'
    )


ROWS: Rows = {
    "gpu-pool-taint": [
        ((NODE_POOL,), (*SPEC, "taints"), [],
         "GPU pool v100 has no taint nvidia.com/gpu with effect NoSchedule, so pods that use no "
         "GPU may fill its nodes; declare the taint on the pool"),
        ((changed(NODE_POOL, (*SPEC, "requirements", 0),
                  {"key": "karpenter.k8s.aws/instance-category", "operator": "In",
                   "values": ["p"]}),),
         (*SPEC, "taints", 0, "effect"), "PreferNoSchedule",
         "GPU pool v100 has no taint nvidia.com/gpu with effect NoSchedule, so pods that use no "
         "GPU may fill its nodes; declare the taint on the pool"),
        ((NODE_POOL,), (*SPEC, "taints", 0, "effect"), "NO_SCHEDULE",
         "GPU pool v100 has no taint nvidia.com/gpu with effect NoSchedule, so pods that use no "
         "GPU may fill its nodes; declare the taint on the pool"),
    ],
    "gpu-pool-minimum": [
        ((CLASS, NODE_POOL), ("spec", "replicas"), 2,
         "GPU pool v100 keeps 2 nodes running in stack dev; set its minimum to 0, or allow the "
         "stack in policy/config.json (gpu-pool-minimum: stacks; now prod, prod-*, production, "
         "*-prod)"),
    ],
    "instance-metadata": [
        ((EC2_NODE_CLASS,), ("spec", "metadataOptions", "httpTokens"), "optional",
         "EC2NodeClass v100-class allows IMDSv1; set spec.metadataOptions.httpTokens to required"),
        ((EC2_NODE_CLASS,), ("spec", "metadataOptions", "httpPutResponseHopLimit"), 2,
         "EC2NodeClass v100-class sets 2 as hop limit for instance metadata, so pods may get the "
         "node's role; set it to 1"),
    ],
    "disks-encrypted": [
        ((EC2_NODE_CLASS,), ("spec", "blockDeviceMappings", 0, "ebs", "encrypted"), DROP,
         "EC2NodeClass v100-class: volume /dev/xvda is not encrypted; set ebs.encrypted"),
    ],
    "nodes-private": [
        ((EC2_NODE_CLASS,), ("spec", "associatePublicIPAddress"), True,
         "EC2NodeClass v100-class gives nodes public addresses; drop "
         "spec.associatePublicIPAddress"),
        ((AUTO_CLASS,), ("spec", "advancedNetworking", "associatePublicIPAddress"), True,
         "NodeClass v100-class gives nodes public addresses; drop "
         "spec.advancedNetworking.associatePublicIPAddress"),
    ],
    "secure-boot": [
        ((CLASS_CLUSTER,),
         ("clusterAutoscaling", "autoProvisioningDefaults", "shieldedInstanceConfig"), DROP,
         "cluster gpu creates node pools that boot without Secure Boot; set clusterAutoscaling"
         ".autoProvisioningDefaults.shieldedInstanceConfig.enableSecureBoot"),
    ],
    "node-identity": [
        ((CLASS_CLUSTER,), ("clusterAutoscaling", "autoProvisioningDefaults", "serviceAccount"),
         DROP,
         "cluster gpu runs its nodes as the project's default account, which has nearly all "
         "permissions; set clusterAutoscaling.autoProvisioningDefaults.serviceAccount"),
    ],
    "gpu-toleration": [
        ((NODE_POOL, DEPLOYMENT), (*SPEC, "tolerations"), DROP,
         "deployment sample does not tolerate nvidia.com/gpu=present:NoSchedule of pool v100, so "
         "it would stay pending; add the toleration"),
        ((CLASS, changed(DEPLOYMENT, (*SPEC, "tolerations"), [{"operator": "Exists"}])),
         (*SPEC, "tolerations"), [{"key": "nvidia.com/gpu", "operator": "Exists"}],
         "deployment sample does not tolerate cloud.google.com/compute-class=t4:NoSchedule of pool "
         "t4, so it would stay pending; add the toleration"),
    ],
    "one-device-plugin": [
        # Nobody knows what an image of one's own brings.
        ((plugin({"role": "train"}), NODE_POOL,
          changed(EC2_NODE_CLASS, ("spec", "amiSelectorTerms"), [{"id": "ami-1"}])),
         ("spec", "amiSelectorTerms"), [{"alias": "bottlerocket@latest"}],
         "GPU pool v100 has its device plugin from the image and from daemonset plugin; use only "
         "one of them"),
        ((AUTO_POOL, plugin({"role": "serve"})), (*SPEC, "nodeSelector"), {"role": "train"},
         "GPU pool v100 has its device plugin from the image and from daemonset plugin; use only "
         "one of them"),
    ],
    "gpu-software": [
        ((NODE_POOL, EC2_NODE_CLASS, plugin({"role": "train"})),
         (*SPEC, "nodeSelector", "role"), "serve",
         "nothing in this stack gives GPU pool v100 its device plugin, and without it the nodes "
         "offer no GPUs; install it, or make sure that another stack does"),
    ],
    "monthly-ceiling": [
        ((NODE_POOL,), ("spec", "limits"), {"nvidia.com/gpu": 10, "cpu": "1k"},
         _above("22,338", 22338, "v100", _AWS), _CEILING),
        ((changed(NODE_POOL, ("spec", "limits", "nvidia.com/gpu"), 8),), TYPES,
         ["p3.2xlarge", "p3.16xlarge"], _above("17,870", 17871, "v100", _AWS), _CEILING),
        ((NODE_POOL,), ("spec", "replicas"), 5, _above("11,169", 11169, "v100", _AWS), _CEILING),
        ((NODE_POOL,), ("spec", "limits"), DROP,
         UNLIMITED.format("v100", "spec.limits.nodes"), _CEILING),
        # Both classes share the limit of the cluster, which counts once.
        ((CLASS, _class("t4-too"), CLASS_CLUSTER), (*LIMITS, 1, "maximum"), 40,
         _above("15,768", 15768, "t4", _GOOGLE), _CEILING),
        ((changed(CLASS, PRIORITIES, [{"nodepools": ["mine"]}, *get(CLASS.props, *PRIORITIES)]),
          _class("t4-too"), CLASS_CLUSTER), (*LIMITS, 1, "maximum"), 40,
         _above("15,768", 15768, "t4", _GOOGLE), _CEILING),
        ((CLASS, CLASS_CLUSTER), LIMITS, [],
         UNLIMITED.format("t4", "clusterAutoscaling.resourceLimits of the cluster"), _CEILING),
    ],
    "ceiling-confirmed": [
        ((NODE_POOL,), ("spec", "limits"), {}, UNLIMITED.format("v100", "spec.limits.nodes")),
    ],
    "price-known": [
        ((CLASS, NODE_POOL), TYPES, ["p3.2xlarge", "p99.large"],
         "pool v100 has nodes whose price is unknown, so the monthly ceiling does not count it; "
         "look up its price"),
    ],
}  # fmt: skip

CASES = cases_of(ROWS)
