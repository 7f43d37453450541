"""The settings of an EKS environment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from ipaddress import IPv4Network

from ..access.service_accounts import Access, BucketDriver, Disks
from ..catalog import eks as catalog
from ..catalog import eks_regions
from ..catalog.bad_releases import harm
from ..catalog.eks_addons import LEAST_ADDRESSES, SPARE_ADDRESSES
from ..cluster import Metrics, ResolvedPool, Runs, check_pool_names, nvlink_warnings, resolved
from ..scalers import SCALERS
from ..schema.decode import NAMESPACE, at, required
from ..schema.outputs import texts
from ..schema.refusal import Refusal, Refusals, collected, known_only, refuse
from .cluster_args import EksClusterArgs, check_partition
from .cpu_pool_args import EksCpuPoolArgs
from .existing_args import (
    AnyEksClusterArgs,
    EksExistingClusterArgs,
    check_policies,
    policy_warnings,
)
from .pool_args import EksGpuNodeGroupArgs
from .provider_args import AwsProviderArgs, provider_args
from .regions import is_region, meant_region
from .reservation import check_region, is_group, is_reserved

CLUSTER, POOL = EksClusterArgs, EksGpuNodeGroupArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class EksSettings:
    """An EKS cluster, created by the stack or existing, and its GPU node groups."""

    provider: AwsProviderArgs
    cluster: AnyEksClusterArgs
    pools: Mapping[str, ResolvedPool[EksGpuNodeGroupArgs]]

    def warnings(self, runs: Runs) -> list[str]:
        """The warnings of every preview."""
        models = {name: pool.args.gpu_model for name, pool in self.pools.items()}
        return [
            *(f"cluster.{line}" for line in self.cluster.warnings(date.today())),
            *(line for pool in self.pools.values() for line in pool.warnings),
            *policy_warnings(self.cluster),
            *self._addon_warnings(),
            *self._address_warnings(),
            *self._initialization_warnings(),
            *self._region_warnings(),
            *nvlink_warnings(models),
            *_training_warnings(self.pools, runs.training_nodes),
        ]

    def _addon_warnings(self) -> Iterator[str]:
        """A line for each pinned version of an addon that is known to do harm."""
        for addon, version in getattr(self.cluster, "addon_versions", {}).items():
            if bad := harm(addon, version):
                yield f"cluster.addonVersions.{addon}: {bad.line(version)}"

    def _region_warnings(self) -> Iterator[str]:
        """A line for each instance type that the region did not have; none for reserved machines,
        which `gpu-cluster capacity` looks up by their reservation."""
        for name, pool in self.pools.items():
            bought = pool.args.purchases
            if all(map(is_reserved, bought)) or not eks_regions.is_known(self.region):
                continue
            types = [kind for choice in pool.choices for kind in choice.args.instance_types]
            for kind in dict.fromkeys(types):
                places = eks_regions.regions_of(kind)
                if places and self.region not in places:
                    area = self.region.partition("-")[0]
                    near = [place for place in places if place.startswith(f"{area}-")]
                    groups = SCALERS[self.cluster.scaler].node_groups
                    then = "EKS refuses a pool of it" if groups else "no such node starts"
                    yield (
                        f"gpuPools.{name}.instanceTypes: on {eks_regions.READ}, EC2 had no {kind} "
                        f"in {self.region}, and {then}; gpu-cluster capacity asks "
                        f"EC2, which had it in {', '.join(near or places)}"
                    )

    def _address_warnings(self) -> Iterator[str]:
        """A line if the VPC that the stack creates has too few addresses for all nodes."""
        cluster = self.cluster
        if not isinstance(cluster, EksClusterArgs) or cluster.network.subnet_ids:
            return
        system = cluster.system_nodes
        shapes = [(system.instance_types, system.max_nodes)] if system else []
        shapes += [(pool.instance_types, pool.max_nodes) for pool in cluster.cpu_pools.values()]
        shapes += [
            (choice.args.instance_types, choice.args.max_nodes)
            for name, pool in self.pools.items()
            for choice in pool.choices[: len(pool.args.parts(name, cluster.scaler))]
        ]
        pods = LEAST_ADDRESSES + SPARE_ADDRESSES
        need = 0
        for names, nodes in shapes:
            rows = [row for name in names if (row := catalog.instance_type(name)) is not None]
            need += nodes * max((row.addresses(pods) for row in rows), default=pods)
        # Each zone's private subnet has an eighth, of which AWS reserves 5 addresses.
        subnet = IPv4Network(cluster.network.cidr).num_addresses // 8 - 5
        if (have := subnet * len(cluster.network.zones)) < need:
            yield (
                f"cluster.network.cidr: {cluster.network.cidr} has {have} addresses for nodes and "
                f"pods, and the pools reserve {need} at maxNodes; use a larger range now, because "
                "it cannot change later, or lower maxNodes"
            )

    def _initialization_warnings(self) -> Iterator[str]:
        """A line if all nodes together would have snapshots copied faster than EBS allows."""
        rates = {
            name: pool.args.max_nodes * pool.args.disk_initialization_rate
            for name, pool in self.pools.items()
            if pool.args.disk_initialization_rate
        }
        if (rate := sum(rates.values())) > catalog.INITIALIZATION:
            yield (
                f"gpuPools.{next(iter(rates))}.diskInitializationRate: all nodes of "
                f"{' and '.join(rates)} at once have {rate} MiB/s copied, and EBS refuses what is "
                f"above {catalog.INITIALIZATION} in a region, so that further nodes start later; "
                "use a lower rate, or ask AWS for a higher quota"
            )

    @property
    def region(self) -> str:
        """The AWS region."""
        return self.provider.region

    @property
    def metrics(self) -> Metrics:
        """The stack's own exporter, for a Prometheus that the user runs."""
        return Metrics(sources=("exporter",))

    @property
    def access(self) -> Access:
        """IAM policies, S3 buckets and EBS volumes."""
        return Access(
            rights="policies",
            buckets=_bucket_driver(self.region),
            disks=Disks(
                region=self.region,
                zones=tuple(self.cluster.network.zones),
                pool_key="subnetIds" if self.cluster.network.subnet_ids else "zones",
                shared="use a bucket, or install a driver such as aws-efs-csi-driver yourself "
                "and name its claim in existingClaim",
                other_class="create a claim of that class yourself and name it in existingClaim",
            ),
            editors=self._namespaces("edit"),
            viewers=self._namespaces("view"),
            groups=tuple(self.cluster.users) if isinstance(self.cluster, EksClusterArgs) else None,
            principals=True,
            region=self.region,
            check_arns=partial(check_partition, region=self.region),
        )

    def _namespaces(self, access: str) -> dict[str, Sequence[str]]:
        return {
            f"users.{group}.namespaces": user.namespaces
            for group, user in self.cluster.users.items()
            if user.access == access
        }


