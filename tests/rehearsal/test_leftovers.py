"""A rehearsal in which somebody opens a Service and asks for a disk, and forgets both."""

from pathlib import Path
from typing import Any

import pytest

from rehearsal.sandbox import Sandbox
from stacks.live import leftovers
from stacks.outcome import ExitCode
from tests.rehearsal.test_disruptions import until

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
    },
}


def objects(sandbox: Sandbox) -> dict[str, Any]:
    """The user's two, as the API server has them."""
    api, at = sandbox.control_plane.api, "/api/v1/namespaces/default"
    return {
        "service": api.get(f"{at}/services/web"),
        "claim": api.get(f"{at}/persistentvolumeclaims/data"),
    }


def made(sandbox: Sandbox) -> bool:
    found = objects(sandbox)
    balancer = (found["service"].get("status") or {}).get("loadBalancer") or {}
    return bool(balancer.get("ingress")) and found["claim"]["status"]["phase"] == "Bound"


def create(sandbox: Sandbox) -> None:
    """Somebody asks for both."""
    api, at = sandbox.control_plane.api, "/api/v1/namespaces/default"
    api.create(f"{at}/services", SERVICE)
    api.create(f"{at}/persistentvolumeclaims", CLAIM)
    until(lambda: made(sandbox), "the cloud has made both")


def deleted_in_time(sandbox: Sandbox) -> None:
    """Somebody asks for both and deletes both: controllers that are there remove what they made."""
    api, at = sandbox.control_plane.api, "/api/v1/namespaces/default"
    before = sandbox.cloud.list_resources()
    create(sandbox)
    # A balancer of EKS has two more: its network interfaces and its security group.
    assert len(sandbox.cloud.list_resources()) >= len(before) + 3
    api.delete(f"{at}/services/web")
    api.delete(f"{at}/persistentvolumeclaims/data")
    until(lambda: sandbox.cloud.list_resources() == before, "the cloud has removed both")


@pytest.mark.parametrize(
    ("stack", "says"),
    [
        ("dev", "already being used by 'projects/my-project/global/firewalls/k8s-fw-a"),
        pytest.param("train", "DependencyViolation", marks=pytest.mark.prove),
    ],
)
def test_a_forgotten_service_stops_the_destroy_and_is_named_before(
    tmp_path: Path, stack: str, says: str
) -> None:
    """In the cloud's words; before it, and once it is deleted, there is nothing to say."""
    with Sandbox(stack, folder=tmp_path / "sandbox", scaling=False, preload_sdks=True) as sandbox:
        outcome = sandbox.engine.up()
        assert outcome.ok, outcome.errors
        deleted_in_time(sandbox)
        kubeconfig = sandbox.control_plane.kubeconfig.read_text()
        assert leftovers.answer(stack, kubeconfig)[0] == ExitCode.OK
        create(sandbox)
        code, document, text = leftovers.answer(stack, kubeconfig)
        assert code == ExitCode.FINDING
        names = [one["name"] for one in document["leftovers"]]
        assert names == ["default/data", "default/web"]
        assert "kubectl delete service web --namespace default" in text
        outcome = sandbox.engine.destroy()
        assert not outcome.ok
        assert any(says in error for error in outcome.errors), outcome.errors
        assert any(
            "disk " in line or "EBS volume" in line for line in sandbox.cloud.list_resources()
        )
