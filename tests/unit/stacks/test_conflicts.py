"""What of a cluster of another owner is in a stack's way, by the objects that it has."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.components.lifecycle.ownership import ANNOTATION
from gpu_cluster.components.settings import load as settings
from gpu_cluster.stacks.capacity import conflicts
from gpu_cluster.stacks.capacity.verdict import Finding
from gpu_cluster.stacks.live.cluster import Denied
from tests.unit.components.test_settings import changed

CLUSTER, POOL = "gpu-cluster:cluster", ["gpu-cluster:gpuPools", "train-gpu"]
OPERATOR = {"metadata": {"name": "clusterpolicies.nvidia.com"}}


def read(*changes: list[Any], stack: str = "on-eks") -> Any:
    return settings.from_config(changed(stack, list(changes)))


def assert_found(found: Iterable[tuple[str, str]], key: str, says: str | None) -> None:
    """Whether this setting, and no other, has a conflict with these words; none without words."""
    conflicts_ = dict(found)
    assert list(conflicts_) == ([key] if says else [])
    assert (says or "") in "".join(conflicts_.values())


def runs(image: str, *args: str, **spec: Any) -> dict[str, Any]:
    """A Deployment or DaemonSet of another owner."""
    pod = {"containers": [{"image": image, "args": list(args)}], **spec}
    metadata = {"name": "theirs", "namespace": "kube-system"}
    return {"metadata": metadata, "spec": {"template": {"spec": pod}}}


def answers(monkeypatch: pytest.MonkeyPatch, asked: Any) -> None:
    """Lets the cluster answer what this returns."""
    monkeypatch.setattr(conflicts, "asked", asked)
    monkeypatch.setattr(conflicts, "client_of", lambda _: None)


def plugin(*tolerations: dict[str, str]) -> dict[str, Any]:
    return runs("nvcr.io/nvidia/k8s-device-plugin:v0.17.0", tolerations=list(tolerations))


TOLERATES = {"key": "nvidia.com/gpu", "operator": "Exists"}


@pytest.mark.parametrize(
    ("definitions", "daemons", "labels", "says"),
    [
        ([], [], {}, None),
        ([], [plugin(TOLERATES)], {}, "already has a device plugin, DaemonSet kube-system/theirs"),
        ([], [plugin({"operator": "Exists"})], {}, "already has a device plugin"),
        ([], [plugin()], {}, None),
        ([], [runs("registry.example/other:1", tolerations=[TOLERATES])], {}, None),
        ([OPERATOR], [plugin(TOLERATES)], {}, "has NVIDIA's GPU Operator"),
        ([OPERATOR], [plugin(TOLERATES)], {"nvidia.com/gpu.deploy.operands": "false"}, None),
        (None, [plugin(TOLERATES)], {"nvidia.com/gpu.deploy.operands": "false"}, None),
        (None, [plugin(TOLERATES)], {}, "already has a device plugin"),
    ],
)
def test_a_device_plugin_of_somebody_else_is_found(
    definitions: Any, daemons: Any, labels: dict[str, str], says: str | None
) -> None:
    """Only one that would run on the nodes; the operator leaves those alone that say so."""
    own = read([*POOL, "labels", labels])
    assert_found(conflicts._device_plugins(definitions, daemons, own), "gpuPools.train-gpu", says)


@pytest.mark.parametrize("name", ["gpus", "compute-domains"])
def test_a_dra_driver_of_somebody_else_is_found(name: str) -> None:
    """If it publishes GPUs: it would take those of the stack's device plugin, or of its driver."""
    image = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.5.0"
    sockets = {"name": "s", "hostPath": {"path": "/var/lib/kubelet/plugins_registry"}}
    theirs = runs(image, tolerations=[TOLERATES], volumes=[sockets])
    theirs["spec"]["template"]["spec"]["containers"][0]["name"] = name
    claimed = [[*POOL, "devicePlugin", "dra"], [*POOL, "minNodes", 2]]
    for own in (read(), read(*claimed)):
        found = dict(conflicts._device_plugins([], [theirs], own))
        words = "already has a DRA driver, DaemonSet kube-system/theirs" in "".join(found.values())
        assert words == (name == "gpus")


