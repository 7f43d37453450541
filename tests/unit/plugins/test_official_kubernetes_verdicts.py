"""The offline plugin's verdicts on changes are those of the official Kubernetes provider."""

from typing import Any

from google.protobuf.struct_pb2 import Struct

from gpu_cluster.rehearsal.plugins.kubernetes.objects import CLUSTER_SCOPED, checkpoint
from gpu_cluster.rehearsal.plugins.kubernetes.planning import checked, difference
from gpu_cluster.rehearsal.plugins.kubernetes.properties import Properties, decode
from gpu_cluster.rehearsal.plugins.kubernetes.resource import Resource
from tests.unit.plugins.official_rows import changes, merged

LABELS = {"app": "a"}
POD = {"containers": [{"name": "c", "image": "registry.example/x:1"}]}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD}
WORKLOAD = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "Pod": ("core/v1", {"spec": POD}),
    "DaemonSet": ("apps/v1", {"spec": WORKLOAD}),
    "Deployment": ("apps/v1", {"spec": WORKLOAD}),
    "Job": ("batch/v1", {"spec": {"template": TEMPLATE}}),
    "ConfigMap": ("core/v1", {"data": {"a": "1"}}),
    "Namespace": ("core/v1", {}),
    "Role": ("rbac.authorization.k8s.io/v1", {"rules": []}),
    "LimitRange": ("core/v1", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}),
    "ResourceClaim": ("resource.k8s.io/v1", {"spec": {"devices": {"requests": [{"name": "gpu"}]}}}),
    "StorageClass": ("storage.k8s.io/v1", {"provisioner": "ebs.csi.aws.com"}),
}


def declared(kind: str) -> tuple[str, dict[str, Any]]:
    """Type and inputs of a small object of a kind."""
    version, fields = BASES[kind]
    given = {"apiVersion": version.removeprefix("core/"), "kind": kind}
    place = {} if kind in CLUSTER_SCOPED else {"namespace": "default"}
    return f"kubernetes:{version}:{kind}", given | {"metadata": {"name": "it", **place}} | fields


def sent(inputs: dict[str, Any]) -> Properties:
    """Inputs as a program's engine sends them."""
    struct = Struct()
    struct.update(inputs)
    return decode(struct)


def verdict(token: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """What the offline plugin plans for an object that was made of `before`."""
    resource = Resource(urn=f"urn:pulumi:fidelity::gpu-cluster::{token}::it")

    def check(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        return checked(
            resource, old, sent(new), namespace="default", scope=lambda kind: True, seed=b"seed"
        )

    old = check(before, {})
    found = difference(
        resource,
        checkpoint(old, old, old, before["apiVersion"], "manager"),
        check(after, old),
        scope=lambda kind: True,
    )
    first = ", deletes first" if found.delete_before_replace else ""
    return f"replace{first}" if found.replaces else "update" if found.changes else "same"


@changes("official_kubernetes_verdicts.yaml")
def test_the_verdict_is_the_official_one(kind: str, row: dict[str, Any]) -> None:
    """Of the same change to the same inputs."""
    token, inputs = declared(kind)
    before = merged(inputs, row.get("before", {}))
    assert verdict(token, before, merged(before, row["change"])) == row["verdict"]
