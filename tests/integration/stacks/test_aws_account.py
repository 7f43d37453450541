"""What an AWS account is asked beside its quotas; moto's copy of EC2's offers answers."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws
from moto.s3.models import s3_backends

from gpu_cluster.components.access.service_accounts import ServiceAccountArgs
from gpu_cluster.components.eks.provider_args import AwsProviderArgs
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.settings.load import from_config
from gpu_cluster.rehearsal.simulators.aws.account import Account as SimulatedAccount
from gpu_cluster.rehearsal.simulators.aws.account import Bucket, Existing
from gpu_cluster.rehearsal.simulators.aws.served_account import serve
from gpu_cluster.stacks.aws_session import session
from gpu_cluster.stacks.capacity import aws_account, aws_reservations, eks
from gpu_cluster.stacks.capacity.reserved import Wanted
from gpu_cluster.stacks.capacity.verdict import Finding, exit_code
from gpu_cluster.stacks.recovery.clouds import LiveClouds
from tests.tree import sources
from tests.unit.components.test_settings import changed
from tests.unit.components.test_settings_eks import read


def client(service: str, region: str = "us-east-1") -> Any:
    """Of a test's own keys, with which nobody signs in."""
    return boto3.client(
        service, region_name=region, aws_access_key_id="x", aws_secret_access_key="x"
    )


@contextmanager
def served(account: SimulatedAccount) -> Iterator[SimulatedAccount]:
    """With its API on a port."""
    stop = serve(account)
    try:
        yield account
    finally:
        stop()


def policy_of(*statements: Any) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [*statements]}


def allowing(*arns: str) -> dict[str, Any]:
    """The statement of a key's policy that lets these use it."""
    return {"Effect": "Allow", "Principal": {"AWS": [*arns]}, "Action": "kms:*", "Resource": "*"}


def eks_settings(*changes: list[Any]) -> Any:
    return read(*changes)


def about(found: Iterable[Finding]) -> list[tuple[str, str, str]]:
    return [(one.about, one.word, one.reason) for one in found]


def offers_of(ec2: Any, settings: Any) -> list[tuple[str, str, str]]:
    """What is not offered: pool, verdict, reason."""
    found = [aws_account.offer(ec2, one) for one in aws_account.wanted(settings)]
    return [(one.wanted.pool, one.word, one.reason) for one in found if one.word != "offered"]


DEPLOYER = "arn:aws:iam::222222222222:role/deployer"


@mock_aws
def test_capacity_and_recovery_sign_in_as_the_role_that_the_provider_assumes() -> None:
    """A company signs in to one account and deploys to another."""
    roles = [{"roleArn": DEPLOYER}]
    provider = eks_settings(["aws:assumeRoles", roles]).provider
    as_role = "assumed-role/deployer/gpu-cluster"
    asked = eks.AwsQuotas.of(provider, None)._clients["sts"].get_caller_identity()["Arn"]
    assert asked.endswith(as_role)
    config = {"aws:assumeRoles": json.dumps(roles)}
    assert LiveClouds(config=config).aws("us-east-1").caller()[1] == asked
    assert session(provider, "http://127.0.0.1:1").get_credentials().access_key == "rehearsal"


def test_a_role_is_never_replaced_by_an_identity_that_may_not_assume_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without credentials to assume it with, no request is signed."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, "/no/such/file")
    provider = AwsProviderArgs(region="us-east-1", role=DEPLOYER)
    assert session(provider).get_credentials() is None


