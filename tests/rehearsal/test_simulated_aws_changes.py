"""The simulated AWS: what a cluster, and what admits to it, becomes when it is changed.

Here and not among the unit tests, because an AWS account takes seconds to fill.
"""

import time
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.rehearsal.simulators import cloud
from gpu_cluster.rehearsal.simulators.cloud import Progress
from tests.rehearsal import aws_stack as aws
from tests.rehearsal.aws_stack import AwsStack
from tests.unit.plugins.offline_engine import Refused

RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
fresh = aws.fresh


def control_plane(made: AwsStack, **changes: Any) -> dict[str, Any]:
    """A cluster without nodes; its inputs."""
    made.subnets = made.network()
    made.role("control", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    inputs = aws.cluster(made.subnets, **changes)
    made.up(aws.CLUSTER, "ml", inputs)
    return inputs


def placed(inputs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The same cluster with other values in its vpcConfig."""
    return inputs | {"vpcConfig": inputs["vpcConfig"] | changes}


def subnet(made: AwsStack, zone: str, block: str) -> str:
    vpc = made.state[made.urn(aws.VPC, "net")][0]
    given = {"vpcId": vpc, "cidrBlock": block, "availabilityZone": zone}
    return made.id(aws.SUBNET, block, given)


def test_a_control_plane_keeps_its_zones(fresh: AwsStack) -> None:
    """Neither another zone nor one less; other subnets of the same zones are taken."""
    inputs = control_plane(fresh)
    a, b = fresh.subnets
    c = subnet(fresh, "us-east-1c", "10.0.8.0/24")
    words = (
        "InvalidParameterException: Provided subnets belong to the AZs '{}'. But they should "
        "belong to the exact set of AZs 'us-east-1a,us-east-1b' in which subnets were provided "
        "during cluster creation."
    )
    for subnets, zones in (
        ([a, b, c], "us-east-1a,us-east-1b,us-east-1c"),
        ([a, c], "us-east-1a,us-east-1c"),
        ([a], "us-east-1a"),
    ):
        with pytest.raises(Refused) as refusal:
            fresh.up(aws.CLUSTER, "ml", placed(inputs, subnetIds=subnets))
        assert words.format(zones) in str(refusal.value)
    other = subnet(fresh, "us-east-1b", "10.0.9.0/24")
    config = fresh.up(aws.CLUSTER, "ml", placed(inputs, subnetIds=[a, other]))["vpcConfig"]
    assert config["subnetIds"] == [a, other]
    # Its interfaces moved with it.
    fresh.delete(aws.ASSOCIATION, "us-east-1b")
    fresh.delete(aws.SUBNET, "us-east-1b")
    with pytest.raises(Refused, match="Amazon EKS k8s-ml"):
        fresh.delete(aws.SUBNET, "10.0.9.0/24")


def test_private_networks_are_refused_at_the_public_endpoint(fresh: AwsStack) -> None:
    """Of a new cluster and of one that stands; who is not named again stays admitted."""
    words = r"CIDRs are not allowed in publicAccessCidrs: \[10.1.0.0/16\]"
    subnets = fresh.network()
    fresh.role("control", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    inputs = aws.cluster(subnets)
    wrong = placed(inputs, publicAccessCidrs=["8.8.8.0/24", "10.1.0.0/16"])
    with pytest.raises(Refused, match=words):
        fresh.up(aws.CLUSTER, "ml", wrong)
    many = placed(inputs, publicAccessCidrs=[f"8.8.{n}.0/24" for n in range(41)])
    with pytest.raises(Refused, match="has 41 CIDRs; the maximum is 40"):
        fresh.up(aws.CLUSTER, "ml", many)
    right = placed(inputs, publicAccessCidrs=["8.8.8.0/24"])
    fresh.up(aws.CLUSTER, "ml", right)
    with pytest.raises(Refused, match=words):
        fresh.up(aws.CLUSTER, "ml", wrong)
    fresh.refresh(aws.CLUSTER, "ml")
    outputs = fresh.up(aws.CLUSTER, "ml", placed(inputs, endpointPublicAccess=False))
    assert outputs["vpcConfig"]["publicAccessCidrs"] == ["8.8.8.0/24"]


def encrypted(made: AwsStack, name: str) -> dict[str, Any]:
    key = made.up(aws.KEY, name, {"description": name})["arn"]
    return {"encryptionConfig": {"provider": {"keyArn": key}, "resources": ["secrets"]}}


def test_secrets_keep_their_first_key(fresh: AwsStack) -> None:
    """The provider gives a key to a cluster without one; for another it asks EKS for nothing, and
    sees the first one, without which no secret can be read."""
    inputs = control_plane(fresh)
    first, second = encrypted(fresh, "first"), encrypted(fresh, "second")
    for given in (first, second):
        outputs = fresh.up(aws.CLUSTER, "ml", inputs | given)
        assert outputs["encryptionConfig"] == first["encryptionConfig"]
    refreshed = fresh.refresh(aws.CLUSTER, "ml")
    assert refreshed is not None
    assert refreshed["encryptionConfig"] == first["encryptionConfig"]
    changes, answer = fresh.diff(aws.CLUSTER, "ml", inputs | second)
    assert changes == {"encryptionConfig.provider.keyArn": "UPDATE"}
    assert not answer.replaces
    with pytest.raises(Refused, match="secrets of the cluster 'k8s-ml' are encrypted with it"):
        fresh.delete(aws.KEY, "first")
    fresh.delete(aws.KEY, "second")


def test_secrets_stay_encrypted(fresh: AwsStack) -> None:
    """Without a key it is another cluster."""
    key = encrypted(fresh, "key")
    inputs = control_plane(fresh, **key)
    changes, answer = fresh.diff(aws.CLUSTER, "ml", {**inputs} | {"encryptionConfig": None})
    assert changes == {"encryptionConfig": "DELETE_REPLACE"}
    assert list(answer.replaces) == ["encryptionConfig"]


def test_a_rule_is_read_as_it_is(fresh: AwsStack) -> None:
    """Its ports and its tags too; it goes with the cluster whose group it is of."""
    control_plane(fresh)
    cluster = fresh.state[fresh.urn(aws.CLUSTER, "ml")][2]
    group = cluster["vpcConfig"]["clusterSecurityGroupId"]
    rule = {
        "securityGroupId": group, "description": "Kubernetes API", "cidrIpv4": "10.20.0.0/16",
        "ipProtocol": "tcp", "fromPort": 443, "toPort": 443, "tags": {"team": "ml"},
    }  # fmt: skip
    fresh.up(RULE, "vpn", rule)
    with pytest.raises(Refused, match=r"InvalidPermission\.Duplicate"):
        fresh.up(RULE, "again", rule)
    identity = fresh.state[fresh.urn(RULE, "vpn")][0]
    ec2 = fresh.cloud.account.client("ec2")
    other = {"IpProtocol": "tcp", "FromPort": 80, "ToPort": 8080, "CidrIpv4": "10.20.0.0/16"}
    ec2.modify_security_group_rules(
        GroupId=group,
        SecurityGroupRules=[{"SecurityGroupRuleId": identity, "SecurityGroupRule": other}],
    )
    ec2.create_tags(Resources=[identity], Tags=[{"Key": "team", "Value": "x"}])
    read = fresh.refresh(RULE, "vpn")
    assert read is not None
    assert (read["fromPort"], read["toPort"], read["tags"]) == (80, 8080, {"team": "x"})
    outputs = fresh.up(RULE, "vpn", rule)
    assert (outputs["fromPort"], outputs["toPort"], outputs["tags"]) == (443, 443, {"team": "ml"})
    everywhere = {"securityGroupId": group, "cidrIpv4": "10.0.0.0/8", "ipProtocol": "-1"}
    assert "fromPort" not in fresh.up(EGRESS, "out", everywhere)
    fresh.delete(aws.CLUSTER, "ml")
    assert fresh.refresh(RULE, "vpn") is None


def test_an_autoscaler_that_does_not_see_failures_is_late(fresh: AwsStack) -> None:
    """It scales the group, and waits for nodes that EC2 refuses: the group's promise says so."""
    group = fresh.group(fresh.cluster())
    deny = {"Effect": "Deny", "Action": "autoscaling:DescribeScalingActivities", "Resource": "*"}
    fresh.autoscaler(aws.SCALE, deny)

    def differences() -> list[str]:
        assert fresh.cloud.not_scaled([aws.AUTOSCALER]) == {}
        found = fresh.cloud.compare_template("train-gpu", group.node)
        assert found is not None
        return [line for line in found.differences if "autoscaling:" in line]

    (line,) = differences()
    assert line == (
        "the Cluster Autoscaler kube-system/cluster-autoscaler with its role autoscaler may not do "
        f"autoscaling:DescribeScalingActivities on {fresh.scaling_group}: where EC2 has no such "
        "instance left, it goes on waiting for one and tries no other pool for "
        "--max-node-provision-time, 15 minutes by default"
    )
    policy = aws.document(aws.SCALE)
    fresh.up(aws.ROLE_POLICY, "autoscaler", {"role": "autoscaler", "name": "p", "policy": policy})
    assert differences() == []


def test_a_pod_older_than_its_association_has_no_role(fresh: AwsStack) -> None:
    """EKS puts into a new pod what it gets its role with, and into no other."""
    fresh.group(fresh.cluster())
    before = time.time()
    fresh.autoscaler()
    older = replace(aws.AUTOSCALER, made=float(int(before) - 1))
    reason = fresh.cloud.not_scaled([older])["train-gpu"]
    assert "gets no role: its pod was made before its pod identity association" in reason
    younger = replace(aws.AUTOSCALER, made=float(int(time.time())))
    assert fresh.cloud.not_scaled([younger]) == {}
    assert fresh.cloud.not_scaled([older, younger]) == {}
    # A pod that had what it asks with goes on with the next association.
    _, identity, _ = fresh.state[fresh.urn(aws.IDENTITY, "autoscaler")]
    fresh.delete(aws.IDENTITY, "autoscaler")
    assert "no role: there is no" in fresh.cloud.not_scaled([younger])["train-gpu"]
    time.sleep(1.1)
    fresh.up(aws.IDENTITY, "autoscaler", identity)
    assert fresh.cloud.not_scaled([younger]) == {}


def test_an_association_takes_effect_seconds_later(fresh: AwsStack) -> None:
    """A pod that is created meanwhile never gets credentials; beside a node group, which takes
    minutes in AWS, nothing is late."""
    fresh.group(fresh.cluster())
    fresh.autoscaler()
    pod = ("kube-system", "cluster-autoscaler")
    assert fresh.cloud.why_no_credentials(*pod, made=float(int(time.time()))) == ""
    assert fresh.cloud.why_no_credentials("default", "nobody", made=0.0) == ""
    _, identity, _ = fresh.state[fresh.urn(aws.IDENTITY, "autoscaler")]
    (cluster,) = fresh.cloud.account.clusters.values()
    cluster.grew -= 3600
    cluster.identified.clear()
    fresh.delete(aws.IDENTITY, "autoscaler")
    fresh.up(aws.IDENTITY, "autoscaler", identity)
    now = time.time()
    early = fresh.cloud.why_no_credentials(*pod, made=now + 5)
    assert "before the pod identity association of service account kube-system/" in early
    assert fresh.cloud.not_scaled([replace(aws.AUTOSCALER, made=now + 5)]) != {}
    assert fresh.cloud.why_no_credentials(*pod, made=now + 11) == ""
    assert fresh.cloud.not_scaled([replace(aws.AUTOSCALER, made=now + 11)]) == {}


def versioned(made: AwsStack, **changes: Any) -> dict[str, Any]:
    """The node group's inputs, with these."""
    inputs: dict[str, Any] = made.state[made.urn(aws.GROUP, "train-gpu")][1]
    return inputs | changes


def test_node_groups_reach_a_version_before_the_cluster_leaves_it(fresh: AwsStack) -> None:
    """A new group has the cluster's; one that stands may be one behind, and holds the cluster."""
    subnets = fresh.cluster(version="1.34")
    with pytest.raises(Refused, match=r"version 1.33 is invalid. Allowed version is 1.34"):
        fresh.group(subnets, version="1.33")
    fresh.group(subnets, version="1.34")
    cluster = aws.cluster(subnets, version="1.35")
    fresh.up(aws.CLUSTER, "ml", cluster)
    with pytest.raises(Refused, match=r"train-gpu \(1.34\) must be updated to match .* 1.35"):
        fresh.up(aws.CLUSTER, "ml", cluster | {"version": "1.36"})
    fresh.up(aws.GROUP, "train-gpu", versioned(fresh, version="1.35"))
    with pytest.raises(Refused, match="roll back a node group to an earlier"):
        fresh.up(aws.GROUP, "train-gpu", versioned(fresh, version="1.33"))
    fresh.up(aws.CLUSTER, "ml", cluster | {"version": "1.36"})


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("1.35.6-20260601", "roll back a node group to an earlier"),
        ("1.35.1-20260714", "release version 1.35.1-20260714 is invalid"),
        ("1.36.2-20261001", "release version 1.36.2-20261001 is invalid"),
        ("1.35.7-20261345", "release version 1.35.7-20261345 is invalid"),
        ("newest", "release version newest is invalid"),
    ],
)
def test_a_release_exists_and_never_goes_down(fresh: AwsStack, release: str, words: str) -> None:
    """As far as it is known which there are."""
    subnets = fresh.cluster()
    fresh.group(subnets, releaseVersion="1.35.6-20260714")
    with pytest.raises(Refused, match=words):
        fresh.up(aws.GROUP, "train-gpu", versioned(fresh, releaseVersion=release))
    fresh.up(aws.GROUP, "train-gpu", versioned(fresh, releaseVersion="1.35.7-20261015"))


