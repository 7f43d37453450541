"""Karpenter on EKS: what it may do, what it launches, and in which order all of it goes."""

import json
import re
from typing import Any

import jsonschema
import pytest

from gpu_cluster.components.cluster import Taint
from gpu_cluster.components.crds.definitions import FIRST
from gpu_cluster.components.eks.cluster_args import EksSystemPoolArgs
from gpu_cluster.components.eks.cpu_pool_args import EksCpuPoolArgs
from gpu_cluster.components.eks.fallback_args import EksFallbackArgs
from gpu_cluster.components.eks.karpenter_args import EksKarpenterArgs, EksPoolKarpenterArgs
from gpu_cluster.components.eks.node_args import EksKubeletArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.sharing_args import EksSharingArgs
from gpu_cluster.tools.definitions import FOLDER
from tests.components.eks_stack import OUTPUTS, TRAIN, declare
from tests.components.recording import Recording

CUSTOM, CLUSTER = "kubernetes:karpenter", "aws:eks/cluster:Cluster"


def objects(stack: Recording, kind: str) -> dict[str, dict[str, Any]]:
    """Name -> spec of the objects of Karpenter's kind, each as its definition has it."""
    found = {
        resource.inputs["metadata"]["name"]: resource.inputs["spec"]
        for resource in stack.resources
        if resource.type.startswith(CUSTOM) and resource.inputs["kind"] == kind
    }
    for spec in found.values():
        # The mocks call a subnet `<name>-id`.
        text = re.sub(r'"[^"]*-private-[^"]*-id"', '"subnet-0a1b2c"', json.dumps(spec))
        jsonschema.validate(json.loads(text), schema(kind))
    return found