@mock_aws
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, "enough"),
        ({"InstancePlatform": "Windows"}, "is for platform Windows with default tenancy"),
        ({"Tenancy": "dedicated"}, "is for platform Linux/UNIX with dedicated tenancy"),
    ],
)
def test_a_reservation_for_other_machines_is_not_enough(change: dict[str, str], word: str) -> None:
    """Of the right type in the right zone, and no node of EKS comes out of it."""
    ec2 = client("ec2")
    row = {"CapacityReservationId": "cr-0123456789abcdef0", "InstanceType": "p4d.24xlarge",
           "AvailabilityZone": "us-east-1b", "TotalInstanceCount": 1, "AvailableInstanceCount": 1,
           "State": "active", **change}  # fmt: skip
    wanted = Wanted(pool="p", reservation="cr-0123456789abcdef0", types=("p4d.24xlarge",),
                    places="zones", zones=("us-east-1b",), nodes=1)  # fmt: skip
    with Stubber(ec2) as stub:
        stub.add_response("describe_capacity_reservations", {"CapacityReservations": [row]})
        found = aws_reservations.reserved(ec2, None, wanted, [])
    assert word in (found.reason or found.word)


def test_a_simulator_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A company's proxy reaches no loopback address, whether or not NO_PROXY lists it."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with served(SimulatedAccount()) as account:
        signed_in = session(eks_settings().provider, account.endpoint)
        sts = signed_in.client("sts", endpoint_url=account.endpoint)
        assert sts.get_caller_identity()["Account"]


def test_one_module_signs_in_to_aws() -> None:
    """Whoever makes a session of its own asks the account that happens to be signed in to."""
    files = [*sources("gpu_cluster/stacks", "gpu_cluster/cli")]
    makers = [file.name for file in files if re.search(r"boto3\.(client|resource|Session\()",
                                                       file.read_text())]  # fmt: skip
    assert makers == ["aws_session.py"]


G7E = ["gpu-cluster:gpuPools", "train-gpu", "instanceTypes", ["g7e.2xlarge"]]


@mock_aws
def test_ec2_is_asked_for_every_instance_type_in_every_zone() -> None:
    """A zone that lacks a pool's type is a finding that names those that have it."""
    ec2 = client("ec2")
    zones = ["gpu-cluster:cluster", "network", {"zones": ["us-east-1a", "us-east-1b"]}]
    lacking = (
        "train-gpu",
        "not offered",
        "g7e.2xlarge is not in us-east-1b; zones of us-east-1 that have it: us-east-1a, us-east-1c",
    )
    assert offers_of(ec2, eks_settings(zones)) == []
    assert offers_of(ec2, eks_settings(zones, G7E)) == [lacking]
    one = ["gpu-cluster:gpuPools", "train-gpu", "zones", ["us-east-1a"]]
    assert offers_of(ec2, eks_settings(zones, G7E, one)) == []
    block = [
        ["gpu-cluster:gpuPools", "train-gpu", key, value]
        for key, value in (
            ("capacityType", "reservation"),
            ("reservation", "cr-0123456789abcdef0"),
        )
    ]
    bought = ["gpu-cluster:gpuPools", "train-gpu", "zones", ["us-east-1b"]]
    assert offers_of(ec2, eks_settings(zones, G7E, *block, bought)) == []
    elsewhere = client("ec2", "us-west-1")
    amd = ["gpu-cluster:cluster", "systemPool", {"instanceTypes": ["m7a.large"]}]
    assert offers_of(elsewhere, eks_settings(zones, amd))[0] == (
        "system",
        "not offered",
        "m7a.large is not in us-east-1a, us-east-1b, nor anywhere else in us-east-1; choose "
        "another type",
    )
    heads = {"instanceTypes": ["m7a.large"], "zones": ["us-east-1b"]}
    cpu = eks_settings(zones, ["gpu-cluster:cluster", "cpuPools", {"heads": heads}])
    assert offers_of(elsewhere, cpu)[-1][0] == "heads"
    assert offers_of(elsewhere, cpu)[-1][2].startswith("m7a.large is not in us-east-1b, nor")


AUTO = [["gpu-cluster:cluster", "scaler", "auto-mode"],
        ["gpu-cluster:cluster", "autoscaler", "absent"]]  # fmt: skip


def test_auto_mode_has_no_system_pool_to_count() -> None:
    """Neither its instance type nor its vCPUs are asked for."""
    assert eks_settings().cluster.system_nodes == eks_settings().cluster.system_pool
    own = eks_settings(*AUTO)
    assert [one.pool for one in aws_account.wanted(own)] == ["train-gpu"]