def test_another_template_version_recycles_the_nodes(fresh: AwsStack) -> None:
    """And a new release; labels, taints and sizes touch no node."""
    subnets = fresh.cluster()
    inputs = {
        "name": "tpl",
        "tagSpecifications": [{"resourceType": "instance", "tags": {"a": "1"}}],
    }
    template = fresh.id(aws.TEMPLATE, "t", inputs)
    revision = fresh.group(subnets, launchTemplate={"id": template, "version": "1"}).revision
    for changes, recycles in (
        ({"labels": {"role": "other"}}, 0),
        ({"scalingConfig": {"minSize": 0, "maxSize": 3, "desiredSize": 0}}, 0),
        ({"releaseVersion": "1.35.7-20261015"}, 1),
    ):
        group = fresh.group(subnets, **(versioned(fresh) | changes))
        assert group.revision == revision + recycles
        revision = group.revision
    fresh.up(aws.TEMPLATE, "t", inputs | {"tagSpecifications": []})
    found = fresh.group(subnets, **versioned(fresh, launchTemplate={"id": template, "version": 2}))
    assert found.revision == revision + 1


def test_an_update_that_outlasts_the_provider_fails(fresh: AwsStack) -> None:
    """Nine nodes, one after the other, take more than the hour that it waits by itself."""
    subnets = fresh.cluster()
    sizes = {"minSize": 0, "maxSize": 9, "desiredSize": 0}
    fresh.group(subnets, scalingConfig=sizes, releaseVersion="1.35.6-20260714")
    fresh.cloud.faults.quota["L-DB2E81BA"] = 1000
    fresh.cloud.set_size("train-gpu", 9)
    newer = versioned(fresh, releaseVersion="1.35.7-20261015")
    with pytest.raises(Refused, match=r"takes some 63 minutes and goes on .*timeout: 60m0s"):
        fresh.up(aws.GROUP, "train-gpu", newer)
    newest = versioned(fresh, releaseVersion="1.35.7-20261016")
    fresh.up(aws.GROUP, "train-gpu", newest, waits=2 * 3600)


