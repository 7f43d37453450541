"""A GPU node group on EKS that Cluster Autoscaler scales up from zero."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws
from pulumi_aws.ec2 import (
    LaunchTemplateBlockDeviceMappingArgsDict,
    LaunchTemplateCapacityReservationSpecificationArgsDict,
    LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgsDict,
    LaunchTemplateTagSpecificationArgsDict,
)
from pulumi_aws.eks import (
    NodeGroupNodeRepairConfigArgsDict,
    NodeGroupUpdateConfigArgsDict,
    NodeGroupWarmPoolConfigArgsDict,
)

from ..cluster import GpuPool, ResolvedPool
from ..lifecycle import ownership
from ..schema.outputs import MaybeOutput, applied
from .autoscaler_tags import autoscaler_tags, resource_tags
from .efa import interfaces
from .existing_args import AnyEksClusterArgs
from .network_args import subnet_at
from .node_repair_args import EksNodeRepairArgs
from .pool_args import EksGpuNodeGroupArgs
from .releases import old_toolkit, release_check
from .reservation import CAPACITY_TYPES, is_group
from .scaling import ignored, scaling_config, size_check
from .user_data import Bootstrap, al2023, bottlerocket
from .warm_pool_args import EksWarmPoolArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupSite:
    """What the node groups of a cluster have in common."""

    args: AnyEksClusterArgs
    cluster: pulumi.Input[str]
    """Its name."""
    control_plane: aws.eks.Cluster | None
    """None for an existing cluster."""
    subnets: Mapping[str, pulumi.Input[str]]
    """All of the network's, by place."""
    node_role: pulumi.Input[str]
    """The ARN of the role of the nodes."""
    depends_on: Sequence[pulumi.Resource]
    security_groups: Sequence[pulumi.Input[str]]
    """Those of the nodes; empty if EKS's default applies, as the cluster is not read."""
    placement_groups: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Pool -> the name of its placement group, of those that have one."""

    def at(self, places: Sequence[str]) -> list[pulumi.Input[str]]:
        """The subnets of these places."""
        return [self.subnets.get(place) or subnet_at(place) for place in places]

    def own_tags(self) -> dict[str, str]:
        """Tags that distinguish groups from those of other stacks on an existing cluster."""
        return {} if self.control_plane else ownership.aws_tags()


class EksGpuNodeGroup(pulumi.ComponentResource):
    """A GPU node group. Its physical name is auto-named, so that it can be replaced."""

    node_group: aws.eks.NodeGroup
    pool: GpuPool

    def __init__(
        self,
        name: str,
        resolved: ResolvedPool[EksGpuNodeGroupArgs],
        site: NodeGroupSite,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:eks:GpuNodeGroup", name, None, opts)
        args, self.pool = resolved.args, resolved.pool
        path = f"gpuPools.{self.pool.name}"
        own_image = args.ami_id is not None
        groups = [*site.security_groups, *args.security_group_ids]
        template = aws.ec2.LaunchTemplate(
            name,
            metadata_options={
                **METADATA_OPTIONS,
                "http_put_response_hop_limit": args.metadata_hop_limit,
            },
            block_device_mappings=_volumes(args, site.args.disks_encryption_key),
            tag_specifications=tag_specifications(name, site.args.tags),
            instance_type=args.instance_types[0] if _block(args) else None,
            instance_market_options={"market_type": "capacity-block"} if _block(args) else None,
            capacity_reservation_specification=_reservation(args),
            image_id=args.ami_id,
            # If the template has any, EKS does not add the cluster's own, which nodes need.
            vpc_security_group_ids=groups
            if (args.security_group_ids or site.args.network.security_group_ids) and not args.efa
            else None,
            network_interfaces=[
                {
                    "network_card_index": card,
                    "device_index": device,
                    "interface_type": kind,
                    "security_groups": groups,
                    "delete_on_termination": "true",
                }
                for card, device, kind in interfaces(args.efa_cards)
            ]
            if args.efa
            else None,
            placement={"group_name": group}
            if (group := site.placement_groups.get(self.pool.name))
            else None,
            user_data=_user_data(args, self.pool, site.control_plane, site.args.service_cidr),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.node_group = aws.eks.NodeGroup(
            name,
            cluster_name=site.cluster,
            # EKS accepts neither version nor amiType together with an image in the template. This
            # cannot change during the group's life, and another name prefix creates a new group.
            node_group_name_prefix=f"{name}-ami-" if own_image else f"{name}-",
            version=None if own_image else site.args.version,
            release_version=args.release_version,
            node_role_arn=site.node_role,
            subnet_ids=site.at(resolved.places),
            ami_type=None if own_image else args.image,
            capacity_type=CAPACITY_TYPES[args.capacity_type],
            # A Capacity Block needs the type in the launch template, and EKS accepts it in one
            # place only.
            instance_types=None if _block(args) else list(args.instance_types),
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            scaling_config=scaling_config(*self.pool.bounds, args.desired_nodes),
            warm_pool_config=_warm_pool_config(args.warm_pool),
            update_config=_update_config(args),
            force_update_version=args.force_update or None,
            node_repair_config=_node_repair_config(args.node_repair, args.gpu_model),
            labels=dict(self.pool.labels),
            taints=[
                {"key": taint.key, "value": taint.value, "effect": taint.cloud_effect}
                for taint in args.node_taints
            ],
            tags={**resource_tags(self.pool, args), **site.own_tags()},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(site.depends_on),
                delete_before_replace=args.delete_before_replace,
                # The autoscaler controls the number of nodes.
                ignore_changes=ignored(args.desired_nodes),
                hooks=size_check(name, path, release_check(name, path)),
                custom_timeouts=pulumi.CustomTimeouts(update=f"{args.update_minutes}m"),
            ),
        )
        if self.pool.device_plugin and args.os == "al2023" and not own_image:
            # Not a hook: an update that leaves the group as it is calls none.
            self.node_group.release_version.apply(lambda release: _warn_of_toolkit(path, release))
        # The keys are plain values, so that the first preview lists every tag; only the group's
        # name has to wait for EKS, which creates and deletes the group with the node group.
        group = self.node_group.resources[0].autoscaling_groups[0].name
        for tag in autoscaler_tags(self.pool, args):
            aws.autoscaling.Tag(
                f"{name}-{tag.name}",
                autoscaling_group_name=group,
                tag={"key": tag.key, "value": tag.value, "propagate_at_launch": tag.propagate},
                opts=pulumi.ResourceOptions(parent=self, deleted_with=self.node_group),
            )
        self.register_outputs({})


def _warn_of_toolkit(path: str, release: str | None) -> None:
    if line := old_toolkit(path, release):
        pulumi.log.warn(line)


def _update_config(args: EksGpuNodeGroupArgs) -> NodeGroupUpdateConfigArgsDict:
    # An update needs no spare GPU: a node is deleted before its successor is created.
    if args.max_unavailable_percentage is not None:
        return {
            "max_unavailable_percentage": args.max_unavailable_percentage,
            "update_strategy": "MINIMAL",
        }
    return {"max_unavailable": args.max_unavailable or 1, "update_strategy": "MINIMAL"}


def _node_repair_config(
    repair: EksNodeRepairArgs, gpu_model: str
) -> NodeGroupNodeRepairConfigArgsDict:
    return {
        "enabled": repair.enabled,
        "max_parallel_nodes_repaired_count": repair.max_parallel_nodes_repaired_count,
        "max_parallel_nodes_repaired_percentage": repair.max_parallel_nodes_repaired_percentage,
        "max_unhealthy_node_threshold_count": repair.max_unhealthy_node_threshold_count,
        "max_unhealthy_node_threshold_percentage": repair.max_unhealthy_node_threshold_percentage,
        "node_repair_config_overrides": [
            {
                "node_monitoring_condition": override.node_monitoring_condition,
                "node_unhealthy_reason": override.node_unhealthy_reason,
                "min_repair_wait_time_mins": override.min_repair_wait_time_mins,
                "repair_action": override.repair_action,
            }
            for override in repair.overrides_on(gpu_model)
        ]
        or None,
    }


def _warm_pool_config(warm_pool: EksWarmPoolArgs | None) -> NodeGroupWarmPoolConfigArgsDict | None:
    if warm_pool is None:
        return None
    return {
        "max_group_prepared_capacity": warm_pool.max_group_prepared_capacity,
        "min_size": warm_pool.min_size,
        "pool_state": warm_pool.pool_state.upper(),
        "reuse_on_scale_in": warm_pool.reuse_on_scale_in,
    }


def _block(args: EksGpuNodeGroupArgs) -> bool:
    return args.capacity_type == "capacity-block"


def _reservation(
    args: EksGpuNodeGroupArgs,
) -> LaunchTemplateCapacityReservationSpecificationArgsDict | None:
    if args.reservation is None:
        return None
    target = applied(_target, args.reservation)
    if _block(args):
        return {"capacity_reservation_target": target}
    # Without it, nodes in excess of a group's reservations silently run on demand.
    return {
        "capacity_reservation_preference": "capacity-reservations-only",
        "capacity_reservation_target": target,
    }


def _target(
    reservation: str,
) -> LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgsDict:
    if is_group(reservation):
        return {"capacity_reservation_resource_group_arn": reservation}
    return {"capacity_reservation_id": reservation}


METADATA_OPTIONS: aws.ec2.LaunchTemplateMetadataOptionsArgsDict = {
    "http_endpoint": "enabled",
    # A token for every request, and none for pods in their own network namespace.
    "http_tokens": "required",
    "http_put_response_hop_limit": 1,
}
"""How instances reach their metadata and thus the node's role: only the node itself can."""