@mock_aws
def test_zone_ids_and_an_existing_vpc_are_asked_for_as_such() -> None:
    """Zone names differ by account: IDs are asked as IDs, and subnets say where they are."""
    ec2 = client("ec2")
    offered = ec2.describe_instance_type_offerings(
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": ["g7e.2xlarge"]}],
    )["InstanceTypeOfferings"]
    has = sorted(row["Location"] for row in offered)
    zones = ["gpu-cluster:cluster", "network", {"zones": [has[0], "use1-az99"]}]
    assert offers_of(ec2, eks_settings(zones, G7E))[-1][2] == (
        f"g7e.2xlarge is not in use1-az99; zones of us-east-1 that have it: {', '.join(has)}"
    )
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(
            VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"us-east-1{zone}"
        )["Subnet"]["SubnetId"]
        for number, zone in enumerate("ab")
    ]
    adopted = ["gpu-cluster:cluster", "network", {"subnetIds": subnets}]
    (found,) = offers_of(ec2, eks_settings(adopted, G7E))
    assert found[2].startswith("g7e.2xlarge is not in us-east-1b; zones of us-east-1 that have it")


def test_what_ec2_may_not_be_asked_is_not_known() -> None:
    """A refusal is said once for each pool, and is no finding."""
    ec2 = client("ec2")
    with Stubber(ec2) as stub:
        for _ in range(2):
            stub.add_client_error("describe_instance_type_offerings", "UnauthorizedOperation", "no")
        found = offers_of(ec2, eks_settings())
    refused = "not allowed to look: UnauthorizedOperation no"
    assert found == [("system", "unknown", refused), ("train-gpu", "unknown", refused)]


DEPLOYER = "arn:aws:iam::123456789012:role/deployer"


@pytest.mark.parametrize(
    ("caller", "admins", "good"),
    [
        ("arn:aws:sts::123456789012:assumed-role/deployer/me", [DEPLOYER], True),
        ("arn:aws:sts::123456789012:assumed-role/deployer/me",
         ["arn:aws:iam::123456789012:role/team/ml/deployer"], True),
        ("arn:aws:sts::123456789012:assumed-role/deployer/me",
         ["arn:aws:iam::999999999999:role/deployer"], False),
        ("arn:aws:sts::123456789012:assumed-role/reader/me", [DEPLOYER], False),
        ("arn:aws:iam::123456789012:user/deployer", [DEPLOYER], False),
        ("arn:aws:iam::123456789012:user/anna", ["arn:aws:iam::123456789012:user/anna"], True),
        ("arn:aws:iam::123456789012:root", [DEPLOYER], False),
    ],
)  # fmt: skip
def test_whoever_runs_pulumi_has_to_be_an_admin(caller: str, admins: list[str], good: bool) -> None:
    """The creator of an EKS cluster gets nothing by itself."""
    sts = client("sts")
    settings = eks_settings(["gpu-cluster:cluster", "admins", admins])
    with Stubber(sts) as stub:
        stub.add_response("get_caller_identity", {"Arn": caller})
        found = about(aws_account.signed_in(sts, settings))
    assert found == ([] if good else [
        ("cluster.admins", "wrong", f"{caller} signs in but is not listed, so the update would "
                                    "fail at the first Kubernetes object; add its role, or run "
                                    "Pulumi as one of the admins")
    ])  # fmt: skip


def test_the_role_that_the_provider_assumes_is_who_signs_in() -> None:
    """With `aws:assumeRoles`, nobody has to be asked."""
    role = "arn:aws:iam::123456789012:role/pulumi"
    settings = eks_settings(["aws:assumeRoles", [{"roleArn": role}]])
    (found,) = aws_account.signed_in(None, settings)
    assert found.reason.startswith(f"{role} signs in but is not listed")


def test_a_finding_beside_the_quotas_is_a_finding() -> None:
    """The exit code is 1 where one is wrong, and 2 where one is only not known."""
    wrong = Finding.wrong("pool t4", "EC2 has no t4 in us-east-1b")
    unknown = Finding.unknown("pool t4", "no answer")
    assert [exit_code(each) for each in ([], [unknown], [wrong], [unknown, wrong])] == [
        0,
        2,
        1,
        1,
    ]


