"""EKS GPU node groups: what they ask of AWS, and what their Auto Scaling groups' tags promise."""

import base64
import dataclasses
import tomllib
from typing import Any

import pulumi
import pytest

from gpu_cluster.components.catalog import autoscaler_tags
from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.cluster import Taint
from gpu_cluster.components.eks.cluster_args import EksSystemPoolArgs
from gpu_cluster.components.eks.node_repair_args import EksNodeRepairArgs, EksNodeRepairOverrideArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.sharing_args import EksSharingArgs
from tests.components.eks_stack import declare
from tests.components.recording import Recording

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
TAG = "aws:autoscaling/tag:Tag"
PREFIX = "k8s.io/cluster-autoscaler/node-template"
NO_ACTION = {
    "nodeMonitoringCondition": "AcceleratedHardwareReady",
    "nodeUnhealthyReason": "DCGMError",
    "minRepairWaitTimeMins": 10,
    "repairAction": "NoAction",
}


@pytest.fixture(scope="module")
def trained() -> Recording:
    """The training pool of S2."""
    return declare()


def group(**args: Any) -> dict[str, Any]:
    """Inputs of the node group `pool` with these args."""
    pool = EksGpuNodeGroupArgs(**{"instance_types": ["g4dn.xlarge"], **args})
    return dict(declare({"pool": pool}).one(NODE_GROUP, "pool").inputs)


def template(**args: Any) -> dict[str, Any]:
    """Inputs of the launch template of the pool with these args."""
    pool = EksGpuNodeGroupArgs(**{"instance_types": ["g4dn.xlarge"], **args})
    return dict(declare({"pool": pool}).one(TEMPLATE, "pool").inputs)


def tags(recording: Recording) -> dict[str, str]:
    """Key -> value of every Auto Scaling tag."""
    return {r.inputs["tag"]["key"]: r.inputs["tag"]["value"] for r in recording.of(TAG)}


@pytest.mark.parametrize(
    ("changes", "config", "minutes"),
    [
        ({}, {"maxUnavailable": 1}, 75),
        ({"max_nodes": 20}, {"maxUnavailable": 1}, 360),
        ({"max_nodes": 20, "max_unavailable": 8}, {"maxUnavailable": 8}, 105),
        (
            {"max_nodes": 20, "max_unavailable_percentage": 25},
            {"maxUnavailablePercentage": 25},
            120,
        ),
        ({"max_nodes": 2, "max_unavailable_percentage": 10}, {"maxUnavailablePercentage": 10}, 90),
    ],
)
def test_an_update_has_the_time_that_its_nodes_take(
    changes: dict[str, Any], config: dict[str, Any], minutes: int
) -> None:
    """EKS waits 15 minutes for the pods of a node; the provider's own hour is for a few."""
    pool = EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"], **changes)
    found = declare({"pool": pool}).one(NODE_GROUP, "pool")
    assert found.inputs["updateConfig"] == {**config, "updateStrategy": "MINIMAL"}
    assert found.update_timeout == f"{minutes}m"
    assert "forceUpdateVersion" not in found.inputs


def test_a_dcgm_server_that_starts_late_replaces_no_node() -> None:
    """The agent's DCGMError stays on a healthy node for ever; a config's own answer to it wins."""
    own = EksNodeRepairOverrideArgs(
        node_monitoring_condition="AcceleratedHardwareReady",
        node_unhealthy_reason="DCGMError",
        min_repair_wait_time_mins=30,
        repair_action="Reboot",
    )
    repair = EksNodeRepairArgs(overrides=[own])
    assert group(node_repair=repair)["nodeRepairConfig"]["nodeRepairConfigOverrides"] == [
        {**NO_ACTION, "minRepairWaitTimeMins": 30, "repairAction": "Reboot"}
    ]


@pytest.mark.parametrize(
    ("kind", "counts"),
    [
        ("p3dn.24xlarge", True),
        ("p4d.24xlarge", True),
        ("p5.48xlarge", True),
        ("p5en.48xlarge", True),
        ("p6-b200.48xlarge", False),
        ("g6.xlarge", False),
        ("g7e.2xlarge", False),
    ],
)
def test_old_errors_of_nvlink_replace_no_node(kind: str, counts: bool) -> None:
    """On Blackwell the agent's code 71 is a fault; GPUs without NVLink never have it."""
    config = group(instance_types=[kind])["nodeRepairConfig"]["nodeRepairConfigOverrides"]
    reason = {**NO_ACTION, "nodeUnhealthyReason": "DCGMHealthCode71"}
    assert config == [NO_ACTION, *([reason] if counts else [])]


