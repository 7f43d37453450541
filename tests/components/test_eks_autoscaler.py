"""Cluster Autoscaler on EKS: its image, flags, identity and rights."""

from typing import Any

import pytest

from components.eks.autoscaler_args import EksAutoscalerArgs
from tests.components.eks_stack import declare
from tests.components.recording import Recording

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
RBAC = "kubernetes:rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def stack() -> Recording:
    """A cluster with the autoscaler as it comes."""
    return declare()


def pod(stack: Recording) -> dict[str, Any]:
    """The pod's spec."""
    spec: dict[str, Any] = stack.one(DEPLOYMENT).inputs["spec"]["template"]["spec"]
    return spec


def flags(stack: Recording) -> dict[str, str]:
    """Flag -> value."""
    (container,) = pod(stack)["containers"]
    pairs = [argument.removeprefix("--").split("=", 1) for argument in container["args"]]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize(("minor", "tag"), [("1.34", "v1.34.5"), ("1.35", "v1.35.2")])
def test_it_is_of_the_cluster_s_own_minor(minor: str, tag: str) -> None:
    """The image follows the cluster's version."""
    (container,) = pod(declare(version=minor))["containers"]
    assert container["image"] == f"registry.k8s.io/autoscaling/cluster-autoscaler:{tag}"


def test_it_finds_its_groups_by_tag(stack: Recording) -> None:
    """It takes every group that EKS tagged for this cluster, in the cluster's region."""
    given = flags(stack)
    assert given["cloud-provider"] == "aws"
    assert given["node-group-auto-discovery"] == (
        "asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/k8s-ml"
    )
    (container,) = pod(stack)["containers"]
    assert container["env"] == [{"name": "AWS_REGION", "value": "us-east-1"}]


def test_every_option_is_a_flag() -> None:
    """Each typed option reaches its flag, and any other flag is passed on."""
    options = EksAutoscalerArgs(
        expander="priority",
        scan_interval="30s",
        scale_down_enabled=False,
        scale_down_unneeded_time="5m",
        scale_down_unready_time="15m",
        scale_down_delay_after_add="3m",
        scale_down_utilization_threshold=0.6,
        scale_down_gpu_utilization_threshold=0.1,
        max_node_provision_time="25m",
        max_nodes_total=40,
        balance_similar_node_groups=True,
        skip_nodes_with_local_storage=True,
        skip_nodes_with_system_pods=False,
        ignore_daemonsets_utilization=True,
        verbosity=2,
        extra_flags={"cordon-node-before-terminating": "true"},
    )
    given = flags(declare(autoscaler=options))
    assert {name: value for name, value in given.items() if name not in flags_of_the_stack()} == {
        "expander": "priority",
        "scan-interval": "30s",
        "scale-down-enabled": "false",
        "scale-down-unneeded-time": "5m",
        "scale-down-unready-time": "15m",
        "scale-down-delay-after-add": "3m",
        "scale-down-utilization-threshold": "0.6",
        "scale-down-gpu-utilization-threshold": "0.1",
        "max-node-provision-time": "25m",
        "max-nodes-total": "40",
        "balance-similar-node-groups": "true",
        "skip-nodes-with-local-storage": "true",
        "skip-nodes-with-system-pods": "false",
        "ignore-daemonsets-utilization": "true",
        "v": "2",
        "cordon-node-before-terminating": "true",
    }


def flags_of_the_stack() -> set[str]:
    return {
        "cloud-provider",
        "namespace",
        "node-group-auto-discovery",
        "node-info-cache-expire-time",
    }


def test_it_reads_the_tags_again_after_a_pool_has_had_a_node(stack: Recording) -> None:
    """Otherwise the last node is the group's template until the autoscaler's pod restarts."""
    assert flags(stack)["node-info-cache-expire-time"] == "1m"


def test_it_runs_without_any_privilege_on_the_node(stack: Recording) -> None:
    """Nobody's user, a root that is read-only, no capability."""
    spec = pod(stack)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65534
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"] == "600Mi"
    assert "tolerations" not in spec


def test_its_identity_is_its_service_account_s(stack: Recording) -> None:
    """Association, service account, bindings and pod all name the same one."""
    association = stack.one("aws:eks/podIdentityAssociation:PodIdentityAssociation").inputs
    assert (association["namespace"], association["serviceAccount"]) == (
        "kube-system",
        "cluster-autoscaler",
    )
    assert association["clusterName"] == "k8s-ml"
    account = stack.one("kubernetes:core/v1:ServiceAccount").inputs["metadata"]
    assert (account["namespace"], account["name"]) == ("kube-system", "cluster-autoscaler")
    assert pod(stack)["serviceAccountName"] == "cluster-autoscaler"
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        binding = stack.one(f"{RBAC}:{kind}").inputs
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "cluster-autoscaler", "namespace": "kube-system"}
        ]
        role = stack.one(f"{RBAC}:{binding['roleRef']['kind']}").inputs
        assert binding["roleRef"]["name"] == role["metadata"]["name"]


def allowed(stack: Recording, kind: str = "ClusterRole") -> set[tuple[str, str, str]]:
    """(group, resource, verb) that the role allows on any object."""
    return {
        (group, resource, verb)
        for rule in stack.one(f"{RBAC}:{kind}").inputs["rules"]
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize(
    ("group", "resource"),
    [
        *[("", each) for each in ("nodes", "pods", "namespaces", "services")],
        *[("", each) for each in ("persistentvolumes", "persistentvolumeclaims")],
        ("", "replicationcontrollers"),
        *[("apps", each) for each in ("daemonsets", "replicasets", "statefulsets")],
        ("batch", "jobs"),
        ("policy", "poddisruptionbudgets"),
        *[("storage.k8s.io", each) for each in ("csidrivers", "csinodes", "storageclasses")],
        *[("storage.k8s.io", each) for each in ("csistoragecapacities", "volumeattachments")],
        *[("resource.k8s.io", each) for each in ("deviceclasses", "resourceclaims")],
        ("resource.k8s.io", "resourceslices"),
    ],
)
def test_it_may_read_all_that_it_waits_for(stack: Recording, group: str, resource: str) -> None:
    """One kind that it may not list and watch keeps it idle for ever."""
    assert {(group, resource, "list"), (group, resource, "watch")} <= allowed(stack)


def test_it_writes_nothing_but_what_scaling_takes(stack: Recording) -> None:
    """In the whole cluster it updates nodes, evicts pods and reports; secrets it never sees."""
    reads = {"get", "list", "watch"}
    assert {each for each in allowed(stack) if each[2] not in reads} == {
        ("", "nodes", "update"),
        ("", "pods/eviction", "create"),
        ("", "pods/status", "update"),
        ("", "events", "create"),
        ("", "events", "patch"),
    }
    assert not any("secrets" in each[1] or "*" in each for each in allowed(stack))


def test_its_lease_and_status_are_its_own(stack: Recording) -> None:
    """Leases and ConfigMaps it changes in its own namespace, by name."""
    named = [r for r in stack.one(f"{RBAC}:Role").inputs["rules"] if "resourceNames" in r]
    assert {tuple(rule["resourceNames"]) for rule in named} == {
        ("cluster-autoscaler",),
        ("cluster-autoscaler-status", "cluster-autoscaler-priority-expander"),
    }
    assert stack.one(f"{RBAC}:Role").inputs["metadata"]["namespace"] == "kube-system"
