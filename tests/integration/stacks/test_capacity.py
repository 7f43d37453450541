"""Quota needs of pools, verdicts, and what Google Cloud and AWS answer, without either."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.stub import Stubber
from google.auth.exceptions import DefaultCredentialsError
from moto import mock_aws

from gpu_cluster.components.cluster import ResolvedPool
from gpu_cluster.components.eks.cluster_args import EksSystemPoolArgs
from gpu_cluster.components.eks.cpu_pool_args import EksCpuPoolArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.provider_args import AwsProviderArgs
from gpu_cluster.rehearsal.existing import inventory_eks
from gpu_cluster.stacks.capacity import eks as aws_quota
from gpu_cluster.stacks.capacity import eks_addons
from gpu_cluster.stacks.capacity import stack_capacity as quota
from gpu_cluster.stacks.capacity.verdict import Known, Need, Unknown
from gpu_cluster.stacks.definition.settings import NOWHERE, config_of, settings_of
from gpu_cluster.stacks.outcome import CheckError
from tests.integration.stacks.test_aws_account import client


def eks_needs(**pools: Any) -> dict[str, dict[str, int]]:
    found, _ = aws_quota.needs(
        {
            name: ResolvedPool(args=args, pool=args.gpu_pool(name))
            for name, given in pools.items()
            for args in [EksGpuNodeGroupArgs(**given)]
        },
        region="us-east-1",
    )
    return {one.quota: dict(one.pools) for one in found}


def test_aws_counts_vcpus_by_family_and_market() -> None:
    """vCPUs count by family group and market, of several types the largest, times `maxNodes`."""
    assert eks_needs(
        v100={"instance_types": ["p3dn.24xlarge"], "max_nodes": 2},
        t4={"instance_types": ["g4dn.xlarge", "g4dn.2xlarge"], "max_nodes": 3},
        spot={"instance_types": ["g4dn.xlarge"], "max_nodes": 5, "capacity_type": "spot"},
    ) == {
        "L-417A185B P on demand": {"v100": 192},
        "L-DB2E81BA G/VT on demand": {"t4": 24},
        "L-3819A6DF G/VT Spot": {"spot": 20},
    }


def answers(service_quotas: Any) -> aws_quota.AwsQuotas:
    """What this client of Service Quotas and EC2 say."""
    return aws_quota.AwsQuotas({"service-quotas": service_quotas, "ec2": client("ec2")})


ASKED: Mapping[str, str] = {"ServiceCode": "ec2", "QuotaCode": "L-DB2E81BA"}


def aws_need() -> Need:
    return Need(
        quota="L-DB2E81BA G/VT on demand",
        scope="us-east-1",
        unit="vCPUs",
        pools={"t4": 8},
        link="https://x",
    )


@mock_aws
def test_aws_limit_and_use() -> None:
    """The limit is Service Quotas'; the use, and its own part, are the running instances' vCPUs."""
    ec2 = client("ec2")
    for kind, count, tags in (
        ("g4dn.xlarge", 1, {"eks:cluster-name": "mine"}),
        ("g4dn.xlarge", 1, {"eks:eks-cluster-name": "mine"}),
        ("g4dn.2xlarge", 1, {}),
        ("m5.large", 3, {"eks:cluster-name": "mine"}),
    ):
        ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType=kind,
            MinCount=count,
            MaxCount=count,
            TagSpecifications=[
                {
                    "ResourceType": "instance",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ]
            if tags
            else [],
        )
    asked = client("service-quotas")
    with Stubber(asked) as stub:
        stub.add_response("get_service_quota", {"Quota": {"Value": 16.0}}, ASKED)
        quotas = answers(asked)
        assert quotas.answer(aws_need()) == Known(limit=16, use=2 * 4 + 8)
    assert quotas.own_use(aws_need(), "mine") == 8
    assert quotas.own_use(aws_need(), "another") == 0


SIGN_IN = "sign in: aws sso login, or aws configure sso, and name the profile in AWS_PROFILE"


@mock_aws
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("AccessDeniedException", "not allowed to look: AccessDeniedException no"),
        ("ExpiredTokenException", f"no answer: ExpiredTokenException no; {SIGN_IN}"),
        ("UnrecognizedClientException", f"no answer: UnrecognizedClientException no; {SIGN_IN}"),
    ],
)
def test_aws_refuses(code: str, reason: str) -> None:
    """A refusal of AWS makes the quota unknown, in AWS's words."""
    asked = client("service-quotas")
    with Stubber(asked) as stub:
        stub.add_client_error("get_service_quota", code, "no\n", expected_params=ASKED)
        assert answers(asked).answer(aws_need()) == Unknown(reason=reason)


