"""What Karpenter for AWS asks of the simulated account, through boto3: images, offers, fleets."""

import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_cluster.components.eks import karpenter_policy
from gpu_cluster.rehearsal.simulators.aws import pod_calls
from gpu_cluster.rehearsal.simulators.aws.account import Pod
from gpu_cluster.rehearsal.simulators.aws.eks import subnets
from gpu_cluster.rehearsal.simulators.aws.evaluation import allowed
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, NodePools, NodeTaint, RefusedError
from tests.simulators.aws_account import NUMBER, Account, role

AL2023 = "/aws/service/eks/optimized-ami/{}/amazon-linux-2023/{}/{}/{}/image_id"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
TEMPLATE = "karpenter.k8s.aws/1"
POOL = {"karpenter.sh/nodepool": "train"}
READY = {"type": "Ready", "status": "True"}


def image(ml: Account, path: str) -> str:
    found: str = ml.ssm.get_parameter(Name=path)["Parameter"]["Value"]
    return found


def tags(**of: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "ResourceType": kind,
            "Tags": [{"Key": key, "Value": value} for key, value in each.items()],
        }
        for kind, each in of.items()
    ]


def user_data(ml: Account) -> str:
    """As Karpenter writes it for AL2023."""
    cluster = ml.eks.describe_cluster(name="ml")["cluster"]
    config = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": "ml",
                "apiServerEndpoint": cluster["endpoint"],
                "certificateAuthority": cluster["certificateAuthority"]["data"],
                "cidr": "172.20.0.0/16",
            },
            "kubelet": {
                "config": {
                    "maxPods": 29,
                    "registerWithTaints": [
                        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
                        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
                    ],
                },
                "flags": ['--node-labels="karpenter.sh/nodepool=train,role=train"'],
            },
        },
    }
    text = (
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n--//\n'
        f"Content-Type: application/node.eks.aws\n\n{json.dumps(config)}\n--//--\n"
    )
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def template(ml: Account) -> Iterator[dict[str, Any]]:
    """The data of a launch template like Karpenter's; what a test launched ends with it."""
    cluster = ml.eks.describe_cluster(name="ml")["cluster"]
    group = cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]
    path = AL2023.format(cluster["version"], "x86_64", "nvidia", "recommended")
    data = {
        "ImageId": image(ml, path),
        "IamInstanceProfile": {"Name": "nodes"},
        "UserData": user_data(ml),
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [group]}],
    }
    ml.iam.create_instance_profile(InstanceProfileName="nodes", Path="/karpenter/")
    ml.iam.add_role_to_instance_profile(InstanceProfileName="nodes", RoleName="nodes")
    yield data
    ml.faults.no_capacity.clear()
    ml.faults.quota.clear()
    running = [{"Name": "instance-state-name", "Values": ["running"]}]
    for reservation in ml.ec2.describe_instances(Filters=running)["Reservations"]:
        ml.ec2.terminate_instances(InstanceIds=[reservation["Instances"][0]["InstanceId"]])
    for each in ml.ec2.describe_launch_templates()["LaunchTemplates"]:
        ml.ec2.delete_launch_template(LaunchTemplateId=each["LaunchTemplateId"])
    ml.iam.remove_role_from_instance_profile(InstanceProfileName="nodes", RoleName="nodes")
    ml.iam.delete_instance_profile(InstanceProfileName="nodes")


def fleet(
    ml: Account,
    data: dict[str, Any],
    market: str = "on-demand",
    client: Any = None,
    own: dict[str, str] = POOL,
    **more: Any,
) -> dict[str, Any]:
    """A request for one instance in either zone. `own`: the tags of everything launched."""
    ec2 = client or ml.ec2
    ec2.create_launch_template(
        LaunchTemplateName=TEMPLATE,
        LaunchTemplateData=data,
        TagSpecifications=tags(**{"launch-template": own}),
    )
    overrides = [{"InstanceType": "g4dn.xlarge", "SubnetId": subnet} for subnet in ml.subnets]
    answer: dict[str, Any] = ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": TEMPLATE,
                    "Version": "$Latest",
                },
                "Overrides": overrides,
            }
        ],
        TargetCapacitySpecification={
            "DefaultTargetCapacityType": market,
            "TotalTargetCapacity": 1,
        },
        TagSpecifications=tags(instance=own, volume=own, fleet=own),
        **more,
    )
    return answer


