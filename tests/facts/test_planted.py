"""Each comparison sees a wrong constant: one is planted in each table."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.clouds.read import read_facts
from gpu_cluster.components.catalog import eks, eks_regions, gke, kubernetes
from gpu_cluster.components.eks import cluster_args, regions
from gpu_cluster.rehearsal.plugins.cloud import facts
from quality.clouds import aws_provider
from tests.facts import google_tables, sent
from tests.facts.test_facts import COMPARISONS, explained

Plant = Callable[[pytest.MonkeyPatch], None]
POOL, GROUP = "gcp:container/nodePool:NodePool", "aws:eks/nodeGroup:NodeGroup"


def constant(module: Any, name: str, value: Any) -> Plant:
    """A constant of a module with another value."""
    return lambda patch: patch.setattr(module, name, value)


def entry(table: Mapping[str, Any], key: str, **changes: Any) -> Plant:
    """A row of a table with other fields, under the same key."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        hidden = {**table, key: replace(table[key], **changes)}
        for module, name in ((eks, "INSTANCE_TYPES"), (gke, "ACCELERATORS")):
            if getattr(module, name) is table:
                patch.setattr(module, name, hidden)

    return plant


def known(token: str, **changes: Any) -> Plant:
    """A resource type of `gpu_cluster/clouds/` with another enum, bound or list."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        of = facts.of
        row = of(token)
        patched = {
            kind: {**getattr(row, kind), **value} if isinstance(value, dict) else value
            for kind, value in changes.items()
        }
        wrong = replace(row, **patched)
        patch.setattr(facts, "of", lambda other: wrong if other == token else of(other))

    return plant


def input_sent(platform: str, token: str, path: str, value: Any) -> Plant:
    """A resource that the program sends with another input."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        given = sent.registered(platform)
        first = next(each for each in given if each.type == token)
        wrong = replace(first, inputs=_with(first.inputs, path.split("."), value))
        patch.setattr(sent, "registered", lambda other: [wrong] if other == platform else [])

    return plant


def _with(inputs: Any, path: list[str], value: Any) -> Any:
    head, *rest = path
    if isinstance(inputs, list):
        return [_with(inputs[0], path, value)]
    return {**inputs, head: _with(inputs.get(head, {}), rest, value) if rest else value}


PLANTED: Mapping[str, tuple[Plant, str]] = {
    "aws generated": (
        lambda patch: patch.setitem(read_facts("generated/aws")["types"], GROUP, {"models": {}}),
        f"{GROUP} enums: None here",
    ),
    "aws provider": (
        lambda patch: patch.setitem(
            aws_provider.arguments(), GROUP, {"sets": ["instanceTypes"], "plain": ["subnetId"]}
        ),
        f"{GROUP} instanceTypes sets: False here",
    ),
    "aws eks constants": (constant(eks, "LABEL_VALUE_MAX", 64), "botocore has 63"),
    "aws eks regions": (constant(eks, "REGIONS", ("us-eats-1",)), "us-eats-1: botocore has"),
    "aws log retention": (constant(cluster_args, "RETENTION_DAYS", (1, 2)), "lacks 2"),
    "aws instance names": (constant(eks, "INSTANCE_TYPES", {}), "the catalog does not know it"),
    "aws instance shapes": (entry(eks.INSTANCE_TYPES, "g5.xlarge", vcpu=5), "5 here, 4 there"),
    "aws offers": (lambda patch: patch.setattr(eks, "CPU_INSTANCE_TYPES", {"m9.large": None}),
        "m9.large"),
    "aws gpu regions": (
        lambda patch: patch.setitem(eks_regions._DATA["regions"], "p5e", "eu-west-3"),
        "p5e.48xlarge: ['eu-west-3'] only here",
    ),
    "aws places": (constant(regions, "_COMPASS", ("north", "south")),
        "use1-az1: of us-east-1, and no such"),
    "aws iam actions": (
        input_sent("eks", "aws:iam/rolePolicy:RolePolicy", "policy",
                   '{"Statement": [{"Action": "ec2:DescribeGpus"}]}'),
        "ec2:DescribeGpus",
    ),
    "aws managed policies": (
        input_sent("eks", "aws:iam/rolePolicyAttachment:RolePolicyAttachment", "policyArn",
                   "arn:aws:iam::aws:policy/AmazonEKSWorkerPolicy"),
        "AmazonEKSWorkerPolicy",
    ),
    "aws values sent": (input_sent("eks", GROUP, "amiType", "AL2023_NVIDIA"),
        "AL2023_NVIDIA is none of"),
    "google types": (
        lambda patch: patch.setattr(google_tables, "described_by", lambda token: ("", "")),
        f"{POOL}: no schema",
    ),
    "google fields": (known(POOL, enums={"nodeConfig.gpu": ("A",)}), "nodeConfig.gpu: the API has"),
    "google enums": (known(POOL, enums={"nodeConfig.taints[].effect": ("NoSchedule",)}),
        "lacks NoSchedule"),
    "google values sent": (input_sent("gke", POOL, "autoscaling.locationPolicy", "ALL"),
        "ALL is none of"),
    "google catalog": (constant(gke, "SHARING_STRATEGIES", ("TIME_SLICING",)), "TIME_SLICING"),
    "google dashboards": (
        input_sent("gke-autopilot", "gcp:monitoring/dashboard:Dashboard", "dashboardJson",
                   '{"mosaicLayout": {"column": 12}}'),
        "mosaicLayout.column: a dashboard has no such field",
    ),
    "google quotas": (entry(gke.ACCELERATORS, "nvidia-l4", quota_metric="NVIDIA_L40_GPUS"),
        "NVIDIA_L40_GPUS"),
    "google preview only": (
        input_sent("gke", POOL, "nodeConfig.hostMaintenancePolicy.maintenanceInterval", "PERIODIC"),
        "hostMaintenancePolicy",
    ),
    "sdk paths": (known(GROUP, immutable=frozenset({"amiTyp"})), "amiTyp: the SDK has no such"),
    "sdk bounds": (known(GROUP, bounds={"taints[]": {"max_length": 50}}), "a bound of nothing"),
    "sdk types sent": (input_sent("gke", POOL, "nodeCount", "many"), "got 'many'"),
    "kubernetes objects": (
        input_sent("gke", "kubernetes:apps/v1:DaemonSet", "spec.template.spec.hostPid", True),
        "spec.template.spec.hostPid: there is no such field",
    ),
    "kubernetes choices": (constant(kubernetes, "TAINT_EFFECTS", ("NoRun",)), "NoRun: only here"),
}  # fmt: skip
"""Comparison -> what is planted, and what a difference then says."""


def test_every_comparison_has_a_plant() -> None:
    """A comparison that sees nothing would pass for ever."""
    assert PLANTED.keys() == COMPARISONS.keys()


@pytest.mark.parametrize("comparison", PLANTED)
def test_a_wrong_constant_is_a_difference(comparison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that no row explains."""
    plant, says = PLANTED[comparison]
    plant(monkeypatch)
    rows = explained(comparison)
    assert [line for line in COMPARISONS[comparison]() if says in line and line not in rows]
