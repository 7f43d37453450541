"""Tolerations, selectors, affinity and requests: the cases of Kubernetes' own tests, as data.

Restated from kubernetes/kubernetes (read 2026-11-21): staging/src/k8s.io/api/core/v1/
toleration_test.go, component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity_test.go and
component-helpers/resource/helpers_test.go; then what may not be known in a preview.
"""

from decimal import Decimal
from typing import Any

import pytest

from gpu_cluster.components.kube.partial import UNKNOWN
from gpu_cluster.components.kube.requests import requests
from gpu_cluster.components.kube.selectors import REQUIRED, requirement, selects
from gpu_cluster.components.kube.taints import CLOUD_EFFECTS, from_cloud, keeps_away, tolerated

SLA = "node.kubernetes.io/sla"
NO = "NoSchedule"
TOLERATIONS = [
    # key, operator, value, effect of the toleration; key, value, effect of the taint; tolerated
    ("foo", "Exists", None, NO, "foo", None, NO, True),
    ("foo", "Exists", None, NO, "foo", "bar", NO, True),
    ("", "Exists", None, NO, "foo", "bar", NO, True),
    ("foo", "Equal", "bar", NO, "foo", "bar", NO, True),
    ("foo", "Equal", "value1", NO, "foo", "value2", NO, False),
    ("foo", "Equal", "bar", NO, "foo", "bar", "NoExecute", False),
    (SLA, "Gt", "950", NO, SLA, "800", NO, False),
    (SLA, "Gt", "750", NO, SLA, "950", NO, True),
    (SLA, "Lt", "800", NO, SLA, "950", NO, False),
    (SLA, "Lt", "950", NO, SLA, "800", NO, True),
    (SLA, "Gt", "950", NO, SLA, "950", NO, False),
    (SLA, "Gt", "950", NO, SLA, "high", NO, False),
    ("test-key", "Gt", "-100", NO, "test-key", "-200", NO, False),
    ("test-key", "Gt", "9223372036854775806", NO, "test-key", "100", NO, False),
    # Not in that table, but in the rules above the function: no operator is Equal, no effect any.
    ("foo", None, "bar", None, "foo", "bar", "NoExecute", True),
    ("foo", None, None, None, "foo", "", NO, True),
    ("foo", None, None, None, "foo", "bar", NO, False),
    ("bar", "Exists", None, None, "foo", "bar", NO, False),
    ("foo", "exists", None, None, "foo", None, NO, False),
]


@pytest.mark.parametrize("case", TOLERATIONS, ids=str)
def test_tolerations(case: tuple[Any, ...]) -> None:
    """A toleration matches a taint as the scheduler has it."""
    *given, key, value, effect, expected = case
    names = ("key", "operator", "value", "effect")
    toleration = {name: one for name, one in zip(names, given, strict=True) if one is not None}
    assert tolerated([toleration], key=key, value=value, effect=effect) is expected
    others = [{"key": "other"}, toleration]
    assert tolerated(others, key=key, value=value, effect=effect) is expected


def test_taints_that_may_not_be_known() -> None:
    """An unknown taint or toleration gives no verdict, unless another toleration matches."""
    match = {"operator": "Exists"}
    taint = {"key": "a", "value": "b", "effect": NO}
    assert tolerated([UNKNOWN], **taint) is None
    assert tolerated([{"key": UNKNOWN}], **taint) is None
    assert tolerated([UNKNOWN, match], **taint) is True
    assert tolerated([match], **{**taint, "value": UNKNOWN}) is None
    assert tolerated([], **taint) is False


def test_effects_of_the_clouds_and_of_kubernetes() -> None:
    """Each of three effects has one spelling in the clouds' APIs; the rest is left as it is."""
    assert CLOUD_EFFECTS == {
        "NoSchedule": "NO_SCHEDULE",
        "PreferNoSchedule": "PREFER_NO_SCHEDULE",
        "NoExecute": "NO_EXECUTE",
    }
    assert [from_cloud(cloud) for cloud in CLOUD_EFFECTS.values()] == list(CLOUD_EFFECTS)
    assert (from_cloud("NoSchedule"), from_cloud(UNKNOWN)) == ("NoSchedule", UNKNOWN)
    assert [keeps_away(effect) for effect in CLOUD_EFFECTS] == [True, False, True]