def zone_of(answer: dict[str, Any]) -> str:
    (instance,) = answer["Instances"]
    zone: str = instance["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"]
    return zone


def pool(**spec: Any) -> dict[str, Any]:
    """A NodePool as the cluster has it."""
    template = {
        "metadata": {"labels": {"role": "train"}},
        "spec": {
            "nodeClassRef": {"kind": "EC2NodeClass", "name": "train"},
            "requirements": [
                {
                    "key": "node.kubernetes.io/instance-type",
                    "operator": "In",
                    "values": ["g4dn.xlarge"],
                }
            ],
        },
    }
    return {
        "kind": "NodePool",
        "metadata": {"name": "train"},
        "spec": {"template": template, **spec},
        "status": {"conditions": [READY]},
    }


def node_class(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "EC2NodeClass",
        "metadata": {"name": "train"},
        "spec": {},
        "status": {"conditions": [*conditions, READY]},
    }


def group(ml: Account, *, controller: bool = True, **objects: Any) -> NodeGroup:
    """The group of the NodePool `train`."""
    held = NodePools(
        pools=[objects.get("pool") or pool()],
        classes=[objects.get("node_class") or node_class()],
        controller=controller,
    )
    ml.cloud.declared(held)
    (found,) = [each for each in ml.cloud.node_groups() if each.name == "train"]
    return found


def test_an_alias_is_the_newest_release_of_the_image(ml: Account) -> None:
    """Karpenter resolves aliases by public parameters, and looks the images up by their IDs."""
    newest = image(ml, AL2023.format("1.35", "x86_64", "nvidia", "recommended"))
    (found,) = ml.ec2.describe_images(Filters=[{"Name": "image-id", "Values": [newest]}])["Images"]
    assert found["Architecture"] == "x86_64"
    assert found["OwnerId"] == "602401143452"
    assert newest == image(ml, AL2023.format("1.35", "x86_64", "nvidia", found["Name"]))
    assert newest != image(ml, AL2023.format("1.35", "arm64", "nvidia", "recommended"))
    assert image(ml, "/aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/latest/image_id")


@pytest.mark.parametrize(
    "path",
    [
        AL2023.format("1.12", "x86_64", "nvidia", "recommended"),
        AL2023.format("1.35", "arm64", "neuron", "recommended"),
        AL2023.format(
            "1.35", "x86_64", "nvidia", "amazon-eks-node-al2023-x86_64-nvidia-1.35-v20990101"
        ),
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2/recommended/image_id",
    ],
)
def test_there_is_no_image_that_eks_does_not_publish(ml: Account, path: str) -> None:
    """Other versions, variants, releases of the future, and Amazon Linux 2 have no parameter."""
    with pytest.raises(ClientError, match="ParameterNotFound"):
        image(ml, path)


def test_a_name_finds_the_images_of_the_clusters_version(ml: Account) -> None:
    """An EC2NodeClass may select images by a name with wildcards."""
    names = [{"Name": "name", "Values": ["amazon-eks-node-al2023-x86_64-nvidia-1.36-*"]}]
    (found,) = ml.ec2.describe_images(Filters=names, Owners=["amazon"])["Images"]
    assert found["ImageId"] == image(ml, AL2023.format("1.36", "x86_64", "nvidia", "recommended"))


def test_instance_types_come_in_pages(ml: Account) -> None:
    """A client that reads the first page only misses most of them, as on AWS."""
    first = ml.ec2.describe_instance_types()
    assert len(first["InstanceTypes"]) == 100
    assert first["NextToken"] == "100"
    second = ml.ec2.describe_instance_types(NextToken="100", MaxResults=5)
    assert len(second["InstanceTypes"]) == 5
    offers = ml.ec2.describe_instance_type_offerings(LocationType="availability-zone")
    assert len(offers["InstanceTypeOfferings"]) == 1000
    assert offers["NextToken"]
    with pytest.raises(ClientError, match="DryRunOperation"):
        ml.ec2.describe_instance_types(DryRun=True)