@mock_aws
@pytest.mark.parametrize(("account", "said"), [("999900001111", True), ("123456789012", False)])
def test_a_registry_of_another_account_is_a_note(
    account: str, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose policy this account may not read."""
    # moto lacks what these ask.
    monkeypatch.setattr(aws_quota.AwsQuotas, "findings", lambda *_: [])
    monkeypatch.setattr(eks_addons, "addon_findings", lambda *_, **__: ([], []))
    config = config_of("train")
    registry = f"{account}.dkr.ecr.us-east-1.amazonaws.com/mirror"
    config["gpu-cluster:images"] = {"registry": registry}
    notes = aws_quota.questions(settings_of("train", config), None).notes
    assert any(f"it is in account {account}" in note for note in notes) is said


@mock_aws
def test_a_quota_that_nobody_ever_changed_has_aws_s_default() -> None:
    """GetServiceQuota answers NoSuchResourceException for it."""
    asked = client("service-quotas")
    for default, answer in ((64.0, Known(limit=64.0, use=0.0)), (None, "no answer: NoSuchRes")):
        with Stubber(asked) as stub:
            refused = "NoSuchResourceException"
            stub.add_client_error("get_service_quota", refused, expected_params=ASKED)
            if default is None:
                stub.add_client_error("get_aws_default_service_quota", refused)
            else:
                given = {"Quota": {"Value": default}}
                stub.add_response("get_aws_default_service_quota", given, ASKED)
            found = answers(asked).answer(aws_need())
        assert found == answer or (isinstance(found, Unknown) and str(answer) in found.reason)


def test_nodes_without_gpus_count_against_the_standard_quota() -> None:
    """A new account has five vCPUs of it, and three m7i.large are six."""
    loaders = EksCpuPoolArgs(instance_types=["m7i.xlarge"], max_nodes=2)
    found, _ = aws_quota.needs(
        {}, {"system": EksSystemPoolArgs(), "loaders": loaders}, region="us-east-1"
    )
    assert [(one.quota, dict(one.pools)) for one in found] == [
        ("L-1216C47A standard on demand", {"system": 6, "loaders": 8})
    ]
    system = EksSystemPoolArgs(spot=True, max_nodes=2)
    spot, _ = aws_quota.needs({}, {"system": system}, region="us-east-1")
    assert [(one.quota, one.units) for one in spot] == [("L-34B43A08 standard Spot", 4)]


def test_a_simulator_gets_nobodys_aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """And needs none: neither the profile nor the keys of who asks are looked for."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "precious")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "precious")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "precious")
    signed: list[Any] = []

    def client(session: Any, name: str, endpoint_url: str) -> None:
        signed.append((name, endpoint_url, session.get_credentials().get_frozen_credentials()))

    monkeypatch.setattr("boto3.Session.client", client)
    url = "http://127.0.0.1:4566"
    aws_quota.AwsQuotas.of(AwsProviderArgs(region="us-east-1", profile="no-such"), url)
    assert {"service-quotas", "ec2", "sts"} <= {name for name, *_ in signed}
    assert {endpoint for _, endpoint, _ in signed} == {url}
    assert {key for *_, keys in signed for key in keys if key} == {"rehearsal"}


def test_aws_quota_of_uncertain_code_is_not_asked_for() -> None:
    """For Spot nodes of the newest P families the check says that it does not know the quota."""
    uncertain = Need(quota="Spot p5", scope="x", unit="vCPUs", pools={"p": 1}, link="https://x")
    assert isinstance(aws_quota.AwsQuotas({"ec2": None}).answer(uncertain), Unknown)


def test_aws_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An unknown profile is one line, no traceback."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"^AWS: .*no-such.*could not be found$"):
        aws_quota.AwsQuotas.of(AwsProviderArgs(region="us-east-1", profile="no-such"), None)


@pytest.mark.parametrize(
    ("stack", "reason"),
    [
        ("train", "AWS could not be queried: Unable to locate credentials; sign in: aws sso "
                  "login, or aws configure sso, and name the profile in AWS_PROFILE"),
        ("dev", "no Google Cloud credentials: run `gcloud auth application-default login`"),
    ],
)  # fmt: skip
def test_that_nobody_is_signed_in_is_said_once(
    stack: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each quota, pool and zone; the document has it everywhere."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setattr("google.auth.default", Mock(side_effect=DefaultCredentialsError()))
    code, document, text = quota.answer(stack)
    assert code == 2
    assert text.count(reason) == 1
    if stack == "train":
        settings = settings_of(stack, config_of(stack), kubeconfig=NOWHERE)
        with pytest.raises(CheckError, match=f"^{reason}$"):
            inventory_eks.read_inventory(settings, "gpu-cluster/train")
    assert text.endswith(f"\n\nthe cloud could not be queried: {reason}")
    assert document["quotas"][0]["reason"] == reason
    assert document["offers"][0]["reason"] == reason
