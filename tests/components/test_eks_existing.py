"""GPU pools on an EKS cluster of another owner: what is declared, and what never is."""

import dataclasses
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pulumi
import pytest

from gpu_cluster.components.cluster import Runs
from gpu_cluster.components.eks.cpu_pool_args import EksCpuPoolArgs
from gpu_cluster.components.eks.existing_args import (
    EksExistingClusterArgs,
    EksExistingNetworkArgs,
    unfit,
)
from gpu_cluster.components.eks.existing_cluster import _fitting
from gpu_cluster.components.eks.karpenter_args import EksKarpenterArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from tests.components import recording
from tests.components.declaring import declared
from tests.components.eks_stack import OUTPUTS, TRAIN
from tests.components.recording import Recording, record

NETWORK = EksExistingNetworkArgs(subnet_ids=["subnet-0123456789abcdef0"])
REACHED = {"endpoint": "https://a.eks.amazonaws.com", "certificate_authority": "Q0E="}
FOUND: Mapping[str, Any] = {
    "endpoint": "https://found.eks.amazonaws.com",
    "certificateAuthorities": [{"data": "Rk9VTkQ="}],
    "status": "ACTIVE",
    "version": "1.35",
    "accessConfigs": [
        {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}
    ],
    "kubernetesNetworkConfigs": [{"ipFamily": "ipv4"}],
    "vpcConfig": {"vpcId": "vpc-platform", "clusterSecurityGroupId": "sg-eks"},
}  # fmt: skip


def declare(
    runs: Runs | None = None,
    pools: Mapping[str, EksGpuNodeGroupArgs] = MappingProxyType({"train-gpu": TRAIN}),
    **given: Any,
) -> Recording:
    """Records a pool of T4s on the cluster `platform`."""
    args = {"existing": "platform", "version": "1.35", "network": NETWORK, **given}
    return record(
        lambda: declared("eks-existing", EksExistingClusterArgs(**args), pools, runs),
        outputs=OUTPUTS,
    )