def test_prices_are_those_of_the_catalog(ml: Account) -> None:
    """On demand from the price list, bare metal apart, and a lower one for Spot."""
    chosen = [{"Type": "TERM_MATCH", "Field": "instanceType", "Value": "g4dn.xlarge"}]
    (line,) = ml.pricing.get_products(ServiceCode="AmazonEC2", Filters=chosen)["PriceList"]
    (term,) = json.loads(line)["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    assert float(dimension["pricePerUnit"]["USD"]) == 0.526
    history = ml.ec2.describe_spot_price_history(InstanceTypes=["g4dn.xlarge"])
    prices = {float(each["SpotPrice"]) for each in history["SpotPriceHistory"]}
    assert prices
    assert max(prices) < 0.526


def test_a_fleet_launches_what_its_template_says(ml: Account, template: dict[str, Any]) -> None:
    """Image, security groups, role and tags are the template's and the request's."""
    answer = fleet(ml, template, "spot")
    (identity,) = answer["Instances"][0]["InstanceIds"]
    assert zone_of(answer) == "us-east-1a"
    assert answer["Errors"] == []
    (held,) = ml.ec2.describe_instances(InstanceIds=[identity])["Reservations"]
    (made,) = held["Instances"]
    (groups,) = [interface["Groups"] for interface in template["NetworkInterfaces"]]
    assert [each["GroupId"] for each in made["SecurityGroups"]] == groups
    assert made["IamInstanceProfile"]["Arn"].endswith("/karpenter/nodes")
    assert made["ImageId"] == template["ImageId"]
    assert made["SpotInstanceRequestId"]
    assert {"Key": "karpenter.sh/nodepool", "Value": "train"} in made["Tags"]
    assert f"instance {identity}" in ml.cloud.list_resources()


def test_a_dry_run_launches_nothing(ml: Account, template: dict[str, Any]) -> None:
    """Karpenter asks so whether it may."""
    with pytest.raises(ClientError, match="DryRunOperation"):
        fleet(ml, template, DryRun=True)
    assert not [line for line in ml.cloud.list_resources() if line.startswith("instance i-")]


def test_a_full_zone_is_passed_over(ml: Account, template: dict[str, Any]) -> None:
    """The next offering is taken, and the answer says why the first was not."""
    ml.faults.no_capacity.append("*/us-east-1a/on-demand")
    answer = fleet(ml, template)
    assert zone_of(answer) == "us-east-1b"
    (error,) = answer["Errors"]
    overrides = error["LaunchTemplateAndOverrides"]["Overrides"]
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert overrides["AvailabilityZone"] == "us-east-1a"
    assert group(ml).refused == ""


def test_a_full_subnet_is_passed_over(
    ml: Account, template: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A /28 has 11 addresses, of which a node's first interface takes 10."""
    (subnet,) = subnets(ml.cloud.account, ml.subnets[:1])
    monkeypatch.setattr(subnet, "cidr_block", "10.0.0.0/28")
    answers = []
    for _ in range(3):
        answers.append(fleet(ml, template))
        ml.ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
    assert [zone_of(answer)[-1] for answer in answers] == ["a", "a", "b"]
    codes = [error["ErrorCode"] for error in answers[2]["Errors"]]
    assert codes == ["InsufficientFreeAddressesInSubnet"]


def test_a_pool_with_another_choice_is_not_refused_yet(
    ml: Account, template: dict[str, Any]
) -> None:
    """What was tried is on record, each change once; the last choice decides."""
    both = pool()
    requirements = both["spec"]["template"]["spec"]["requirements"]
    requirements[:] = [one for one in requirements if one["key"] != CAPACITY_TYPE]
    requirements.append({"key": CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]})
    ml.cloud.account.attempts.clear()
    ml.faults.no_capacity.append("*/*/*")
    for market in ("spot", "spot", "on-demand"):
        assert group(ml, pool=both).refused == ""
        fleet(ml, template, market)
        ml.ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
    found = group(ml, pool=both)
    assert [way for way, _ in found.attempts] == ["spot", "on-demand"]
    assert found.refused.startswith("InsufficientInstanceCapacity: We currently")
    ml.faults.no_capacity.clear()
    fleet(ml, template, "spot")
    assert group(ml, pool=both).refused == ""


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("InsufficientInstanceCapacity", {"no_capacity": "g4dn.*/*/*"}),
        ("VcpuLimitExceeded", {"quota": {"G_VT": 3}}),
        ("InvalidGroup.NotFound", {"NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"]}]}),
        ("InvalidParameterValue", {"IamInstanceProfile": {"Name": "gone"}}),
        ("InvalidAMIID.NotFound", {"ImageId": "ami-0123456789abcdef0"}),
        (
            "TagLimitExceeded",
            {
                "TagSpecifications": [
                    {
                        "ResourceType": "instance",
                        "Tags": [{"Key": f"t{position}", "Value": "v"} for position in range(50)],
                    }
                ]
            },
        ),
    ],
)
def test_a_pool_says_why_it_got_no_instance(
    ml: Account, template: dict[str, Any], code: str, wrong: dict[str, Any]
) -> None:
    """Of a fleet request without any instance, the pool keeps the reasons until one succeeds."""
    ml.faults.no_capacity += [wrong.pop("no_capacity")] if "no_capacity" in wrong else []
    ml.faults.quota.update(wrong.pop("quota", {}))
    answer = fleet(ml, template | wrong)
    assert answer["Instances"] == []
    assert {error["ErrorCode"] for error in answer["Errors"]} == {code}
    assert group(ml).refused.startswith(f"{code}: ")


