"""An EKS cluster of another owner in the simulated account, and what `gpu-cluster capacity` finds
of it before a stack's first update."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.exceptions
import pytest
import yaml

from gpu_cluster.components.settings import load as settings
from gpu_cluster.rehearsal.existing import inventory_eks
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES, eks_cluster, network, objects
from gpu_cluster.stacks.capacity import aws_existing, conflicts, eks, stack_capacity
from gpu_cluster.stacks.definition.names import StackError
from tests.simulators.aws_account import Account, account
from tests.unit.components.test_settings import changed

CLUSTER, POOL = "gpu-cluster:cluster", ["gpu-cluster:gpuPools", "train-gpu"]
BY_NAME = [[CLUSTER, "endpoint", None], [CLUSTER, "certificateAuthority", None]]


def read(*changes: list[Any]) -> Any:
    return settings.from_config(changed("on-eks", [*BY_NAME, *changes]))


@pytest.fixture(scope="module")
def made() -> Iterator[Account]:
    """The account of the sample, with the cluster of its inventory."""
    own = read()
    vpc, cluster = network("on-eks", own)[0], eks_cluster("on-eks", own)[0]
    with account(existing=vpc, cluster=cluster) as found:
        found.cloud.open("us-east-1")
        yield found


def test_it_is_as_terraform_aws_eks_makes_it(made: Account) -> None:
    """By default: entries and aws-auth, the CNI with the nodes' role, a group of their own."""
    eks = made.eks
    cluster = eks.describe_cluster(name="platform")["cluster"]
    assert cluster["accessConfig"]["authenticationMode"] == "API_AND_CONFIG_MAP"
    addons = eks.list_addons(clusterName="platform")["addons"]
    assert sorted(addons) == ["coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"]
    shown = [eks.describe_addon(clusterName="platform", addonName=one)["addon"] for one in addons]
    assert {one["status"] for one in shown} == {"ACTIVE"}
    group = eks.describe_nodegroup(clusterName="platform", nodegroupName="default")["nodegroup"]
    assert (group["status"], group["scalingConfig"]["desiredSize"]) == ("ACTIVE", 2)
    instances = [instance for row in made.ec2.describe_instances()["Reservations"]
                 for instance in row["Instances"]]  # fmt: skip
    assert len(instances) == 2
    assert made.cloud.list_resources() == []


def found(made: Account, *changes: list[Any], owner: str = "gpu-cluster/on-eks") -> list[Any]:
    """Key and reason of each finding."""
    lines = aws_existing.cluster_findings(made.eks, made.ec2, read(*changes), owner)
    return [(line.about, line.reason) for line in lines]


def test_the_sample_fits_its_cluster(made: Account) -> None:
    """Of its inventory."""
    assert found(made) == []


ROLE = "arn:aws:iam::123456789012:policy/registry"


