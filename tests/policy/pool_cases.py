"""Cases of the rules on node pools."""

from tests.policy.cases import DROP, Rows, cases_of, changed
from tests.policy.resources import (
    LAUNCH_TEMPLATE,
    T4_POOL,
    V100_GROUP,
    WARM_GROUP,
    in_stack,
    resource,
)

VOLUME = resource("aws:ebs/volume:Volume", "scratch", {"encrypted": True})
PER_ZONE = changed(
    changed(T4_POOL, ("autoscaling",), {"minNodeCount": 0, "maxNodeCount": 2}),
    ("nodeLocations",),
    ["us-central1-a", "us-central1-b"],
)
FIXED = resource(
    "gcp:container/nodePool:NodePool",
    "l4",
    {"nodeCount": 0, "nodeConfig": {"machineType": "g2-standard-4"}},
)
OWN_DRIVER = changed(
    T4_POOL,
    ("nodeConfig", "guestAccelerators", 0, "gpuDriverInstallationConfig", "gpuDriverVersion"),
    "INSTALLATION_DISABLED",
)
CPU_POOL = changed(
    changed(T4_POOL, ("nodeConfig", "guestAccelerators"), []),
    ("nodeConfig", "machineType"),
    "e2-standard-2",
)

A100_POOL = resource(
    "gcp:container/nodePool:NodePool",
    "a100",
    {
        "nodeConfig": {
            "machineType": "a2-highgpu-1g",
            "guestAccelerators": [
                {"type": "nvidia-tesla-a100", "count": 1, "gpuPartitionSize": "1g.5gb"}
            ],
        }
    },
)
SLICE = resource(
    "kubernetes:core/v1:Pod",
    "slice",
    {
        "metadata": {"name": "slice"},
        "spec": {
            "nodeSelector": {
                "cloud.google.com/gke-accelerator": "nvidia-h100-80gb",
                "cloud.google.com/gke-gpu-partition-size": "1g.10gb",
            }
        },
    },
)

STACKS_ALLOWED = (
    "policy/config.json (gpu-pool-minimum: stacks; now prod, prod-*, production, *-prod)"
)