def test_a_launched_instance_joins_as_its_user_data_says(
    ml: Account, template: dict[str, Any]
) -> None:
    """Labels, taints and pods are the kubelet's; its role needs an access entry."""
    fleet(ml, template)
    before = group(ml)
    assert before.machines == ()
    assert "its role nodes has no access entry of the type EC2_LINUX" in before.unscaled
    ml.eks.create_access_entry(clusterName="ml", principalArn=role("nodes"), type="EC2_LINUX")
    after = group(ml)
    (machine,) = after.machines or ()
    assert after.unscaled == ""
    assert after.gpus == 1
    assert machine.provider_id.startswith("aws:///us-east-1a/i-")
    assert machine.node.labels["role"] == "train"
    assert NodeTaint(key="nvidia.com/gpu", value="present", effect="NoSchedule") in (
        machine.node.taints
    )
    assert machine.node.capacity["pods"] == "29"
    assert machine.node.capacity["nvidia.com/gpu"] == "1"
    ml.eks.delete_access_entry(clusterName="ml", principalArn=role("nodes"))


def test_an_instance_outside_of_the_clusters_security_group_does_not_join(
    ml: Account, template: dict[str, Any]
) -> None:
    """The control plane does not reach its kubelet, until a rule lets it in."""
    (vpc,) = {each["VpcId"] for each in ml.ec2.describe_subnets(SubnetIds=ml.subnets)["Subnets"]}
    own = ml.ec2.create_security_group(GroupName="own", Description="own", VpcId=vpc)["GroupId"]
    fleet(ml, template | {"NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [own]}]})
    ml.eks.create_access_entry(clusterName="ml", principalArn=role("nodes"), type="EC2_LINUX")
    assert "port 10250 in from" in group(ml).unscaled
    control = ml.eks.describe_cluster(name="ml")["cluster"]["resourcesVpcConfig"]
    peer = {"GroupId": control["clusterSecurityGroupId"]}
    kubelet = {"IpProtocol": "tcp", "FromPort": 10250, "ToPort": 10250, "UserIdGroupPairs": [peer]}
    ml.ec2.authorize_security_group_ingress(GroupId=own, IpPermissions=[kubelet])
    assert group(ml).unscaled == ""
    ml.eks.delete_access_entry(clusterName="ml", principalArn=role("nodes"))


def test_a_pool_never_scales_for_what_karpenter_says(ml: Account) -> None:
    """A condition of its class that is False, else one of the pool; without a controller, that."""
    subnets = {"type": "SubnetsReady", "status": "False", "message": "did not match any Subnets"}
    assert group(ml).unscaled == ""
    assert group(ml, node_class=node_class(subnets)).unscaled == (
        "EC2NodeClass train: SubnetsReady is False: did not match any Subnets"
    )
    invalid = pool() | {
        "status": {"conditions": [subnets | {"type": "ValidationSucceeded", "message": "no"}]}
    }
    assert "NodePool train: ValidationSucceeded is False: no" in group(ml, pool=invalid).unscaled
    assert "no pod of Karpenter is ready" in group(ml, controller=False).unscaled
    assert group(ml, pool=pool(limits={"nvidia.com/gpu": "4"})).max_nodes == 4


def test_a_pods_calls_are_judged_by_its_role(ml: Account, template: dict[str, Any]) -> None:
    """What the role lacks fails with AWS's code, and is named until the policy has it."""
    with pytest.raises(RefusedError, match="no pod identity association"):
        ml.cloud.pod_environment("kube-system", "karpenter", 0)
    association = ml.eks.create_pod_identity_association(
        clusterName="ml", namespace="kube-system", serviceAccount="karpenter", roleArn=role("pods")
    )["association"]
    with pytest.raises(RefusedError, match="eks-pod-identity-agent"):
        ml.cloud.pod_environment("kube-system", "karpenter", 2e9)
    ml.eks.create_addon(clusterName="ml", addonName="eks-pod-identity-agent")
    environment = ml.cloud.pod_environment("kube-system", "karpenter", 2e9)
    assert environment["AWS_REGION"] == "us-east-1"
    assert environment["AWS_ENDPOINT_URL"] == ml.cloud.endpoint
    ec2 = ml.client("ec2", environment["AWS_ACCESS_KEY_ID"])
    with pytest.raises(ClientError, match=r"UnauthorizedOperation.*ec2:CreateLaunchTemplate"):
        fleet(ml, template, client=ec2)
    assert "may not do ec2:CreateLaunchTemplate on" in group(ml).unscaled
    tagged = {"StringEquals": {"aws:RequestTag/karpenter.sh/nodepool": "train"}}
    keys = {"ForAllValues:StringEquals": {"aws:TagKeys": ["karpenter.sh/nodepool"]}}
    allow(ml, ["ec2:CreateLaunchTemplate", "ec2:CreateFleet"], tagged)
    allow(ml, ["ec2:CreateTags"], tagged | keys, name="tags")
    allow(ml, ["ec2:CreateFleet", "ec2:RunInstances"], {}, name="launch")
    answer = fleet(ml, template, client=ec2)
    (message,) = {error["ErrorMessage"] for error in answer["Errors"]}
    assert "iam:PassRole on resource: arn:aws:iam::123456789012:role/nodes" in message
    ml.ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
    allow(ml, ["iam:PassRole"], {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
          name="pass")  # fmt: skip
    answer = fleet(ml, template, client=ec2)
    assert answer["Errors"] == []
    assert "may not do" not in group(ml).unscaled
    (identity,) = answer["Instances"][0]["InstanceIds"]
    with pytest.raises(ClientError, match=r"UnauthorizedOperation.*ec2:TerminateInstances"):
        ec2.terminate_instances(InstanceIds=[identity])
    ml.eks.delete_pod_identity_association(
        clusterName="ml", associationId=association["associationId"]
    )


KEY, QUEUE = f"arn:aws:kms:us-east-1:{NUMBER}:key/disks", f"arn:aws:sqs:us-east-1:{NUMBER}:news"
OWNED = POOL | {"kubernetes.io/cluster/ml": "owned", "eks:eks-cluster-name": "ml"}
RESERVED = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}}


def test_every_line_of_karpenters_policy_is_needed(
    ml: Account, template: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the calls that Karpenter 1.14 makes (aws/karpenter-provider-aws, pkg/providers): without
    any of its actions or resources one of them is refused, and with all of them none is."""
    needs: list[tuple[Any, ...]] = []
    monkeypatch.setattr(pod_calls, "allowed", lambda _, *need: needs.append(need) or True)
    pod = Pod(cluster="ml", namespace="kube-system", service_account="karpenter")
    ml.cloud.account.pods[key := "ASIA0000000KARPENTER"] = pod
    ml.cloud.account.denied.clear()
    ml.eks.create_pod_identity_association(
        clusterName="ml", namespace="kube-system", serviceAccount="karpenter", roleArn=role("pods")
    )
    ec2, sqs, iam = (ml.client(service, key) for service in ("ec2", "sqs", "iam"))
    ebs = {"VolumeSize": 20, "Encrypted": True, "KmsKeyId": KEY, "SnapshotId": "snap-1"}
    launched = tags(**{"network-interface": OWNED, "spot-instances-request": OWNED})
    data = template | {
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": ebs}],
        "CapacityReservationSpecification": RESERVED,
        "TagSpecifications": launched,
    }
    fleet(ml, data, "spot", ec2, own=OWNED)
    ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
    ml.ec2.create_placement_group(GroupName="near", Strategy="cluster")
    near = {"TagSpecifications": launched[:1], "Placement": {"GroupName": "near"}}
    answer = fleet(ml, template | near, client=ec2, own=OWNED)
    (identity,) = answer["Instances"][0]["InstanceIds"]
    names = [{"Key": key, "Value": "one"} for key in ("Name", "karpenter.sh/nodeclaim")]
    ec2.create_tags(Resources=[identity], Tags=names)
    ec2.terminate_instances(InstanceIds=[identity])
    ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
    ml.ec2.delete_placement_group(GroupName="near")
    for call in (
        "capacity_reservations", "images", "instance_status", "instance_type_offerings",
        "instance_types", "instances", "launch_templates", "placement_groups", "security_groups",
        "spot_price_history", "subnets",
    ):  # fmt: skip
        getattr(ec2, f"describe_{call}")()
    path = AL2023.format("1.36", "x86_64", "nvidia", "recommended")
    ml.client("ssm", key).get_parameter(Name=path)
    ml.client("pricing", key).get_products(ServiceCode="AmazonEC2")
    ml.client("eks", key).describe_cluster(name="ml")
    iam.list_instance_profiles()
    iam.get_instance_profile(InstanceProfileName="nodes")
    ml.sqs.create_queue(QueueName="news")
    url = sqs.get_queue_url(QueueName="news")["QueueUrl"]
    ml.sqs.send_message(QueueUrl=url, MessageBody="spot")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    policy = json.loads(karpenter_policy.policy(
        "ml", "us-east-1", node_role=role("nodes"), queue=QUEUE, key=KEY
    ))  # fmt: skip
    assert [need for need in needs if not allowed([policy], *need)] == []
    idle = [line for line, less in lines(policy) if all(allowed([less], *need) for need in needs)]
    assert idle == []


def lines(policy: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each action and resource of a policy, and the policy without it."""
    for number, statement in enumerate(policy["Statement"]):
        for word in ("Action", "Resource"):
            entries = statement[word] if isinstance(statement[word], list) else [statement[word]]
            for entry in entries:
                rest = [other for other in entries if other != entry]
                changed = [{**statement, word: rest}] if rest else []
                others = [
                    *policy["Statement"][:number],
                    *changed,
                    *policy["Statement"][number + 1 :],
                ]
                yield f"{statement['Sid']} {entry}", {**policy, "Statement": others}


def allow(
    ml: Account, actions: list[str], condition: dict[str, Any], *, name: str = "create"
) -> None:
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*", "Condition": condition}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    ml.iam.put_role_policy(RoleName="pods", PolicyName=name, PolicyDocument=document)


def test_a_long_poll_holds_up_nobody(ml: Account) -> None:
    """Karpenter waits for interruptions all the time, and asks for other things meanwhile."""
    queue = ml.sqs.create_queue(QueueName="news")["QueueUrl"]
    answers: list[dict[str, Any]] = []
    poll = threading.Thread(
        target=lambda: answers.append(ml.sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20))
    )
    poll.start()
    ml.ec2.describe_vpcs()
    assert not answers
    ml.sqs.send_message(QueueUrl=queue, MessageBody="spot")
    poll.join(19)
    (answer,) = answers
    assert [message["Body"] for message in answer["Messages"]] == ["spot"]
    ml.sqs.delete_queue(QueueUrl=queue)


def test_profiles_are_listed_below_a_path(ml: Account, template: dict[str, Any]) -> None:
    """Karpenter deletes what it does not know below its own path, and nothing else."""
    below = [
        ml.iam.list_instance_profiles(PathPrefix=path)["InstanceProfiles"]
        for path in ("/", "/karpenter/", "/karpenter/us-east-1/ml/")
    ]
    assert [len(each) for each in below] == [1, 1, 0]
    assert below[0][0]["Roles"][0]["RoleName"] == "nodes"
