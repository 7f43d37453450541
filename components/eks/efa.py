"""Elastic Fabric Adapters: interfaces, the security group that admits their traffic, and the device
plugin, which EKS's images do not include.

Layout and rules: docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html and efa-start,
docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html, read 2026-11-28. The DaemonSet
follows aws/eks-charts stable/aws-efa-k8s-device-plugin v0.5.30 (2026-07-21).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core.v1 import VolumeArgsDict, VolumeMountArgsDict

from ..catalog import images
from ..cluster import Cluster, GpuPool, ResolvedPool
from ..daemon_set import affinity_to
from ..lifecycle import ownership
from .pool_args import EksGpuNodeGroupArgs

_NAME = "aws-efa-k8s-device-plugin"
_NAME_BESIDE_OWNERS = "gpu-cluster-efa-device-plugin"
_PATHS = {"sockets": "/var/lib/kubelet/device-plugins", "devices": "/dev/infiniband"}


def interfaces(
    cards: Sequence[int],
) -> Iterator[tuple[int, int, Literal["interface", "efa-only"]]]:
    """Network card, device and type of each interface of a node with EFA on these cards. Only the
    first has addresses, of which each ordinary EFA interface would take some from the subnet."""
    yield 0, 0, "interface"
    for card in cards:
        yield card, 0 if card else 1, "efa-only"


def security_group(
    name: str, vpc: pulumi.Input[str], parent: pulumi.Resource | None
) -> aws.ec2.SecurityGroup:
    """A group that admits all traffic from and to itself. EFA's is not IP, and passes only by rules
    that name the group; EKS's own has both since 2025, that of an older cluster lacks the second.
    """
    return aws.ec2.SecurityGroup(
        name,
        description="EFA traffic between the nodes of GPU pools",
        vpc_id=vpc,
        ingress=[{"protocol": "-1", "from_port": 0, "to_port": 0, "self": True}],
        egress=[{"protocol": "-1", "from_port": 0, "to_port": 0, "self": True}],
        tags={"Name": name, **ownership.aws_tags()},
        opts=pulumi.ResourceOptions(parent=parent),
    )


def with_group(
    pools: Mapping[str, ResolvedPool[EksGpuNodeGroupArgs]], group: aws.ec2.SecurityGroup
) -> dict[str, ResolvedPool[EksGpuNodeGroupArgs]]:
    """The pools, with `group` among the security groups of those that have EFA."""
    return {name: _in_group(pool, group) if pool.args.efa else pool for name, pool in pools.items()}


def _in_group(
    pool: ResolvedPool[EksGpuNodeGroupArgs], group: aws.ec2.SecurityGroup
) -> ResolvedPool[EksGpuNodeGroupArgs]:
    groups = [*pool.args.security_group_ids, group.id]
    return replace(
        pool,
        args=replace(pool.args, security_group_ids=groups),
        fallback=[_in_group(choice, group) for choice in pool.fallback],
    )


class EfaDevicePlugin(pulumi.ComponentResource):
    """The DaemonSet that offers the adapters of a node as `vpc.amazonaws.com/efa`."""

    def __init__(
        self,
        name: str,
        *,
        cluster: Cluster,
        pools: Sequence[GpuPool],
        existing: bool,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`pools`: those whose nodes have adapters. `existing`: whether the cluster is another
        owner's, whose release of AWS's chart usually has the plugin's usual name."""
        super().__init__("gpu-cluster:eks:EfaDevicePlugin", name, None, opts)
        own_name = _NAME_BESIDE_OWNERS if existing else _NAME
        labels = {"name": own_name}
        volumes: list[VolumeArgsDict] = [
            {"name": volume, "host_path": {"path": path}} for volume, path in _PATHS.items()
        ]
        mounts: list[VolumeMountArgsDict] = [
            {"name": volume, "mount_path": path} for volume, path in _PATHS.items()
        ]
        kubernetes.apps.v1.DaemonSet(
            own_name,
            metadata={"name": own_name, "namespace": "kube-system"},
            spec={
                "selector": {"match_labels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "priority_class_name": "system-node-critical",
                        "affinity": affinity_to(pool.node_selector for pool in pools),
                        "tolerations": [{"operator": "Exists"}],
                        "automount_service_account_token": False,
                        "host_network": True,
                        "containers": [
                            {
                                "name": _NAME,
                                "image": images.EFA_PLUGIN.reference,
                                "security_context": {"privileged": True, "run_as_user": 0},
                                "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
                                "volume_mounts": mounts,
                            }
                        ],
                        "volumes": volumes,
                    },
                },
            },
            # Two plugins for one resource on a node remove each other's socket.
            opts=cluster.options(self, delete_before_replace=True),
        )
        self.register_outputs({})