def test_bottlerocket_needs_no_plugin_in_the_cluster() -> None:
    """Nor is one in its way: the host's is a service."""
    own = read([*POOL, "os", "bottlerocket"])
    assert not dict(conflicts._device_plugins([OPERATOR], [], own))


INSTALLER = "nvidia-driver-installer"
LEFT = [[*POOL, "devicePlugin", "none"], [*POOL, "driver", "none"]]


@pytest.mark.parametrize(
    ("definitions", "daemons", "pool", "says"),
    [
        ([OPERATOR], [], [], "addition to GKE's; set devicePlugin: none and driver: none, which"),
        ([], [plugin(TOLERATES)], [], "DaemonSet kube-system/theirs, which would also run on"),
        ([OPERATOR], [plugin(TOLERATES)], LEFT, None),
        # GKE's own, which runs in every cluster with GPUs.
        ([], [runs("gke.gcr.io/nvidia-gpu-device-plugin:1", tolerations=[TOLERATES])], [], None),
    ],
)
def test_gkes_own_plugin_is_beside_no_other(
    definitions: Any, daemons: Any, pool: Any, says: str | None
) -> None:
    """GKE runs it unless the pool leaves both the plugin and the driver to somebody else."""
    own = read(*pool, stack="on-gke")
    assert_found(conflicts._device_plugins(definitions, daemons, own), "gpuPools.train-gpu", says)


@pytest.mark.parametrize(
    ("name", "driver", "says"),
    [
        (INSTALLER, "daemonset", "already has a driver installer, DaemonSet kube-system/nvidia"),
        (f"{INSTALLER}-ubuntu", "daemonset", "already has a driver installer"),
        (INSTALLER, "managed", ""),
        (INSTALLER, "none", ""),
        ("other", "daemonset", ""),
    ],
)
def test_googles_installer_is_beside_no_other(name: str, driver: str, says: str) -> None:
    """The stack's; where GKE installs the driver, the owner's DaemonSet does not run."""
    plugin_too = [[*POOL, "devicePlugin", "none"]] if driver == "none" else []
    own = read([*POOL, "driver", driver], *plugin_too, stack="on-gke")
    daemon = runs("gke.gcr.io/installer:1")
    daemon["metadata"]["name"] = name
    assert_found(conflicts._installers([daemon], own), "gpuPools.train-gpu.driver", says)


@pytest.mark.parametrize(
    ("images", "cluster", "says"),
    [
        ([], {}, ""),
        (["r/nri-device-injector@sha256:0"], {},
            "already has DaemonSet kube-system/theirs, which would run on the pools' nodes in "
            "addition to the stack's; set it to owner, and ask the cluster's owner for a DaemonSet "
            "with gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev"),
        (["r/nri-device-injector@sha256:0"], {"ncclPlugin": "owner", "gpuDirectDaemon": "v1.0.22"},
            "image gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev; ask the cluster's owner for it"),
        ([], {"ncclPlugin": "owner", "gpuDirectDaemon": "v1.0.22"},
            "no DaemonSet of the cluster has an image gpudirect-tcpxo/nccl-plugin-"
            "gpudirecttcpx-dev or nri-device-injector; ask the cluster's owner for it, or "
            "set it to stack"),
        (["r/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev:latest",
          "r/nri-device-injector@sha256:0"],
            {"ncclPlugin": "owner", "gpuDirectDaemon": "v1.0.22"}, ""),
        # Of A3 High, whose plugin has the same image name.
        (["r/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev:v1", "r/nri-device-injector@sha256:0"],
            {"ncclPlugin": "owner", "gpuDirectDaemon": "v1.0.22"},
            "no DaemonSet of the cluster has an image gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-"
            "dev; ask"),
    ],
)  # fmt: skip
def test_a_node_has_one_plugin_of_nccl(
    images: list[str], cluster: dict[str, Any], says: str
) -> None:
    """The owner's DaemonSets of Google's run on all nodes with these GPUs."""
    pool = {"machineType": "a3-megagpu-8g", "zones": ["us-central1-a"], "gpuDirect": "tcpxo"}
    keys = {"gpuNetworks": [f"nic-{number}" for number in range(8)], **cluster}
    own = read(
        [*POOL, pool], ["gpu-cluster:workloads", {}],
        *(["gpu-cluster:cluster", key, value] for key, value in keys.items()), stack="on-gke",
    )  # fmt: skip
    assert_found(
        conflicts._nccl_plugins([runs(image) for image in images], own), "cluster.ncclPlugin", says
    )


