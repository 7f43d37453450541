"""The nodes of a node group: what Cluster Autoscaler expects, and what really joins."""

import base64
import re
from collections.abc import Mapping
from typing import Literal

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.catalog.eks import InstanceType
from gpu_cluster.components.kube import quantity
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.ami_types import drives
from gpu_cluster.rehearsal.simulators.aws.eks import group_tags, subnets
from gpu_cluster.rehearsal.simulators.aws.first_boot import (
    allocatable,
    is_bottlerocket,
    local_disks,
)
from gpu_cluster.rehearsal.simulators.aws.instances import instance
from gpu_cluster.rehearsal.simulators.aws.network_interfaces import EFA, adapters
from gpu_cluster.rehearsal.simulators.aws.rows import Group
from gpu_cluster.rehearsal.simulators.aws.user_data import host_sharing, runs_plugin
from gpu_cluster.rehearsal.simulators.cloud import GpuSharing, NodeTaint, NodeTemplate

GPU = "nvidia.com/gpu"
MAX_PODS = 110
"""Used for template and node: Cluster Autoscaler always assumes 110. The kubelet's own number
depends on the instance type's network interfaces, which are not in the catalog."""
EKS_LABELS = "eks.amazonaws.com/"

EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}
_TAINT = re.compile(r"(.*):(NoSchedule|NoExecute|PreferNoSchedule)")
# As cluster-autoscaler's aws_manager.go reads them; literals, to test the program's spelling.
LABEL_TAG = "k8s.io/cluster-autoscaler/node-template/label/"
TAINT_TAG = "k8s.io/cluster-autoscaler/node-template/taint/"
RESOURCE_TAG = "k8s.io/cluster-autoscaler/node-template/resources/"
_REST = float("inf")
_SHOWN = 0.95
"""The share of a small instance's memory that its kernel reports; 0.975 for a large one."""
_HUGE_PAGES = 5128
"""Pages of 2 MiB that the EFA driver of AL2023's images takes of the memory; they are a resource
of their own (EKS user guide, node-efa, read 2026-11-28)."""
_HUGE_PAGES_PER_CPU = 110
"""The same of Bottlerocket (bottlerocket-core-kit, corndog generate-hugepages-setting)."""
_CPU_TIERS = ((1, 0.06), (1, 0.01), (2, 0.005), (_REST, 0.0025))


def template(account: Account, group: Group) -> NodeTemplate:
    """The node that Cluster Autoscaler expects of a group without nodes: it silently drops whatever
    it cannot read from the template at zero, which has no ResourceSlices (aws_manager.go of 1.36.1,
    buildNodeFromTemplate; kubernetes/autoscaler issue 7799)."""
    shape = template_at_zero(account, group)
    readable = {
        name: text for name, text in shape.capacity.items() if quantity.or_none(text) is not None
    }
    return NodeTemplate(
        labels=shape.labels,
        taints=shape.taints,
        capacity=readable,
        devices={},
        expected=expected_gpus(group),
    )


def expected_gpus(group: Group) -> dict[str, str | int] | None:
    """What Cluster Autoscaler expects of the GPUs of a new node: from 1.35 on what the group's
    nodes have (processors/customresources/dra_processor.go of 1.34.5 and 1.35.2)."""
    return {} if int(group.row["version"].split(".")[1]) >= 35 else None


def template_at_zero(account: Account, group: Group) -> NodeTemplate:
    """The node that Cluster Autoscaler expects of a group at zero, from EC2's description of the
    instance type and the Auto Scaling group's tags (aws_manager.go, buildNodeFromTemplate).

    A Cluster Autoscaler that may call eks:DescribeNodegroup also sees the node group's labels and
    taints. That is not relied on here, since it caches an error of that call as an empty node
    group. Of the node group's own tags it uses the `resources` ones, which win.
    """
    row = instance(account, group.row["instanceTypes"][0])
    tags = group_tags(account, group.scaling_group)
    labels = _generic_labels(account, group, row)
    labels |= {
        key.removeprefix(LABEL_TAG): value
        for key, value in tags.items()
        if key.startswith(LABEL_TAG)
    }
    capacity = {
        "cpu": str(row.vcpu),
        "memory": f"{round(row.memory_gib * 1024)}Mi",
        "pods": str(MAX_PODS),
    }
    if row.vendor == "NVIDIA" and row.gpus >= 1:
        capacity[GPU] = str(int(row.gpus))
    for key, value in (*tags.items(), *group.row["tags"].items()):
        if key.startswith(RESOURCE_TAG):
            capacity[key.removeprefix(RESOURCE_TAG)] = value
    return NodeTemplate(labels=labels, taints=tagged_taints(tags), capacity=capacity)


def tagged_taints(tags: Mapping[str, str]) -> tuple[NodeTaint, ...]:
    """The taints in an Auto Scaling group's tags. Like Cluster Autoscaler, silently drops those
    that it cannot read, such as EKS's own spelling `NO_SCHEDULE`."""
    found = []
    for key, value in sorted(tags.items()):
        match = _TAINT.fullmatch(value)
        if key.startswith(TAINT_TAG) and match:
            found.append(
                NodeTaint(key=key.removeprefix(TAINT_TAG), value=match[1], effect=match[2])
            )
    return tuple(found)


