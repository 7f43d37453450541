"""Upstream's Karpenter and EKS Auto Mode have different words for the same things."""

import json
from typing import Any

import pytest

from gpu_cluster.components.catalog.eks import INSTANCE_TYPES
from gpu_cluster.rehearsal.control_plane.auto_mode import to_cluster, to_karpenter
from gpu_cluster.rehearsal.simulators.aws.nodes import capacity
from gpu_cluster.rehearsal.simulators.aws.rows import Group

POOL: dict[str, Any] = {
    "kind": "NodePool",
    "metadata": {"name": "train"},
    "spec": {
        "template": {
            "metadata": {"labels": {"role": "train"}},
            "spec": {
                "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass"},
                "requirements": [{"key": "eks.amazonaws.com/instance-family"}],
            },
        }
    },
}
CLASS: dict[str, Any] = {
    "apiVersion": "eks.amazonaws.com/v1",
    "kind": "NodeClass",
    "metadata": {"name": "train", "finalizers": ["eks.amazonaws.com/termination"]},
    "spec": {
        "role": "nodes",
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "ephemeralStorage": {"size": "200Gi", "iops": 3000},
        "snatPolicy": "Random",
    },
}


def test_karpenter_sees_a_node_class_of_its_own() -> None:
    """In an object, in a list and in an event of a watch; what it has no field for is left out."""
    event = to_karpenter(json.dumps({"type": "ADDED", "object": CLASS}))
    listed = to_karpenter(json.dumps({"kind": "NodeClassList", "items": [CLASS]}))
    seen = json.loads(event)["object"]
    assert json.loads(listed)["items"] == [seen]
    assert (seen["apiVersion"], seen["kind"]) == ("karpenter.k8s.aws/v1", "EC2NodeClass")
    assert seen["metadata"]["finalizers"] == ["karpenter.k8s.aws/termination"]
    assert seen["spec"]["subnetSelectorTerms"] == [{"id": "subnet-1"}]
    assert seen["spec"]["amiSelectorTerms"] == [{"alias": "bottlerocket@latest"}]
    disk = {each["deviceName"]: each["ebs"] for each in seen["spec"]["blockDeviceMappings"]}
    assert (disk["/dev/xvdb"]["volumeSize"], disk["/dev/xvdb"]["iops"]) == ("200Gi", 3000)
    assert "snatPolicy" not in seen["spec"]


@pytest.mark.parametrize(("size", "policy"), [("100Gi", "RAID0"), ("200Gi", None)])
def test_local_disks_replace_a_smaller_volume(size: str, policy: str | None) -> None:
    """For Karpenter, and on the nodes: disks of 250 GB less the file system, a tenth and 1 GiB."""
    spec = CLASS["spec"] | {"ephemeralStorage": {"size": size}}
    seen = json.loads(to_karpenter(json.dumps(CLASS | {"spec": spec})))
    assert seen["spec"].get("instanceStorePolicy") == policy
    row = {"amiType": "CUSTOM", "instanceTypes": ["g5.xlarge"], "diskSize": int(size[:-2])}
    group = Group(row=row, given={}, scaling_group="", template="", data={})
    mib = {
        automatic: capacity(group, INSTANCE_TYPES["g5.xlarge"], automatic=automatic)[
            "ephemeral-storage"
        ]
        for automatic in (True, False)
    }
    volume = int(size[:-2]) * 1024
    assert mib == {
        True: f"{int(int(250 * 10**9 * 0.995 / 2**30) * 1024 * 0.9 - 1024)}Mi",
        False: f"{int(volume * 0.9 - 1024)}Mi",
    }


def test_every_pool_has_the_label_of_auto_mode() -> None:
    """Karpenter would refuse it in its own domain, so that key keeps its name."""
    seen = json.loads(to_karpenter(json.dumps(POOL)))["spec"]["template"]
    labels = {"role": "train", "eks.amazonaws.com/compute-type": "auto"}
    assert seen["metadata"]["labels"] == labels
    assert seen["spec"]["nodeClassRef"] == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}
    assert seen["spec"]["requirements"] == [{"key": "karpenter.k8s.aws/instance-family"}]


def test_the_cluster_gets_auto_modes_words() -> None:
    """Paths, selectors, and the labels of a claim."""
    path = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/train/status"
    assert to_cluster(path) == "/apis/eks.amazonaws.com/v1/nodeclasses/train/status"
    claim = {"kind": "EC2NodeClass", "labels": {"karpenter.k8s.aws/ec2nodeclass": "train"}}
    written = {"kind": "NodeClass", "labels": {"eks.amazonaws.com/nodeclass": "train"}}
    assert json.loads(to_cluster(json.dumps(claim))) == written
    assert to_karpenter('{"kind": "Pod"}') == '{"kind": "Pod"}'