ROWS: Rows = {
    "gpu-pool-taint": [
        ((changed(CPU_POOL, ("nodeConfig", "taints"), []), T4_POOL), ("nodeConfig", "taints"),
         [{"key": "nvidia.com/gpu", "value": "present", "effect": "PREFER_NO_SCHEDULE"}],
         "GPU pool t4 has no taint nvidia.com/gpu with effect NoSchedule, so pods that use no GPU "
         "may fill its nodes; declare the taint on the pool"),
        ((V100_GROUP,), ("taints", 0, "key"), "gpu",
         "GPU pool v100 has no taint nvidia.com/gpu with effect NoSchedule, so pods that use no "
         "GPU may fill its nodes; declare the taint on the pool"),
        ((changed(T4_POOL, ("nodeConfig", "taints", 0, "key"), "gpu"),), ("nodeConfig", "taints"),
         [],
         "GPU pool t4 has no taint gpu with effect NoSchedule, so pods that use no GPU may fill "
         "its nodes; declare the taint on the pool", {"key": "gpu"}),
    ],
    "gpu-pool-minimum": [
        ((T4_POOL,), ("autoscaling", "totalMinNodeCount"), 2,
         "GPU pool t4 keeps 2 nodes running in stack dev; set its minimum to 0, or allow the stack "
         f"in {STACKS_ALLOWED}"),
        ((in_stack(changed(T4_POOL, ("autoscaling", "totalMinNodeCount"), 1), "prod"), FIXED),
         ("nodeCount",), 3,
         "GPU pool l4 keeps 3 nodes running in stack dev; set its minimum to 0, or allow the stack "
         f"in {STACKS_ALLOWED}"),
        ((PER_ZONE,), ("autoscaling", "minNodeCount"), 1,
         "GPU pool t4 keeps 2 nodes running in stack dev; set its minimum to 0, or allow the stack "
         f"in {STACKS_ALLOWED}"),
        ((in_stack(V100_GROUP, "train"),), ("scalingConfig", "minSize"), 1,
         "GPU pool v100 keeps 1 node running in stack train; set its minimum to 0, or allow the "
         "stack in policy/config.json (gpu-pool-minimum: stacks; now live)", {"stacks": ["live"]}),
        ((WARM_GROUP,), ("warmPoolConfig", "poolState"), "RUNNING",
         "GPU pool v100 keeps 2 warm instances running in stack dev; set warmPoolConfig.poolState "
         f"to STOPPED, or allow the stack in {STACKS_ALLOWED}"),
    ],
    "autoscaler-owns-size": [
        ((changed(FIXED, ("nodeCount",), 2), T4_POOL), ("@ignore_changes",), (),
         "pool t4 is autoscaled from 0 to 3 nodes and does not ignore changes of initialNodeCount, "
         "so an update reverts the autoscaler's count; ignore it"),
        ((V100_GROUP,), ("@ignore_changes",), ("scaling_config.desired_size",),
         "pool v100 is autoscaled from 0 to 1 nodes and does not ignore changes of "
         "scalingConfig.desiredSize, so an update reverts the autoscaler's count; ignore it"),
    ],
    "mig-profile": [
        ((T4_POOL, A100_POOL), ("nodeConfig", "guestAccelerators", 0, "gpuPartitionSize"),
         "1g.10gb",
         "pool a100 requests MIG partition 1g.10gb of nvidia-tesla-a100; allowed: 1g.5gb, "
         "2g.10gb, 3g.20gb, 7g.40gb"),
        ((T4_POOL,), ("nodeConfig", "guestAccelerators", 0, "gpuPartitionSize"), "1g.5gb",
         "pool t4 requests MIG partition 1g.5gb of nvidia-tesla-t4; allowed: none, because it "
         "does not support MIG"),
        ((A100_POOL,), ("nodeConfig", "guestAccelerators", 0, "gpuSharingConfig"),
         {"gpuSharingStrategy": "MPS", "maxSharedClientsPerGpu": 2},
         "pool a100 shares MIG partitions by MPS, which does not run on them; set "
         "gpuSharingStrategy to TIME_SHARING, or drop gpuPartitionSize"),
        ((SLICE,), ("spec", "nodeSelector", "cloud.google.com/gke-gpu-partition-size"), "1g.6gb",
         "pod slice requests MIG partition 1g.6gb of nvidia-h100-80gb; allowed: 1g.10gb, "
         "1g.20gb, 2g.20gb, 3g.40gb, 7g.80gb"),
    ],
    "secure-boot": [
        ((V100_GROUP, LAUNCH_TEMPLATE, T4_POOL),
         ("nodeConfig", "shieldedInstanceConfig", "enableSecureBoot"), False,
         "pool t4 boots without Secure Boot; set "
         "nodeConfig.shieldedInstanceConfig.enableSecureBoot"),
        ((OWN_DRIVER, CPU_POOL),
         ("nodeConfig", "shieldedInstanceConfig", "enableIntegrityMonitoring"), False,
         "pool t4 has integrity monitoring off; set "
         "nodeConfig.shieldedInstanceConfig.enableIntegrityMonitoring"),
    ],
    "instance-metadata": [
        ((T4_POOL,), ("nodeConfig", "workloadMetadataConfig"), DROP,
         "pool t4 exposes the node's credentials to pods; set "
         "nodeConfig.workloadMetadataConfig.mode to GKE_METADATA"),
        ((T4_POOL,), ("nodeConfig", "metadata", "disable-legacy-endpoints"), "false",
         "pool t4 serves the legacy metadata endpoints, which need no header; set "
         "disable-legacy-endpoints to true"),
        ((LAUNCH_TEMPLATE,), ("metadataOptions", "httpTokens"), "optional",
         "launch template v100 allows IMDSv1; set metadataOptions.httpTokens to required"),
        ((LAUNCH_TEMPLATE,), ("metadataOptions", "httpPutResponseHopLimit"), 2,
         "launch template v100 sets 2 as hop limit for instance metadata, so pods may get the "
         "node's role; set it to 1"),
        ((changed(LAUNCH_TEMPLATE, ("metadataOptions", "httpPutResponseHopLimit"), 2),),
         ("metadataOptions", "httpPutResponseHopLimit"), DROP,
         "launch template v100 sets no hop limit for instance metadata, so pods may get the node's "
         "role; set it to 2", {"hops": 2}),
        ((V100_GROUP,), ("launchTemplate",), DROP,
         "node group v100 has no launch template, and EKS's own lets pods reach instance metadata "
         "over two hops; give it one with IMDSv2 and hop limit 1"),
    ],
    "disks-encrypted": [
        ((LAUNCH_TEMPLATE,), ("blockDeviceMappings", 0, "ebs", "encrypted"), "false",
         "launch template v100: volume /dev/xvda is not encrypted; set ebs.encrypted"),
        ((LAUNCH_TEMPLATE,), ("blockDeviceMappings",), [],
         "launch template v100 names no volume, so the root volume is encrypted only if that is "
         "the account's default; map it with ebs.encrypted"),
        ((VOLUME,), ("encrypted",), DROP, "volume scratch is not encrypted; set encrypted"),
        ((V100_GROUP,), ("launchTemplate",), DROP,
         "node group v100 has no launch template, so its volumes are encrypted only if that is "
         "the account's default; give it one with ebs.encrypted"),
    ],
}  # fmt: skip

CASES = cases_of(ROWS)
