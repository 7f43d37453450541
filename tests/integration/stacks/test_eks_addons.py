"""Which pinned versions of EKS addons fit `cluster.version`; answers have EKS's own shapes."""

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from stacks.capacity.eks_addons import compare
from tests.unit.components.test_settings_eks import read

NEWEST, DEFAULT, OLD = "v1.12.10-eksbuild.1", "v1.12.4-eksbuild.2", "v1.12.4-eksbuild.1"


def pinned(version: str) -> Any:
    """`train` on Kubernetes 1.36 with this version of coredns."""
    cluster = "gpu-cluster:cluster"
    return read(
        [cluster, "name", "ml"],
        [cluster, "version", "1.36"],
        [cluster, "addonVersions", {"coredns": version}],
    )


def offered(*versions: str) -> dict[str, Any]:
    return {
        "addons": [
            {
                "addonName": "coredns",
                "addonVersions": [
                    {
                        "addonVersion": version,
                        "compatibilities": [
                            {"clusterVersion": "1.36", "defaultVersion": version == DEFAULT}
                        ],
                    }
                    for version in versions
                ],
            }
        ]
    }


@pytest.mark.parametrize(
    ("version", "answer", "findings", "notes"),
    [
        (NEWEST, offered(OLD, NEWEST, DEFAULT), [], []),
        (DEFAULT, offered(OLD, NEWEST, DEFAULT), [], [
            f"cluster.addonVersions.coredns: {DEFAULT} fits Kubernetes 1.36; the default is "
            f"{DEFAULT}, the newest is {NEWEST}"
        ]),
        ("v1.9.3-eksbuild.1", offered(OLD, NEWEST, DEFAULT), [
            "cluster.addonVersions.coredns: v1.9.3-eksbuild.1 does not fit Kubernetes 1.36; the "
            f"default is {DEFAULT}, the newest is {NEWEST}"
        ], []),
        (OLD, {"addons": []}, [
            f"cluster.addonVersions.coredns: {OLD} does not fit Kubernetes 1.36; no version of "
            "the addon fits"
        ], []),
    ],
)  # fmt: skip
def test_a_version_that_does_not_fit_is_named_with_one_that_does(
    version: str, answer: dict[str, Any], findings: list[str], notes: list[str]
) -> None:
    """Before there is a cluster, too: EKS would refuse the addon after the control plane."""
    eks = boto3.client(
        "eks", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with Stubber(eks) as stub:
        stub.add_client_error("list_addons", "ResourceNotFoundException")
        asked = {"addonName": "coredns", "kubernetesVersion": "1.36"}
        stub.add_response("describe_addon_versions", answer, asked)
        found, said = compare(eks, pinned(version))
    assert ([str(one) for one in found], said) == (findings, notes)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("v1.7.0-eksbuild.1", "v1.7.0-eksbuild.1 reports DCGMHealthCode71 on healthy H100"),
        ("v1.7.1-eksbuild.1", None),
        ("v1.6.7-eksbuild.1", None),
    ],
)
def test_a_running_version_that_does_harm_is_named(version: str, message: str | None) -> None:
    """The version is EKS's own choice: no setting of the stack names it."""
    eks = boto3.client(
        "eks", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    name = "eks-node-monitoring-agent"
    answer = offered(version)
    answer["addons"][0]["addonName"] = name
    with Stubber(eks) as stub:
        stub.add_response("list_addons", {"addons": [name]})
        stub.add_response("describe_addon", {"addon": {"addonVersion": version}})
        stub.add_response("describe_addon_versions", answer)
        found, _ = compare(eks, read(["gpu-cluster:cluster", "version", "1.36"]))
    assert [finding.word for finding in found] == ["wrong"] * bool(message)
    assert not message or f"cluster.addonVersions.{name}: {message}" in str(found[0])
