"""The API server that stands behind both Kubernetes plugins while they are compared."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from quality.fidelity.behind import EmptyCluster, empty_cluster
from quality.fidelity.cases import Case
from quality.fidelity.compare import compared
from quality.fidelity.declared import Declared
from quality.fidelity.packages import PACKAGES
from quality.fidelity.questions import Plugin

KUBERNETES = PACKAGES["kubernetes"]
IMAGE = {"name": "c", "image": "registry.example/x:1"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmptyCluster]:
    with empty_cluster() as behind:
        assert isinstance(behind, EmptyCluster)
        yield behind


def pod(**container: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "apps", "finalizers": ["example.com/hold"]}
    spec = {"containers": [IMAGE | container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def namespace(**labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels}}


@pytest.mark.parametrize(
    ("kind", "before", "after", "expected"),
    [
        ("Pod", pod(), pod(), "same"),
        ("Pod", pod(), pod(args=["a"]), "replace"),
        ("Pod", pod(), pod(args=["a"], imagePullPolicy="Perhaps"), "refused"),
        ("Pod", None, pod(), "accepted"),
        ("Pod", None, pod(imagePullPolicy="Perhaps"), "refused"),
        ("Namespace", namespace(), namespace(a="b"), "update"),
        ("Namespace", namespace(), namespace(a="no label!"), "refused"),
        ("Namespace", namespace(a="no label!"), namespace(), "refused"),
    ],
)
def test_its_dry_run_decides(
    cluster: EmptyCluster,
    kind: str,
    before: dict[str, Any] | None,
    after: dict[str, Any],
    expected: str,
) -> None:
    """And the next question finds nothing of the one before, finalizers or not."""
    of = Declared(stack="", token=f"kubernetes:core/v1:{kind}", name="it", inputs=after)
    case = Case(of=of, kind="change", path="", before=before, after=after)
    with KUBERNETES.offline() as port:
        plugin = Plugin(port, cluster.config)
        (answer,) = compared(KUBERNETES, [case], plugin, plugin, cluster)
        plugin.close()
    assert answer.official.short == expected, answer.official.line
    assert not answer.differs
    place = "namespaces/n" if kind == "Namespace" else "namespaces/apps/pods/p"
    with pytest.raises(ApiError, match="not found"):
        cluster.api.get(f"/api/v1/{place}")
