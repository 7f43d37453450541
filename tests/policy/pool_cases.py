"""Cases of the rules on node pools."""

from tests.policy.cases import DROP, Case, changed
from tests.policy.resources import LAUNCH_TEMPLATE, T4_POOL, V100_GROUP, in_stack, resource

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

STACKS_ALLOWED = (
    "policy/config.json (gpu-pool-minimum: stacks; now prod, prod-*, production, *-prod)"
)

CASES = [
    Case(
        rule="gpu-pool-taint",
        good=(changed(CPU_POOL, ("nodeConfig", "taints"), []), T4_POOL),
        path=("nodeConfig", "taints"),
        bad=[{"key": "nvidia.com/gpu", "value": "present", "effect": "PREFER_NO_SCHEDULE"}],
        message="GPU pool t4 has no taint nvidia.com/gpu with effect NoSchedule, so pods that use "
        "no GPU may fill its nodes; declare the taint on the pool",
    ),
    Case(
        rule="gpu-pool-taint",
        good=(V100_GROUP,),
        path=("taints", 0, "key"),
        bad="gpu",
        message="GPU pool v100 has no taint nvidia.com/gpu with effect NoSchedule, so pods that "
        "use no GPU may fill its nodes; declare the taint on the pool",
    ),
    Case(
        rule="gpu-pool-taint",
        good=(changed(T4_POOL, ("nodeConfig", "taints", 0, "key"), "gpu"),),
        path=("nodeConfig", "taints"),
        bad=[],
        message="GPU pool t4 has no taint gpu with effect NoSchedule, so pods that use no GPU may "
        "fill its nodes; declare the taint on the pool",
        config={"key": "gpu"},
    ),
    Case(
        rule="gpu-pool-minimum",
        good=(T4_POOL,),
        path=("autoscaling", "totalMinNodeCount"),
        bad=2,
        message="GPU pool t4 keeps 2 nodes running in stack dev; set its minimum to 0, or allow "
        f"the stack in {STACKS_ALLOWED}",
    ),
    Case(
        rule="gpu-pool-minimum",
        good=(in_stack(changed(T4_POOL, ("autoscaling", "totalMinNodeCount"), 1), "prod"), FIXED),
        path=("nodeCount",),
        bad=3,
        message="GPU pool l4 keeps 3 nodes running in stack dev; set its minimum to 0, or allow "
        f"the stack in {STACKS_ALLOWED}",
    ),
    Case(
        rule="gpu-pool-minimum",
        good=(PER_ZONE,),
        path=("autoscaling", "minNodeCount"),
        bad=1,
        message="GPU pool t4 keeps 2 nodes running in stack dev; set its minimum to 0, or allow "
        f"the stack in {STACKS_ALLOWED}",
    ),
    Case(
        rule="gpu-pool-minimum",
        good=(in_stack(V100_GROUP, "train"),),
        path=("scalingConfig", "minSize"),
        bad=1,
        message="GPU pool v100 keeps 1 node running in stack train; set its minimum to 0, or allow "
        "the stack in policy/config.json (gpu-pool-minimum: stacks; now live)",
        config={"stacks": ["live"]},
    ),
    Case(
        rule="autoscaler-owns-size",
        good=(changed(FIXED, ("nodeCount",), 2), T4_POOL),
        path=("@ignore_changes",),
        bad=(),
        message="pool t4 is autoscaled from 0 to 3 nodes and does not ignore changes of "
        "initialNodeCount, so an update reverts the autoscaler's count; ignore it",
    ),
    Case(
        rule="autoscaler-owns-size",
        good=(V100_GROUP,),
        path=("@ignore_changes",),
        bad=("scaling_config.desired_size",),
        message="pool v100 is autoscaled from 0 to 1 nodes and does not ignore changes of "
        "scalingConfig.desiredSize, so an update reverts the autoscaler's count; ignore it",
    ),
    Case(
        rule="secure-boot",
        good=(V100_GROUP, LAUNCH_TEMPLATE, T4_POOL),
        path=("nodeConfig", "shieldedInstanceConfig", "enableSecureBoot"),
        bad=False,
        message="pool t4 boots without Secure Boot; set "
        "nodeConfig.shieldedInstanceConfig.enableSecureBoot",
    ),
    Case(
        rule="secure-boot",
        good=(OWN_DRIVER, CPU_POOL),
        path=("nodeConfig", "shieldedInstanceConfig", "enableIntegrityMonitoring"),
        bad=False,
        message="pool t4 has integrity monitoring off; set "
        "nodeConfig.shieldedInstanceConfig.enableIntegrityMonitoring",
    ),
    Case(
        rule="instance-metadata",
        good=(T4_POOL,),
        path=("nodeConfig", "workloadMetadataConfig"),
        bad=DROP,
        message="pool t4 gives pods the node's credentials; set "
        "nodeConfig.workloadMetadataConfig.mode to GKE_METADATA",
    ),
    Case(
        rule="instance-metadata",
        good=(T4_POOL,),
        path=("nodeConfig", "metadata", "disable-legacy-endpoints"),
        bad="false",
        message="pool t4 serves the legacy metadata endpoints, which need no header; set "
        "disable-legacy-endpoints to true",
    ),
    Case(
        rule="instance-metadata",
        good=(LAUNCH_TEMPLATE,),
        path=("metadataOptions", "httpTokens"),
        bad="optional",
        message="launch template v100 allows IMDSv1; set metadataOptions.httpTokens to required",
    ),
    Case(
        rule="instance-metadata",
        good=(LAUNCH_TEMPLATE,),
        path=("metadataOptions", "httpPutResponseHopLimit"),
        bad=2,
        message="launch template v100 sets 2 as hop limit for instance metadata, so pods may get "
        "the node's role; set it to 1",
    ),
    Case(
        rule="instance-metadata",
        good=(changed(LAUNCH_TEMPLATE, ("metadataOptions", "httpPutResponseHopLimit"), 2),),
        path=("metadataOptions", "httpPutResponseHopLimit"),
        bad=DROP,
        message="launch template v100 sets no hop limit for instance metadata, so pods may get the "
        "node's role; set it to 2",
        config={"hops": 2},
    ),
    Case(
        rule="instance-metadata",
        good=(V100_GROUP,),
        path=("launchTemplate",),
        bad=DROP,
        message="node group v100 has no launch template, and EKS's own lets pods reach instance "
        "metadata over two hops; give it one with IMDSv2 and hop limit 1",
    ),
    Case(
        rule="disks-encrypted",
        good=(LAUNCH_TEMPLATE,),
        path=("blockDeviceMappings", 0, "ebs", "encrypted"),
        bad="false",
        message="launch template v100: volume /dev/xvda is not encrypted; set ebs.encrypted",
    ),
    Case(
        rule="disks-encrypted",
        good=(LAUNCH_TEMPLATE,),
        path=("blockDeviceMappings",),
        bad=[],
        message="launch template v100 names no volume, so the root volume is encrypted only where "
        "the account's default says so; map it with ebs.encrypted",
    ),
    Case(
        rule="disks-encrypted",
        good=(VOLUME,),
        path=("encrypted",),
        bad=DROP,
        message="volume scratch is not encrypted; set encrypted",
    ),
    Case(
        rule="disks-encrypted",
        good=(V100_GROUP,),
        path=("launchTemplate",),
        bad=DROP,
        message="node group v100 has no launch template, so its volumes are encrypted only where "
        "the account's default says so; give it one with ebs.encrypted",
    ),
]
