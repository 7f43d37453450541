"""Cases of the rules over the whole stack."""

from dataclasses import replace

from policy.reading import UNKNOWN, Resource
from tests.policy.cases import DROP, Rows, cases_of, changed
from tests.policy.resources import (
    DEPLOYMENT,
    LABEL_TAG,
    POD,
    T4_POOL,
    TAINT_TAG,
    V100_GROUP,
    WARM_GROUP,
    daemon_set,
    installer,
    plugin,
    resource,
    tag,
)
from tests.unit.components.gpu_daemons import EBS_CSI, EFA, SECRETS_STORE

POD_SPEC = ("spec", "template", "spec")
ROLE = {"role": "train"}
DRIVER = (
    "nodeConfig", "guestAccelerators", 0, "gpuDriverInstallationConfig", "gpuDriverVersion",
)  # fmt: skip
NO_DRIVER = changed(T4_POOL, DRIVER, "INSTALLATION_DISABLED")
NO_PLUGIN = changed(
    T4_POOL, ("nodeConfig", "labels", "gke-no-default-nvidia-gpu-device-plugin"), "true"
)
OTHER_POOL = changed(
    replace(T4_POOL, name="l4", urn=T4_POOL.urn.replace("t4", "l4")),
    ("nodeConfig", "labels"),
    {"role": "serve"},
)
BY_NAME = replace(
    changed(LABEL_TAG, ("autoscalingGroupName",), "eks-v100"), uses={}, urn=f"{LABEL_TAG.urn}-2"
)
NOT_MANAGED = {
    "matchExpressions": [
        {"key": "cloud.google.com/gke-accelerator", "operator": "Exists"},
        {"key": "cloud.google.com/gke-gpu-driver-version", "operator": "DoesNotExist"},
    ]
}


def _with_affinity(daemon_set: Resource) -> Resource:
    return changed(
        daemon_set,
        (*POD_SPEC, "affinity"),
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [NOT_MANAGED]
                }
            }
        },
    )