def volume(
    device: str,
    size_gb: int | None,
    *,
    key: MaybeOutput | None,
    throughput: int | None = None,
    iops: int | None = None,
    snapshot: MaybeOutput | None = None,
    rate: int | None = None,
) -> LaunchTemplateBlockDeviceMappingArgsDict:
    """An encrypted gp3 volume that is deleted with its instance. Without a size, the image's;
    without throughput (MiB/s) and IOPS, gp3's minimum. `rate`: MiB/s of the copy of `snapshot`."""
    return {
        "device_name": device,
        "ebs": {
            "volume_type": "gp3",
            "volume_size": size_gb,
            "throughput": throughput,
            "iops": iops,
            "snapshot_id": snapshot,
            "volume_initialization_rate": rate,
            # Strings, because the provider's schema needs them to distinguish unset from false.
            "encrypted": "true",
            "kms_key_id": key,
            "delete_on_termination": "true",
        },
    }


def tag_specifications(
    name: str, tags: Mapping[str, str]
) -> list[LaunchTemplateTagSpecificationArgsDict]:
    """The tags of the instances and volumes that a launch template creates."""
    return [
        {"resource_type": kind, "tags": {"Name": name, **tags}} for kind in ("instance", "volume")
    ]


def _volumes(
    args: EksGpuNodeGroupArgs, key: MaybeOutput | None
) -> list[LaunchTemplateBlockDeviceMappingArgsDict]:
    # Bottlerocket's system is on a small separate volume; images and pods are on the second.
    device = "/dev/xvdb" if args.os == "bottlerocket" else "/dev/xvda"
    data = volume(
        device,
        args.disk_size_gb,
        key=key,
        throughput=args.disk_throughput,
        iops=args.disk_iops,
        snapshot=args.disk_snapshot_id,
        rate=args.disk_initialization_rate,
    )
    return [volume("/dev/xvda", None, key=key), data] if args.os == "bottlerocket" else [data]


def _user_data(
    args: EksGpuNodeGroupArgs, pool: GpuPool, cluster: aws.eks.Cluster | None, service_cidr: str
) -> pulumi.Input[str] | None:
    disks = (args.local_storage, args.image_pull)

    def text(bootstrap: Bootstrap | None) -> str | None:
        if args.os == "bottlerocket":
            data = bottlerocket(args.kubelet, pool, args.user_data, bootstrap, *disks)
        else:
            data = al2023(args.kubelet, args.user_data, bootstrap, *disks)
        return data and base64.b64encode(data.encode()).decode()

    if args.ami_id is None or cluster is None:
        return text(None)
    return pulumi.Output.all(
        cluster.name, cluster.endpoint, cluster.certificate_authority.data
    ).apply(
        lambda known: (
            text(
                Bootstrap(
                    name=known[0],
                    endpoint=known[1],
                    ca_certificate=known[2],
                    service_cidr=service_cidr,
                    labels=pool.labels,
                    taints=args.node_taints,
                )
            )
            or ""
        )
    )