def test_a_vpc_of_the_stack_s_own_counts_against_the_quotas_of_networks() -> None:
    """Five VPCs and five addresses in a region; what an earlier update created is the stack's."""
    zones = ["us-east-1a", "us-east-1b", "us-east-1c"]
    settings = eks_settings(
        ["gpu-cluster:cluster", "network", {"zones": zones, "nat": "per-zone"}],
        ["gpu-cluster:cluster", "name", "ml"],
    )
    with served(SimulatedAccount()) as account:
        quotas = eks.AwsQuotas.of(settings.provider, account.endpoint)
        of_vpcs, of_addresses = needs = eks.network_needs(settings)

        def answers() -> list[tuple[float, float | None, float | None]]:
            """Limit, use and own use of both."""
            known = [(quotas.answer(need), quotas.own_use(need, "ml")) for need in needs]
            return [(answer.limit, answer.use, own) for answer, own in known]  # type: ignore[union-attr]

        def tagged(name: str, kind: str, **tags: str) -> Any:
            rows = [{"Key": key, "Value": value} for key, value in tags.items()]
            return {"TagSpecifications": [{"ResourceType": kind, "Tags": [
                {"Key": "Name", "Value": name}, *rows]}]}  # fmt: skip

        own = {"gpu-cluster/stack": "gpu-cluster/train"}
        before = len(quotas.ec2.describe_vpcs()["Vpcs"])
        for name, tags in (("ml", own), ("ml", {}), ("ml-2", own)):
            quotas.ec2.create_vpc(CidrBlock="10.0.0.0/16", **tagged(name, "vpc", **tags))
        for name in ("ml-us-east-1a", "ml-2-us-east-1a"):
            quotas.ec2.allocate_address(Domain="vpc", **tagged(name, "elastic-ip", **own))
        assert answers() == [(5, before + 3, 1), (5, 2, 1)]
        assert [of_vpcs.pools, of_addresses.pools] == [
            {"ml": 1}, {f"ml-{zone}": 1 for zone in zones}
        ]  # fmt: skip
        assert "/services/vpc/quotas/L-F678F1CE?" in of_vpcs.link
        assert "/services/ec2/quotas/L-0263D0A3?" in of_addresses.link
    subnets = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
    existing = eks_settings(["gpu-cluster:cluster", "network", {"subnetIds": subnets}])
    assert eks.network_needs(existing) == []


@mock_aws
def test_karpenter_needs_the_role_of_spot_in_the_account() -> None:
    """EKS creates it for node groups and for Auto Mode, and only Spot needs it."""
    iam = client("iam")
    without = ["gpu-cluster:cluster", "autoscaler", "absent"]

    def found(scaler: str, bought: str) -> list[tuple[str, str, str]]:
        pool = {"instanceTypes": ["g4dn.xlarge"], "capacityType": bought}
        settings = eks_settings(
            without, ["gpu-cluster:cluster", "scaler", scaler],
            ["gpu-cluster:gpuPools", "train-gpu", pool],
        )  # fmt: skip
        return about(aws_account.spot_role(iam, settings))

    assert found("karpenter", "on-demand") == found("auto-mode", "spot") == []
    ((key, word, reason),) = found("karpenter", "spot")
    assert (key, word) == ("gpuPools.train-gpu", "wrong")
    command = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
    assert reason.endswith(command)
    iam.create_role(RoleName="AWSServiceRoleForEC2Spot", AssumeRolePolicyDocument="{}")
    assert found("karpenter", "spot") == []