@pytest.mark.parametrize(
    ("changes", "about", "says"),
    [
        ([[CLUSTER, "existing", "other"]], "cluster.existing",
         "us-east-1 has no EKS cluster other that is visible to this account; it has platform"),
        ([[CLUSTER, "version", "1.34"]], "cluster.version", "which runs Kubernetes 1.35; set it"),
        ([[CLUSTER, "endpoint", "https://other"], [CLUSTER, "certificateAuthority", "Q0E="]],
         "cluster.endpoint", "does not match platform; set it to the output of aws eks "
                             "describe-cluster"),
        ([[CLUSTER, "network", "securityGroupIds", ["sg-0123456789abcdef0"]]],
         "cluster.network.securityGroupIds", "has no security group sg-0123456789abcdef0"),
        ([[CLUSTER, "network", "securityGroupIds", []]], "cluster.network.securityGroupIds",
         "may not reach its DNS; its nodes have sg-0aaaaaaaaaaaaaaa1: name one"),
        ([[CLUSTER, "network", "cniPolicy", False]], "cluster.network.cniPolicy",
         "has no role of its own"),
        ([[*POOL, "nodeRepair", None]], "gpuPools.train-gpu.nodeRepair",
         "needs the addon eks-node-monitoring-agent, which platform does not have; ask its owner "
         "to run aws eks create-addon --region us-east-1 --cluster-name platform --addon-name"),
        ([["gpu-cluster:serviceAccounts", {"a": {"buckets": {"data": "read"}}}]],
         "serviceAccounts.a.buckets", "needs the addon aws-mountpoint-s3-csi-driver"),
        ([["gpu-cluster:volumeClaims", {"a": {"size": "1Gi", "zone": "us-east-1a"}}]],
         "volumeClaims.a", "needs the addon aws-ebs-csi-driver"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_does_not_fit_is_found(
    made: Account, changes: list[Any], about: str, says: str
) -> None:
    """Once, with the key and what to do."""
    said = dict(found(made, *changes))
    assert about in said
    assert says in said[about]


def test_what_is_read_of_it_is_its_inventory(
    made: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gpu-cluster inventory` finds what the simulated cluster was made from, and leaves out the
    stack's own node groups."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "simulated")
    name = {"clusterName": "platform", "nodegroupName": "default"}
    group = made.eks.describe_nodegroup(**name)["nodegroup"]
    made.eks.create_nodegroup(
        clusterName="platform", nodegroupName="own", nodeRole=group["nodeRole"],
        subnets=group["subnets"], instanceTypes=["g4dn.xlarge"],
        tags={"gpu-cluster/stack": "gpu-cluster/on-eks"},
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
    )  # fmt: skip
    buckets, tolerant = "aws-mountpoint-s3-csi-driver", {"node": {"tolerateAllTaints": True}}
    made.eks.create_addon(
        clusterName="platform", addonName=buckets, configurationValues=json.dumps(tolerant)
    )
    try:
        found, _ = inventory_eks.read_inventory(read(), "gpu-cluster/on-eks", made.cloud.endpoint)
    finally:
        made.eks.delete_nodegroup(clusterName="platform", nodegroupName="own")
        made.eks.delete_addon(clusterName="platform", addonName=buckets)
    written = yaml.safe_load((INVENTORIES / "on-eks.yaml").read_text())
    del written["objects"]
    written["cluster"]["addons"].append(buckets)
    written["cluster"]["addonConfiguration"] = {buckets: tolerant}
    for row in written["subnets"].values():
        row["out"] = "nat"
    for of in (found, written):
        of["cluster"]["addons"].sort()
    assert found == written


def test_the_group_that_eks_made_is_described_if_the_settings_name_it(
    made: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inventory must describe every group that they name."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "simulated")
    vpc = made.eks.describe_cluster(name="platform")["cluster"]["resourcesVpcConfig"]
    of_eks = vpc["clusterSecurityGroupId"]
    own = read([CLUSTER, "network", "securityGroupIds", [of_eks]])
    inventory, _ = inventory_eks.read_inventory(own, "gpu-cluster/on-eks", made.cloud.endpoint)
    assert of_eks in inventory["cluster"]["securityGroups"]


def test_a_pool_of_another_stack_keeps_its_name(made: Account) -> None:
    """Pods of the one would run on nodes of the other; the stack's own pool does not count."""
    group = made.eks.describe_nodegroup(clusterName="platform", nodegroupName="default")[
        "nodegroup"
    ]
    made.eks.create_nodegroup(
        clusterName="platform", nodegroupName="train-gpu-1", nodeRole=group["nodeRole"],
        subnets=group["subnets"], instanceTypes=["g4dn.xlarge"],
        labels={"gpu-cluster/pool": "train-gpu"}, tags={"gpu-cluster/stack": "gpu-cluster/a"},
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
    )  # fmt: skip
    try:
        ((about, reason),) = found(made)
        assert about == "gpuPools.train-gpu"
        assert "node group train-gpu-1 of gpu-cluster/a is a pool of this name" in reason
        assert found(made, owner="gpu-cluster/a") == []
        assert made.cloud.list_resources() != []
    finally:
        made.eks.delete_nodegroup(clusterName="platform", nodegroupName="train-gpu-1")
    assert made.cloud.list_resources() == []


def test_a_team_needs_somebody_in_its_group(made: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """If access entries alone say who is; the owner's entry with the group is found."""
    team = {"members": ["group:research"], "gpus": {"train-gpu": 1}}
    changes = ["gpu-cluster:teams", {"research": team}]
    assert found(made, changes) == []
    row = made.cloud.account.clusters["platform"].row["accessConfig"]
    monkeypatch.setitem(row, "authenticationMode", "API")
    ((about, reason),) = found(made, changes)
    assert about == "teams.research.members"
    assert "has the Kubernetes group research, so that nobody is in it; ask its owner" in reason
    role = "arn:aws:iam::123456789012:role/platform-cluster"
    entry = {"clusterName": "platform", "principalArn": role}
    made.eks.create_access_entry(**entry, kubernetesGroups=["research"])
    assert found(made, changes) == []
    made.eks.delete_access_entry(**entry)


def test_aws_auth_is_read_if_eks_reads_it(made: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """In mode API, a ConfigMap of that name grants no rights."""
    own, owner = read(), "gpu-cluster/on-eks"
    row = made.cloud.account.clusters["platform"].row
    said: list[bool] = []

    def looked(*_: Any, reads_aws_auth: Any) -> tuple[dict[str, str], list[Any]]:
        said.append(reads_aws_auth())
        return {}, []

    monkeypatch.setattr(conflicts, "conflicts", looked)
    asked = eks.questions(own, made.cloud.endpoint)
    for mode in ("API", "API_AND_CONFIG_MAP"):
        monkeypatch.setitem(row["accessConfig"], "authenticationMode", mode)
        assert stack_capacity._existing("on-eks", own, asked, owner, rehearsal=False) == []
    assert said == [False, True]


def test_a_member_with_an_entry_of_somebody_else_is_found(made: Account) -> None:
    """With what its owner has to do; one of the stack's own, and a role without one, are not."""
    role = "arn:aws:iam::210987654321:role/research"
    team = {"members": [role], "gpus": {"train-gpu": 1}}
    changes = ["gpu-cluster:teams", {"research": team}]
    assert found(made, changes) == []
    entry = {"clusterName": "platform", "principalArn": role}
    made.eks.create_access_entry(**entry, kubernetesGroups=["ops"])
    try:
        ((about, reason),) = found(made, changes)
        assert about == "teams.research.members"
        assert f"--principal-arn {role} --kubernetes-groups ops research, and name" in reason
    finally:
        made.eks.delete_access_entry(**entry)
    made.eks.create_access_entry(**entry, tags={"gpu-cluster/stack": "gpu-cluster/on-eks"})
    try:
        assert found(made, changes) == []
    finally:
        made.eks.delete_access_entry(**entry)


@pytest.mark.parametrize(
    ("service", "call", "about"),
    [
        ("eks", "ListAccessEntries", "teams.research.members"),
        ("eks", "DescribeAccessEntry", "cluster.users.lab.principals"),
        ("eks", "ListAddons", "gpuPools.train-gpu.nodeRepair"),
        ("eks", "ListNodegroups", "gpuPools"),
        ("ec2", "DescribeSubnets", "cluster.network.subnetIds"),
        ("ec2", "DescribeInstances", "cluster.network.securityGroupIds"),
    ],
)
def test_a_refused_call_hides_no_other_finding(
    made: Account, service: str, call: str, about: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a separate finding, which names the missing permission."""

    def refuse(**_: Any) -> None:
        denied = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
        raise botocore.exceptions.ClientError(denied, call)

    users = {"lab": {"principals": ["arn:aws:iam::210987654321:role/lab"]}}
    changes = [
        [CLUSTER, "version", "1.34"], [CLUSTER, "users", users], [*POOL, "nodeRepair", None],
        ["gpu-cluster:teams", {"research": {"members": ["group:r"], "gpus": {"train-gpu": 1}}}],
    ]  # fmt: skip
    row = made.cloud.account.clusters["platform"].row["accessConfig"]
    monkeypatch.setitem(row, "authenticationMode", "API")
    events = (made.eks if service == "eks" else made.ec2).meta.events
    events.register(f"before-call.{service}.{call}", refuse)
    try:
        said = dict(found(made, *changes))
    finally:
        events.unregister(f"before-call.{service}.{call}", refuse)
    assert said[about].endswith(
        f"not allowed to look: AccessDeniedException no; allow {service}:{call}"
    )
    others = {"cluster.version", "gpuPools.train-gpu.nodeRepair", "teams.research.members"}
    assert others <= said.keys()


def test_a_cluster_without_its_agent_lacks_rights_for_pods(made: Account) -> None:
    """Pod Identity is the only way that the stack takes."""
    made.eks.delete_addon(clusterName="platform", addonName="eks-pod-identity-agent")
    try:
        accounts = {"a": {"policies": [ROLE]}}
        changes = [CLUSTER, "autoscaler", {}], ["gpu-cluster:serviceAccounts", accounts]
        said = dict(found(made, *changes))
        assert sorted(said) == ["cluster.autoscaler", "serviceAccounts.a"]
        gone = "not any more: addon platform:eks-pod-identity-agent, which is somebody else's"
        assert gone in made.cloud.list_resources()
    finally:
        name = "eks-pod-identity-agent"
        made.eks.create_addon(clusterName="platform", addonName=name)


def test_network_policies_that_nothing_enforces_are_unknown(made: Account) -> None:
    """terraform-aws-eks leaves the addon's switch off; without training jobs and services, the
    stack declares none."""
    service = {"chat": {"pool": "train-gpu", "image": "example.com/i:1", "port": 8000}}
    serving = [["gpu-cluster:services", service]]
    ((about, reason),) = found(made, *serving)
    assert about == "cluster.existing"
    assert "ask its owner to set enableNetworkPolicy" in reason
    addon = {"clusterName": "platform", "addonName": "vpc-cni"}
    try:
        made.eks.update_addon(**addon, configurationValues='{"enableNetworkPolicy": "true"}')
        assert found(made, *serving) == []
    finally:
        made.eks.update_addon(**addon, configurationValues="{}")


def test_auto_mode_has_its_addons_built_in(made: Account) -> None:
    """Neither the agent of pods nor that of nodes is asked for; a cluster without it does not
    fit. Karpenter of the stack's own needs Pod Identity, and repairs by no setting of a pool."""
    repair, accounts = [*POOL, "nodeRepair", None], {"a": {"policies": [ROLE]}}
    changes = [[CLUSTER, "autoscaler", None], repair, ["gpu-cluster:serviceAccounts", accounts]]
    cluster = made.cloud.account.clusters["platform"]
    name = "eks-pod-identity-agent"
    made.eks.delete_addon(clusterName="platform", addonName=name)
    try:
        automatic = [*changes, [CLUSTER, "scaler", "auto-mode"]]
        assert list(dict(found(made, *automatic))) == ["cluster.scaler"]
        cluster.row["computeConfig"] = {"enabled": True}
        assert found(made, *automatic) == []
        karpenter = [*changes[:2], [CLUSTER, "scaler", "karpenter"], [CLUSTER, "karpenter", {}]]
        assert list(dict(found(made, *karpenter))) == ["cluster.karpenter"]
    finally:
        cluster.row.pop("computeConfig", None)
        made.eks.create_addon(clusterName="platform", addonName=name)


@pytest.mark.parametrize(
    ("inventory", "says"),
    [
        ({"cluster": []}, "cluster: is not a map"),
        (
            {"cluster": {"autoMode": True}},
            "cluster.autoMode: true is not a list of built-in node pools; allowed: "
            "general-purpose, system; write [] if Auto Mode is on without them, or drop",
        ),
        ({"cluster": {"version": 1.35}}, "cluster.version: 1.35 is not a string; put it in quotes"),
        ({"cluster": {"addons": "vpc-cni"}}, "cluster.addons: 'vpc-cni' is not a list"),
        (
            {"cluster": {"addonConfiguration": {"coredns": 1}}},
            'cluster.addonConfiguration: {"coredns": 1} is not a configuration by name of an addon',
        ),
        ({"cluster": {"nodeGroups": ["a"]}}, 'cluster.nodeGroups: ["a"] does not describe nodes'),
        (
            {"cluster": {"nodeGroups": {"a": {"instanceType": "m6i.large"}}}},
            "cluster.nodeGroups: {",
        ),
        ({"cluster": {"authenticationMode": "api"}}, "cluster.authenticationMode: 'api' is not k"),
        ({"cluster": {"addon": []}}, "cluster.addon: is not known; allowed: version, "),
        ({"cluster": {}, "objects": [{"kind": "Pod"}]}, "objects[0]: is not an object"),
    ],
)
def test_a_wrong_inventory_is_refused(
    inventory: Mapping[str, Any], says: str, tmp_path: Any
) -> None:
    """With its path."""
    (tmp_path / "on-eks.yaml").write_text(yaml.safe_dump(inventory))

    def described() -> None:
        eks_cluster("on-eks", read(), tmp_path)
        objects("on-eks", tmp_path)

    with pytest.raises(StackError, match=rf"inventories/on-eks.yaml {re.escape(says)}"):
        described()


def test_without_an_inventory_the_report_says_what_scales_the_pools(tmp_path: Any) -> None:
    """Nothing, unless the stack installs an autoscaler or the inventory has the owner's."""
    lacks = "has no Cluster Autoscaler here"
    _, notes = eks_cluster("on-eks", read(), tmp_path)
    assert [lacks in note for note in notes] == [False, True]
    _, notes = eks_cluster("on-eks", read([CLUSTER, "autoscaler", {}]), tmp_path)
    assert [lacks in note for note in notes] == [False]
    (tmp_path / "on-eks.yaml").write_text("cluster: {}\n")
    assert eks_cluster("on-eks", read(), tmp_path)[1] == []
