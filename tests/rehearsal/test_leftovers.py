"""A rehearsal in which somebody makes a Service, an Ingress and a claim, and forgets them."""

from pathlib import Path
from typing import Any

import httplib2
import pytest
from googleapiclient.discovery import build

from gpu_cluster.rehearsal.sandbox import Sandbox, SandboxOptions
from gpu_cluster.rehearsal.scenario import Failure, Rehearsal
from gpu_cluster.stacks.live import leftovers
from gpu_cluster.stacks.outcome import ExitCode
from tests.rehearsal.conftest import until, up

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
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "reader"},
    "spec": {
        "containers": [{"name": "reader", "image": "busybox"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "terminationGracePeriodSeconds": 0,
    },
}
"""The claim's class waits for it."""
INGRESS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "Ingress",
    "metadata": {"name": "front"},
    "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
}
NEG = "already being used by 'projects/my-project/zones/us-central1-a/networkEndpointGroups/k8s1-"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"


def objects(sandbox: Sandbox) -> dict[str, Any]:
    """The user's three, as the API server has them."""
    api, at = sandbox.control_plane.api, "/api/v1/namespaces/default"
    return {
        "service": api.get(f"{at}/services/web"),
        "claim": api.get(f"{at}/persistentvolumeclaims/data"),
        "ingress": api.get(f"{INGRESSES}/front"),
    }


def made(sandbox: Sandbox) -> bool:
    found = objects(sandbox)
    # Without a controller of its own a cluster of EKS makes nothing for an Ingress.
    balanced = ("service", "ingress") if sandbox.program.platform == "gke" else ("service",)
    return found["claim"]["status"]["phase"] == "Bound" and all(
        (found[kind].get("status") or {}).get("loadBalancer", {}).get("ingress")
        for kind in balanced
    )


def create(sandbox: Sandbox) -> None:
    """Somebody asks for all three."""
    api, at = sandbox.control_plane.api, "/api/v1/namespaces/default"
    api.create(f"{at}/services", SERVICE)
    api.create(f"{at}/persistentvolumeclaims", CLAIM)
    api.create(f"{at}/pods", POD)
    # What is created first is what the cloud names when something is in the way.
    service = f"{at}/services/web"
    until(lambda: api.get(service)["status"].get("loadBalancer"), "the Service has its balancer")
    api.create(INGRESSES, INGRESS)
    until(lambda: made(sandbox), "the cloud has made all of it")


def deleted_in_time(sandbox: Sandbox) -> None:
    """Somebody asks for all and deletes all: controllers that are there remove what they made."""
    api, at = sandbox.control_plane.api, "/api/v1/namespaces/default"
    before = sandbox.cloud.list_resources()
    create(sandbox)
    # A balancer of EKS has two more: its network interfaces and its security group.
    assert len(sandbox.cloud.list_resources()) >= len(before) + 3
    api.delete(f"{at}/services/web")
    api.delete(f"{at}/pods/reader")
    api.delete(f"{at}/persistentvolumeclaims/data")
    api.delete(f"{INGRESSES}/front")
    until(lambda: sandbox.cloud.list_resources() == before, "the cloud has removed all of it")


def remove_firewalls(sandbox: Sandbox) -> None:
    """Somebody reads what is in the way and removes that, by Google's API."""
    options = {"api_endpoint": f"{sandbox.cloud_api}/compute/v1/"}
    client = build("compute", "v1", http=httplib2.Http(), client_options=options)
    found = client.firewalls().list(project="my-project").execute()
    for wall in found["items"]:
        if wall["name"].startswith("k8s-fw-"):
            client.firewalls().delete(project="my-project", firewall=wall["name"]).execute()


@pytest.mark.parametrize(
    ("stack", "says", "stays"),
    [
        ("dev", "already being used by 'projects/my-project/global/firewalls/k8s-fw-a",
            ("disk projects/", "forwardingRules/a", "forwardingRules/k8s2-fr-",
                "networkEndpointGroups/k8s1-")),
        pytest.param("train", "DependencyViolation", ("EBS volume",), marks=pytest.mark.prove),
    ],
)  # fmt: skip
def test_a_forgotten_service_stops_the_destroy_and_is_named_before(
    tmp_path: Path, stack: str, says: str, stays: tuple[str, ...]
) -> None:
    """In the cloud's words; before it, and once it is deleted, there is nothing to say. On GKE the
    Ingress stops it alone, once what the Service had is out of the way."""
    with Sandbox(
        stack, folder=tmp_path / "sandbox", options=SandboxOptions(scaling=False)
    ) as sandbox:
        up(sandbox)
        deleted_in_time(sandbox)
        kubeconfig = sandbox.control_plane.kubeconfig.read_text()
        assert leftovers.answer(stack, kubeconfig)[0] == ExitCode.OK
        create(sandbox)
        code, document, text = leftovers.answer(stack, kubeconfig)
        assert code == ExitCode.FINDING
        names = [f"{leftover['kind']} {leftover['name']}" for leftover in document["leftovers"]]
        assert names == [
            "Ingress default/front",
            "PersistentVolumeClaim default/data",
            "Service default/web",
        ]
        assert "kubectl delete service web --namespace default" in text
        outcome = sandbox.engine.destroy()
        assert not outcome.ok
        assert any(says in error for error in outcome.errors), outcome.errors
        if stack == "dev":
            remove_firewalls(sandbox)
            outcome = sandbox.engine.destroy()
            assert any(NEG in error for error in outcome.errors), outcome.errors
        with pytest.raises(Failure) as left:
            Rehearsal(sandbox=sandbox)._leak_check()
        assert {one for one in stays if not any(one in line for line in left.value.lines)} == set()