def node(account: Account, group: Group) -> NodeTemplate:
    """The node that joins, with the node group's labels and taints and the instance type's size."""
    config = group.row
    row = instance(account, config["instanceTypes"][0])
    labels = {
        **_generic_labels(account, group, row),
        f"{EKS_LABELS}nodegroup": config["nodegroupName"],
        f"{EKS_LABELS}nodegroup-image": config["releaseVersion"],
        f"{EKS_LABELS}capacityType": config["capacityType"],
        **config["labels"],
    }
    taints = tuple(
        NodeTaint(key=taint["key"], value=taint.get("value") or "", effect=EFFECTS[taint["effect"]])
        for taint in config.get("taints") or []
    )
    return NodeTemplate(labels=labels, taints=taints, capacity=capacity(group, row))


def node_os(group: Group) -> Literal["al2023", "bottlerocket", "other"]:
    """The operating system of a node group's image."""
    if is_bottlerocket(group):
        return "bottlerocket"
    return "al2023" if group.row["amiType"].startswith(("AL2023", "CUSTOM")) else "other"


def sharing(group: Group) -> GpuSharing:
    """How the node's own device plugin shares the GPUs: Bottlerocket's, from its user data."""
    if not is_bottlerocket(group):
        return GpuSharing()
    # moto keeps user data as its own object, or as the text that it was given.
    return host_sharing(
        str(group.data.get("UserData") or ""), str(group.row.get("releaseVersion", ""))
    )


def has_plugin(group: Group) -> bool:
    """Whether the node runs a device plugin of its own: Bottlerocket's, unless it is turned off."""
    text = base64.b64decode(str(group.data.get("UserData") or "")).decode(errors="replace")
    return is_bottlerocket(group) and runs_plugin(text)


def _generic_labels(account: Account, group: Group, row: InstanceType) -> dict[str, str]:
    (subnet,) = subnets(account, group.row["subnets"][:1])
    return {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": row.arch,
        "node.kubernetes.io/instance-type": row.name,
        "topology.kubernetes.io/region": account.region,
        "topology.kubernetes.io/zone": subnet.availability_zone,
    }


_XFS = 0.995
"""The share of a disk that files can have: a file system of 3.8 TB has a log of 2 GiB."""


def size(row: InstanceType) -> dict[str, str]:
    """The CPU and memory that EKS leaves for pods (amazon-eks-ami, nodeadm's kubelet defaults). Of
    CPU it reserves 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of
    the rest; of memory 255 MiB, 11 MiB for each pod that the interfaces have an address for, and
    100 MiB as the eviction threshold. The kernel reports less memory than the instance has."""
    kept, rest = 0.0, float(row.vcpu)
    for cores, share in _CPU_TIERS:
        kept += min(rest, cores) * share
        rest = max(rest - cores, 0)
    whole, of_kubelet = round(row.memory_gib * 1024 * _SHOWN), 255 + 11 * _pods(row)
    return {
        "cpu": f"{round((row.vcpu - kept) * 1000)}m",
        "memory": f"{whole - of_kubelet - 100}Mi",
        "reserved-cpu": f"{kept * 1000}",
        "reserved-memory": str(of_kubelet),
        "whole-memory": str(whole),
    }


def capacity(group: Group, row: InstanceType, *, automatic: bool = False) -> dict[str, str]:
    """The resources that the kubelet leaves for pods; of the disk, all but a tenth and 1 GiB.

    `automatic`: an instance of EKS Auto Mode, whose local disks replace a smaller volume
    (docs.aws.amazon.com/eks/latest/userguide/automode-learn-instances.html, read 2026-11-28).
    """
    local, disk_gib = int((row.local_nvme_gb or 0) * 10**9 * _XFS / 2**30), _disk_gib(group)
    if automatic or (local and local_disks(group)):
        disk_gib = max(disk_gib, local) if automatic else local
    found = allocatable(group, {**size(row), "pods": str(MAX_PODS)}, disk_gib)
    if row.vendor == "NVIDIA" and row.gpus >= 1 and drives(group.row):
        found[GPU] = str(int(row.gpus) * sharing(group).replicas)
    if count := adapters(group.data):
        found[EFA] = str(count)
        pages = _HUGE_PAGES_PER_CPU * int(row.vcpu) if is_bottlerocket(group) else _HUGE_PAGES
        found["memory"] = f"{int(found['memory'].removesuffix('Mi')) - 2 * pages}Mi"
    return found


def _pods(row: InstanceType) -> int:
    count, addresses = row.interfaces or (1, MAX_PODS)
    return count * (addresses - 1) + 2


def _disk_gib(group: Group) -> int:
    """The size of the volume for images and pods; Bottlerocket has a separate one."""
    device = "/dev/xvdb" if is_bottlerocket(group) else "/dev/xvda"
    for mapping in group.data.get("BlockDeviceMappings") or []:
        if mapping.get("DeviceName") == device and mapping.get("Ebs", {}).get("VolumeSize"):
            return int(mapping["Ebs"]["VolumeSize"])
    return int(group.row.get("diskSize") or catalog.DEFAULT_DISK_GIB)


def why_no_wait(node: NodeTemplate) -> str:
    """Why Cluster Autoscaler treats a node that has no GPUs yet as one that never has any.

    kubernetes/autoscaler cloudprovider/aws/README.md, "Special note on GPU instances": a node that
    has the label but offers no GPU counts as still starting.
    """
    label = "k8s.amazonaws.com/accelerator"
    return "" if label in node.labels else f"its nodes have no label {label}"