REQUIRED = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def _elsewhere(daemon_set: Resource) -> Resource:
    """On nodes of any role but these."""
    terms = [{"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["train"]}]}]
    return changed(daemon_set, (*POD_SPEC, *REQUIRED), {"nodeSelectorTerms": terms})


EBS_CSI_NODE = daemon_set("ebs-csi-node", {}, **EBS_CSI)
SECRETS_STORE_NODE = daemon_set("secrets-store", {}, **SECRETS_STORE)
EFA_PLUGIN = daemon_set("efa", ROLE, **EFA)

TAG_PREFIX = "k8s.io/cluster-autoscaler/node-template"

AT_A_POOL = changed(
    POD,
    ("spec",),
    {**POD.props["spec"], "nodeSelector": {"cloud.google.com/gke-nodepool": "made-by-gke"}},
)
"""Selects by a label that the cloud sets: whose nodes have it, is not known."""
SPOT_POOL = changed(
    replace(T4_POOL, name="spot", urn=T4_POOL.urn.replace("t4", "spot")),
    ("nodeConfig", "taints"),
    [{"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NO_SCHEDULE"}],
)
"""Has the labels of T4_POOL, and a taint that the pods here do not tolerate."""
CPU_POOL = changed(
    replace(T4_POOL, name="cpu", urn=T4_POOL.urn.replace("t4", "cpu")),
    ("nodeConfig",),
    {"machineType": "e2-standard-2"},
)
REGIONAL = changed(
    changed(T4_POOL, ("autoscaling",), {"minNodeCount": 0, "maxNodeCount": 10}),
    ("location",),
    "us-central1-a",
)
"""Without zones of its own, and counted for each zone."""

BLOCK_TEMPLATE = resource(
    "aws:ec2/launchTemplate:LaunchTemplate", "block", {"instanceType": "g4dn.xlarge"}
)
CAPACITY_BLOCK = replace(
    changed(V100_GROUP, ("instanceTypes",), DROP),
    name="block",
    urn=V100_GROUP.urn.replace("v100", "block"),
    uses={"launchTemplate": [BLOCK_TEMPLATE.urn]},
)
"""A Capacity Block has its instance type in the launch template."""
PREVIEWED_BLOCK = changed(CAPACITY_BLOCK, ("instanceTypes",), UNKNOWN)
"""As a preview has it: EKS fills the types in, once the group is there."""
BY_PRODUCT = changed(POD, ("spec", "nodeSelector"), {"nvidia.com/gpu.product": "Tesla-T4"})

_SET = '"monthly-ceiling": {"stacks": {"dev": %s}} in policy/config.json'
_CONFIRMED = {"stacks": {"dev": 10_000}}
_SKY = "prices of 2026-06-23, and of sources without a date"
_KARPENTER = "prices of 2026-01-19"


def _cost(dollars: str) -> str:
    return (
        f"the machines of all pools cost ${dollars} a month at maximum size, on demand (disks, "
        "network and control plane are not counted)"
    )


def _confirm(dollars: int) -> str:
    return f"lower its maximum, or confirm the new amount: {_SET % dollars}"


ROWS: Rows = {
    "gpu-toleration": [
        ((OTHER_POOL, T4_POOL, POD, AT_A_POOL, DEPLOYMENT), (*POD_SPEC, "tolerations"), DROP,
         "deployment sample does not tolerate nvidia.com/gpu=present:NoSchedule of pool t4, so it "
         "would stay pending; add the toleration"),
        ((SPOT_POOL, T4_POOL, POD), ("spec", "tolerations", 0, "key"), "other",
         "pod sample does not tolerate cloud.google.com/gke-spot=true:NoSchedule of pool spot, so "
         "it would stay pending; add the toleration"),
        ((V100_GROUP, POD), ("spec", "tolerations", 0, "effect"), "NoExecute",
         "pod sample does not tolerate nvidia.com/gpu=present:NoSchedule of pool v100, so it would "
         "stay pending; add the toleration"),
        ((T4_POOL, DEPLOYMENT), (*POD_SPEC, "nodeSelector"), {"role": "serve"},
         "deployment sample requests a GPU but selects no GPU pool of the stack, which has t4; "
         "select one by its labels"),
        ((T4_POOL, BY_PRODUCT, DEPLOYMENT), (*POD_SPEC, "nodeSelector"), {"example.org/team": "a"},
         "deployment sample requests a GPU but selects no GPU pool of the stack, which has t4; "
         "select one by its labels"),
    ],
    "autoscaler-tags": [
        ((V100_GROUP, TAINT_TAG, LABEL_TAG), ("tag", "value"), "serve",
         "node group v100 has label role=train, and the tag of its Auto Scaling group says "
         "serve; make them match"),
        ((V100_GROUP, LABEL_TAG, TAINT_TAG), ("tag", "value"), "present:NO_SCHEDULE",
         "node group v100 has taint nvidia.com/gpu=present:NoSchedule, and the tag of its Auto "
         "Scaling group says present:NO_SCHEDULE; make them match"),
        ((V100_GROUP, TAINT_TAG, BY_NAME), ("tag", "key"), "Name",
         "node group v100 has label role=train, and its Auto Scaling group has no tag "
         f"{TAG_PREFIX}/label/role, so the autoscaler does not know it while the pool has no "
         "nodes; add the tag"),
        ((V100_GROUP, TAINT_TAG, LABEL_TAG, tag("resources/nvidia.com/gpu", "1")), ("tag", "key"),
         f"{TAG_PREFIX}/label/zone",
         "the Auto Scaling group of node group v100 is tagged with label zone=1, which its nodes "
         "will not have; drop the tag"),
    ],
    "one-driver": [
        ((installer(ROLE), EBS_CSI_NODE, SECRETS_STORE_NODE, NO_DRIVER), DRIVER, "LATEST",
         "GPU pool t4 gets its driver from GKE and from daemonset installer; use only one of them"),
        ((T4_POOL, _with_affinity(installer({}, "careful"))), (*POD_SPEC, "affinity"), DROP,
         "GPU pool t4 gets its driver from GKE and from daemonset careful; use only one of them"),
        ((NO_DRIVER, _with_affinity(installer({}, "careful")),
          _with_affinity(installer({"role": "serve"}, "other"))),
         (*POD_SPEC, "nodeSelector"), {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"},
         "GPU pool t4 gets its driver from daemonset careful and from daemonset other; use only "
         "one of them"),
    ],
    "one-device-plugin": [
        ((NO_PLUGIN, plugin(ROLE, "old"), plugin({"role": "other"}, "new")),
         (*POD_SPEC, "nodeSelector"), ROLE,
         "GPU pool t4 has its device plugin from daemonset new and from daemonset old; use only "
         "one of them"),
        ((T4_POOL, _elsewhere(plugin({}))),
         (*POD_SPEC, *REQUIRED, "nodeSelectorTerms", 0, "matchExpressions", 0, "values"), ["serve"],
         "GPU pool t4 has its device plugin from GKE and from daemonset plugin; use only one of "
         "them"),
        ((plugin(ROLE), NO_PLUGIN),
         ("nodeConfig", "labels", "gke-no-default-nvidia-gpu-device-plugin"), DROP,
         "GPU pool t4 has its device plugin from GKE and from daemonset plugin; use only one of "
         "them"),
        ((plugin(ROLE), EFA_PLUGIN, V100_GROUP), ("amiType",), "BOTTLEROCKET_x86_64_NVIDIA",
         "GPU pool v100 has its device plugin from the image and from daemonset plugin; use only "
         "one of them"),
    ],
    "gpu-software": [
        ((plugin(ROLE), T4_POOL),
         ("nodeConfig", "labels", "gke-no-default-nvidia-gpu-device-plugin"), "true",
         "nothing in this stack gives GPU pool t4 its driver, and without it the nodes offer no "
         "GPUs; install it, or make sure that another stack does"),
        ((T4_POOL,), DRIVER, "INSTALLATION_DISABLED",
         "nothing in this stack gives GPU pool t4 its driver, and without it the nodes offer no "
         "GPUs; install it, or make sure that another stack does"),
        ((V100_GROUP, plugin(ROLE)), (*POD_SPEC, "nodeSelector", "role"), "serve",
         "nothing in this stack gives GPU pool v100 its device plugin, and without it the nodes "
         "offer no GPUs; install it, or make sure that another stack does"),
    ],
    "monthly-ceiling": [
        # The machines of two nodes, and of the warm instance that also runs.
        ((WARM_GROUP,), ("warmPoolConfig", "poolState"), "RUNNING",
         f"{_cost('6,701')}, and $5,000 is confirmed for stack dev; pool v100 accounts for the "
         f"largest part, $6,701: {_confirm(6702)} (prices of 2026-01-19)", {"dollars": 5000}),
        ((REGIONAL,), ("location",), "us-central1",
         f"{_cost('11,826')}, and $10,000 is confirmed for stack dev; pool t4 accounts for the "
         f"largest part, $11,826: {_confirm(11826)} ({_SKY})", _CONFIRMED),
        ((T4_POOL,), ("autoscaling", "totalMaxNodeCount"), 40,
         f"{_cost('15,768')}, and $10,000 is confirmed for stack dev; pool t4 accounts for the "
         f"largest part, $15,768: {_confirm(15768)} ({_SKY})", _CONFIRMED),
        ((CPU_POOL, T4_POOL, V100_GROUP), ("scalingConfig", "maxSize"), 2,
         f"{_cost('5,797')}, and $3,600 is confirmed for stack dev; pool v100 accounts for the "
         f"largest part, $4,468: {_confirm(5797)} (prices of 2026-01-19, and of sources without a "
         "date)",
         {"dollars": 1, "stacks": {"d*": 3600}}),
        ((CAPACITY_BLOCK, BLOCK_TEMPLATE), ("instanceType",), "p5.48xlarge",
         f"{_cost('40,179')}, and $10,000 is confirmed for stack dev; pool block accounts for the "
         f"largest part, $40,179: {_confirm(40180)} ({_KARPENTER})", _CONFIRMED),
        ((PREVIEWED_BLOCK, BLOCK_TEMPLATE), ("instanceType",), "p5.48xlarge",
         f"{_cost('40,179')}, and $10,000 is confirmed for stack dev; pool block accounts for the "
         f"largest part, $40,179: {_confirm(40180)} ({_KARPENTER})", _CONFIRMED),
    ],
    "ceiling-confirmed": [
        ((CAPACITY_BLOCK, BLOCK_TEMPLATE), ("instanceType",), "p5.48xlarge",
         f"{_cost('40,179')}; pool block accounts for the largest part, $40,179. No ceiling is "
         f"confirmed for stack dev: set {_SET % 40180}, so that a later increase is refused "
         f"({_KARPENTER})"),
        ((T4_POOL,), ("autoscaling", "totalMaxNodeCount"), 40,
         f"{_cost('15,768')}; pool t4 accounts for the largest part, $15,768. No ceiling is "
         f"confirmed for stack dev: set {_SET % 15768}, so that a later increase is refused "
         f"({_SKY})", {"stacks": {"prod": 1}}),
    ],
    "price-known": [
        ((V100_GROUP, resource("aws:s3/bucket:Bucket", "b", {}), T4_POOL),
         ("nodeConfig", "machineType"), "a4-highgpu-8g",
         "pool t4 has nodes whose price is unknown, so the monthly ceiling does not count it; "
         "look up its price"),
    ],
}  # fmt: skip

CASES = cases_of(ROWS)