@pytest.mark.parametrize(
    ("args", "warns"),
    [
        ({"release_version": "1.35.0-20251016"}, True),
        ({"release_version": "1.35.0-20251023"}, False),
        ({"release_version": "1.35.0-20251016", "device_plugin": "none"}, False),
    ],
)
def test_the_preview_names_a_group_whose_image_starts_no_gpu_pod(
    args: dict[str, Any], warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its release is what the state has as an output, whether or not the update changes it."""
    monkeypatch.setattr(catalog, "TOOLKIT_SINCE", "00000000")  # as when the pool was created
    pool = EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"], **args)
    monkeypatch.undo()
    lines: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lines.append)
    declare({"pool": pool})
    assert [line for line in lines if "whose NVIDIA toolkit" in line] == lines
    assert len(lines) == warns


def test_an_update_of_the_system_pool_has_the_time_that_its_nodes_take() -> None:
    """15 minutes for each node, and forced only if the config says so."""
    found = declare(system_pool=EksSystemPoolArgs(max_nodes=9)).one(NODE_GROUP, "k8s-ml-system")
    assert found.update_timeout == "195m"
    assert "forceUpdateVersion" not in found.inputs
    forced = declare(system_pool=EksSystemPoolArgs(force_update=True))
    assert forced.one(NODE_GROUP, "k8s-ml-system").inputs["forceUpdateVersion"] is True


def test_bottlerocket_shares_gpus_by_its_own_settings() -> None:
    """There the plugin is the host's: sharing goes to it as user data."""
    sharing = EksSharingArgs(strategy="time-slicing", replicas=4)
    encoded = template(os="bottlerocket", sharing=sharing)["userData"]
    settings = tomllib.loads(base64.b64decode(encoded).decode())
    plugin = settings["settings"]["kubelet-device-plugins"]["nvidia"]
    assert plugin == {
        "device-sharing-strategy": "time-slicing",
        "time-slicing": {
            "replicas": 4,
            "rename-by-default": False,
            "fail-requests-greater-than-one": True,
        },
    }
    assert "userData" not in template(os="al2023", sharing=sharing)


def test_bottlerockets_mps_keeps_the_resources_name() -> None:
    """Left out, its settings would rename what is shared; more than one share it always refuses."""
    encoded = template(os="bottlerocket", sharing=EksSharingArgs(strategy="mps", replicas=8))
    settings = tomllib.loads(base64.b64decode(encoded["userData"]).decode())
    assert settings["settings"]["kubelet-device-plugins"]["nvidia"] == {
        "device-sharing-strategy": "mps",
        "mps": {"replicas": 8, "rename-by-default": False},
    }


def test_a_group_of_reservations_is_named_by_its_arn() -> None:
    """A reservation is by its ID, in `train_choices.txt`."""
    arn = "arn:aws:resource-groups:us-east-1:123456789012:group/gpus"
    launch = template(capacity_type="reservation", reservation=arn, zones=["us-east-1a"])
    target = launch["capacityReservationSpecification"]["capacityReservationTarget"]
    assert target == {"capacityReservationResourceGroupArn": arn}


def test_the_tags_agree_with_the_node_group() -> None:
    """Whatever the pool, its tags say what its node group makes of a node."""
    pool = EksGpuNodeGroupArgs(
        instance_types=["p4d.24xlarge"],
        labels={"role": "big", "team/name": "ml"},
        taints=[
            Taint(key="team", value="ml", effect="NoExecute"),
            Taint(key="soft", value="x", effect="PreferNoSchedule"),
        ],
        sharing=EksSharingArgs(strategy="time-slicing", replicas=3),
    )
    found = declare({"pool": pool})
    made = found.one(NODE_GROUP, "pool").inputs
    kubernetes = {
        "NO_SCHEDULE": "NoSchedule",
        "NO_EXECUTE": "NoExecute",
        "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    }
    assert tags(found) == {
        **{autoscaler_tags.label_tag(key): value for key, value in made["labels"].items()},
        **{
            autoscaler_tags.taint_tag(t["key"]): f"{t['value']}:{kubernetes[t['effect']]}"
            for t in made["taints"]
        },
        # Eight GPUs, each shared by three pods.
        f"{PREFIX}/resources/nvidia.com/gpu": "24",
        f"{PREFIX}/resources/ephemeral-storage": "88Gi",
        f"{PREFIX}/resources/cpu": "95690m",
        f"{PREFIX}/resources/memory": "1082712Mi",
    }


def test_a_pool_at_zero_starts_a_node_for_no_more_than_its_tags_say() -> None:
    """With several types the smallest counts; a shape that is not certain says nothing."""
    two = EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge", "g4dn.2xlarge"])
    assert (two.gpu_pool("t4").cpu_millis, two.gpu_pool("t4").memory_mib) == (3920, 14481)
    for scaler in ("karpenter", "auto-mode"):  # which start the type that a pod fits on
        pool = two.gpu_pool("t4", scaler)
        assert (pool.cpu_millis, pool.memory_mib) == (7910, 29636)
    stays = EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"], min_nodes=1)
    assert stays.gpu_pool("t4").memory_mib == 15710
    block = EksGpuNodeGroupArgs(
        instance_types=["p6e-gb200.36xlarge"],
        capacity_type="capacity-block",
        reservation="cr-0123456789abcdef0",
    )
    assert (block.gpu_pool("gb").cpu_millis, block.gpu_pool("gb").memory_mib) == (None, None)
    found = tags(declare({"gb": dataclasses.replace(block, zones=["us-east-1a"])}))
    assert not {f"{PREFIX}/resources/cpu", f"{PREFIX}/resources/memory"} & set(found)


def test_the_first_preview_lists_every_tag(trained: Recording) -> None:
    """Keys and values are known before anything is deployed, only the group's name is not."""
    preview = declare(preview=True)
    assert tags(preview) == tags(trained)
    assert {r.name for r in preview.of(TAG)} == {r.name for r in trained.of(TAG)}
    assert not any("autoscalingGroupName" in r.inputs for r in preview.of(TAG))
