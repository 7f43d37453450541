"""EKS Auto Mode in the simulated account: what EKS refuses of it, and what it launches as."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_cluster.rehearsal.simulators.cloud import Mount, NodePools, Wanted
from tests.simulators.aws_account import Account, account, role

PARTS: dict[str, Any] = {
    "computeConfig": {
        "enabled": True,
        "nodePools": ["general-purpose", "system"],
        "nodeRoleArn": role("nodes"),
    },
    "storageConfig": {"blockStorage": {"enabled": True}},
    "kubernetesNetworkConfig": {"elasticLoadBalancing": {"enabled": True}},
}


def create(of: Account, name: str = "ml", **changes: Any) -> None:
    of.eks.create_cluster(
        **{
            "name": name,
            "roleArn": role("control"),
            "resourcesVpcConfig": {"subnetIds": of.subnets},
            "accessConfig": {"authenticationMode": "API"},
            "bootstrapSelfManagedAddons": False,
            **copy.deepcopy(PARTS),
            **changes,
        }
    )


@pytest.fixture(scope="module")
def empty() -> Iterator[Account]:
    """An account with a network and roles."""
    with account() as made:
        made.network()
        made.roles()
        yield made


@pytest.fixture(scope="module")
def ml(empty: Account) -> Account:
    """A cluster of Auto Mode."""
    policy = "arn:aws:iam::aws:policy/AmazonEKSComputePolicy"
    empty.iam.attach_role_policy(RoleName="control", PolicyArn=policy)
    create(empty)
    empty.eks.get_waiter("cluster_active").wait(name="ml", WaiterConfig={"Delay": 1})
    return empty


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"storageConfig": {"blockStorage": {"enabled": False}}}, "all either fully enabled"),
        ({"kubernetesNetworkConfig": {}}, "all either fully enabled"),
        (
            {"computeConfig": {"enabled": True, "nodePools": ["system"]}},
            "nodeRoleArn is null or empty, nodePool list cannot be populated",
        ),
        (
            {"computeConfig": {"enabled": True, "nodeRoleArn": role("nodes")}},
            "nodePool value(s) must be provided",
        ),
        (
            {"computeConfig": PARTS["computeConfig"] | {"nodePools": ["gpus"]}},
            "there are general-purpose, system",
        ),
        (
            {"computeConfig": PARTS["computeConfig"] | {"nodeRoleArn": role("pods")}},
            "does not trust ec2.amazonaws.com",
        ),
        ({"bootstrapSelfManagedAddons": True}, "bootstrapSelfManagedAddons must be false"),
        ({"accessConfig": {"authenticationMode": "CONFIG_MAP"}}, "needs the authentication mode"),
    ],
)
def test_eks_refuses_half_an_auto_mode(empty: Account, changes: dict[str, Any], says: str) -> None:
    """All three parts or none, and a role with the built-in pools."""
    with pytest.raises(ClientError, match="InvalidParameterException") as refused:
        create(empty, "other", **changes)
    assert says in str(refused.value)


def test_eks_admits_the_nodes_and_installs_its_kinds(ml: Account) -> None:
    """The node role has an access entry; pods get roles without the addon."""
    entry = ml.eks.describe_access_entry(clusterName="ml", principalArn=role("nodes"))
    assert entry["accessEntry"]["type"] == "EC2"
    found = ml.eks.list_associated_access_policies(clusterName="ml", principalArn=role("nodes"))
    (policy,) = found["associatedAccessPolicies"]
    assert policy["policyArn"].endswith("/AmazonEKSAutoNodePolicy")
    assert "NodeClass" in ml.plane.kinds
    mode = ml.cloud.auto_mode()
    assert mode is not None
    names = {one["kind"]: one["metadata"]["name"] for one in mode.objects}
    assert names == {"NodeClass": "default", "NodePool": "system"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"computeConfig": {"enabled": False}}, "The type for cluster update was not provided"),
        (
            PARTS | {"computeConfig": PARTS["computeConfig"] | {"nodeRoleArn": role("team/admin")}},
            "nodeRoleArn cannot be changed",
        ),
    ],
)
def test_eks_refuses_such_changes(ml: Account, changes: dict[str, Any], says: str) -> None:
    """Another role for the nodes, and a part of the three parts."""
    with pytest.raises(ClientError, match=says):
        ml.eks.update_cluster_config(name="ml", **changes)


def test_auto_mode_launches_with_the_role_of_the_cluster(ml: Account) -> None:
    """Which AWS's policy lets it do with its own tags, and not with a user's."""
    mode = ml.cloud.auto_mode()
    assert mode is not None
    ec2 = ml.client("ec2", mode.environment["AWS_ACCESS_KEY_ID"])
    own = {
        "eks:eks-cluster-name": "ml",
        "karpenter.sh/nodepool": "train",
        "karpenter.k8s.aws/ec2nodeclass": "train",
        "karpenter.sh/nodeclaim": "train-1",
    }

    def template(**more: str) -> dict[str, Any]:
        tags = [{"Key": key, "Value": value} for key, value in (own | more).items()]
        return {
            "LaunchTemplateName": f"karpenter.k8s.aws/{len(tags)}",
            "LaunchTemplateData": {},
            "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags}],
        }

    ec2.create_launch_template(**template())
    with pytest.raises(ClientError, match="not authorized to perform: ec2:CreateLaunchTemplate"):
        ec2.create_launch_template(**template(team="ml"))
    types = [{"Name": "instance-type", "Values": ["g6.xlarge", "g6f.xlarge", "t3.micro"]}]
    offered = ec2.describe_instance_types(Filters=types)["InstanceTypes"]
    assert [one["InstanceType"] for one in offered] == ["g6.xlarge"]
    said = {group.name: group.unscaled for group in groups(ml, "nodes")}
    assert (
        "EKS Auto Mode with its role control may not do ec2:CreateLaunchTemplate" in said["train"]
    )


def groups(ml: Account, node_role: str, **requirement: Any) -> Any:
    """Those of a cluster with one NodePool."""
    wanted = requirement or {"key": "node.kubernetes.io/instance-type", "values": ["g6.xlarge"]}
    pool = {
        "kind": "NodePool",
        "metadata": {"name": "train"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"kind": "NodeClass", "name": "train"},
                    "requirements": [{"operator": "In", **wanted}],
                }
            }
        },
    }
    node_class = {"kind": "NodeClass", "metadata": {"name": "train"}, "spec": {"role": node_role}}
    ml.cloud.declared(NodePools(pools=[pool], classes=[node_class]))
    return ml.cloud.node_groups()


def test_a_pool_says_what_auto_mode_lacks(ml: Account) -> None:
    """A role that no access entry of the right type has, and a family that it does not start."""
    (unknown,) = groups(ml, "pods")
    assert "Role pods is unauthorized to join nodes to the cluster" in unknown.unscaled
    family = {"key": "eks.amazonaws.com/instance-family", "values": ["g7"]}
    (lacking,) = groups(ml, "nodes", **family)
    assert "EKS Auto Mode starts no instance of g7" in lacking.unscaled
    (fits,) = groups(ml, "nodes")
    assert "g6.xlarge" not in fits.unscaled
    assert (fits.driver, fits.plugin, fits.gpus) == ("cloud", "cloud", 1)


def test_an_instance_that_is_named_twice_is_described_once(
    ml: Account, caplog: pytest.LogCaptureFixture
) -> None:
    """Karpenter's batches name an instance once for each of its callers."""
    (made,) = ml.ec2.run_instances(
        ImageId="ami-12c6146b", MinCount=1, MaxCount=1, SubnetId=ml.subnets[0]
    )["Instances"]
    identity = made["InstanceId"]
    (found,) = ml.ec2.describe_instances(InstanceIds=[identity, identity])["Reservations"]
    assert [instance["InstanceId"] for instance in found["Instances"]] == [identity]
    assert not any(record.exc_info for record in caplog.records)
    ml.ec2.terminate_instances(InstanceIds=[identity])


