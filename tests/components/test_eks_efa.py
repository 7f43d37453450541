"""Elastic Fabric Adapters of pools: interfaces, security groups, the device plugin, tags."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.components.batch.kueue import _uncounted
from gpu_cluster.components.batch.training_args import TrainingArgs
from gpu_cluster.components.batch.training_spec import spec
from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.components.eks.karpenter_args import EksKarpenterArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.gpu.device_plugin import _env, _groups
from gpu_cluster.components.gpu.pod_parts import pod_parts
from gpu_cluster.components.gpu.service_args import ServiceArgs
from gpu_cluster.components.gpu.workload import pod_spec
from gpu_cluster.components.schema.refusal import Refusal
from tests.components.eks_stack import OUTPUTS, declare
from tests.components.recording import DEFINITION, Recording

GROUP = "aws:ec2/securityGroup:SecurityGroup"
ANSWERS = {
    "aws:eks/cluster:Cluster": {
        **OUTPUTS["aws:eks/cluster:Cluster"],
        "vpcConfig": {"clusterSecurityGroupId": "sg-cluster", "vpcId": "vpc-1"},
    },
}
PLACED = {"aws:ec2/placementGroup:PlacementGroup": {"name": "near-1a2b"}}


def stack(kind: str, *, efa: bool = True, scaler: str = "cluster-autoscaler") -> Recording:
    """A cluster with one pool of this instance type in one zone."""
    pool = EksGpuNodeGroupArgs(instance_types=[kind], zones=["us-east-1a"], efa=efa)
    own: dict[str, Any] = {"karpenter": EksKarpenterArgs()} if scaler == "karpenter" else {}
    return declare({"train": pool}, scaler=scaler, outputs=ANSWERS, **own)


def layout(interfaces: Sequence[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Card, device and type of each interface."""
    return [
        (row["networkCardIndex"], row["deviceIndex"], row["interfaceType"]) for row in interfaces
    ]