@mock_aws
def test_a_key_of_disks_has_to_let_auto_scaling_use_it() -> None:
    """A customer's default key is to be named; one that is named needs Auto Scaling in its policy,
    whose statements the finding has. What a wildcard lets use it, only KMS knows."""
    kms = client("kms")
    ec2 = client("ec2")

    def found(default: str, policy: dict[str, Any] | None = None) -> list[tuple[str, str, str]]:
        """Of an account that encrypts disks with `default`, and with a key that has `policy`."""
        key = kms.create_key(**({"Policy": json.dumps(policy)} if policy else {}))
        arn = key["KeyMetadata"]["Arn"]
        changes = [["gpu-cluster:cluster", "disksEncryptionKey", arn]] if policy else []
        with Stubber(ec2) as stub:
            stub.add_response("get_ebs_default_kms_key_id", {"KmsKeyId": default})
            return about(aws_account.disks_key(ec2, kms, eks_settings(*changes)))

    assert found("alias/aws/ebs") == []
    default = kms.create_key()["KeyMetadata"]["Arn"]
    ((key, word, reason),) = found(default)
    assert (key, word) == ("cluster.disksEncryptionKey", "wrong")
    assert reason.startswith(f"the account encrypts disks with {default} by default")
    root = allowing("arn:aws:iam::123456789012:root")
    ((_, word, reason),) = found(default, policy_of(root))
    assert word == "wrong"
    statements = json.loads(reason.partition("to its policy: ")[2])
    assert len(statements) == 2
    assert found(default, policy_of(root, *statements)) == []
    through = {"kms:CallerAccount": "123456789012", "kms:ViaService": "ec2.us-east-1.amazonaws.com"}
    anybody = root | {"Condition": {"StringEquals": through}}
    for principal in ({"AWS": "*"}, "*"):
        via = {**anybody, "Principal": principal}
        ((_, word, reason),) = found(default, policy_of(root, via))
        assert (word, "whether the conditions" in reason) == ("unknown", True)


@mock_aws
def test_a_snapshot_that_no_disk_can_be_created_from_is_named() -> None:
    """Missing, or of a larger volume."""
    ec2 = client("ec2")
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=200)["VolumeId"]
    snapshot = ec2.create_snapshot(VolumeId=volume)["SnapshotId"]

    def found(identity: str, gib: int) -> list[tuple[str, str, str]]:
        disk = {"os": "bottlerocket", "diskSnapshotId": identity, "diskSizeGb": gib}
        pool = {"instanceTypes": ["g4dn.xlarge"], **disk}
        settings = eks_settings(["gpu-cluster:gpuPools", "train-gpu", pool])
        return about(aws_account.snapshots(ec2, None, settings))

    assert found(snapshot, 200) == []
    ((key, word, reason),) = found(snapshot, 100)
    assert (key, word) == ("gpuPools.train-gpu.diskSnapshotId", "wrong")
    assert f"{snapshot} is of a volume of 200 GiB, and diskSizeGb is 100" in reason
    ((_, word, reason),) = found("snap-0123456789abcdef0", 100)
    assert (word, "does not exist in us-east-1" in reason) == ("wrong", True)


@mock_aws
@pytest.mark.parametrize(
    ("scaler", "named", "word"),
    [
        ("cluster-autoscaler", "root", "wrong"),
        (
            "cluster-autoscaler",
            "role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
            None,
        ),
        ("cluster-autoscaler", "disks", None),
        ("karpenter", "root", "unknown"),
        ("karpenter", "role/k8s-ml-karpenter-0a1b2c3", None),
    ],
)
def test_who_starts_the_nodes_needs_the_key_of_a_snapshot(
    scaler: str, named: str, word: str | None
) -> None:
    """The stack gives Karpenter the key of the disks, which has its own check, and no other."""
    kms, ec2 = client("kms"), client("ec2")
    policy = policy_of(allowing(f"arn:aws:iam::123456789012:{named}"))
    key = kms.create_key(Policy=json.dumps(policy))["KeyMetadata"]["Arn"]
    row = {"State": "completed", "VolumeSize": 100, "Encrypted": True, "KmsKeyId": key}
    cluster, disk = "gpu-cluster:cluster", {"os": "bottlerocket", "diskSizeGb": 100}
    pool = {"instanceTypes": ["g4dn.xlarge"], "diskSnapshotId": "snap-0123456789abcdef0", **disk}
    changes: list[Any] = [[cluster, "autoscaler", "absent"], [cluster, "scaler", scaler]]
    if named == "disks":
        changes.append([cluster, "disksEncryptionKey", key])
    settings = eks_settings(*changes, ["gpu-cluster:gpuPools", "train-gpu", pool])
    with Stubber(ec2) as stub:
        stub.add_response("describe_snapshots", {"Snapshots": [row]})
        found = about(aws_account.snapshots(ec2, kms, settings))
    assert [(place, level) for place, level, _ in found] == (
        [("gpuPools.train-gpu.diskSnapshotId", word)] if word else []
    )
    assert all(f"the key of snap-0123456789abcdef0, {key}: " in reason for *_, reason in found)