CLASS_DRIVER = "ebs.csi.eks.amazonaws.com"


def test_auto_mode_has_disks_of_its_own(ml: Account) -> None:
    """Without an addon, for nodes of its own, and for volumes with its tag; the addon's driver does
    not exist. Elsewhere it is the other way round."""
    claim = Wanted(
        uid="9abc", kind="disk", name="default/data", driver=CLASS_DRIVER, zone="us-east-1b"
    )
    addons = Wanted(uid="9abd", kind="disk", name="default/other", driver="ebs.csi.aws.com")
    assert ml.cloud.attach([addons]) == {}
    driver, _, handle = ml.cloud.attach([claim])["9abc"].partition(":")
    assert (driver, ml.cloud.disk_zone(handle)) == (CLASS_DRIVER, "us-east-1b")
    labels = {"eks.amazonaws.com/compute-type": "auto", "topology.kubernetes.io/zone": "us-east-1b"}
    mount = Mount(volume="data", namespace="default", service_account="default", writes=True,
                  driver=CLASS_DRIVER, handle=handle, attributes={}, options=(), annotations={},
                  taints=(), node_labels=labels)  # fmt: skip
    says = ml.cloud.why_not_mounted
    assert says(mount) == ""
    assert "ebs-csi-driver addon does not work" in says(replace(mount, driver="ebs.csi.aws.com"))
    assert "nodes of EKS Auto Mode only" in says(
        replace(mount, node_labels=labels | {"eks.amazonaws.com/compute-type": "ec2"})
    )
    elsewhere = labels | {"topology.kubernetes.io/zone": "us-east-1a"}
    assert "The volume is in us-east-1b, and the node in us-east-1a" in says(
        replace(mount, node_labels=elsewhere)
    )
    bare = ml.ec2.create_volume(AvailabilityZone="us-east-1b", Size=1)["VolumeId"]
    assert "needs the tag eks:eks-cluster-name=ml" in says(replace(mount, handle=bare))
    cluster = ml.cloud.account.clusters["ml"]
    compute, cluster.row["computeConfig"] = cluster.row["computeConfig"], {"enabled": False}
    assert f"the cluster has no driver {CLASS_DRIVER}" in says(mount)
    cluster.row["computeConfig"] = compute
    ml.ec2.delete_volume(VolumeId=bare)
    ml.cloud.attach([])