def affinity(*terms: Any) -> dict[str, Any]:
    """A pod with required node affinity."""
    outer, middle, inner = REQUIRED
    return {outer: {middle: {inner: {"nodeSelectorTerms": list(terms)}}}}


def wants(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def labelled(*expressions: Any) -> dict[str, Any]:
    return {"matchExpressions": list(expressions)}


def named(*expressions: Any) -> dict[str, Any]:
    return {"matchFields": list(expressions)}


BAR, GRID = {"foo": "bar"}, {"GPU": "NVIDIA-GRID-K1"}
NODE_1 = named(wants("metadata.name", "In", "node_1"))
FOO_BAR = wants("foo", "In", "bar")
SELECTORS: list[tuple[dict[str, Any], dict[str, str], str, bool]] = [
    # pod, labels of the node, its name, whether it may be there
    ({}, {}, "n", True),
    ({"nodeSelector": BAR}, {}, "n", False),
    ({"nodeSelector": BAR}, BAR, "n", True),
    ({"nodeSelector": BAR}, {**BAR, "baz": "blah"}, "n", True),
    ({"nodeSelector": {**BAR, "baz": "blah"}}, BAR, "n", False),
    (affinity(labelled(wants("foo", "In", "bar", "value2"))), BAR, "n", True),
    (affinity(labelled(wants("kernel", "Gt", "0204"))), {"kernel": "0206"}, "n", True),
    (affinity(labelled(wants("kernel", "Lt", "0204"))), {"kernel": "0206"}, "n", False),
    (affinity(labelled(wants("kernel", "Gt", "0204"))), {"kernel": "new"}, "n", False),
    (affinity(labelled(wants("kernel", "Gt", "0204"))), {}, "n", False),
    (affinity(labelled(wants("kernel", "Gt", "1", "2"))), {"kernel": "3"}, "n", False),
    (affinity(labelled(wants("mem", "NotIn", "DDR", "DDR2"))), {"mem": "DDR3"}, "n", True),
    (affinity(labelled(wants("mem", "NotIn", "DDR", "DDR2"))), {}, "n", True),
    (affinity(labelled(wants("GPU", "Exists"))), GRID, "n", True),
    (affinity(labelled(wants("GPU", "Exists", "x"))), GRID, "n", False),
    (affinity(labelled(wants("GPU", "DoesNotExist"))), GRID, "n", False),
    (affinity(labelled(wants("GPU", "DoesNotExist"))), {}, "n", True),
    (affinity(labelled(wants("GPU", "exists"))), GRID, "n", False),
    (affinity(labelled(wants("foo", "In", "value1", "value2"))), BAR, "n", False),
    (affinity(labelled(wants("foo", "In"))), BAR, "n", False),
    (affinity(), BAR, "n", False),
    (affinity(labelled()), BAR, "n", False),
    (affinity({}), BAR, "n", False),
    ({"affinity": {"nodeAffinity": {}}}, BAR, "n", True),
    (affinity(labelled(wants("GPU", "Exists"), wants("GPU", "NotIn", "AMD"))), GRID, "n", True),
    (affinity(labelled(wants("GPU", "Exists"), wants("GPU", "In", "AMD"))), GRID, "n", False),
    (affinity(labelled(wants("foo", "In", "bar")), labelled(wants("diff", "In", "x"))),
     BAR, "n", True),
    ({"nodeSelector": BAR, **affinity(labelled(wants("foo", "Exists")))}, BAR, "n", True),
    ({"nodeSelector": BAR, **affinity(labelled(wants("foo", "Exists")))},
     {"foo": "barrrrrr"}, "n", False),
    (affinity(labelled(wants("foo", "NotIn", "invalid value: ___@#$%^"))), BAR, "n", False),
    (affinity(NODE_1), {}, "node_1", True),
    (affinity(NODE_1), {}, "node_2", False),
    (affinity(named(wants("metadata.name", "NotIn", "node_1"))), {}, "node_2", True),
    (affinity(named(wants("metadata.name", "In", "a", "b"))), {}, "a", False),
    (affinity(named(wants("metadata.name", "Exists"))), {}, "a", False),
    (affinity(NODE_1, labelled(FOO_BAR)), BAR, "node_2", True),
    (affinity({**NODE_1, **labelled(FOO_BAR)}), BAR, "node_2", False),
    (affinity({**NODE_1, **labelled(FOO_BAR)}), BAR, "node_1", True),
    (affinity(NODE_1, labelled(wants("foo", "In", "not-bar"))), BAR, "node_2", False),
]  # fmt: skip


@pytest.mark.parametrize("case", SELECTORS, ids=str)
def test_selectors_and_affinity(case: tuple[dict[str, Any], dict[str, str], str, bool]) -> None:
    """A pod may be on a node as the scheduler has it."""
    spec, labels, name, expected = case
    assert selects(spec, labels, name=name) is expected


def test_selectors_that_may_not_be_known() -> None:
    """No verdict where a label, a requirement or the node's name decides and is not known."""
    unknown = {"foo": UNKNOWN}
    assert selects({"nodeSelector": BAR}, unknown) is None
    assert selects({"nodeSelector": UNKNOWN}, BAR) is None
    assert selects({"nodeSelector": {"foo": UNKNOWN, "no": "x"}}, BAR) is False
    assert selects({"nodeSelector": BAR}, {}, perhaps=lambda key: key == "foo") is None
    assert selects({"affinity": UNKNOWN}, BAR) is None
    assert selects(affinity(UNKNOWN), BAR) is None
    assert selects(affinity(UNKNOWN, labelled(FOO_BAR)), BAR) is True
    assert selects(affinity(NODE_1), BAR) is None
    assert requirement(wants("foo", "Exists"), unknown) is True
    assert requirement(wants("foo", "DoesNotExist"), unknown) is False
    assert requirement(wants("foo", "In", "bar"), unknown) is None
    assert requirement(wants("foo", "Exists"), {}, lambda key: True) is None
    assert requirement({"key": "foo", "operator": UNKNOWN}, BAR) is None
    assert requirement({"key": "foo", "operator": "In", "values": UNKNOWN}, BAR) is None


def cpu(request: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": request}}, **more}


def sidecar(request: str) -> dict[str, Any]:
    return cpu(request, restartPolicy="Always")


REQUESTS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("larger init container", {"initContainers": [cpu("4")], "containers": [cpu("1")]},
     {"cpu": "4"}),
    ("larger containers", {"initContainers": [cpu("2")], "containers": [cpu("2"), cpu("3")]},
     {"cpu": "5"}),
    ("overhead", {"overhead": {"cpu": "1", "memory": "1Gi"}, "initContainers": [cpu("2")],
                  "containers": [cpu("2"), cpu("3")]}, {"cpu": "6", "memory": "1Gi"}),
    ("just overhead", {"overhead": {"cpu": "5", "memory": "5"}}, {"cpu": "5", "memory": "5"}),
    ("a sidecar stays", {"initContainers": [sidecar("2")], "containers": [cpu("1")]}, {"cpu": "3"}),
    ("an init container beside earlier sidecars",
     {"initContainers": [sidecar("1"), cpu("5")], "containers": [cpu("1")]}, {"cpu": "6"}),
    ("an init container before a sidecar",
     {"initContainers": [cpu("5"), sidecar("1")], "containers": [cpu("1")]}, {"cpu": "5"}),
    ("several of both",
     {"initContainers": [cpu("25"), sidecar("5"), sidecar("10"), cpu("10")],
      "containers": [cpu("100m")]}, {"cpu": "25"}),
    ("only sidecars, which start one by one", {"initContainers": [sidecar("2"), sidecar("3")]},
     {"cpu": "5"}),
    ("of the pod as a whole",
     {"resources": {"requests": {"cpu": "10", "memory": "5Gi"}}, "containers": [cpu("1")]},
     {"cpu": "10", "memory": "5Gi"}),
    ("of the pod, which cannot ask for GPUs",
     {"resources": {"requests": {"nvidia.com/gpu": "8"}},
      "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}, {"nvidia.com/gpu": "1"}),
    ("a limit alone, which the API server makes the request",
     {"containers": [{"resources": {"limits": {"cpu": "9"}}}]}, {"cpu": "9"}),
    ("a request below its limit",
     {"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]},
     {"cpu": "1"}),
    ("nothing", {"containers": [{"name": "x"}, cpu("0")]}, {}),
]  # fmt: skip


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case[0])
def test_requests(case: tuple[str, dict[str, Any], dict[str, str]]) -> None:
    """What the scheduler holds for a pod."""
    _, spec, expected = case
    values = {"5Gi": Decimal(5 * 2**30), "1Gi": Decimal(2**30)}
    assert requests(spec) == {
        name: values.get(text) or Decimal(text) for name, text in expected.items()
    }