EFA_IMAGE = "602401143452.dkr.example/eks/aws-efa-k8s-device-plugin:v0.5.30"
EVERYWHERE = {"tolerations": [{"operator": "Exists"}]}


def affine(key: str, operator: str, *values: str) -> dict[str, Any]:
    """EFA's plugin on nodes with this label."""
    expression = {"key": key, "operator": operator, "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return runs(EFA_IMAGE, **EVERYWHERE, affinity={"nodeAffinity": required})


@pytest.mark.parametrize(
    ("daemon", "efa", "found"),
    [
        (runs(EFA_IMAGE), True, False),
        (runs(EFA_IMAGE, tolerations=[TOLERATES]), True, True),
        (runs(EFA_IMAGE, **EVERYWHERE), True, True),
        (runs(EFA_IMAGE, **EVERYWHERE), False, False),
        (runs("r/other:1", **EVERYWHERE), True, False),
        (runs(EFA_IMAGE, **EVERYWHERE, nodeSelector={"team": "infra"}), True, False),
        (affine("node.kubernetes.io/instance-type", "In", "g5.8xlarge"), True, True),
        (affine("gpu-cluster/pool", "DoesNotExist"), True, False),
    ],
)
def test_a_node_has_one_plugin_for_efa(daemon: dict[str, Any], efa: bool, found: bool) -> None:
    """The owner's runs there if it tolerates the nodes' taints, and if their labels may fit."""
    pool = {"instanceTypes": ["g5.8xlarge"], "efa": efa}
    zone = {"subnetIds": ["subnet-0aaaaaaaaaaaaaaa1"]}
    direct = [[CLUSTER, key, None] for key in ("endpoint", "certificateAuthority") if efa]
    own = read([*POOL, pool | zone], ["gpu-cluster:workloads", {}], *direct)
    conflict = dict(conflicts._efa_plugins([daemon], own))
    assert list(conflict) == (["gpuPools.train-gpu.efa"] if found else [])
    words = "already has a device plugin for vpc.amazonaws.com/efa, DaemonSet kube-system/theirs"
    assert (words in "".join(conflict.values())) is found


def test_a_storage_class_that_exists_is_in_the_way() -> None:
    """If the stack would create one of the same name."""
    there = [{"metadata": {"name": name}} for name in ("standard-rwo", "gpu-cluster-filestore")]
    found = dict(conflicts._storage_classes(there, {"gpu-cluster-filestore"}))
    assert list(found) == ["volumeClaims"]
    assert "already has a StorageClass gpu-cluster-filestore" in found["volumeClaims"]
    assert not dict(conflicts._storage_classes(there, {"gpu-cluster-hyperdisk"}))


def autoscaler(*tags: str) -> dict[str, Any]:
    words = [f"--node-group-auto-discovery=asg:tag={tag}" for tag in tags]
    return runs("registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0@sha256:0", *words)


@pytest.mark.parametrize(
    ("deployments", "own", "says"),
    [
        ([], None, "has no Cluster Autoscaler"),
        ([runs("registry.example/other:1")], None, "has no Cluster Autoscaler"),
        ([], {}, None),
        ([autoscaler("k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/platform")], None,
            None),
        ([autoscaler("k8s.io/cluster-autoscaler/platform=owned")], None, None),
        ([autoscaler("k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/other")], None,
            "would not find the pools; ask its owner for "
            "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/platform"),
        ([autoscaler()], None, "finds node groups by their names"),
        ([autoscaler("x"), autoscaler("k8s.io/cluster-autoscaler/enabled")], None, None),
        ([autoscaler("x")], {}, "already has a Cluster Autoscaler, Deployment kube-system/theirs"),
    ],
)  # fmt: skip
def test_one_autoscaler_sees_the_pools(deployments: Any, own: Any, says: str | None) -> None:
    """The cluster's, by the tags that EKS sets, or the stack's."""
    args = read([CLUSTER, "autoscaler", own]).cluster
    assert_found(conflicts._autoscaler(deployments, args), "cluster.autoscaler", says)


@pytest.mark.parametrize(
    "scaler", [{"scaler": "auto-mode"}, {"scaler": "karpenter", "karpenterNodeRole": "nodes"}]
)
def test_no_autoscaler_is_asked_for_where_another_starts_the_nodes(scaler: dict[str, str]) -> None:
    """Neither a missing one nor one that sees other groups is in the way."""
    changes = [[CLUSTER, key, value] for key, value in scaler.items()]
    changes += [[CLUSTER, "autoscaler", None], [*POOL, "nodeRepair", None]]
    args = read(*changes).cluster
    assert not dict(conflicts._autoscaler([], args))
    assert not dict(conflicts._autoscaler([autoscaler("x")], args))


def named(name: str, owner: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {ANNOTATION: owner} if owner else {}}}