@pytest.mark.parametrize("own", [True, False])
def test_the_nodes_carry_the_right_of_the_network_plugin(own: bool) -> None:
    """Unless the plugin has a role of its own."""
    network = EksExistingNetworkArgs(subnet_ids=NETWORK.subnet_ids, cni_policy=own)
    found = declare(**{**REACHED, "network": network})
    attached = [
        str(each.inputs["policyArn"])
        for each in found.of("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    ]
    assert any(arn.endswith("/AmazonEKS_CNI_Policy") for arn in attached) is own


def test_nodes_without_a_named_security_group_have_that_of_eks() -> None:
    """The launch template has none; the ones that are named are in `everything-eks_choices.txt`."""
    template = declare(**REACHED).one("aws:ec2/launchTemplate:LaunchTemplate")
    assert "vpcSecurityGroupIds" not in template.inputs


@pytest.mark.parametrize(
    ("named", "groups"), [([], ["sg-eks"]), (["sg-0123456789abcdef0"], ["sg-0123456789abcdef0"])]
)
@pytest.mark.parametrize("scaler", ["cluster-autoscaler", "karpenter"])
def test_adapters_have_a_group_of_the_stack_in_the_cluster_s_vpc(
    monkeypatch: pytest.MonkeyPatch, named: list[str], groups: list[str], scaler: str
) -> None:
    """Beside those of the nodes, or else the one that EKS created with the cluster. The device
    plugin has a name of the stack: the owner's has its chart's."""
    monkeypatch.setattr(recording.Answers, "call", lambda *_: dict(FOUND))
    network = EksExistingNetworkArgs(subnet_ids=NETWORK.subnet_ids, security_group_ids=named)
    own: dict[str, Any] = {"karpenter_node_role": "Nodes"} if scaler == "karpenter" else {}
    pool = EksGpuNodeGroupArgs(instance_types=["g5.8xlarge"], efa=True)
    stack = declare(pools={"train-gpu": pool}, scaler=scaler, network=network, **own)
    group = stack.one("aws:ec2/securityGroup:SecurityGroup", "platform-efa")
    assert group.inputs["vpcId"] == "vpc-platform"
    if own:
        terms = custom(stack, "EC2NodeClass")["securityGroupSelectorTerms"]
        assert [term["id"] for term in terms] == [*groups, "platform-efa-id"]
    else:
        template = stack.one("aws:ec2/launchTemplate:LaunchTemplate")
        found = [row["securityGroups"] for row in template.inputs["networkInterfaces"]]
        assert found == [[*groups, "platform-efa-id"]] * 2
    names = {item.inputs["metadata"]["name"]: item.inputs["spec"]
             for item in stack.of("kubernetes:apps/v1:DaemonSet")}  # fmt: skip
    assert "aws-efa-k8s-device-plugin" not in names
    plugin = names["gpu-cluster-efa-device-plugin"]
    labels = {"name": "gpu-cluster-efa-device-plugin"}
    assert plugin["selector"]["matchLabels"] == plugin["template"]["metadata"]["labels"] == labels


LOADERS = EksCpuPoolArgs(instance_types=["m7i.xlarge"], labels={"role": "loader"})


def test_pools_without_gpus_are_node_groups_of_the_stack() -> None:
    """In the subnets and security groups of the cluster's nodes, with the stack's role, which has
    the policies that are named, its entry, its tag, and what the cluster's autoscaler reads."""
    other, group = "subnet-0123456789abcdef1", "sg-0123456789abcdef0"
    network = EksExistingNetworkArgs(
        subnet_ids=[*NETWORK.subnet_ids, other], security_group_ids=[group]
    )
    policy = "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"
    pools = {"loaders": LOADERS, "heads": dataclasses.replace(LOADERS, zones=[other])}
    given = {"network": network, "cpu_pools": pools, "ssm": True, "node_policies": [policy]}
    found = declare(pools={}, **{**REACHED, **given})
    groups = {each.name: each for each in found.of("aws:eks/nodeGroup:NodeGroup")}
    assert groups["loaders"].inputs["subnetIds"] == network.subnet_ids
    assert groups["heads"].inputs["subnetIds"] == [other]
    (entry,) = found.of("aws:eks/accessEntry:AccessEntry")
    for each in groups.values():
        assert each.inputs["clusterName"] == "platform"
        assert each.inputs["nodeRoleArn"] == entry.inputs["principalArn"]
        assert "gpu-cluster/stack" in each.inputs["tags"]
        assert any(urn.endswith(f"AccessEntry::{entry.name}") for urn in each.depends_on)
    for template in found.of("aws:ec2/launchTemplate:LaunchTemplate"):
        assert template.inputs["vpcSecurityGroupIds"] == [group]
    tags = {each.inputs["tag"]["key"] for each in found.of("aws:autoscaling/tag:Tag")}
    assert "k8s.io/cluster-autoscaler/node-template/label/role" in tags
    attached = {
        str(each.inputs["policyArn"])
        for each in found.of("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    }
    assert {policy, "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"} < attached


def test_the_cluster_is_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the settings do not say how it is reached."""
    asked = []

    def call(_: object, args: pulumi.runtime.MockCallArgs) -> dict[Any, Any]:
        asked.append((args.token, args.args["name"]))
        return dict(FOUND)

    monkeypatch.setattr(recording.Answers, "call", call)
    (provider,) = declare().of("pulumi:providers:kubernetes")
    assert "https://found.eks.amazonaws.com" in provider.inputs["kubeconfig"]
    assert asked == [("aws:eks/getCluster:getCluster", "platform")]


@pytest.mark.parametrize("scaler", ["cluster-autoscaler", "auto-mode"])
def test_a_cluster_that_cannot_be_read_ends_the_preview_in_one_line(
    monkeypatch: pytest.MonkeyPatch, scaler: Any
) -> None:
    """With the provider's reason, without its own words around it."""
    answer = {}, [("name", "the invocation returned an error: DescribeCluster:\n  not found")]
    monkeypatch.setattr(recording.Answers, "call", lambda *_: answer)
    with pytest.raises(pulumi.RunError) as refused:
        declare(scaler=scaler)
    assert str(refused.value) == (
        "gpu-cluster:cluster.existing: DescribeCluster: not found (name); give the name of an EKS "
        "cluster in us-east-1 that you may read"
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"version": "1.34"}, "version: '1.35' is not the version of platform, which runs "
         'Kubernetes 1.34; set it to "1.34"'),
        ({"status": "CREATING"}, "existing: platform is CREATING in EKS; wait until it is ACTIVE"),
        ({"mode": "CONFIG_MAP"}, "existing: platform has authentication mode CONFIG_MAP"),
        ({"scaler": "auto-mode"}, "scaler: platform does not have Auto Mode on; ask its owner"),
        ({"scaler": "auto-mode", "auto_mode": True}, ""),
        ({"ip_family": "ipv6"}, "network.cniPolicy: platform has pods with IPv6 addresses"),
    ],
)  # fmt: skip
def test_a_cluster_that_does_not_fit_is_refused(changes: Mapping[str, Any], says: str) -> None:
    """With the key that it is about."""
    found = {"status": "ACTIVE", "version": "1.35", "mode": "API", "ip_family": "ipv4",
             "auto_mode": False, "scaler": "cluster-autoscaler", **changes}  # fmt: skip
    args = EksExistingClusterArgs(
        existing="platform", version="1.35", network=NETWORK, scaler=found.pop("scaler")
    )
    reason = str(unfit(args, "us-east-1", **found) or "")
    assert reason.startswith(says)
    assert bool(reason) == bool(says)


def test_the_preview_refuses_a_cluster_without_auto_mode() -> None:
    """By what AWS says of it."""
    args = EksExistingClusterArgs(
        existing="platform", version="1.35", network=NETWORK, scaler="auto-mode"
    )
    found = SimpleNamespace(
        status="ACTIVE", version="1.35", endpoint="https://a", compute_configs=[],
        access_configs=[SimpleNamespace(authentication_mode="API")],
        kubernetes_network_configs=[SimpleNamespace(ip_family="ipv4")],
        certificate_authorities=[SimpleNamespace(data="Q0E=")],
    )  # fmt: skip
    for off in ([], [SimpleNamespace(enabled=False)]):
        found.compute_configs = off
        with pytest.raises(pulumi.RunError, match="scaler: platform does not have Auto Mode on"):
            _fitting(args, cast(Any, found), "us-east-1")
    found.compute_configs = [SimpleNamespace(enabled=True)]
    assert _fitting(args, cast(Any, found), "us-east-1") == ("https://a", "Q0E=")


@pytest.mark.parametrize(
    ("scaler", "tags", "warned"),
    [("auto-mode", {"team": "ml"}, True), ("auto-mode", {}, False),
     ("cluster-autoscaler", {"team": "ml"}, False)],
)  # fmt: skip
def test_tags_on_somebody_elses_auto_mode_are_warned_of(
    scaler: Any, tags: dict[str, str], warned: bool
) -> None:
    """AWS's policies for the cluster's role refuse them."""
    args = EksExistingClusterArgs(
        existing="platform", version="1.35", network=NETWORK, scaler=scaler, tags=tags
    )
    assert ["auto-learn-iam.html#tag-prop" in one for one in args.warnings(date(2026, 11, 24))] == (
        [True] if warned else []
    )


def custom(stack: Recording, kind: str) -> dict[str, Any]:
    """The spec of the only object of a kind."""
    (found,) = [one.inputs["spec"] for one in stack.resources if one.inputs.get("kind") == kind]
    return dict(found)


def test_karpenter_can_be_installed_there() -> None:
    """Also for nodes that are always there; without names of security groups, the cluster's own is
    read with the cluster."""
    groups = dataclasses.replace(NETWORK, security_group_ids=["sg-0123456789abcdef0"])
    cpu = {"loaders": dataclasses.replace(LOADERS, min_nodes=1, max_nodes=1)}
    given = {"scaler": "karpenter", "karpenter": EksKarpenterArgs(), "network": groups, **REACHED}
    deployment = declare(**given, cpu_pools=cpu, pools={}).one("kubernetes:apps/v1:Deployment")
    (container,) = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert any("StaticCapacity=true" in one.get("value", "") for one in container["env"])
    with pytest.raises(ValueError, match=r"^network.securityGroupIds: karpenter names"):
        declare(scaler="karpenter", karpenter=EksKarpenterArgs(), **REACHED)