def _training_warnings(
    pools: Mapping[str, ResolvedPool[EksGpuNodeGroupArgs]], workers: Mapping[str, int]
) -> list[str]:
    """A warning for each pool whose training jobs use several nodes with an Elastic Fabric Adapter.

    `workers`: pool -> number of nodes of its largest training job.
    """
    lines = []
    for name, count in workers.items():
        args = pools[name].args
        instance_type = args.instance_type
        if count > 1 and instance_type.efa_interfaces and not args.efa:
            lines.append(
                f"gpuPools.{name}: a training job uses {count} nodes of {instance_type.name}, "
                "which talk over TCP through one network interface, a fraction of the machine's "
                f"bandwidth; set efa: true for its {instance_type.efa_interfaces} EFA "
                "interfaces, or use one node"
            )
    return lines


def _bucket_driver(region: str) -> BucketDriver:
    """Mountpoint for Amazon S3, each pod with its own permissions. `region`: that of the cluster
    and its buckets; the driver does not ask a node for it.

    https://github.com/awslabs/mountpoint-s3-csi-driver/blob/v2.3.0/docs/CONFIGURATION.md
    """
    return BucketDriver(
        driver="s3.csi.aws.com",
        inline=False,
        attributes={"authenticationSource": "pod", "stsRegion": region},
        mount_options=[f"region {region}", "allow-other"],
        # `allow-other` admits other users; the modes decide what they may do. Files belong to the
        # user that Mountpoint runs as, with modes 644 and 755 by default.
        write_options=["allow-delete", "allow-overwrite", "file-mode=666", "dir-mode=777"],
    )


def account(config: Mapping[str, str]) -> AwsProviderArgs:
    """The region and the identity, as `SettingsModule.account` says."""
    refusals, region = Refusals(), config.get("aws:region", "")
    refusals.run(lambda: _check_region(config), lambda: provider_args(config, region))
    refusals.check()
    return provider_args(config, region)


def _check_region(config: Mapping[str, str]) -> None:
    region = required(config, "aws:region", "the AWS region of the cluster")
    if not is_region(region):
        raise refuse("aws:region", region)("is not a region; give one such as us-east-1")
    if meant := meant_region(region):
        raise refuse("aws:region")(f"{region} is not a region", remedy=f"did you mean {meant!r}?")