def test_auto_mode_starts_a_node_for_addons(ml: Account) -> None:
    """In its pool `system` or `general-purpose`; without one, nothing runs their pods."""
    ml.eks.create_addon(clusterName="ml", addonName="metrics-server")
    described = ml.eks.describe_addon(clusterName="ml", addonName="metrics-server")["addon"]
    assert described["status"] == "ACTIVE"
    compute = ml.cloud.account.clusters["ml"].row["computeConfig"]
    pools = compute.pop("nodePools")
    described = ml.eks.describe_addon(clusterName="ml", addonName="metrics-server")["addon"]
    assert "the cluster has no node" in described["health"]["issues"][0]["message"]
    compute["nodePools"] = pools
    ml.eks.delete_addon(clusterName="ml", addonName="metrics-server")


def test_auto_mode_enforces_network_policies_on_request(ml: Account) -> None:
    """By a ConfigMap and each node class; without Auto Mode, by the addon's configuration."""
    switch = {"kube-system/amazon-vpc-cni": {"data": {"enable-network-policy-controller": "true"}}}
    assert ml.cloud.why_unenforced(switch) == ""
    assert "EKS Auto Mode enforces no NetworkPolicy" in ml.cloud.why_unenforced({})
    rows = [{"metadata": {"name": "a"}, "spec": {}},
            {"metadata": {"name": "b"}, "spec": {"networkPolicy": "DefaultAllow"}}]  # fmt: skip
    assert "on nodes of NodeClass a, without" in ml.cloud.why_unenforced(switch, rows)
    assert ml.cloud.why_unenforced(switch, rows[1:]) == ""
    cluster = ml.cloud.account.clusters["ml"]
    compute, cluster.row["computeConfig"] = cluster.row["computeConfig"], {"enabled": False}
    assert "the addon vpc-cni enforces no NetworkPolicy" in ml.cloud.why_unenforced(switch)
    values = '{"enableNetworkPolicy": "true"}'
    ml.eks.create_addon(clusterName="ml", addonName="vpc-cni", configurationValues=values)
    assert ml.cloud.why_unenforced({}) == ""
    ml.eks.delete_addon(clusterName="ml", addonName="vpc-cni")
    cluster.row["computeConfig"] = compute


def test_a_cluster_ends_with_what_auto_mode_launched(ml: Account) -> None:
    """Launch templates and instance profiles; and EKS gives no instance an unknown role."""
    mode = ml.cloud.auto_mode()
    assert mode is not None
    iam = ml.client("iam", mode.environment["AWS_ACCESS_KEY_ID"])
    iam.create_instance_profile(InstanceProfileName="ml_1", Path="/karpenter/us-east-1/ml/1/")
    with pytest.raises(ClientError, match="Role pods is unauthorized to join nodes"):
        iam.add_role_to_instance_profile(InstanceProfileName="ml_1", RoleName="pods")
    iam.add_role_to_instance_profile(InstanceProfileName="ml_1", RoleName="nodes")
    assert "launch template karpenter.k8s.aws/4" in ml.cloud.list_resources()
    ml.eks.delete_cluster(name="ml")
    left = json.dumps(ml.cloud.list_resources())
    assert "karpenter" not in left
    assert "ml_1" not in left