@pytest.mark.parametrize(
    ("there", "given", "says"),
    [
        ([named("team")], {}, "already has it"),
        ([named("team", "gpu-cluster/other")], {}, "already has it"),
        ([named("team", "gpu-cluster/on-eks")], {}, ""),
        ([named("team")], {"existing": True}, ""),
        ([], {"existing": True}, "has no such namespace"),
        ([], {}, ""),
    ],
)
def test_a_namespace_is_created_or_exists(
    there: Iterable[Any], given: dict[str, Any], says: str
) -> None:
    """As the settings say; the stack's own does not count."""
    own = read(["gpu-cluster:namespaces", {"team": given}])
    assert_found(
        conflicts._namespaces(list(there), own, "gpu-cluster/on-eks"), "namespaces.team", says
    )


def test_rights_through_aws_auth_that_an_access_entry_would_hide_are_found() -> None:
    """Of a role without its path, as aws-auth has it; not of another account's or another name."""
    role = "arn:aws:iam::123456789012:role/ml/researchers"
    users = {"lab": {"principals": [role], "access": "view", "namespaces": ["team-a"]}}
    of_users = read([CLUSTER, "users", users], ["gpu-cluster:namespaces", {"team-a": {}}])
    of_team = read(["gpu-cluster:teams", {"lab": {"members": [role], "gpus": {"train-gpu": 1}}}])
    for arn, found in (
        ("arn:aws:iam::123456789012:role/researchers", True),
        ("arn:aws:iam::123456789012:role/researchers-2", False),
        ("arn:aws:iam::210987654321:role/researchers", False),
        ("arn:aws:iam::123456789012:user/researchers", False),
    ):
        data = {"mapRoles": f"- groups: [system:masters]\n  rolearn: {arn}\n  username: a\n"}
        theirs = [{"metadata": {"name": "aws-auth"}, "data": data}]
        assert ("cluster.users.lab.principals" in dict(conflicts.mapped(of_users, theirs))) is found
        assert ("teams.lab.members" in dict(conflicts.mapped(of_team, theirs))) is found


@pytest.mark.parametrize(
    ("kind", "name", "owner", "key"),
    [
        ("NodePool", "train-gpu", "", "gpuPools.train-gpu"),
        ("NodePool", "heads-static", "gpu-cluster/other", "cluster.cpuPools.heads"),
        ("NodeClass", "heads", "", "cluster.cpuPools.heads"),
        ("NodePool", "heads", "", None),  # The pool has only nodes of its minimum.
        ("NodePool", "train-gpu-static", "", None),
        ("NodePool", "train-gpu", "gpu-cluster/on-eks", None),
    ],
)
def test_node_pools_of_others_are_found(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, owner: str, key: str | None
) -> None:
    """And node classes, of which `pulumi up` would fail to create one of the same name."""
    heads = {"instanceTypes": ["m7i.large"], "minNodes": 1, "maxNodes": 1}
    own = read(
        [CLUSTER, "scaler", "auto-mode"],
        [*POOL, "nodeRepair", None],
        [CLUSTER, "cpuPools", {"heads": heads}],
    )
    plurals = {"NodePool": "nodepools", "NodeClass": "nodeclasses"}
    defined = [named("nodepools.karpenter.sh"), named("nodeclasses.eks.amazonaws.com")]

    def asked(ask: Any, *given: str, **__: str) -> bytes:
        rows = defined if ask.__name__ == "list_custom_resource_definition" else []
        if given and given[-1] == plurals[kind]:
            rows = [named(name, owner) | {"kind": kind}]
        return json.dumps({"items": rows}).encode()

    answers(monkeypatch, asked)
    found, unread = conflicts.conflicts("", own, "gpu-cluster/on-eks", reads_aws_auth=lambda: False)
    assert (list(found), unread) == ([key] if key else [], [])
    assert not found or f"a {kind} {name}" in str(found)