@pytest.mark.parametrize("strategy", ["DEFAULT", "MINIMAL"])
def test_an_update_starts_a_node_before_it_drains_one(fresh: AwsStack, strategy: str) -> None:
    """Unless its strategy is MINIMAL, it needs room for one more in each zone with nodes, of which
    one without capacity has none."""
    config = {"maxUnavailable": 1, "updateStrategy": strategy}
    two = {"minSize": 2, "maxSize": 2, "desiredSize": 2}
    fresh.cloud.faults.quota["G_VT"] = 12
    old = {"releaseVersion": "1.35.6-20260714", "scalingConfig": two, "updateConfig": config}
    before = fresh.group(fresh.cluster(), **old)
    newer = versioned(fresh, releaseVersion="1.35.7-20261015")
    seen: list[tuple[int, int, int]] = []

    def recycled(*_: Any) -> Progress:
        (group,) = fresh.cloud.node_groups()
        seen.append((group.target_nodes, group.max_nodes, group.surging))
        return "done"

    fresh.cloud.followed(recycled)
    if strategy == "MINIMAL":
        fresh.up(aws.GROUP, "train-gpu", newer)
        assert seen == [(2, 2, 0)]
        return
    with pytest.raises(Refused, match=r"NodeCreationFailure: Couldn't .* train-gpu: .*limit of 12"):
        fresh.up(aws.GROUP, "train-gpu", newer)
    (group,) = fresh.cloud.node_groups()
    assert (group.revision, group.instances) == (before.revision, before.instances)
    fresh.refresh(aws.GROUP, "train-gpu")
    fresh.cloud.faults.quota["G_VT"] = 16
    fresh.up(aws.GROUP, "train-gpu", newer)
    recycled()
    assert seen == [(4, 4, 2), (2, 2, 0)]
    (group,) = fresh.cloud.node_groups()
    assert group.instances == before.instances
    # The update is over: a node that was still on its way out stays.
    fresh.cloud.left("train-gpu", (before.instances or ("",))[0])
    fresh.cloud.faults.no_capacity.append("*/us-east-1b/*")
    fresh.up(aws.GROUP, "train-gpu", newer | {"releaseVersion": "1.35.7-20261016"})
    assert seen[2] == (3, 3, 1)


