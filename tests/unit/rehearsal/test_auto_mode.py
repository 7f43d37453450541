"""Upstream's Karpenter and EKS Auto Mode have different words for the same things."""

import json
from typing import Any

from rehearsal.control_plane.auto_mode import to_cluster, to_karpenter

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