@pytest.mark.parametrize(
    ("daemons", "word"),
    [
        ([runs("public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v2.1.0@sha256:0")], None),
        ([runs("registry.example.com:5000/mirror/aws-ebs-csi-driver:v2.1.0")], None),
        ([runs("registry.example.com:5000/mirror/aws-ebs-csi-driver@sha256:0")], None),
        ([runs("public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver-health:v2.1.0")], "wrong"),
        (Denied("cannot list daemonsets"), "unknown"),
    ],
)
def test_an_addon_that_its_owner_installed_otherwise_is_not_missing(
    monkeypatch: pytest.MonkeyPatch, daemons: list[Any] | Denied, word: str | None
) -> None:
    """EKS lists only its own addons; without the DaemonSets, nobody knows."""

    def asked(ask: Any, *_: str, **__: str) -> bytes:
        if ask.__name__ != "list_daemon_set_for_all_namespaces":
            return b'{"items": []}'
        if isinstance(daemons, Denied):
            raise daemons
        return json.dumps({"items": daemons}).encode()

    answers(monkeypatch, asked)
    other = Finding.wrong("cluster.version", "another")
    missing = replace(other, about="volumeClaims.a", unless_runs="aws-ebs-csi-driver")
    found = conflicts.without_running("", [missing, other], "gpu-cluster/on-eks")
    assert [(one.about, one.word) for one in found] == [
        *([("volumeClaims.a", word)] if word else []),
        ("cluster.version", "wrong"),
    ]


def test_what_may_not_be_read_hides_no_other_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with the missing permission; nothing is said to be missing that was not read."""
    role = "arn:aws:iam::123456789012:role/lab"
    own = read(
        [*POOL, "labels", {"nvidia.com/gpu.deploy.operands": "false"}],
        [CLUSTER, "autoscaler", {}],
        [CLUSTER, "users", {"lab": {"principals": [role]}}],
        ["gpu-cluster:namespaces", {"team": {"existing": True}}],
    )
    rows = {
        "list_deployment_for_all_namespaces": [runs("a.example/cluster-autoscaler:1")],
        "list_daemon_set_for_all_namespaces": [plugin(TOLERATES)],
    }
    refused = (
        "list_namespace", "list_namespaced_config_map", "list_custom_resource_definition",
    )  # fmt: skip

    def asked(ask: Any, *_: str, **__: str) -> bytes:
        if ask.__name__ in refused:
            raise Denied(f"cannot {ask.__name__}")
        return json.dumps({"items": rows.get(ask.__name__, [])}).encode()

    answers(monkeypatch, asked)
    found, unread = conflicts.conflicts("", own, "gpu-cluster/on-eks")
    assert list(found) == ["cluster.autoscaler"]
    assert unread == [
        ("gpuPools", "cannot list_custom_resource_definition"),
        ("namespaces", "cannot list_namespace"),
        ("cluster.users.lab.principals", "cannot list_namespaced_config_map"),
    ]
    assert [*conflicts.in_cluster("", "gpu-cluster/on-eks").denied] == ["namespaces", "definitions"]
    without = conflicts.conflicts("", own, "gpu-cluster/on-eks", reads_aws_auth=lambda: False)
    assert without == (found, unread[:-1])