def schema(kind: str) -> dict[str, Any]:
    """Of the kind's spec in upstream's definition, in which nothing unknown is let pass."""
    definitions = json.loads((FOLDER / "karpenter-aws.json").read_text())["definitions"]
    (definition,) = [one for one in definitions if one["spec"]["names"]["kind"] == kind]
    (version,) = definition["spec"]["versions"]
    found: dict[str, Any] = closed(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return found


def closed(value: Any) -> Any:
    """The schema, where objects with properties have no others."""
    if isinstance(value, list):
        return [closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    inner = {key: closed(one) for key, one in value.items()}
    if inner.get("type") == "object" and isinstance(inner.get("properties"), dict):
        inner.setdefault("additionalProperties", False)
    return inner


def launched(*pools: EksGpuNodeGroupArgs, **cluster: Any) -> Recording:
    """A stack whose pools, `train-gpu` and others, Karpenter launches."""
    names = ["train-gpu", *(f"pool-{position}" for position in range(1, len(pools)))]
    group = {"vpcConfig": {"clusterSecurityGroupId": "sg-0a1b2c"}}
    return declare(
        dict(zip(names, pools or [TRAIN], strict=False)),
        outputs={CLUSTER: {**OUTPUTS[CLUSTER], **group}},
        **{"scaler": "karpenter", **cluster},
    )


@pytest.fixture(scope="module")
def stack() -> Recording:
    """A cluster whose one pool Karpenter launches."""
    return launched()


def test_every_setting_of_a_pool_reaches_its_nodes() -> None:
    """What a node group has in launch template, tags and settings, an EC2NodeClass and a NodePool
    have too."""
    stack = launched(
        EksGpuNodeGroupArgs(
            instance_types=["g5.xlarge", "g5.2xlarge"],
            min_nodes=1,
            max_nodes=4,
            os="bottlerocket",
            release_version="1.54.0-b06a4e5f",
            capacity_type="spot",
            zones=["us-east-1a"],
            kubelet=EksKubeletArgs(
                max_pods=40, eviction_hard={"memory.available": "1Gi"}, pod_pids_limit=4096
            ),
            sharing=EksSharingArgs(strategy="time-slicing", replicas=4),
            security_group_ids=["sg-0123456789abcdef0"],
            metadata_hop_limit=2,
            disk_size_gb=200,
            disk_snapshot_id="snap-0123456789abcdef0",
            disk_initialization_rate=200,
            max_unavailable_percentage=25,
            force_update=True,
            startup_taints=[
                Taint(key="csi", value="starting", effect="NoExecute"),
                Taint(key="csi", value=""),
            ],
            karpenter=EksPoolKarpenterArgs(
                consolidation_policy="WhenEmptyOrUnderutilized",
                consolidate_after="5m",
                expire_after="720h",
                weight=10,
            ),
        ),
        disks_encryption_key="arn:aws:kms:us-east-1:123456789012:key/0a1b2c",
        tags={"team": "ml"},
    )
    pools = objects(stack, "NodePool")
    assert pools["train-gpu-static"]["replicas"] == 1
    # A successor starts before a drifted node ends: as many as the budget says.
    assert pools["train-gpu-static"]["limits"] == {"nodes": "2"}
    assert "weight" not in pools["train-gpu-static"]
    assert pools["train-gpu"]["limits"] == {"nodes": "3", "nvidia.com/gpu": "12"}
    assert pools["train-gpu"]["weight"] == 10
    for spec in (pools["train-gpu"], pools["train-gpu-static"]):
        assert spec["disruption"]["consolidateAfter"] == "5m"
        assert spec["disruption"]["budgets"][1] == {"nodes": "25%", "reasons": ["Drifted"]}
        assert spec["template"]["spec"]["expireAfter"] == "720h"
        assert spec["template"]["spec"]["startupTaints"] == [
            {"key": "csi", "value": "starting", "effect": "NoExecute"},
            {"key": "csi", "effect": "NoSchedule"},
        ]
        assert spec["template"]["spec"]["terminationGracePeriod"] == "15m"
        required = {one["key"]: one["values"] for one in spec["template"]["spec"]["requirements"]}
        assert required["karpenter.sh/capacity-type"] == ["spot"]
        assert required["node.kubernetes.io/instance-type"] == ["g5.xlarge", "g5.2xlarge"]
    node = objects(stack, "EC2NodeClass")["train-gpu"]
    assert node["amiSelectorTerms"] == [{"alias": "bottlerocket@v1.54.0"}]
    assert len(node["subnetSelectorTerms"]) == 1
    assert {"id": "sg-0123456789abcdef0"} in node["securityGroupSelectorTerms"]
    assert node["metadataOptions"]["httpPutResponseHopLimit"] == 2
    assert node["tags"] == {"Name": "train-gpu", "team": "ml"}
    assert {mapping["ebs"]["kmsKeyID"] for mapping in node["blockDeviceMappings"]} == {
        "arn:aws:kms:us-east-1:123456789012:key/0a1b2c"
    }
    assert [one["ebs"]["volumeSize"] for one in node["blockDeviceMappings"]] == ["4Gi", "200Gi"]
    system, data = (mapping["ebs"] for mapping in node["blockDeviceMappings"])
    assert "snapshotID" not in system
    assert (data["snapshotID"], data["volumeInitializationRate"]) == ("snap-0123456789abcdef0", 200)
    assert node["kubelet"]["maxPods"] == 40
    # The kubelet takes a signal that is left out for zero.
    assert node["kubelet"]["evictionHard"]["nodefs.available"] == "10%"
    assert "pod-pids-limit = 4096" in node["userData"]
    assert "max-pods" not in node["userData"]
    assert "replicas = 4" in node["userData"]


def test_shared_gpus_are_counted_as_the_device_plugin_does() -> None:
    """Karpenter would start a node for each of four pods that share one."""
    sharing = EksSharingArgs(strategy="mps", replicas=4)
    stack = launched(EksGpuNodeGroupArgs(instance_types=["g5.xlarge"], sharing=sharing))
    assert objects(stack, "NodeOverlay")["train-gpu"] == {
        "requirements": [
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["train-gpu"]}
        ],
        "capacity": {"nvidia.com/gpu": "4"},
    }
    assert "NodeOverlay=true" in environment(stack)["FEATURE_GATES"]


def environment(stack: Recording) -> dict[str, Any]:
    """Of the controller."""
    pod = stack.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    return {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}


def test_features_in_alpha_are_off_unless_a_pool_needs_them(stack: Recording) -> None:
    """Nodes that are always there need static capacity, shared GPUs node overlays."""
    assert environment(stack)["FEATURE_GATES"] == (
        "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,"
        "StaticCapacity=false,CapacityBuffer=false,TerminateFirstRepair=false"
    )
    always = launched(
        EksGpuNodeGroupArgs(instance_types=["g5.xlarge"], min_nodes=1),
        karpenter=EksKarpenterArgs(node_repair=True),
    )
    assert "StaticCapacity=true" in environment(always)["FEATURE_GATES"]
    assert "NodeRepair=true" in environment(always)["FEATURE_GATES"]
    assert "TerminateFirstRepair=true" in environment(always)["FEATURE_GATES"]
    assert set(objects(always, "NodePool")) == {"train-gpu-static", "gpu-cluster-system"}


def test_a_pool_whose_gpus_pods_claim_turns_on_what_karpenter_needs_for_them() -> None:
    """The gate of AWS's provider, and that it does not ignore such pods; nothing otherwise."""
    claimed = EksGpuNodeGroupArgs(instance_types=["g6.xlarge"], device_plugin="dra")
    found = environment(launched(TRAIN, claimed))
    assert found["AWS_FEATURE_GATES"] == "DRANVIDIAGPU=true"
    assert found["IGNORE_DRA_REQUESTS"] == "false"
    assert not {"AWS_FEATURE_GATES", "IGNORE_DRA_REQUESTS"} & set(environment(launched()))


def test_an_order_of_fallback_is_one_node_pool() -> None:
    """So that maxNodes bounds all choices together; Karpenter tries them in this order."""
    stack = launched(
        EksGpuNodeGroupArgs(
            instance_types=["g5.xlarge"],
            fallback=["reservation", "spot", "on-demand"],
            reservation="cr-0123456789abcdef0",
            zones=["us-east-1a"],
            max_nodes=4,
        )
    )
    spec = objects(stack, "NodePool")["train-gpu"]
    assert spec["limits"]["nodes"] == "4"
    required = {one["key"]: one["values"] for one in spec["template"]["spec"]["requirements"]}
    assert required["karpenter.sh/capacity-type"] == ["reserved", "spot", "on-demand"]
    node = objects(stack, "EC2NodeClass")["train-gpu"]
    assert node["capacityReservationSelectorTerms"] == [{"id": "cr-0123456789abcdef0"}]


def test_an_order_that_no_node_pool_has_is_one_for_each_entry() -> None:
    """The first has the largest weight; all use one node class, in the zones of all entries."""
    stack = launched(
        EksGpuNodeGroupArgs(
            instance_types=["g6.xlarge"],
            zones=["us-east-1a"],
            fallback=[
                "on-demand",
                EksFallbackArgs(zones=["us-east-1b"]),
                EksFallbackArgs(capacity_type="spot", instance_types=["g6.2xlarge"]),
            ],
            max_nodes=4,
            karpenter=EksPoolKarpenterArgs(weight=50),
        )
    )
    pools = {name: spec for name, spec in objects(stack, "NodePool").items() if "train" in name}
    found = {}
    for name, spec in pools.items():
        rules = {row["key"]: row["values"] for row in spec["template"]["spec"]["requirements"]}
        keys = ("karpenter.sh/capacity-type", "topology.kubernetes.io/zone",
                "node.kubernetes.io/instance-type")  # fmt: skip
        found[name] = spec["weight"], *(rules[key] for key in keys)
    assert found == {
        "train-gpu.on-demand": (50, ["on-demand"], ["us-east-1a"], ["g6.xlarge"]),
        "train-gpu.on-demand.b": (49, ["on-demand"], ["us-east-1b"], ["g6.xlarge"]),
        "train-gpu.spot.g6-2xlarge": (48, ["spot"], ["us-east-1a"], ["g6.2xlarge"]),
    }
    assert {spec["limits"]["nodes"] for spec in pools.values()} == {"4"}
    classes = {
        spec["template"]["spec"]["nodeClassRef"]["name"]: spec["template"]["metadata"]["labels"]
        for spec in pools.values()
    }
    assert {name: labels["gpu-cluster/pool"] for name, labels in classes.items()} == {
        "train-gpu": "train-gpu"
    }
    assert len(objects(stack, "EC2NodeClass")["train-gpu"]["subnetSelectorTerms"]) == 2


def test_pools_without_gpus_are_launched_too() -> None:
    """Nobody else scales the system pool beyond its least number of nodes."""
    loaders = EksCpuPoolArgs(instance_types=["m7i.xlarge"], labels={"role": "loader"}, spot=True)
    stack = launched(
        cpu_pools={"loaders": loaders}, system_pool=EksSystemPoolArgs(min_nodes=2, max_nodes=5)
    )
    pools = objects(stack, "NodePool")
    assert pools["gpu-cluster-system"]["limits"] == {"nodes": "3", "cpu": "6"}
    (system,) = stack.of("aws:eks/nodeGroup:NodeGroup")
    assert {system.inputs["scalingConfig"][key] for key in ("minSize", "maxSize")} == {2}
    assert pools["loaders"]["template"]["metadata"]["labels"] == {
        "gpu-cluster/pool": "loaders", "role": "loader",
    }  # fmt: skip
    deployment = stack.one("kubernetes:apps/v1:Deployment").inputs["spec"]
    assert deployment["replicas"] == 2
    fixed = launched(system_pool=EksSystemPoolArgs(min_nodes=1, max_nodes=1))
    assert set(objects(fixed, "NodePool")) == {"train-gpu"}
    assert fixed.one("kubernetes:apps/v1:Deployment").inputs["spec"]["replicas"] == 1


def test_it_may_change_only_what_it_launched_for_this_cluster(stack: Recording) -> None:
    """It passes no role but the nodes', reads no queue but its own, and creates no profile."""
    (document,) = [
        json.loads(one.inputs["policy"])
        for one in stack.of("aws:iam/rolePolicy:RolePolicy")
        if "karpenter" in one.name
    ]
    statements = document["Statement"]
    allowed = {
        action: one
        for one in statements
        for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
    }
    assert allowed["iam:PassRole"]["Resource"] == "arn:aws:iam::123456789012:role/k8s-ml-nodes"
    assert allowed["sqs:ReceiveMessage"]["Resource"].endswith(":k8s-ml-karpenter")
    assert not {action for action in allowed if action.startswith("iam:Create")}
    for action in ("ec2:TerminateInstances", "ec2:DeleteLaunchTemplate", "ec2:CreateTags"):
        condition = json.dumps(allowed[action]["Condition"])
        assert "kubernetes.io/cluster/k8s-ml" in condition, action
    unbound = {
        action
        for action, one in allowed.items()
        if one["Resource"] == "*" and "Condition" not in one
    }
    assert unbound == set()
    assert len(json.dumps(document)) < INLINE_POLICY


INLINE_POLICY = 10240
"""Characters that a role takes of its own policies, without spaces."""


def test_rules_of_the_longest_cluster_name_have_names() -> None:
    """EventBridge takes names of 64 characters, 8 of which are the automatic suffix."""
    rules = launched(name="k" * 100).of("aws:cloudwatch/eventRule:EventRule")
    assert max(len(rule.name) for rule in rules) <= 64 - 8


def test_nodes_are_gone_before_what_they_need(stack: Recording) -> None:
    """A destroy deletes the NodePool, whose nodes Karpenter terminates, and then Karpenter: objects
    that went with the cluster would leave instances behind."""
    pools = [resource for resource in stack.resources if resource.inputs.get("kind") == "NodePool"]
    assert pools
    assert all(not pool.deleted_with for pool in pools)
    needed = [
        *stack.of("kubernetes:apps/v1:Deployment"),
        *stack.of("aws:eks/podIdentityAssociation:PodIdentityAssociation"),
        *stack.of("aws:iam/instanceProfile:InstanceProfile"),
        *stack.of("aws:eks/nodeGroup:NodeGroup"),
        *stack.of("aws:ec2/natGateway:NatGateway"),
        *(resource for resource in stack.resources if resource.name == "train-gpu-class"),
        *(
            one
            for one in stack.of("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition")
            if one.name == FIRST["karpenter-aws"]
        ),
    ]
    assert len(needed) == 7
    assert {one.key for one in needed} <= stack.before(pools[0])


@pytest.mark.parametrize("scaler", ["karpenter", "auto-mode"])
@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, "5"),
        ({"max_unavailable": 2}, "6"),
        ({"max_unavailable_percentage": 25}, "5"),
        ({"max_unavailable_percentage": 30}, "6"),
    ],
)
def test_static_nodes_may_exceed_their_number_by_those_that_are_replaced(
    changes: dict[str, Any], limit: str, scaler: str
) -> None:
    """Karpenter counts a node until it is gone: each successor needs room."""
    pool = EksGpuNodeGroupArgs(instance_types=["g5.xlarge"], min_nodes=4, max_nodes=4, **changes)
    stack = launched(pool, scaler=scaler)
    assert objects(stack, "NodePool")["train-gpu-static"]["limits"] == {"nodes": limit}