@pytest.mark.parametrize(
    ("kind", "cards"),
    [
        ("g5.8xlarge", [0]),
        ("p5.48xlarge", [*range(32)]),
        ("p6-b300.48xlarge", [*range(1, 17)]),
        ("p4d.24xlarge", [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("scaler", ["cluster-autoscaler", "karpenter"])
def test_each_card_with_efa_has_an_interface(kind: str, cards: list[int], scaler: str) -> None:
    """Beside the first one, which has the addresses; a card holds one at device 0, the first card
    at device 1 (EC2 user guide, efa-acc-inst-types)."""
    recorded = stack(kind, scaler=scaler)
    if scaler == "karpenter":
        node_class = recorded.one("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass", "train-class")
        given = node_class.inputs["spec"]["networkInterfaces"]
        groups = [term["id"] for term in node_class.inputs["spec"]["securityGroupSelectorTerms"]]
        assert groups == ["sg-cluster", "k8s-ml-efa-id"]
    else:
        template = recorded.one("aws:ec2/launchTemplate:LaunchTemplate", "train").inputs
        given = template["networkInterfaces"]
        assert "vpcSecurityGroupIds" not in template
        assert all(row["securityGroups"] == ["sg-cluster", "k8s-ml-efa-id"] for row in given)
        assert not any("subnetId" in row or "associatePublicIpAddress" in row for row in given)
    efa = [(card, 0 if card else 1, "efa-only") for card in cards]
    assert layout(given) == [(0, 0, "interface"), *efa]


def test_the_device_plugin_runs_on_nodes_with_adapters_only() -> None:
    """One DaemonSet for all such pools, and none for others."""
    other = EksGpuNodeGroupArgs(instance_types=["g5.xlarge"])
    fast = EksGpuNodeGroupArgs(instance_types=["g5.8xlarge"], zones=["us-east-1a"], efa=True)
    recorded = declare({"other": other, "fast": fast}, outputs=ANSWERS)
    sets = {item.name: item.inputs["spec"] for item in recorded.of("kubernetes:apps/v1:DaemonSet")}
    pod = sets["aws-efa-k8s-device-plugin"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "gpu-cluster/pool", "operator": "In", "values": ["fast"]}
    ]
    assert pod["hostNetwork"]
    assert pod["containers"][0]["securityContext"]["privileged"]


def test_the_autoscaler_knows_the_adapters_at_zero() -> None:
    """The tag of the group, and the same on the node group."""
    recorded = stack("p5.48xlarge")
    key = "k8s.io/cluster-autoscaler/node-template/resources/vpc.amazonaws.com/efa"
    tags = [item.inputs["tag"] for item in recorded.of("aws:autoscaling/tag:Tag")]
    assert {"key": key, "value": "32", "propagateAtLaunch": False} in tags
    group = recorded.one("aws:eks/nodeGroup:NodeGroup", "train")
    assert group.inputs["tags"][key] == "32"


@pytest.mark.parametrize("scaler", ["cluster-autoscaler", "karpenter"])
def test_without_the_setting_nothing_of_it_is_declared(scaler: str) -> None:
    """Even on a machine that has adapters."""
    recorded = stack("p5.48xlarge", efa=False, scaler=scaler)
    assert not recorded.of(GROUP)
    names = [item.name for item in recorded.of("kubernetes:apps/v1:DaemonSet")]
    assert "aws-efa-k8s-device-plugin" not in names
    texts = [str(item.inputs) for item in recorded.resources if item.type != DEFINITION]
    words = ("amazonaws.com/efa", "efa-only", "networkInterfaces")
    assert not [text for text in texts if any(word in text for word in words)]


def test_nodes_of_a_placement_group_name_it() -> None:
    """One group for all node groups of a pool; its name is EC2's, so that Pulumi may choose it."""
    near = EksGpuNodeGroupArgs(
        instance_types=["g5.8xlarge"], zones=["us-east-1a"], placement_group="cluster",
        capacity_type=None, fallback=["spot", "on-demand"],
    )  # fmt: skip
    recorded = declare({"near": near}, outputs=ANSWERS | PLACED)
    templates = recorded.of("aws:ec2/launchTemplate:LaunchTemplate")
    placed = [item.inputs["placement"] for item in templates if "near" in item.name]
    assert placed == [{"groupName": "near-1a2b"}] * 2
    (group,) = recorded.of("aws:ec2/placementGroup:PlacementGroup")
    assert group.inputs["strategy"] == "cluster"
    assert "name" not in group.inputs


POOL = EksGpuNodeGroupArgs(instance_types=["p4d.24xlarge"], efa=True).gpu_pool("a")
PLAIN = EksGpuNodeGroupArgs(instance_types=["p4d.24xlarge"]).gpu_pool("a")


def test_nvidias_plugin_leaves_the_adapters_to_awss() -> None:
    """It would give each pod all devices of /dev/infiniband (k8s-device-plugin issue 1692)."""
    for pool, variables in ((POOL, [{"name": "MOFED_ENABLED", "value": "false"}]), (PLAIN, [])):
        (group,) = _groups({"a": pool})
        assert [item for item in _env(group) if item["name"] == "MOFED_ENABLED"] == variables


def worker(pool: GpuPool, **given: Any) -> dict[str, Any]:
    """The container of a training job's workers."""
    needed: dict[str, Any] = {"pool": "a", "nodes": 2, "image": "i:1", "command": ["a"]}
    args = TrainingArgs(**{**needed, **given})
    args.check_fits(replace(pool, max_nodes=2))
    (workers,) = spec("large", args, pool, {}, None)["replicatedJobs"]
    container: dict[str, Any] = workers["template"]["spec"]["template"]["spec"]["containers"][0]
    return container


@pytest.mark.parametrize(
    ("given", "adapters"),
    [({}, "4"), ({"nodes": 1}, None), ({"gpus": 4}, None), ({"gpus": 4, "efa": 2}, "2"),
     ({"efa": 0}, None), ({"nodes": 1, "efa": 1}, "1"), ({"nodes": 1, "efa": "all"}, "4")],
)  # fmt: skip
def test_workers_with_all_gpus_of_several_nodes_have_all_adapters(
    given: dict[str, Any], adapters: str | None
) -> None:
    """Others have those that they request; with any, NCCL's variables are AWS's."""
    container = worker(POOL, **given)
    assert container["resources"]["limits"].get("vpc.amazonaws.com/efa") == adapters
    env = {item["name"]: item["value"] for item in container["env"]}
    assert env.get("FI_PROVIDER") == (adapters and "efa")
    assert "vpc.amazonaws.com/efa" not in worker(PLAIN)["resources"]["limits"]


def test_a_pods_own_variables_take_precedence() -> None:
    """Over AWS's recommendation."""
    env = {item["name"]: item["value"] for item in worker(POOL, env={"FI_PROVIDER": "tcp"})["env"]}
    assert env["FI_PROVIDER"] == "tcp"
    assert env["NCCL_BUFFSIZE"] == "8388608"


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (
            POOL,
            r"efa: 5 is more than a node of pool a has \(4\); drop the key, or request at most 4",
        ),
        (PLAIN, r"efa: 5 is not possible: the nodes of pool a have no Elastic Fabric Adapters"),
    ],
)
def test_more_adapters_than_a_node_has_are_refused(pool: GpuPool, words: str) -> None:
    """With the number that it has."""
    with pytest.raises(Refusal, match=words):
        worker(pool, efa=5)


def test_a_service_has_the_adapters_that_it_requests() -> None:
    """Its pods do not talk to each other, so that by default it has none."""
    cases: tuple[tuple[Any, str | None], ...] = ((None, None), (3, "3"), ("all", "4"))
    for efa, adapters in cases:
        args = ServiceArgs(pool="a", gpus=8, image="i:1", port=80, efa=efa)
        parts = pod_parts("chat", args, {}, None)
        pod: Any = pod_spec(args, POOL, parts, {"name": "chat"})
        (container,) = pod["containers"]
        assert container["resources"]["limits"].get("vpc.amazonaws.com/efa") == adapters
        assert ({"name": "FI_PROVIDER", "value": "efa"} in container["env"]) == bool(adapters)


def test_queues_do_not_count_adapters() -> None:
    """Kueue admits no job that requests a resource without a quota, unless it is excluded."""
    assert "vpc.amazonaws.com/efa" in _uncounted([PLAIN, POOL])
    assert "vpc.amazonaws.com/efa" not in _uncounted([PLAIN])


def test_the_drivers_huge_pages_are_no_memory_of_pods() -> None:
    """5128 of 2 MiB on AL2023 (EKS user guide, node-efa), 110 for each of 96 CPUs on Bottlerocket
    (bottlerocket-core-kit, corndog)."""
    assert (PLAIN.memory_mib or 0) - (POOL.memory_mib or 0) == 10256
    rocket = EksGpuNodeGroupArgs(instance_types=["p4d.24xlarge"], efa=True, os="bottlerocket")
    assert (PLAIN.memory_mib or 0) - (rocket.gpu_pool("a").memory_mib or 0) == 2 * 110 * 96
