"""The settings that a node reads from its user data on first boot: its cluster, and the kubelet's.

AL2023: the NodeConfig parts of a MIME document, merged in their order (awslabs.github.io,
amazon-eks-ami, nodeadm, read 2026-11-24). Bottlerocket: TOML. EKS adds the cluster's values, unless
the launch template names an image (EKS user guide, launch-templates).
"""

import base64
import binascii
import email
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from gpu_cluster.components.kube import quantity
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Group

_NODE_CONFIG = "application/node.eks.aws"
_STRATEGIES = ("RAID0", "RAID10", "Mount")
_BIND = ["apiclient", "ephemeral-storage", "bind"]
_IMAGES = {"overlayfs": "/var/lib/containerd", "soci": "/var/lib/soci-snapshotter"}
"""Bottlerocket's snapshotters, and where each keeps images: bottlerocket.dev, settings.
container-runtime of 1.54.x, and aws-samples/karpenter-blueprints, soci-snapshotter (2026-11-29)."""
_BOTTLEROCKET = {"name": "cluster-name", "apiServerEndpoint": "api-server",
                 "certificateAuthority": "cluster-certificate"}  # fmt: skip


def settings(group: Group) -> dict[str, Any]:
    """`cluster` and `kubelet`, as in a NodeConfig; raises ValueError for invalid user data."""
    # moto keeps user data as its own object, or as the text that it was given.
    given = str(group.data.get("UserData") or "")
    if not given:
        return {}
    try:
        text = base64.b64decode(given, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("its user data is not text in base64") from None
    if is_bottlerocket(group):
        return _bottlerocket(text)
    merged: dict[str, Any] = {}
    for part in _node_configs(text):
        merged = _merged(merged, part)
    gates = merged.get("featureGates") or {}
    if wrong := [gate for gate, value in gates.items() if not isinstance(value, bool)]:
        raise ValueError(f"nodeadm takes no featureGates.{wrong[0]} that is neither true nor false")
    strategy = ((merged.get("instance") or {}).get("localStorage") or {}).get("strategy")
    if strategy not in (None, *_STRATEGIES):
        raise ValueError(f"nodeadm knows no localStorage.strategy {strategy!r}")
    return merged


def is_bottlerocket(group: Group) -> bool:
    """Whether the group's image is Bottlerocket; for a custom image, its user data shows that."""
    if group.row["amiType"] != "CUSTOM":
        return str(group.row["amiType"]).startswith("BOTTLEROCKET")
    text = base64.b64decode(str(group.data.get("UserData") or "")).decode(errors="replace")
    return "[settings." in text and not text.startswith("MIME-Version")


def _node_configs(text: str) -> Iterator[dict[str, Any]]:
    if not text.startswith("MIME-Version"):
        raise ValueError("EKS merges its part into MIME multi-part user data only, which it is not")
    for part in email.message_from_string(text).walk():
        if part.get_content_type() != _NODE_CONFIG:
            continue
        config = yaml.safe_load(str(part.get_payload()))
        if (
            config.get("apiVersion") != "node.eks.aws/v1alpha1"
            or config.get("kind") != "NodeConfig"
        ):
            raise ValueError(f"nodeadm knows no {config.get('apiVersion')} {config.get('kind')}")
        yield config.get("spec") or {}


def _merged(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merges maps recursively; of other values, the later one wins."""
    found = dict(first)
    for key, value in other.items():
        old = found.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        found[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return found


def _bottlerocket(text: str) -> dict[str, Any]:
    try:
        whole = tomllib.loads(text).get("settings", {})
    except tomllib.TOMLDecodeError:
        raise ValueError("its user data is not valid TOML") from None
    given = whole.get("kubernetes", {})
    commands = [
        command
        for row in whole.get("bootstrap-commands", {}).values()
        for command in row["commands"]
        if row.get("mode") in ("always", "once")
    ]
    # `bind` mounts what `init` has formatted: bottlerocket-core-kit, api/apiserver.
    runtime = whole.get("container-runtime", {}).get("snapshotter", "overlayfs")
    if runtime not in _IMAGES:
        raise ValueError(f"Bottlerocket knows no container-runtime.snapshotter {runtime!r}")
    bound = any(
        command[:3] == _BIND and (command[3:] == [] or _IMAGES[runtime] in command)
        for command in commands
    )
    disks = bound and [*_BIND[:2], "init"] in commands
    kubelet = {
        re.sub("-([a-z])", lambda letter: letter[1].upper(), key): value
        for key, value in given.items()
    }
    cluster = {key: given[name] for key, name in _BOTTLEROCKET.items() if name in given}
    storage = {"instance": {"localStorage": {"strategy": "RAID0"}}} if disks else {}
    return {"kubelet": {"config": kubelet}, "cluster": cluster, **storage}


_KUBELET_LABELS = frozenset(
    f"{prefix}{name}"
    for name, prefixes in {
        "kubernetes.io/hostname": ("",),
        "kubernetes.io/os": ("", "beta."),
        "kubernetes.io/arch": ("", "beta."),
        "kubernetes.io/instance-type": ("node.", "beta."),
        "kubernetes.io/zone": ("topology.", "failure-domain.beta."),
        "kubernetes.io/region": ("topology.", "failure-domain.beta."),
    }.items()
    for prefix in prefixes
)
"""Kubernetes' own labels that a kubelet may set, besides those of two namespaces (kubernetes
pkg/kubelet/apis/well_known_labels.go; read 2026-11-28)."""
_OWN_NAMESPACES = re.compile(r"(.*\.)?(kubernetes\.io|k8s\.io)")
_SET_BY_KUBELETS = re.compile(r"(.*\.)?(kubelet|node)\.kubernetes\.io")


def _refused_labels(labels: Iterable[str]) -> list[str]:
    """The labels in Kubernetes' namespaces with which a kubelet does not start."""
    return [
        key
        for key in sorted(set(labels) - _KUBELET_LABELS)
        if _OWN_NAMESPACES.fullmatch(key.rpartition("/")[0])
        and not _SET_BY_KUBELETS.fullmatch(key.rpartition("/")[0])
    ]


def why_not_joined(cluster: Cluster, group: Group) -> str:
    """Why a node would not find its cluster, or its kubelet would not start."""
    if refused := _refused_labels(group.row.get("labels") or ()):
        # terraform-aws-modules/terraform-aws-eks issue 3346: EKS takes them.
        return (
            "the kubelet ends with \"unknown 'kubernetes.io' or 'k8s.io' labels specified with "
            f'--node-labels: {refused}"'
        )
    try:
        given = settings(group)
    except ValueError as error:
        return str(error)
    if group.row["amiType"] != "CUSTOM":
        return ""
    expected = {
        "name": group.row["clusterName"],
        "apiServerEndpoint": cluster.row["endpoint"],
        "certificateAuthority": cluster.row["certificateAuthority"]["data"],
    }
    found = given.get("cluster") or {}
    wrong = [key for key, value in expected.items() if found.get(key) != value]
    if wrong:
        return f"EKS adds nothing to the user data of an own image, which lacks {', '.join(wrong)}"
    if not is_bottlerocket(group) and "cidr" not in found:
        return "nodeadm asks for spec.cluster.cidr, which the user data lacks"
    return ""


def local_disks(group: Group) -> bool:
    """Whether pods and images are on the instance's own disks."""
    instance = settings(group).get("instance") or {}
    strategy = (instance.get("localStorage") or {}).get("strategy")
    # Karpenter adds that itself, to user data that nothing here has.
    return group.row.get("instanceStorePolicy") == "RAID0" or f"{strategy}".startswith("RAID")


def allocatable(group: Group, node: Mapping[str, str], disk_gib: int) -> dict[str, str]:
    """The resources that the kubelet's settings leave for pods; `node`: the image's own defaults.

    kubernetes.io, "Reserve Compute Resources for System Daemons": capacity less kubeReserved,
    systemReserved and the hard eviction threshold.
    """
    config = (settings(group).get("kubelet") or {}).get("config") or {}
    found = dict(node)
    kube, system = config.get("kubeReserved") or {}, config.get("systemReserved") or {}
    evicted = config.get("evictionHard") or {}
    if "maxPods" in config:
        found["pods"] = str(config["maxPods"])
    for name, unit, factor in (("cpu", "m", 1000), ("memory", "Mi", 2**-20)):
        left = float(quantity.parse(node[name])) * factor
        left -= float(quantity.parse(system.get(name, "0"))) * factor
        if name in kube:
            left += float(node[f"reserved-{name}"]) - float(quantity.parse(kube[name])) * factor
        if name == "memory" and "memory.available" in evicted:
            whole = float(node["whole-memory"])
            left += 100 - _threshold(evicted["memory.available"], whole, factor)
        found[name] = f"{int(left)}{unit}"
    disk = "ephemeral-storage"
    free = _threshold(evicted.get("nodefs.available", "10%"), disk_gib * 1024, 2**-20)
    reserved = quantity.parse(kube.get(disk, "1Gi")) + quantity.parse(system.get(disk, "0"))
    found[disk] = f"{int(disk_gib * 1024 - free - float(reserved) * 2**-20)}Mi"
    return {key: value for key, value in found.items() if "-" not in key or key == disk}


def _threshold(text: str, whole: float, factor: float) -> float:
    if text.endswith("%"):
        return whole * float(text[:-1]) / 100
    return float(quantity.parse(text)) * factor