def test_a_failed_update_is_sent_again_after_a_refresh(
    fresh: AwsStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like the official provider, the plugin leaves the planned state behind, and for a resource of
    the provider's newer framework the old one."""
    monkeypatch.setattr(cloud, "RECYCLE_SECONDS", 0.1)
    fresh.cloud.followed(lambda *_: "held")
    subnets, one = fresh.cluster(), {"minSize": 1, "maxSize": 1, "desiredSize": 1}
    fresh.group(subnets, scalingConfig=one, releaseVersion="1.35.6-20260714")
    newer = versioned(fresh, releaseVersion="1.35.7-20261015", tags={"team": "hpc"})
    with pytest.raises(Refused, match=r"version update .*'Failed'.*: PodEvictionFailure: Reached"):
        fresh.up(aws.GROUP, "train-gpu", newer)
    assert fresh.cloud.account.groups["train-gpu"].row["tags"] == {"team": "hpc"}
    fresh.cloud.followed(lambda *_: "done")
    failed = fresh.state[urn := fresh.urn(aws.GROUP, "train-gpu")]
    assert failed[2]["releaseVersion"] == "1.35.7-20261015"
    assert fresh.up(aws.GROUP, "train-gpu", newer)["releaseVersion"] == "1.35.6-20260714"
    fresh.state[urn] = failed
    fresh.refresh(aws.GROUP, "train-gpu")
    assert fresh.up(aws.GROUP, "train-gpu", newer)["releaseVersion"] == "1.35.7-20261015"
    vpc = fresh.state[fresh.urn(aws.VPC, "net")][0]
    group = fresh.id(aws.SECURITY_GROUP, "g", {"name": "g", "vpcId": vpc, "description": "d"})
    rule = {"securityGroupId": group, "ipProtocol": "-1", "cidrIpv4": "10.0.0.0/16"}
    fresh.up(RULE, "all", rule)
    fresh.cloud.faults.errors["ec2:ModifySecurityGroupRules"] = ["Throttling: slow down"]
    with pytest.raises(Refused, match="slow down"):
        fresh.up(RULE, "all", rule | {"cidrIpv4": "10.1.0.0/16"})
    assert fresh.state[fresh.urn(RULE, "all")][2]["cidrIpv4"] == "10.0.0.0/16"


def test_a_request_without_a_condition_repairs_a_failed_update(fresh: AwsStack) -> None:
    """The planned state is what the program gives, and yet the next update sends it."""
    fresh.role("r", "ec2.amazonaws.com")
    policy = {"role": "r", "name": "p", "policy": aws.document(aws.SCALE)}
    fresh.up(aws.ROLE_POLICY, "p", policy)
    policy["policy"] = aws.document(aws.SCALE | {"Action": "ec2:Describe*"})
    fresh.cloud.faults.errors["iam:PutRolePolicy"] = ["Throttling: slow down"]
    with pytest.raises(Refused, match="slow down"):
        fresh.up(aws.ROLE_POLICY, "p", policy)
    assert fresh.diff(aws.ROLE_POLICY, "p", policy)[0] == {}
    fresh.up(aws.ROLE_POLICY, "p", policy)
    iam = fresh.cloud.account.client("iam")
    kept = iam.get_role_policy(RoleName="r", PolicyName="p")["PolicyDocument"]
    assert kept["Statement"][0]["Action"] == "ec2:Describe*"


def test_what_aws_filled_in_stays_once_nobody_gives_it(fresh: AwsStack) -> None:
    """An input that is optional and computed in the official provider's schema: its removal is no
    difference, and an update for something else leaves it as it is."""
    subnets = fresh.cluster()
    vpc = fresh.state[fresh.urn(aws.VPC, "net")][0]
    assert fresh.diff(aws.GATEWAY, "net", {})[0] == {}
    fresh.up(aws.GATEWAY, "net", {"tags": {"a": "b"}})
    (gateway,) = fresh.cloud.account.client("ec2").describe_internet_gateways()["InternetGateways"]
    assert [attachment["VpcId"] for attachment in gateway["Attachments"]] == [vpc]
    given = aws.group(subnets, capacityType="ON_DEMAND", diskSize=50, version="1.35")
    fresh.up(aws.GROUP, "train-gpu", given)
    for name in ("amiType", "capacityType", "diskSize", "instanceTypes", "version"):
        rest = {key: value for key, value in given.items() if key != name}
        assert fresh.diff(aws.GROUP, "train-gpu", rest)[0] == {}, name
    assert fresh.diff(aws.GROUP, "train-gpu", given | {"diskSize": 60})[0] == {
        "diskSize": "UPDATE_REPLACE"
    }
    bare = aws.cluster(subnets)
    del bare["version"], bare["accessConfig"]
    assert fresh.diff(aws.CLUSTER, "ml", bare)[0] == {}


def test_a_role_with_new_tags_is_not_asked_for_its_trust_again(fresh: AwsStack) -> None:
    """IAM's calls follow what changed: moto's own check of a trust policy refuses `sts:*`."""
    role = {"name": "wide", "assumeRolePolicy": aws.trust("ec2.amazonaws.com", "sts:*")}
    fresh.up(aws.ROLE, "wide", role)
    made = fresh.up(aws.ROLE, "wide", role | {"tags": {"team": "ml"}})
    assert made["tags"] == {"team": "ml"}
    assert fresh.up(aws.ROLE, "wide", role | {"description": "all"})["description"] == "all"
    narrow = role | {"assumeRolePolicy": aws.trust("ec2.amazonaws.com")}
    assert "sts:AssumeRole" in fresh.up(aws.ROLE, "wide", narrow)["assumeRolePolicy"]


def test_an_interface_endpoint_takes_what_nodes_send_to_its_service(fresh: AwsStack) -> None:
    """Only in a VPC with DNS names, one per service, and never closed to the nodes; its security
    group stays while it is there."""
    subnets = fresh.cluster()
    fresh.group(subnets)
    net = {"cidrBlock": "10.0.0.0/16"}
    vpc = fresh.state[fresh.urn(aws.VPC, "net")][0]
    of_vpc = {"vpcId": vpc, "description": "d"}
    closed = fresh.id(aws.SECURITY_GROUP, "closed", of_vpc | {"name": "closed"})
    https = {"protocol": "tcp", "fromPort": 443, "toPort": 443, "cidrBlocks": ["10.0.0.0/16"]}
    nodes = fresh.id(aws.SECURITY_GROUP, "nodes", of_vpc | {"name": "nodes", "ingress": [https]})
    token = "aws:ec2/vpcEndpoint:VpcEndpoint"
    given = {
        "vpcId": vpc,
        "serviceName": "com.amazonaws.us-east-1.sts",
        "vpcEndpointType": "Interface",
        "subnetIds": subnets,
        "securityGroupIds": [nodes],
        "privateDnsEnabled": True,
    }
    with pytest.raises(Refused, match="requires both enableDnsSupport and enableDnsHostnames"):
        fresh.up(token, "sts", given)
    fresh.up(aws.VPC, "net", net | {"enableDnsHostnames": True})
    with pytest.raises(Refused, match=r"do not reach com.amazonaws.us-east-1.sts: no security"):
        fresh.up(token, "sts", given | {"securityGroupIds": [closed]})
    made = fresh.up(token, "sts", given | {"privateDnsEnabled": False})
    assert (made["privateDnsEnabled"], made["securityGroupIds"]) == (False, [nodes])
    with pytest.raises(Refused, match=r"do not reach com.amazonaws.us-east-1.sts: no security"):
        fresh.up(token, "sts", given | {"securityGroupIds": [closed]})
    fresh.refresh(token, "sts")
    assert fresh.up(token, "sts", given)["privateDnsEnabled"] is True
    with pytest.raises(Refused, match="already a conflicting DNS domain"):
        fresh.up(token, "again", given)
    with pytest.raises(Refused, match="has a dependent object: vpce-"):
        fresh.delete(aws.SECURITY_GROUP, "nodes")
    third = subnet(fresh, "us-east-1a", "10.0.8.0/24")
    with pytest.raises(Refused, match="DuplicateSubnetsInSameZone"):
        fresh.up(token, "sts", given | {"subnetIds": [*subnets, third]})
    fresh.delete(token, "sts")
    fresh.delete(aws.SECURITY_GROUP, "nodes")
