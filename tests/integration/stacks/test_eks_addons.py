"""Which pinned versions of EKS addons fit `cluster.version`; answers have EKS's own shapes."""

from typing import Any

import pytest
from botocore.stub import Stubber

from gpu_cluster.stacks.capacity.eks_addons import addon_findings
from tests.integration.stacks.test_aws_account import client
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
    eks = client("eks")
    with Stubber(eks) as stub:
        stub.add_client_error("list_addons", "ResourceNotFoundException")
        asked = {"addonName": "coredns", "kubernetesVersion": "1.36"}
        stub.add_response("describe_addon_versions", answer, asked)
        found, said = addon_findings(eks, pinned(version))
    assert ([str(one) for one in found], said) == (findings, notes)


NO_ACTION: dict[str, Any] = {
    "nodeMonitoringCondition": "AcceleratedHardwareReady",
    "nodeUnhealthyReason": "DCGMHealthCode71",
    "minRepairWaitTimeMins": 10,
}
POOL, H100 = "gpu-cluster:gpuPools", {"instanceTypes": ["p5.48xlarge"]}
ACTS = {"nodeRepair": {"overrides": [{**NO_ACTION, "repairAction": "Replace"}]}}
NODES = "gpu-cluster:cluster"
KARPENTER = [[NODES, "scaler", "karpenter"], [NODES, "autoscaler", None]]


@pytest.mark.parametrize(
    ("version", "pool", "cluster", "words"),
    [
        ("v1.7.0-eksbuild.1", {}, [], ["note"]),
        ("v1.7.0-eksbuild.1", H100, [], ["note"]),
        ("v1.7.0-eksbuild.1", {**H100, **ACTS}, [], ["wrong"]),
        ("v1.7.0-eksbuild.1", ACTS, [], ["note"]),
        ("v1.7.0-eksbuild.1", {**H100, "nodeRepair": {"enabled": False}}, [], ["note"]),
        ("v1.7.0-eksbuild.1", H100, KARPENTER, ["note"]),
        ("v1.7.0-eksbuild.1", H100,
         [*KARPENTER, [NODES, "karpenter", {"nodeRepair": True}]], ["wrong"]),
        ("v1.7.0-eksbuild.1", {}, [*KARPENTER, [NODES, "karpenter", {"nodeRepair": True}]],
         ["note"]),
        ("v1.7.1-eksbuild.1", {**H100, **ACTS}, [], []),
        ("v1.6.7-eksbuild.1", {**H100, **ACTS}, [], []),
    ],
)  # fmt: skip
def test_a_running_version_that_does_harm_is_named(
    version: str, pool: dict[str, Any], cluster: list[Any], words: list[str]
) -> None:
    """The version is EKS's own choice. It is a finding only if nodes would be replaced."""
    eks = client("eks")
    name = "eks-node-monitoring-agent"
    answer = offered(version)
    answer["addons"][0]["addonName"] = name
    changes = [[POOL, "train-gpu", key, value] for key, value in pool.items()]
    with Stubber(eks) as stub:
        stub.add_response("list_addons", {"addons": [name]})
        stub.add_response("describe_addon", {"addon": {"addonVersion": version}})
        stub.add_response("describe_addon_versions", answer)
        found, notes = addon_findings(eks, read([NODES, "version", "1.36"], *changes, *cluster))
    assert [finding.word for finding in found] + ["note"] * len(notes) == words
    message = f"cluster.addonVersions.{name}: {version} reports DCGMHealthCode71 on healthy H100"
    assert all(message in line for line in [*map(str, found), *notes])
