"""What nodes read from their user data, and why they would not join with it."""

import base64
import json
from typing import Any

import pytest

from gpu_cluster.rehearsal.simulators.aws.first_boot import (
    allocatable,
    local_disks,
    settings,
    why_not_joined,
)
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Group

NODE = {
    "cpu": "3920m", "memory": "14481Mi", "pods": "110", "reserved-cpu": "80",
    "reserved-memory": "574", "whole-memory": "15155",
}  # fmt: skip
CLUSTER = Cluster(
    row={
        "endpoint": "https://c",
        "certificateAuthority": {"data": "Q0E="},
    },
    self_managed=False,
)
KNOWN = {
    "name": "c", "apiServerEndpoint": "https://c", "certificateAuthority": "Q0E=",
    "cidr": "172.20.0.0/16",
}  # fmt: skip


def node_config(spec: dict[str, Any], version: str = "v1alpha1") -> str:
    body = {"apiVersion": f"node.eks.aws/{version}", "kind": "NodeConfig", "spec": spec}
    return f"--//\nContent-Type: application/node.eks.aws\n\n{json.dumps(body)}\n\n"


def mime(*specs: dict[str, Any]) -> str:
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n'
    return head + "".join(map(node_config, specs)) + "--//--\n"


def group(text: str | None, image: str = "AL2023_x86_64_NVIDIA", **data: Any) -> Group:
    if text is not None:
        data["UserData"] = base64.b64encode(text.encode()).decode()
    row = {"amiType": image, "clusterName": "c", "labels": data.pop("labels", {})}
    return Group(row=row, given={}, scaling_group="s", template="t", data=data)


def test_parts_are_merged_and_the_last_one_wins() -> None:
    """As nodeadm does: maps by their keys, anything else as a whole."""
    first = {"kubelet": {"config": {"maxPods": 10, "kubeReserved": {"cpu": "1"}}}}
    second = {"kubelet": {"config": {"maxPods": 20, "kubeReserved": {"memory": "1Gi"}}}}
    assert settings(group(mime(first, second)))["kubelet"]["config"] == {
        "maxPods": 20,
        "kubeReserved": {"cpu": "1", "memory": "1Gi"},
    }


def test_what_the_kubelet_keeps_is_not_for_pods() -> None:
    """Without settings, what the image leaves."""
    assert allocatable(group(None), NODE, 100)["cpu"] == "3920m"
    assert allocatable(group(None), NODE, 100)["ephemeral-storage"] == "91136Mi"
    config = {
        "maxPods": 20,
        "kubeReserved": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "2Gi"},
        "systemReserved": {"cpu": "100m", "memory": "512Mi"},
        "evictionHard": {"memory.available": "500Mi", "nodefs.available": "5%"},
    }
    assert allocatable(group(mime({"kubelet": {"config": config}})), NODE, 100) == {
        "cpu": "3400m",
        "memory": f"{14481 + 574 - 1024 - 512 - 400}Mi",
        "pods": "20",
        "ephemeral-storage": f"{102400 - 5120 - 2048}Mi",
    }


def test_bottlerocket_has_the_same_in_toml() -> None:
    """With its own spelling."""
    text = '[settings.kubernetes]\nmax-pods = 20\n[settings.kubernetes.kube-reserved]\ncpu = "1"\n'
    assert allocatable(group(text, "BOTTLEROCKET_x86_64_NVIDIA"), NODE, 100)["cpu"] == "3000m"
    assert allocatable(group(text, "BOTTLEROCKET_x86_64_NVIDIA"), NODE, 100)["pods"] == "20"


_SOCI = '\n[settings.container-runtime]\nsnapshotter = "soci"\n'


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (group(None), ""),
        (group(mime({})), ""),
        (group(mime({"cluster": KNOWN}), "CUSTOM"), ""),
        (group(None, "CUSTOM"), "lacks name, apiServerEndpoint, certificateAuthority"),
        (group(mime({"cluster": {**KNOWN, "name": "b"}}), "CUSTOM"), "lacks name"),
        (group(mime({"cluster": {k: KNOWN[k] for k in KNOWN if k != "cidr"}}), "CUSTOM"), "cidr"),
        (group("[settings.kubernetes]\nmax-pods = 9\n", "CUSTOM"), "lacks name"),
        (group("#!/bin/bash\n"), "MIME multi-part"),
        (group(mime({"featureGates": {"FastImagePull": True}})), ""),
        (group(mime({"featureGates": {"FastImagePull": "true"}})), "neither true nor false"),
        (group(_SOCI.replace("soci", "nydus"), "BOTTLEROCKET_x86_64"), "no container-runtime.snap"),
        (group(None, labels={"node-role.kubernetes.io/a": ""}), "node-role.kubernetes.io/a"),
        (group(None, labels={"k8s.io/role": ""}), "unknown 'kubernetes.io' or 'k8s.io' labels"),
        (group(None, labels={"node.kubernetes.io/role": "", "kubernetes.io/os": "", "a/b": "",
                             "topology.kubernetes.io/zone": ""}), ""),
        (group(node_config({}, "v2").join(("MIME-Version: 1.0\nContent-Type: multipart/mixed; "
                                           'boundary="//"\n\n', "--//--\n"))), "node.eks.aws/v2"),
    ],
)  # fmt: skip
def test_a_node_joins_or_says_why_not(nodes: Group, reason: str) -> None:
    """EKS tells the nodes of its own images where the cluster is, and no others."""
    found = why_not_joined(CLUSTER, nodes)
    assert (reason in found) if reason else (found == "")


_BIND = '["apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd"]'
_COMMANDS = '[settings.bootstrap-commands.a]\ncommands = [["apiclient", "ephemeral-storage", '


@pytest.mark.parametrize(
    ("nodes", "used"),
    [
        (group(None), False),
        (group(mime({"instance": {"localStorage": {"strategy": "RAID0"}}})), True),
        (group(mime({"instance": {"localStorage": {"strategy": "Mount"}}})), False),
        (group(f'{_COMMANDS}"init"], {_BIND}]\nmode = "always"', "BOTTLEROCKET_x86_64"), True),
        (group(f'{_COMMANDS}"init"], {_BIND}]\nmode = "off"', "BOTTLEROCKET_x86_64"), False),
        (group(f'{_COMMANDS}"init"]]\nmode = "always"', "BOTTLEROCKET_x86_64"), False),
        (
            group(f'{_COMMANDS}"init"], {_BIND}]\nmode = "always"{_SOCI}', "BOTTLEROCKET_x86_64"),
            False,
        ),
        (
            group(
                f'{_COMMANDS}"init"], {_BIND.replace("containerd", "soci-snapshotter")}]\n'
                f'mode = "always"{_SOCI}',
                "BOTTLEROCKET_x86_64",
            ),
            True,
        ),
    ],
)
def test_local_disks_are_used_as_the_user_data_says(nodes: Group, used: bool) -> None:
    """Disks that are only mounted somewhere else, or formatted and not bound, are not for pods."""
    assert local_disks(nodes) is used


def test_a_strategy_that_nodeadm_does_not_know_starts_no_node() -> None:
    """It is case-sensitive."""
    wrong = group(mime({"instance": {"localStorage": {"strategy": "raid0"}}}))
    assert "no localStorage.strategy 'raid0'" in why_not_joined(CLUSTER, wrong)
