"""NVIDIA's DRA driver, on the pools whose pods get their GPUs by ResourceClaims.

Its objects follow the chart of kubernetes-sigs/dra-driver-nvidia-gpu in the version of
`images.DRA_DRIVER` (read 2026-11-29) with `resources.computeDomains.enabled=false`: without
compute domains it has no controller, and its kubelet plugin needs fewer rights.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core.v1 import (
    ContainerArgsDict,
    EnvVarArgsDict,
    PodSpecArgsDict,
    VolumeArgsDict,
    VolumeMountArgsDict,
)
from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

from ..access import rights
from ..catalog import images
from ..catalog import kubernetes as names
from ..cluster import Cluster
from ..lifecycle.prefix import unique
from .admission import admission_policy

NAMESPACE = "kube-system"
NAME = "nvidia-dra-driver"
_HEALTH_PORT = 51516
_KUBELET = "/var/lib/kubelet"
_RULES: Sequence[PolicyRuleArgsDict] = (
    rights.rule("resource.k8s.io", ["resourceclaims"], *rights.READ),
    rights.rule("resource.k8s.io", ["resourceslices"], *rights.READ, "create", "update", "delete"),
    # A ResourceSlice is owned by its node.
    rights.rule("", ["nodes"], "get"),
)


def declare_access(cluster: Cluster, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """Declares the driver's account with its rights, and the DeviceClasses of its devices. As in
    the chart, the class of whole GPUs also serves pods that request `nvidia.com/gpu`."""
    name = unique(NAME)
    account = kubernetes.core.v1.ServiceAccount(
        name, metadata={"name": name, "namespace": NAMESPACE}, opts=cluster.options(parent)
    )
    mapped = pulumi.Output.from_input(cluster.mapped).apply(
        lambda mapped: names.GPU_RESOURCE if mapped else None
    )
    classes = [
        kubernetes.resource.v1.DeviceClass(
            device_class,
            metadata={"name": device_class},
            spec={
                "selectors": [{"cel": {"expression": _devices(kind)}}],
                "extended_resource_name": resource,
            },
            opts=cluster.options(parent),
        )
        for device_class, kind, resource in (
            (names.GPU_CLASS, "gpu", mapped),
            (names.MIG_CLASS, "mig", None),
        )
    ]
    granted = rights.declare(
        name,
        account=name,
        namespace=NAMESPACE,
        labels={"name": name},
        cluster_rules=_RULES,
        own_rules=(),
        opts=cluster.options(parent),
    )
    return [account, *classes, *granted, *_only_its_node(name, cluster, parent)]


def _devices(kind: str) -> str:
    driver = names.GPU_CLASS
    return f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"


def _only_its_node(name: str, cluster: Cluster, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """Refuses what the driver of one node changes in the ResourceSlices of another: its account's
    rights are not by node."""
    return admission_policy(
        name,
        account=f"system:serviceaccount:{NAMESPACE}:{name}",
        rule={
            "api_groups": ["resource.k8s.io"],
            "api_versions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": ["resourceslices"],
        },
        variables=[
            {
                "name": "own",
                "expression": "request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0]"
                ".orValue('')",
            },
            {
                "name": "changed",
                "expression": "(request.operation == 'DELETE' ? oldObject : object)"
                ".spec.?nodeName.orValue('')",
            },
        ],
        validations=[
            {
                "expression": "variables.own != '' && variables.own == variables.changed",
                "message": "NVIDIA's DRA driver may only change the ResourceSlices of its own node",
            }
        ],
        cluster=cluster,
        parent=parent,
    )


def driver_pod(driver_directory: str | None) -> PodSpecArgsDict:
    """The pod on each node, without what decides where it runs. `driver_directory`: the host's
    directory with NVIDIA's driver; None for its root."""
    image = images.DRA_DRIVER.reference
    root = driver_directory or "/"
    directory: EnvVarArgsDict = {"name": "NVIDIA_DRIVER_ROOT", "value": root}
    # To NVIDIA's runtime, if it is the node's default: the driver's files come from the host.
    void: EnvVarArgsDict = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    # The kubelet finds the driver's socket in the first, the driver keeps its state in the second.
    hosts = {
        "plugins-registry": f"{_KUBELET}/plugins_registry",
        "plugins": f"{_KUBELET}/plugins",
        "cdi": "/var/run/cdi",
    }
    volumes: list[VolumeArgsDict] = [
        {"name": name, "host_path": {"path": path, "type": "DirectoryOrCreate"}}
        for name, path in hosts.items()
    ]
    volumes.append({"name": "host", "host_path": {"path": root, "type": "Directory"}})
    above: VolumeMountArgsDict = {
        "name": "host", "mount_path": "/driver-root-parent", "read_only": True,
    }  # fmt: skip
    if driver_directory:
        # The driver's installer may create it later, and mounts it then. The init container looks
        # for it in the directory above.
        volumes[-1] = {"name": "host", "host_path": {"path": root, "type": "DirectoryOrCreate"}}
        parent = str(PurePosixPath(root).parent)
        volumes.append({"name": "above", "host_path": {"path": parent, "type": "Directory"}})
        above |= {"name": "above", "mount_propagation": "HostToContainer"}
    mounts: list[VolumeMountArgsDict] = [
        {"name": name, "mount_path": path} for name, path in hosts.items()
    ]
    mounts[1]["mount_propagation"] = "Bidirectional"
    mounts.append(
        {"name": "host", "mount_path": "/driver-root", "mount_propagation": "HostToContainer"}
    )
    init: ContainerArgsDict = {
        # It waits for the host's driver.
        "name": "init-container",
        "image": image,
        "command": ["bash", "/usr/bin/kubelet-plugin-prestart.sh"],
        "env": [directory, void],
        "security_context": {"privileged": True},
        "volume_mounts": [above],
    }
    container: ContainerArgsDict = {
        "name": "gpus",
        "image": image,
        "command": ["gpu-kubelet-plugin"],
        "env": [
            directory,
            void,
            {"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"},
            {"name": "CDI_ROOT", "value": hosts["cdi"]},
            {"name": "HEALTHCHECK_PORT", "value": str(_HEALTH_PORT)},
            {"name": "IMAGE_NAME", "value": image},
            {
                "name": "NODE_NAME",
                "value_from": {"field_ref": {"field_path": "spec.nodeName"}},
            },
            {
                "name": "NAMESPACE",
                "value_from": {"field_ref": {"field_path": "metadata.namespace"}},
            },
        ],
        "startup_probe": {
            "grpc": {"port": _HEALTH_PORT, "service": "liveness"},
            "failure_threshold": 600,
            "period_seconds": 1,
            "timeout_seconds": 10,
        },
        "liveness_probe": {
            "grpc": {"port": _HEALTH_PORT, "service": "liveness"},
            "failure_threshold": 3,
            "period_seconds": 30,
            "timeout_seconds": 10,
        },
        # It creates the device files of GPUs, and reads those of the host's driver.
        "security_context": {"privileged": True},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "volume_mounts": mounts,
    }
    return {
        "service_account_name": unique(NAME),
        "automount_service_account_token": True,
        "init_containers": [init],
        "containers": [container],
        "volumes": volumes,
    }