@mock_aws
@pytest.mark.parametrize(
    ("scaler", "named", "word"),
    [
        ("cluster-autoscaler", "root", "wrong"),
        ("karpenter", "root", "wrong"),
        ("karpenter", "root and Auto Scaling", None),
        ("karpenter", "Auto Scaling", "wrong"),
        ("auto-mode", "root", None),
        ("auto-mode", "Auto Scaling", "wrong"),
        ("on-eks", "Auto Scaling", "wrong"),
        ("on-eks", "root", "unknown"),
        ("on-eks", "role/owners", None),
    ],
)
def test_who_starts_the_nodes_needs_the_key(scaler: str, named: str, word: str | None) -> None:
    """Auto Scaling, for the system pool also beside Karpenter; the stack's own roles by IAM; of
    somebody else's cluster with Auto Mode, its role."""
    kms = client("kms")
    account = "arn:aws:iam::123456789012:"
    scaling = f"{account}role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAuto"
    arns = [f"{scaling}Scaling" if each == "Auto Scaling" else f"{account}{each}"
            for each in named.split(" and ")]  # fmt: skip
    key = kms.create_key(Policy=json.dumps(policy_of(allowing(*arns))))
    cluster = "gpu-cluster:cluster"
    changes = [[cluster, "disksEncryptionKey", key["KeyMetadata"]["Arn"]]]
    if scaler == "on-eks":
        repair = ["gpu-cluster:gpuPools", "train-gpu", "nodeRepair", None]
        changes += [[cluster, "scaler", "auto-mode"], [cluster, "autoscaler", None], repair]
        settings: Any = from_config(changed("on-eks", changes)).own
    else:
        settings = eks_settings(
            *changes, [cluster, "scaler", scaler], [cluster, "autoscaler", "absent"]
        )
    eks = Mock()
    eks.describe_cluster.return_value = {"cluster": {"roleArn": f"{account}role/owners"}}
    found = [one.word for one in aws_account.disks_key(None, kms, settings, eks)]
    assert found == ([word] if word else [])


def test_the_key_of_aws_itself_is_fine_under_its_arn() -> None:
    """EC2 answers with the alias in one account, and with the key's ARN in another."""
    kms, ec2 = client("kms"), client("ec2")
    arn = "arn:aws:kms:us-east-1:123456789012:key/7adeb491-68c9-4a5b-86ec-a86ce5364094"
    metadata = {"KeyId": arn.rpartition("/")[2], "KeyManager": "AWS"}
    with Stubber(ec2) as asked, Stubber(kms) as described:
        asked.add_response("get_ebs_default_kms_key_id", {"KmsKeyId": arn})
        described.add_response("describe_key", {"KeyMetadata": metadata}, {"KeyId": arn})
        assert about(aws_account.disks_key(ec2, kms, eks_settings())) == []


@mock_aws
def test_a_grant_lets_auto_scaling_use_a_key_of_disks() -> None:
    """KMS is asked for grants before the policy is called wrong; one of another role is none, and
    a refusal leaves it unknown."""
    kms = client("kms")
    key = kms.create_key()["KeyMetadata"]["Arn"]
    settings = eks_settings(["gpu-cluster:cluster", "disksEncryptionKey", key])

    def found() -> list[str]:
        return [one.word for one in aws_account.disks_key(None, kms, settings)]

    def grant(role: str) -> None:
        arn = f"arn:aws:iam::123456789012:role/{role}"
        kms.create_grant(KeyId=key, GranteePrincipal=arn, Operations=["Decrypt", "CreateGrant"])

    assert found() == ["wrong"]
    grant("other")
    assert found() == ["wrong"]
    with Stubber(kms) as stub:
        stub.add_response("get_key_policy", {"Policy": json.dumps({"Statement": []})})
        stub.add_client_error("list_grants", "AccessDeniedException", "no kms:ListGrants")
        assert found() == ["unknown"]
    grant("aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling")
    assert found() == []


