"""A node group without GPUs on EKS that Cluster Autoscaler scales up from zero."""

import pulumi
import pulumi_aws as aws

from .autoscaler_tags import autoscaler_tags, resource_tags
from .cluster_args import update_minutes
from .cpu_pool_args import EksCpuPoolArgs
from .node_group import METADATA_OPTIONS, NodeGroupSite, tag_specifications, volume
from .scaling import ignored, scaling_config, size_check


class EksCpuPool(pulumi.ComponentResource):
    """A node group of CPU nodes. Its physical name is auto-named, so that it can be replaced."""

    node_group: aws.eks.NodeGroup

    def __init__(
        self,
        name: str,
        args: EksCpuPoolArgs,
        site: NodeGroupSite,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:eks:CpuPool", name, None, opts)
        child, pool = pulumi.ResourceOptions(parent=self), args.pool(name)
        template = aws.ec2.LaunchTemplate(
            name,
            metadata_options=METADATA_OPTIONS,
            block_device_mappings=[
                volume("/dev/xvda", args.disk_size_gb, key=site.args.disks_encryption_key)
            ],
            tag_specifications=tag_specifications(name, site.args.tags),
            vpc_security_group_ids=list(site.args.network.security_group_ids) or None,
            opts=child,
        )
        self.node_group = aws.eks.NodeGroup(
            name,
            cluster_name=site.cluster,
            node_group_name_prefix=f"{name}-",
            version=site.args.version,
            node_role_arn=site.node_role,
            subnet_ids=site.at(args.places(name) or site.args.network.places),
            ami_type=args.ami_type,
            capacity_type="SPOT" if args.spot else "ON_DEMAND",
            instance_types=list(args.instance_types),
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            scaling_config=scaling_config(*pool.bounds),
            update_config={"max_unavailable": 1},
            node_repair_config={"enabled": True},
            labels=dict(pool.labels),
            taints=[
                {"key": taint.key, "value": taint.value, "effect": taint.cloud_effect}
                for taint in args.taints
            ],
            tags={**resource_tags(pool, args), **site.own_tags()},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(site.depends_on),
                # The autoscaler controls the number of nodes.
                ignore_changes=ignored(None),
                hooks=size_check(name, f"cluster.cpuPools.{name}"),
                custom_timeouts=pulumi.CustomTimeouts(
                    update=f"{update_minutes(args.max_nodes, together=1)}m"
                ),
            ),
        )
        group = self.node_group.resources[0].autoscaling_groups[0].name
        for tag in autoscaler_tags(pool, args):
            aws.autoscaling.Tag(
                f"{name}-{tag.name}",
                autoscaling_group_name=group,
                tag={"key": tag.key, "value": tag.value, "propagate_at_launch": tag.propagate},
                opts=pulumi.ResourceOptions(parent=self, deleted_with=self.node_group),
            )
        self.register_outputs({})