def resolve(
    config: Mapping[str, str],
    cluster: AnyEksClusterArgs,
    pools: Mapping[str, EksGpuNodeGroupArgs],
    refusals: Refusals,
) -> EksSettings:
    """Resolves the settings, as `SettingsModule.resolve` says."""
    path, provider = f"{NAMESPACE}:cluster", known_only(AwsProviderArgs)
    with refusals:
        provider = account(config)
    refusals.run(
        lambda: at(path, cluster.check_in, provider.region),
        lambda: at(path, check_policies, cluster, provider.region),
        lambda: at(path, cluster.check_support, date.today()),
        lambda: check_node_pools(cluster, pools),
        lambda: check_pool_names(cluster.cpu_pools, pools),
        lambda: _check_reservations(pools),
    )
    for name, pool in pools.items():
        path = f"{NAMESPACE}:gpuPools.{name}"
        with refusals:
            at(path, check_region, pool.reservation, provider.region)
        with refusals:
            at(path, pool.check_located, provider.region)
    if isinstance(cluster, EksExistingClusterArgs):
        for name, pool in pools.items():
            refusals.run(partial(check_existing, f"{NAMESPACE}:gpuPools.{name}", pool, cluster))
        with refusals:
            for name, cpu_pool in cluster.cpu_pools.items():
                path = f"{NAMESPACE}:cluster.cpuPools.{name}"
                refusals.run(partial(check_existing, path, cpu_pool, cluster))
    return EksSettings(provider=provider, cluster=cluster, pools=resolved(pools, refusals, cluster))


@collected
def _check_reservations(pools: Mapping[str, EksGpuNodeGroupArgs]) -> Iterator[Refusal]:
    holders: dict[str, tuple[str, EksGpuNodeGroupArgs]] = {}
    for name, pool in pools.items():
        if not isinstance(pool.reservation, str) or is_group(pool.reservation):
            continue
        reserved = next(choice for choice in pool.choices if choice.reservation is not None)
        other, first = holders.setdefault(pool.reservation, (name, reserved))
        if list(first.instance_types) != list(reserved.instance_types):
            yield refuse((f"{NAMESPACE}:gpuPools", name, "reservation"))(
                f"{pool.reservation} reserves one instance type, and pool {other} uses it for "
                f"{first.instance_types[0]}; name another reservation"
            )


@collected
def check_node_pools(
    cluster: AnyEksClusterArgs, pools: Mapping[str, EksGpuNodeGroupArgs]
) -> Iterator[Refusal]:
    """Raises `Refusal` for a pool whose NodePool would have the name of another one."""
    row = SCALERS[cluster.scaler]
    if row.node_groups:
        return
    paths = {
        **{name: f"{NAMESPACE}:cluster.cpuPools.{name}" for name in cluster.cpu_pools},
        **{name: f"{NAMESPACE}:gpuPools.{name}" for name in pools},
    }
    for name, path in paths.items():
        if name in row.used_names:
            yield refuse(path)(f"is the name of {row.used_names[name]}; give the pool another name")
    least = {name: pool.min_nodes for name, pool in cluster.cpu_pools.items()}
    least |= {name: pool.min_nodes for name, pool in pools.items()}
    for name, nodes in least.items():
        if nodes and (other := paths.get(f"{name}-static")):
            yield refuse(other)(
                f"is the name of the NodePool for the minNodes of pool {name}",
                remedy="give the pool another name",
            )


@collected
def check_existing(
    path: str, pool: EksGpuNodeGroupArgs | EksCpuPoolArgs, cluster: EksExistingClusterArgs
) -> Iterator[Refusal]:
    """Raises `Refusal` for pool settings that need a cluster or Karpenter of the stack."""
    if cluster.karpenter_node_role is not None:
        for key, value, gate in (
            ("minNodes", pool.min_nodes, "StaticCapacity"),
            ("sharing", getattr(pool, "sharing", None), "NodeOverlay"),
            ("devicePlugin", getattr(pool, "device_plugin", None) == "dra", "DRANVIDIAGPU"),
        ):
            if value:
                yield refuse((path, key))(
                    f"needs Karpenter's feature gate {gate}, which its owner must enable",
                    remedy="drop the key, or set cluster.karpenter to {} to install one here",
                )
    if isinstance(pool, EksCpuPoolArgs):
        return
    if pool.ami_id is not None and SCALERS[cluster.scaler].node_groups:
        yield refuse((path, "amiId"))(
            "is supported only on clusters that the stack creates; drop the key"
        )
    if pool.security_group_ids and not cluster.network.security_group_ids:
        yield refuse((path, "securityGroupIds"))(
            "replaces the security group that EKS created with the cluster; name that one, or "
            "the one of the other nodes, in cluster.network.securityGroupIds"
        )
    shared = cluster.network.security_group_ids
    for group in texts(pool.security_group_ids):
        if group in shared:
            yield refuse((path, "securityGroupIds"))(
                f"{group} is also in cluster.network.securityGroupIds, whose groups every pool has",
                remedy="drop it here",
            )
    if (number := len(shared) + len(pool.security_group_ids)) > catalog.MAX_SECURITY_GROUPS:
        yield refuse((path, "securityGroupIds"))(
            f"the {len(pool.security_group_ids)} groups and the {len(shared)} of "
            f"cluster.network.securityGroupIds are {number}, and a network interface has at most "
            f"{catalog.MAX_SECURITY_GROUPS}; drop some"
        )
