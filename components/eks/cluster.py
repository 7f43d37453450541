"""An EKS cluster: control plane, access, addons, and one small CPU node group."""

import json
from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws
from pulumi_aws.eks import AddonPodIdentityAssociationArgsDict

from ..catalog.eks_addons import ADDONS, Addon
from ..lifecycle import ownership
from ..scalers import SCALERS
from ..schema.outputs import keyed
from . import regions
from .cluster_args import EksClusterArgs, update_minutes
from .cluster_roles import ClusterRoles, cluster_roles, grants_of
from .cpu_pool import EksCpuPool
from .effective import once_effective
from .iam import EksRole
from .kubeconfig import kubeconfig
from .network import EksNetwork
from .node_group import METADATA_OPTIONS, NodeGroupSite, tag_specifications, volume
from .provider_args import AwsProviderArgs
from .releases import cluster_check
from .scaling import ignored, scaling_config, size_check
from .user_args import principal_name
from .users import declare_users

_TAGS_OF_DRIVER = ("kubernetes.io", "CSIVolumeName", "CSIVolumeSnapshotName",
                   "ebs.csi.aws.com/cluster")  # fmt: skip
"""Prefixes of tag keys that the EBS CSI driver reserves for itself."""


class EksCluster(pulumi.ComponentResource):
    """An EKS cluster, ready for GPU node groups."""

    control_plane: aws.eks.Cluster
    name: pulumi.Output[str]
    """The cluster's name, known once it exists."""
    subnets: Mapping[str, pulumi.Input[str]]
    """Place as in the settings -> the subnet's ID."""
    zones: Mapping[str, pulumi.Input[str]]
    """Zone as in the settings -> its name; empty in an existing VPC."""
    node_role: EksRole
    before_nodes: list[pulumi.Resource]
    """Resources that must exist before a node starts, and must outlive it."""
    ready: list[pulumi.Resource]
    """Resources that must exist before pods can run, and must outlive them."""
    reachable: Sequence[pulumi.Resource]
    """Those of them without which the Kubernetes provider does not reach the cluster."""
    kubeconfig: pulumi.Output[str]
    vpc: pulumi.Output[str]
    """The ID of its VPC."""
    security_groups: Sequence[pulumi.Input[str]]
    """The security group that EKS creates with the cluster, for its nodes."""
    site: NodeGroupSite
    """What its node groups have in common."""

    def __init__(
        self,
        name: str,
        args: EksClusterArgs,
        *,
        provider: AwsProviderArgs,
        buckets: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`buckets`: whether pods mount any buckets."""
        super().__init__("gpu-cluster:eks:Cluster", name, None, opts)
        child, region = pulumi.ResourceOptions(parent=self), provider.region
        addons = [
            addon
            for addon in ADDONS
            if (buckets or not addon.buckets)
            and (not addon.switch or getattr(args, addon.switch))
            and not (SCALERS[args.scaler].serves_system and addon.auto_mode)
        ]
        self.network = EksNetwork(name, args.network, region=region, opts=child)
        key: pulumi.Input[str] = args.secrets_encryption_key or self._secrets_key(name, args)
        roles = cluster_roles(name, args, addons, region=region, secrets_key=key, opts=child)
        self.node_role = roles.nodes
        self.control_plane = self._declare_control_plane(name, args, roles, key, addons)
        self.security_groups = [self.control_plane.vpc_config.cluster_security_group_id]
        access = [*self._access(name, args, region), *self._private_access(name, args)]
        early = [addon for addon in addons if addon.before_nodes]
        late = [addon for addon in addons if not addon.before_nodes]
        self.before_nodes = [
            *roles.nodes.grants,
            *self.network.egress,
            *self._addons(name, args, early, roles.addons),
            # Addons keep their permissions as long as a node can run their pods: the disk driver
            # detaches and deletes a disk some time after its claim is deleted.
            *(grant for addon in late for grant in grants_of(addon, roles.addons)),
        ]
        # Auto Mode starts nodes for the addons' pods itself.
        system = [] if SCALERS[args.scaler].serves_system else [self._system_pool(name, args)]
        running = self._addons(name, args, late, roles.addons, depends_on=system)
        self.site = NodeGroupSite(
            args=args,
            cluster=self.control_plane.name,
            control_plane=self.control_plane,
            subnets=self.network.private_subnets,
            security_groups=self.security_groups,
            node_role=self.node_role.arn,
            depends_on=self.before_nodes,
        )
        for pool, cpu in args.cpu_pools.items() if SCALERS[args.scaler].node_groups else ():
            EksCpuPool(pool, cpu, self.site, child)
        self.ready = [*system, *running, *access]
        self.reachable = [*(system or running), *access]
        self.name, self.subnets = self.control_plane.name, self.network.private_subnets
        self.zones = self.network.zones
        self.vpc = self.control_plane.vpc_config.vpc_id
        self.kubeconfig = self._kubeconfig(args, provider)
        self.register_outputs({})

    def _declare_control_plane(
        self,
        name: str,
        args: EksClusterArgs,
        roles: ClusterRoles,
        secrets_key: pulumi.Input[str],
        addons: Sequence[Addon],
    ) -> aws.eks.Cluster:
        auto = SCALERS[args.scaler].serves_system
        # Created before the cluster: EKS would create it without retention, and leave it behind.
        logs = aws.cloudwatch.LogGroup(
            name,
            name=f"/aws/eks/{args.name}/cluster",
            retention_in_days=args.log_retention_days,
            tags=ownership.aws_tags(),
            opts=pulumi.ResourceOptions(parent=self),
        )
        return aws.eks.Cluster(
            name,
            name=args.name,
            version=args.version,
            role_arn=roles.cluster.arn,
            compute_config={
                "enabled": True,
                "node_pools": ["general-purpose", "system"],
                "node_role_arn": roles.nodes.arn,
            }
            if auto
            else None,
            storage_config={"block_storage": {"enabled": True}} if auto else None,
            vpc_config={
                "subnet_ids": list(self.network.private_subnets.values()),
                # Nodes reach the control plane from inside the VPC, whatever the public endpoint
                # admits.
                "endpoint_private_access": True,
                "endpoint_public_access": not args.private_endpoint,
                "public_access_cidrs": list(args.public_networks.values()) or None,
            },
            kubernetes_network_config={
                "ip_family": "ipv4",
                "service_ipv4_cidr": args.service_cidr,
                # EKS enables either all three parts of Auto Mode or none.
                **({"elastic_load_balancing": {"enabled": True}} if auto else {}),
            },
            access_config={
                "authentication_mode": "API",
                "bootstrap_cluster_creator_admin_permissions": False,
            },
            # The stack declares the addons below; EKS would install its own unmanaged ones.
            bootstrap_self_managed_addons=False,
            encryption_config={"provider": {"key_arn": secrets_key}, "resources": ["secrets"]},
            enabled_cluster_log_types=["api", "audit", "authenticator"],
            # Extended support costs six times as much; with this, EKS upgrades before it begins.
            upgrade_policy={"support_type": "STANDARD"},
            deletion_protection=args.deletion_protection,
            tags={**args.tags, **ownership.aws_tags()},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[logs, *roles.cluster.grants, *(roles.nodes.grants if auto else ())],
                # EKS's own protection would refuse only after the node groups have been deleted.
                protect=args.deletion_protection,
                # The name is taken until then, even if only the state requires a replacement.
                delete_before_replace=True,
                # EKS cannot move a control plane to other zones; nodes can be in all of the VPC's.
                ignore_changes=["vpcConfig.subnetIds"],
                hooks=cluster_check(
                    name,
                    [addon.name for addon in addons if addon.name not in args.addon_versions],
                    scaler=SCALERS[args.scaler],
                ),
            ),
        )

    def _secrets_key(self, name: str, args: EksClusterArgs) -> pulumi.Output[str]:
        child = pulumi.ResourceOptions(parent=self)
        key = aws.kms.Key(
            name,
            description=f"Kubernetes secrets of the EKS cluster {args.name}",
            enable_key_rotation=True,
            deletion_window_in_days=30 if args.deletion_protection else 7,
            tags=ownership.aws_tags(),
            opts=child,
        )
        aws.kms.Alias(name, name=f"alias/eks/{args.name}", target_key_id=key.key_id, opts=child)
        return key.arn

    def _access(self, name: str, args: EksClusterArgs, region: str) -> list[pulumi.Resource]:
        """Gives all admins and users access; returns the resources that give it to the admins."""
        options = pulumi.ResourceOptions(parent=self, deleted_with=self.control_plane)
        associations: list[pulumi.Resource] = []

        # With other scalers, system nodes start first, which takes longer than this delay.
        waits = SCALERS[args.scaler].serves_system
        effective = once_effective(f"{name}-admitted") if waits else None
        for key, arn in keyed(args.admins):
            account_and_path = principal_name(key, arn)
            entry = aws.eks.AccessEntry(
                f"{name}-{account_and_path}",
                cluster_name=self.control_plane.name,
                principal_arn=arn,
                opts=options,
            )
            associations.append(
                aws.eks.AccessPolicyAssociation(
                    f"{name}-{account_and_path}",
                    cluster_name=self.control_plane.name,
                    principal_arn=entry.principal_arn,
                    policy_arn=regions.access_policy(region, "AmazonEKSClusterAdminPolicy"),
                    access_scope={"type": "cluster"},
                    opts=pulumi.ResourceOptions.merge(
                        options, pulumi.ResourceOptions(hooks=effective)
                    ),
                )
            )
        declare_users(
            name, args.users, cluster_name=self.control_plane.name, region=region, opts=options
        )
        return associations

    def _private_access(self, name: str, args: EksClusterArgs) -> list[pulumi.Resource]:
        """Opens the private endpoint: by default, EKS's security group admits only its own members.

        https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
        """
        return [
            aws.vpc.SecurityGroupIngressRule(
                f"{name}-{network}",
                security_group_id=self.control_plane.vpc_config.cluster_security_group_id,
                description="Kubernetes API",
                cidr_ipv4=block,
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                opts=pulumi.ResourceOptions(parent=self, deleted_with=self.control_plane),
            )
            for network, block in args.private_networks.items()
        ]

    def _addons(
        self,
        name: str,
        args: EksClusterArgs,
        addons: Sequence[Addon],
        roles: Mapping[str, EksRole],
        *,
        depends_on: Sequence[pulumi.Resource] = (),
    ) -> list[pulumi.Resource]:
        """Declares these addons in parallel, each with its role and the grants that it needs."""
        created: list[pulumi.Resource] = []
        for addon in addons:
            role, grants = roles.get(addon.name), grants_of(addon, roles)
            identities: list[AddonPodIdentityAssociationArgsDict] = (
                [{"role_arn": role.arn, "service_account": addon.service_account or ""}]
                if role
                else []
            )
            configuration = dict(addon.configuration)
            if addon.disks:
                # Even without tags: the provider keeps a configuration that is no longer set.
                configuration["controller"] = {"extraVolumeTags": _tags_of_driver(args.tags)}
            created += [
                aws.eks.Addon(
                    f"{name}-{addon.name}",
                    cluster_name=self.control_plane.name,
                    addon_name=addon.name,
                    addon_version=args.addon_versions.get(addon.name),
                    configuration_values=json.dumps(configuration) if configuration else None,
                    pod_identity_associations=identities or None,
                    resolve_conflicts_on_create="OVERWRITE",
                    resolve_conflicts_on_update="OVERWRITE",
                    opts=pulumi.ResourceOptions(
                        parent=self,
                        depends_on=[*depends_on, *grants],
                        deleted_with=self.control_plane,
                    ),
                ),
                *grants,
            ]
        return created

    def _system_pool(self, name: str, args: EksClusterArgs) -> aws.eks.NodeGroup:
        pool = args.system_pool
        group = f"{name}-system"
        most = pool.max_nodes
        if SCALERS[args.scaler].in_cluster:
            # Nothing scales the group: for more nodes, Karpenter launches those of a NodePool.
            most = max(pool.min_nodes, pool.desired_nodes or 0)
        template = aws.ec2.LaunchTemplate(
            group,
            metadata_options=METADATA_OPTIONS,
            block_device_mappings=[
                volume("/dev/xvda", pool.disk_size_gb, key=args.disks_encryption_key)
            ],
            tag_specifications=tag_specifications(group, args.tags),
            opts=pulumi.ResourceOptions(parent=self),
        )
        return aws.eks.NodeGroup(
            group,
            cluster_name=self.control_plane.name,
            node_group_name_prefix="system-",
            version=args.version,
            node_role_arn=self.node_role.arn,
            subnet_ids=list(self.network.private_subnets.values()),
            ami_type=pool.ami_type,
            capacity_type="SPOT" if pool.spot else "ON_DEMAND",
            instance_types=list(pool.instance_types),
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            scaling_config=scaling_config(pool.min_nodes, most, pool.desired_nodes),
            update_config={"max_unavailable": 1},
            force_update_version=pool.force_update or None,
            node_repair_config={"enabled": True},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=self.before_nodes,
                # The autoscaler controls the number of nodes.
                ignore_changes=ignored(pool.desired_nodes),
                hooks=size_check(group, "cluster.systemPool"),
                custom_timeouts=pulumi.CustomTimeouts(
                    update=f"{update_minutes(pool.max_nodes, together=1)}m"
                ),
            ),
        )

    def _kubeconfig(self, args: EksClusterArgs, provider: AwsProviderArgs) -> pulumi.Output[str]:
        """The cluster's kubeconfig, without credentials."""
        return pulumi.Output.all(
            self.control_plane.endpoint, self.control_plane.certificate_authority.data
        ).apply(
            lambda known: kubeconfig(
                args.name, provider, endpoint=known[0], ca_certificate=known[1]
            )
        )


def _tags_of_driver(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags that the EBS CSI driver accepts: its controller exits if it is given one of its own
    tags, and reads them from a flag of the form key=value,key=value.

    kubernetes-sigs/aws-ebs-csi-driver pkg/driver/validation.go, pkg/cloud/cloud.go, 2026-11-23.
    """
    return {
        key: value
        for key, value in tags.items()
        if not key.startswith(_TAGS_OF_DRIVER) and not set(key) & set(",=") and "," not in value
    }