@mock_aws
def test_a_bucket_has_to_exist_in_the_region_of_the_cluster() -> None:
    """S3 is asked for each bucket that a service account names."""
    s3 = client("s3")
    s3.create_bucket(Bucket="here")
    elsewhere = {"LocationConstraint": "eu-west-1"}
    s3.create_bucket(Bucket="there", CreateBucketConfiguration=elsewhere)
    account = ServiceAccountArgs(buckets={"here": "read", "there": "write", "nowhere": "read"})
    assert about(aws_account.buckets(s3, {"trainer": account}, "us-east-1")) == [
        ("bucket nowhere", "wrong",
         "does not exist; create it in us-east-1, or correct serviceAccounts"),
        ("bucket there", "wrong",
         "is in eu-west-1, and pods mount buckets of the cluster's region us-east-1"),
    ]  # fmt: skip
    with Stubber(s3) as stub:
        stub.add_client_error("head_bucket", "403", "Forbidden", 403)
        ((_, word, _),) = about(
            aws_account.buckets(
                s3, {"t": ServiceAccountArgs(buckets={"data": "read"})}, "us-east-1"
            )
        )
        assert word == "unknown"


def test_a_bucket_s_name_is_free_once_its_account_has_ended() -> None:
    """Names of buckets are those of everybody, also in moto, which keeps them by themselves."""
    s3_backends.bucket_accounts["data"] = ("aws", "999999999999")
    with served(SimulatedAccount(Existing(buckets={"data": Bucket()}))) as account:
        account.open("us-east-1")
        assert [one["Name"] for one in account.client("s3").list_buckets()["Buckets"]] == ["data"]


@mock_aws
@pytest.mark.parametrize(
    ("change", "scaler", "other", "named"),
    [
        ({}, "karpenter", False, True),
        ({"InstanceMatchCriteria": "targeted"}, "karpenter", False, False),
        ({"State": "expired"}, "karpenter", False, False),
        ({"AvailableInstanceCount": 0}, "karpenter", False, False),
        ({"InstanceType": "p5.48xlarge"}, "karpenter", False, False),
        ({}, "auto-mode", False, False),
        ({}, "auto-mode", True, True),
    ],
)
def test_an_open_reservation_that_nothing_uses_is_named(
    change: dict[str, Any], scaler: str, other: bool, named: bool
) -> None:
    """On-demand nodes of Karpenter are launched with the preference `none`, those of Auto Mode once
    a pool names another reservation."""
    ec2 = client("ec2")
    row = {"CapacityReservationId": "cr-0123456789abcdef0", "InstanceType": "g7e.2xlarge",
           "TotalInstanceCount": 2, "AvailableInstanceCount": 2, "State": "active",
           "InstanceMatchCriteria": "open", **change}  # fmt: skip
    pools = dict(read(G7E).pools)
    if other:
        (pool,) = pools.values()
        args = replace(
            pool.args, capacity_type="reservation", reservation="cr-0123456789abcdef1",
            zones=["us-east-1b"],
        )  # fmt: skip
        pools["other"] = replace(pool, args=args)
    with Stubber(ec2) as stub:
        stub.add_response("describe_capacity_reservations", {"CapacityReservations": [row]})
        found = aws_reservations.unused(ec2, pools, SCALERS[scaler])
    assert len(found) == named
    assert all(f"which {SCALERS[scaler].title} does not use" in line for line in found)
    assert all("cr-0123456789abcdef0 has 2 g7e.2xlarge free" in line for line in found)
