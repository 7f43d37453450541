"""What a user adds to the nodes of an EKS pool: image, kubelet, user data, network, rights."""

import base64
import email
import json
import tomllib
from typing import Any

from gpu_cluster.components.cluster import GPU_TAINT
from gpu_cluster.components.eks.node_args import EksKubeletArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.sharing_args import EksSharingArgs
from tests.components.eks_stack import OUTPUTS, declare
from tests.components.test_eks_node_group import group, tags, template

AMI = "ami-0123456789abcdef0"


def decoded(inputs: dict[str, Any]) -> str:
    return base64.b64decode(inputs["userData"]).decode()


def parts(inputs: dict[str, Any]) -> list[tuple[str, str]]:
    """Content type and text of each part."""
    message = email.message_from_string(decoded(inputs))
    return [(part.get_content_type(), str(part.get_payload())) for part in message.walk()][1:]


def test_own_parts_follow_the_stack_s() -> None:
    """The NodeConfig that comes last wins: the user's."""
    own = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}"
    found = parts(
        template(kubelet=EksKubeletArgs(max_pods=20), user_data=["#!/bin/bash\ntrue\n", own])
    )
    assert [kind for kind, _ in found] == [
        "application/node.eks.aws", "text/x-shellscript", "application/node.eks.aws",
    ]  # fmt: skip
    assert json.loads(found[0][1])["spec"] == {"kubelet": {"config": {"maxPods": 20}}}
    assert found[1][1].startswith("#!/bin/bash\ntrue\n")


def test_an_own_image_gets_what_eks_tells_its_own() -> None:
    """Neither version nor amiType go with it, and the node registers as the pool says."""
    inputs = group(ami_id=AMI, labels={"role": "train"})
    assert not {"version", "releaseVersion", "amiType"} & inputs.keys()
    assert inputs["nodeGroupNamePrefix"] == "pool-ami-"
    found = template(ami_id=AMI, labels={"role": "train"}, kubelet=EksKubeletArgs(max_pods=20))
    assert found["imageId"] == AMI
    ((_, text),) = parts(found)
    spec = json.loads(text)["spec"]
    cluster = OUTPUTS["aws:eks/cluster:Cluster"]
    assert spec["cluster"] == {
        "name": "k8s-ml",
        "apiServerEndpoint": cluster["endpoint"],
        "certificateAuthority": cluster["certificateAuthority"]["data"],
        "cidr": "172.20.0.0/16",
    }
    labels, taints = spec["kubelet"]["flags"]
    assert "role=train" in labels
    assert "gpu-cluster/pool=pool" in labels
    assert taints == f"--register-with-taints={GPU_TAINT}"
    assert spec["kubelet"]["config"] == {"maxPods": 20}


def test_images_are_pulled_in_parallel() -> None:
    """A feature gate of nodeadm, or settings of Bottlerocket, which also moves the images to the
    local disks if it has them."""
    pull = {"image_pull": "parallel", "disk_throughput": 600}
    ((_, text),) = parts(template(**pull))
    assert json.loads(text)["spec"] == {"featureGates": {"FastImagePull": True}}
    given = pull | {"os": "bottlerocket", "local_storage": "raid0"}
    settings = tomllib.loads(decoded(template(**given)))["settings"]
    assert settings["container-runtime"] == {"snapshotter": "soci"}
    plugin = settings["container-runtime-plugins"]["soci-snapshotter"]
    assert plugin["pull-mode"] == "parallel-pull-unpack"
    _, bound = settings["bootstrap-commands"]["local-storage"]["commands"]
    assert bound[-1] == "/var/lib/soci-snapshotter"


def test_bottlerocket_has_the_same_as_settings() -> None:
    """In one TOML text, with the sharing of its own device plugin."""
    settings = tomllib.loads(
        decoded(
            template(
                os="bottlerocket",
                ami_id=AMI,
                kubelet=EksKubeletArgs(max_pods=20, kube_reserved={"cpu": "500m"}),
                sharing=EksSharingArgs(strategy="time-slicing", replicas=4),
                user_data=["[settings.host-containers.admin]\nenabled = true\n"],
            )
        )
    )["settings"]
    assert settings["kubernetes"]["cluster-name"] == "k8s-ml"
    assert settings["kubernetes"]["cluster-dns-ip"] == "172.20.0.10"
    assert settings["kubernetes"]["max-pods"] == 20
    assert settings["kubernetes"]["kube-reserved"] == {"cpu": "500m"}
    assert settings["kubernetes"]["node-taints"] == {
        GPU_TAINT.key: [f"{GPU_TAINT.value}:{GPU_TAINT.effect}"]
    }
    assert settings["kubelet-device-plugins"]["nvidia"]["device-sharing-strategy"] == "time-slicing"
    assert settings["host-containers"]["admin"] == {"enabled": True}


def test_the_autoscaler_hears_of_what_is_reserved() -> None:
    """Otherwise it starts nodes for pods that do not fit on them."""
    kubelet = EksKubeletArgs(
        kube_reserved={"cpu": "500m", "ephemeral-storage": "5Gi"},
        system_reserved={"memory": "1Gi"},
        eviction_hard={"memory.available": "500Mi", "nodefs.available": "5%"},
    )
    before, after = (
        tags(declare({"p": EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"], **given)}))
        for given in ({}, {"kubelet": kubelet})
    )
    key = "k8s.io/cluster-autoscaler/node-template/resources"
    assert after[f"{key}/cpu"] == "3500m"
    memory = [int(each[f"{key}/memory"].removesuffix("Mi")) for each in (before, after)]
    assert memory[0] - memory[1] == 1024 + 400
    assert after[f"{key}/ephemeral-storage"] == "89Gi"
