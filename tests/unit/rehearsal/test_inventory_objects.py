"""What of a cluster of another owner `gpu-cluster inventory` writes down."""

from copy import deepcopy
from typing import Any

import pytest
import yaml

from gpu_cluster.components.settings import load as settings
from gpu_cluster.rehearsal.existing import inventory_objects
from gpu_cluster.rehearsal.simulators.inventory import objects
from gpu_cluster.stacks.capacity.conflicts import InCluster
from gpu_cluster.stacks.outcome import CheckError
from tests.unit.components.test_settings import changed

OWNER = "gpu-cluster/on-eks"
OPERATOR = {"metadata": {"name": "clusterpolicies.nvidia.com"}}


def described(monkeypatch: pytest.MonkeyPatch, **there: Any) -> dict[str, Any]:
    """Of a stack with the namespace `team`, on a cluster with these objects."""
    kinds = ("namespaces", "definitions", "daemons", "deployments", "storage_classes")
    cluster = InCluster(**{**{kind: [] for kind in kinds}, **there})
    monkeypatch.setattr(inventory_objects, "in_cluster", lambda *_: cluster)
    own = settings.from_config(changed("on-eks", [["gpu-cluster:namespaces", {"team": {}}]]))
    return inventory_objects.described("", own, OWNER)


def test_the_owners_autoscaler_is_written_as_it_was_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With its service account; without what the API server adds, and without its environment,
    which may hold secrets."""
    account, autoscaler = objects("on-eks")
    live = deepcopy(autoscaler) | {"status": {"replicas": 1}}
    live["metadata"] |= {"uid": "0", "resourceVersion": "1", "managedFields": []}
    live["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "secret"}]
    other = deepcopy(live)
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/gateway:1"
    found = described(monkeypatch, deployments=[other, live])
    assert found == {"objects": [account, autoscaler]}
    assert yaml.safe_load(yaml.safe_dump(found)) == found


def test_the_owners_karpenter_is_written_as_it_was_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With its definitions, and with what it has to know of its cluster."""
    account, binding, controller = objects("on-eks-karpenter")
    live = deepcopy(controller)
    (container,) = live["spec"]["template"]["spec"]["containers"]
    container["env"] = [*container["env"], {"name": "TOKEN", "value": "secret"}]
    defined = {"metadata": {"name": "ec2nodeclasses.karpenter.k8s.aws"}}
    found = described(monkeypatch, deployments=[live], definitions=[defined])
    assert found == {"objects": [account, binding, controller], "controllers": ["karpenter"]}


def test_the_owners_plugin_for_efa_is_written_with_its_nodes_and_directories(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By which a rehearsal finds two of them on a node."""
    volumes = [{"name": "d", "hostPath": {"path": "/dev/infiniband"}}]
    pod = {
        "affinity": {"nodeAffinity": {}},
        "volumes": volumes,
        "containers": [{"name": "efa", "image": "r/aws-efa-k8s-device-plugin:v0.5.30"}],
    }
    template = {"metadata": {"labels": {"name": "efa"}}, "spec": pod}
    metadata = {"name": "efa", "namespace": "kube-system"}
    daemon = {"metadata": metadata, "spec": {"selector": {}, "template": template}}
    (found,) = described(monkeypatch, daemons=[daemon])["objects"]
    assert found["spec"]["template"]["spec"] == pod


def test_an_inventory_is_not_written_from_half_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may not be read would be missing in it."""
    with pytest.raises(CheckError, match="cannot list"):
        described(monkeypatch, denied={"daemons": "cannot list daemonsets"})


PLUGIN = {
    "metadata": {"name": "nvdp", "namespace": "gpu"},
    "spec": {"selector": {"matchLabels": {"app": "nvdp"}},
        "template": {"metadata": {"labels": {"app": "nvdp"}},
            "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "p",
            "image": "nvcr.io/nvidia/k8s-device-plugin:1"}]}}},
}  # fmt: skip


def test_what_shares_something_with_the_stack_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Namespaces and classes that the stack names, others' device plugin with its namespace, and
    controllers of others; nothing that is the stack's or nobody's business."""
    named = [{"metadata": {"name": name}} for name in ("team", "shop", "gpu", "kube-system")]
    kueue = {"metadata": {"name": "workloads.kueue.x-k8s.io"}}
    own = {"name": "jobsets.jobset.x-k8s.io", "annotations": {"gpu-cluster/stack": OWNER}}
    found = described(
        monkeypatch,
        namespaces=named,
        definitions=[kueue, {"metadata": own}],
        daemons=[PLUGIN],
        storage_classes=[
            {"metadata": {"name": name}, "provisioner": "ebs.csi.aws.com"}
            for name in ("gp2", "gp3-encrypted")
        ],
    )
    kinds = [(one["kind"], one["metadata"]["name"]) for one in found["objects"]]
    assert kinds == [
        ("Namespace", "team"), ("Namespace", "gpu"), ("StorageClass", "gp3-encrypted"),
        ("DaemonSet", "nvdp"),
    ]  # fmt: skip
    assert found["controllers"] == ["kueue"]
    assert "gpuOperator" not in found


def test_the_gpu_operator_stands_for_what_it_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its device plugin is simulated with it."""
    found = described(monkeypatch, definitions=[OPERATOR], daemons=[PLUGIN])
    assert found == {"objects": [], "gpuOperator": "before"}
