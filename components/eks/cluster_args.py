"""The settings of an EKS cluster."""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Interval, MaxLen, MinLen

from ..access.addresses import SET_PRIVATE, AuthorizedNetworks, cidr, example_warnings
from ..access.service_accounts import KMS_ARN, KMS_KEY, POLICY
from ..catalog import eks as catalog
from ..catalog import images
from ..catalog.eks_addons import ADDONS
from ..catalog.kubernetes import minor_of
from ..scalers import SCALERS, default_scaler
from ..schema.decode import at
from ..schema.effect import Sent
from ..schema.limits import DNS_LABEL, UNIQUE, Example, Hint, Limit, matching, one_of
from ..schema.on_change import NEVER, OnChange, kept
from ..schema.outputs import MaybeOutput, Named, keyed
from ..schema.refusal import Keys, Range, Refusal, Refusals, collected, raised, refuse, written
from ..schema.rules import Checked, Order, is_given, never, rule
from . import regions
from .autoscaler_args import EksAutoscalerArgs
from .cpu_pool_args import CPU_INSTANCE_TYPE, CpuPools, check_pools, replaced
from .immutable import another_scaler
from .karpenter_args import EksKarpenterArgs, Scaler, check_tags
from .network_args import EksNetworkArgs, is_reserved
from .user_args import EksUserArgs, Principal, check_principals, principals

_EXAMPLE_ACCOUNTS = ("123456789012", "111122223333", "444455556666")
"""Account IDs of AWS's documentation, which are not real."""
# https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html
TAG_KEY, TAG_VALUE = (
    matching(f"a tag's {part}, which does not begin with aws:", re.compile(words), longest=longest)
    for part, words, longest in (
        ("key", "(?![aA][wW][sS]:).+", 128),
        ("value", "(?![aA][wW][sS]:).*", 256),
    )
)
_ADDON = one_of(*(addon.name for addon in ADDONS), what="an addon of this stack")
_ADDON_VERSION = matching(
    "an addon's version such as v1.20.4-eksbuild.1",
    re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+-eksbuild\.[0-9]+"),
)
NAME = matching(
    f"an EKS cluster name; allowed: at most {catalog.CLUSTER_NAME_MAX} letters, digits, '-' and "
    "'_', a letter or digit first",
    catalog.CLUSTER_NAME,
    longest=catalog.CLUSTER_NAME_MAX,
)
_VERSION = one_of(*catalog.KUBERNETES_VERSIONS, what="a Kubernetes minor that EKS has")
# EKS may have a newer minor than the catalog; `version_warnings` says so.
VERSION = Limit(
    lambda value: None if _is_new(value) else _VERSION.refusal(value), _VERSION.fragment
)
RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922,
    3288, 3653,
)  # fmt: skip
_RETENTION = one_of(*RETENTION_DAYS, what="one of CloudWatch's")
_ADMINS = Hint(
    "without one nobody can use the cluster, not even its creator; give the ARN of the IAM role "
    "that runs Pulumi, and of everyone else who administers it"
)


NodePolicies = Annotated[
    Named[Annotated[MaybeOutput, POLICY]], UNIQUE, Sent("RolePolicyAttachment policyArn")
]

# https://docs.aws.amazon.com/eks/latest/userguide/auto-security.html
SSM = Annotated[
    bool,
    never(scaler="auto-mode")(
        "is not possible with scaler auto-mode, whose nodes Systems Manager cannot access; drop "
        "it, and use kubectl debug node/NODE instead"
    ),
    Sent("RolePolicyAttachment policyArn"),
]

# New rows of the catalog do not raise it: a stack without `version` would upgrade its cluster at
# its next update, to a version that EKS may not offer in every region yet. It is raised by hand,
# together with the control plane of rehearsals.
DEFAULT_VERSION = "1.35"
"""The Kubernetes minor of a stack without `version`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EksSystemPoolArgs(Checked):
    """The CPU nodes where system pods run; GPU nodes refuse pods that do not ask for a GPU."""

    instance_types: Annotated[
        Sequence[Annotated[str, CPU_INSTANCE_TYPE]],
        MinLen(1),
        Hint("give one such as m7i.large"),
        OnChange("system pool"),
        Sent("NodeGroup instanceTypes"),
    ] = ("m7i.large",)
    """The instance types of the system nodes."""
    min_nodes: Annotated[int, Ge(1), Sent("NodeGroup scalingConfig.minSize")] = 1
    """The minimum number of nodes, at least 1: without one, none of the cluster's own pods run."""
    max_nodes: Annotated[
        int, Interval(ge=1, le=catalog.MAX_POOL_NODES), Sent("NodeGroup scalingConfig.maxSize")
    ] = 3
    """The largest number of nodes."""
    desired_nodes: Annotated[
        int | None, Sent("NodeGroup scalingConfig.desiredSize", "NodeGroup (ignore_changes)")
    ] = None
    """The number of nodes, for one update only, as on a GPU pool."""
    disk_size_gb: Annotated[
        int,
        Interval(ge=catalog.DEFAULT_DISK_GIB, le=catalog.MAX_DISK_GIB),
        Sent("LaunchTemplate blockDeviceMappings[].ebs.volumeSize"),
    ] = 50
    """The size of a node's volume."""
    spot: Annotated[bool, OnChange("system pool"), Sent("NodeGroup capacityType")] = False
    """Whether the system nodes are Spot instances."""
    force_update: Annotated[bool, Sent("NodeGroup forceUpdateVersion")] = False
    """Whether an update evicts pods that a disruption budget protects; otherwise it fails after 15
    minutes. With a single system node, any budget of `minAvailable: 1` protects its pod."""

    ORDERS: ClassVar = (Order("min_nodes", "max_nodes", of_most=True),)

    @rule
    def _check_arch(self) -> None:
        if len({catalog.arch_of(name) for name in self.instance_types}) > 1:
            raise refuse("instanceTypes")(
                f"{', '.join(self.instance_types)} have different architectures, and an image "
                "supports only one; list types of one architecture"
            )

    @rule
    def _check_desired(self) -> None:
        check_desired(self.desired_nodes, self.min_nodes, self.max_nodes)

    @property
    def ami_type(self) -> str:
        """Amazon Linux 2023 without a GPU driver, for the instance types' architecture."""
        return catalog.ami_type("al2023", catalog.arch_of(self.instance_types[0]), gpu=False)


def check_desired(desired: int | None, least: int, most: int) -> None:
    """Raises `Refusal` if a node group of `least` to `most` nodes cannot have `desired`."""
    if desired is not None and not least <= desired <= most:
        raise refuse("desiredNodes")(
            f"{desired} is outside minNodes {least} to maxNodes {most}",
            remedy="choose another, or drop the key to leave it to the autoscaler",
        )


def update_minutes(most: int, *, together: int) -> int:
    """Timeout of an update of a group of at most `most` nodes, `together` of them at a time: the
    provider's default of an hour, and 15 minutes for the pods of each batch."""
    return 60 + 15 * -(-most // together)


@dataclass(frozen=True, slots=True, kw_only=True)
class EksClusterArgs(Checked):
    """An EKS cluster."""

    name: Annotated[str, NAME, OnChange("cluster"), Sent("Cluster name")]
    """The physical name. It is fixed, so that a lost state can be recovered by import."""
    network: Annotated[EksNetworkArgs, Example("{zones: [us-east-1a, us-east-1b]}")]
    """The VPC that the stack creates, or the subnets of an existing one."""
    admins: Annotated[
        Named[Principal],
        MinLen(1),
        _ADMINS,
        UNIQUE,
        Sent("AccessEntry principalArn"),
        Example('["arn:aws:iam::123456789012:role/deployer"]'),
    ]
    """ARNs of the IAM roles and users that administer the cluster. The identity that runs Pulumi
    must be listed: the cluster's creator has no access by default. Outputs in a map, by a name of
    yours."""
    users: Mapping[Annotated[str, DNS_LABEL], EksUserArgs] = field(default_factory=dict)
    """Users of the cluster without administration rights: Kubernetes group -> its members."""
    authorized_networks: Annotated[
        AuthorizedNetworks,
        Sent("Cluster vpcConfig.publicAccessCidrs[]", "SecurityGroupIngressRule cidrIpv4"),
    ] = field(default_factory=dict)
    """The networks that may reach the control plane: display name -> IPv4 CIDR. Public addresses
    reach the public endpoint; private ones, of a VPN or the VPC itself, the private endpoint."""
    private_endpoint: Annotated[bool, Sent("Cluster vpcConfig.endpointPublicAccess")] = False
    """Whether the control plane has no public endpoint: only nodes and the authorized networks that
    are routed into the VPC reach it. Pulumi must run in one of these."""
    # https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html
    version: Annotated[
        str, VERSION, Sent("Cluster version", "NodeGroup version", "PodSpec containers[].image")
    ] = DEFAULT_VERSION
    """The Kubernetes minor version of the control plane and the nodes; it can only be raised, by
    one minor at a time. EKS can roll a cluster back within seven days; an update that would do so
    is refused."""
    service_cidr: Annotated[
        str,
        cidr(12, 24, private=True),
        OnChange("cluster"),
        Sent("Cluster kubernetesNetworkConfig.serviceIpv4Cidr"),
    ] = "172.20.0.0/16"
    """The IP range of Kubernetes services; it can never be changed."""
    system_pool: EksSystemPoolArgs = field(default_factory=EksSystemPoolArgs)
    """The nodes without GPUs on which the cluster's own pods run."""
    cpu_pools: Annotated[CpuPools, OnChange(replaced)] = field(default_factory=dict)
    """Additional pools without GPUs, by name: for data loading, Ray heads or gateways. Your own
    pods select one by the label `gpu-cluster/pool`; those of the stack run in GPU pools."""
    node_policies: NodePolicies = ()
    """ARNs of additional IAM policies for all nodes, for what the machine itself does: pods get
    theirs through `serviceAccounts`. Outputs in a map, by a name of yours."""
    ssm: SSM = False
    """Whether AWS Systems Manager can access the nodes (`AmazonSSMManagedInstanceCore`): a shell on
    a node without a key or an open port, for every identity that IAM allows to start a session.
    The policy also lets a node read every parameter of the account's Parameter Store."""
    metrics_server: Annotated[bool, Sent("Addon")] = False
    """Whether the addon `metrics-server` is installed, which `kubectl top` and a
    HorizontalPodAutoscaler on CPU need."""
    scaler: Annotated[Scaler, OnChange(another_scaler), Sent("NodeGroup", "NodePool")] = (
        "cluster-autoscaler"
    )
    """What starts and removes the nodes of GPU pools: `cluster-autoscaler` in node groups;
    `karpenter` with NodePools, for which it uses whatever type, zone and capacity EC2 has; or
    `auto-mode`, Karpenter as a service of EKS. The reference lists the pool settings of each."""
    karpenter: EksKarpenterArgs = field(default_factory=EksKarpenterArgs)
    """Karpenter's options, with scaler `karpenter`."""
    autoscaler: Annotated[EksAutoscalerArgs, Sent("PodSpec containers[].args[]")] = field(
        default_factory=EksAutoscalerArgs
    )
    """The options of Cluster Autoscaler, which scales every pool."""
    # The provider keeps a value that is no longer set: the field is optional and computed.
    addon_versions: Annotated[
        Mapping[Annotated[str, _ADDON], Annotated[str, _ADDON_VERSION]],
        OnChange(kept("name the addon's version to change to")),
        Sent("Addon addonVersion"),
    ] = field(default_factory=dict)
    """Addon versions, such as `v1.20.4-eksbuild.1`, by addon name; by default, EKS's default
    version when the addon is created. It does not change automatically with a new `version`."""
    # EKS accepts a key only once. The provider silently ignores another one, and the stack would
    # delete its own, without which no secret can be read.
    secrets_encryption_key: Annotated[
        Annotated[MaybeOutput, KMS_ARN] | None,
        OnChange(NEVER),
        Sent("Cluster encryptionConfig.provider.keyArn", "Key"),
    ] = None
    """The ARN of a KMS key that encrypts Kubernetes secrets; by default, the stack creates one."""
    disks_encryption_key: Annotated[
        Annotated[MaybeOutput, KMS_ARN] | None,
        Sent(
            "LaunchTemplate blockDeviceMappings[].ebs.kmsKeyId", "StorageClass parameters.kmsKeyId"
        ),
    ] = None
    """The ARN of a KMS key that encrypts the disks of nodes and of claims; by default, the
    account's default for EBS. The key's policy must allow `AWSServiceRoleForAutoScaling` to use it,
    except with scaler `auto-mode`; with `auto-mode` and `karpenter`, it must delegate access to the
    account's IAM policies. A change recycles all nodes; disks of existing claims keep their key."""
    log_retention_days: Annotated[int, _RETENTION, Sent("LogGroup retentionInDays")] = 90
    """How many days CloudWatch keeps the control plane's logs."""
    deletion_protection: Annotated[
        bool, Sent("Cluster deletionProtection", "Cluster (protect)")
    ] = True
    """Whether EKS and Pulumi refuse to delete or replace the cluster."""
    tags: Annotated[
        Mapping[Annotated[str, TAG_KEY], Annotated[str, TAG_VALUE]],
        MaxLen(catalog.MAX_TAGS),
        Sent(
            "Cluster tags", "LaunchTemplate tagSpecifications[].tags", "Addon configurationValues"
        ),
    ] = field(default_factory=dict)
    """Tags of the cluster and of every instance and volume, for billing. A change recycles all
    nodes. Disks that the EBS CSI driver creates for other claims do not get tags that it refuses:
    with a key that begins with `kubernetes.io`, `CSIVolumeName`, `CSIVolumeSnapshotName` or
    `ebs.csi.aws.com/cluster` or contains `,` or `=`, or with a value that contains `,`."""

    @staticmethod
    def check_given(given: Mapping[str, Any]) -> None:
        """Raises `Refusal` for options of a scaler that is not used, even if they are empty."""
        options = {key: key in given for key in ("autoscaler", "karpenter")}
        check_options(given.get("scaler", default_scaler(EksClusterArgs)), **options)

    @rule
    def _check_parts(self) -> Iterator[Refusal]:
        given = {key: is_given(self, key) for key in ("autoscaler", "karpenter")}
        yield from raised(lambda: check_options(self.scaler, **given))
        yield from raised(lambda: check_tags(self.tags, self.scaler))
        yield from raised(lambda: check_principals(self.users, self.admins))
        check_pools(self.cpu_pools, self.network.places, self.scaler, self.tags)

    @rule
    def _check_mountpoint(self) -> None:
        mountpoint = self.addon_versions.get("aws-mountpoint-s3-csi-driver", "v2.5")
        if minor_of(mountpoint.removeprefix("v")) < (2, 5):
            raise refuse(("addonVersions", "aws-mountpoint-s3-csi-driver"))(
                f"{mountpoint} is too old; allowed: v2.5.0 or later, since the pods of earlier "
                "ones keep Cluster Autoscaler from removing a node"
            )

    @rule
    def _check_replicas(self) -> None:
        if (self.karpenter.replicas or 0) > self.system_pool.min_nodes:
            raise refuse(("karpenter", "replicas"), self.karpenter.replicas)(
                "controllers need one node each in the system pool, and systemPool.minNodes is "
                f"{self.system_pool.min_nodes}; lower replicas, or raise systemPool.minNodes"
            )

    def possible(self, key: str) -> Range | Sequence[str] | None:
        if key == "version":
            return supported(date.today(), self._own_autoscaler)
        return Range(None, self.system_pool.min_nodes) if key == "karpenter.replicas" else None

    @rule
    def _check_access(self) -> Iterator[Refusal]:
        if not self.authorized_networks and not self.private_endpoint:
            yield refuse("authorizedNetworks")(
                "is empty, so nobody outside the VPC could reach the control plane",
                remedy=f"name the networks that may, or {SET_PRIVATE}",
            )
        seen: dict[str, str] = {}
        for name, text in self.authorized_networks.items():
            if (other := seen.setdefault(text, name)) != name:
                reason = f"is a duplicate of {other}; remove one of the two"
                yield refuse(("authorizedNetworks", name), text)(reason)
        most = catalog.MAX_PUBLIC_NETWORKS
        if (public := len(self.public_networks)) > most:
            yield refuse("authorizedNetworks")(
                f"has {public} public networks, and EKS accepts {most}, which AWS does not raise",
                remedy="combine some, or drop some",
            )
        if self.authorized_networks and not self.public_networks and not self.private_endpoint:
            yield refuse("authorizedNetworks")(
                "has only private networks, so that the public endpoint would be open to the world",
                remedy=f"{SET_PRIVATE}, or name a public network too",
            )

    @property
    def public_networks(self) -> dict[str, str]:
        """The authorized networks for the public endpoint, which accepts no others."""
        private = self.private_networks
        return {k: v for k, v in self.authorized_networks.items() if k not in private}

    @property
    def private_networks(self) -> dict[str, str]:
        """The authorized networks for the private endpoint."""
        return {
            name: text
            for name, text in self.authorized_networks.items()
            if self.private_endpoint or is_reserved(ipaddress.IPv4Network(text))
        }

    @property
    def system_nodes(self) -> EksSystemPoolArgs | None:
        """The system pool; None with Auto Mode, which starts nodes for system pods itself."""
        return None if SCALERS[self.scaler].serves_system else self.system_pool

    @rule
    def _check_auto_mode(self) -> Iterator[Refusal]:
        if not SCALERS[self.scaler].serves_system:
            return
        if self.system_pool != EksSystemPoolArgs():
            yield refuse("systemPool")(
                "is a node group, and Auto Mode starts nodes for system pods itself; drop the key"
            )
        for addon in ADDONS:
            if addon.auto_mode and addon.name in self.addon_versions:
                yield refuse(("addonVersions", addon.name))(
                    "is part of Auto Mode, in the version that EKS chooses; drop it"
                )

    @rule
    def _check_service_cidr(self) -> None:
        services = ipaddress.IPv4Network(self.service_cidr)
        if not self.network.subnet_ids and services.overlaps(
            ipaddress.IPv4Network(self.network.cidr)
        ):
            raise refuse("serviceCidr", self.service_cidr)(
                f"overlaps network.cidr {self.network.cidr}; choose another"
            )

    def warnings(self, today: date) -> list[str]:
        """Warnings about settings that may not work for long, each starting with its key."""
        lines = version_warnings(self.version, today)
        if self.private_endpoint and not self.authorized_networks:
            lines.append(
                "privateEndpoint: only what has the cluster's own security group reaches the "
                "control plane; name the network where Pulumi runs in authorizedNetworks"
            )
        lines += [
            f"authorizedNetworks.{name}: {text} is public, and with privateEndpoint only what is "
            "routed into the VPC reaches the control plane; give the private network, or drop it"
            for name, text in self.authorized_networks.items()
            if self.private_endpoint and not is_reserved(ipaddress.IPv4Network(text))
        ]
        lines += [
            f"{written(('admins', key))}: {arn} is in an example account of AWS's documentation, "
            "which EKS refuses once the cluster exists; give the ARN of the identity that runs "
            "Pulumi"
            for key, arn in keyed(self.admins)
            if isinstance(arn, str) and arn.split(":")[4] in _EXAMPLE_ACCOUNTS
        ]
        then = "EKS refuses it when it creates the cluster"
        return lines + example_warnings(self.public_networks, then)

    def check_support(self, today: date) -> None:
        """Raises `Refusal` if EKS no longer supports the version."""
        check_support(self.version, today, self._own_autoscaler)

    @property
    def _own_autoscaler(self) -> EksAutoscalerArgs | None:
        return self.autoscaler if SCALERS[self.scaler].node_groups else None

    def check_in(self, region: str) -> None:
        """Raises `Refusal` if the cluster's settings do not match `region`."""
        refusals = Refusals()
        refusals.run(
            lambda: at("network", self.network.check_in, region),
            lambda: check_keys({"secretsEncryptionKey": self.secrets_encryption_key}, region),
            lambda: check_keys({"disksEncryptionKey": self.disks_encryption_key}, region),
            lambda: check_partition(
                [(("admins", key), arn) for key, arn in keyed(self.admins)], region
            ),
            lambda: check_partition(principals(self.users), region),
        )
        refusals.check()


@collected
def check_options(scaler: Scaler, **given: bool) -> Iterator[Refusal]:
    """Raises `Refusal` for options of a scaler that the cluster does not use."""
    for name, row in SCALERS.items():
        if given.get(row.options) and name != scaler:
            reason = f"has options of {row.title}, and scaler is {scaler}"
            yield refuse(row.options)(reason, remedy=f"drop it, or set scaler: {name}")


def version_warnings(version: str, today: date) -> list[str]:
    """A warning if standard support of the version has ended, or ends within `NOTICE`."""
    if _is_new(version):
        return [
            f"version: it is not known whether EKS has Kubernetes {version}; ask aws eks "
            "describe-cluster-versions --region REGION"
        ]
    until = catalog.KUBERNETES_VERSIONS[version].standard_until
    if until is None or today + catalog.NOTICE < until:
        return []
    following = f"1.{minor_of(version)[1] + 1}"
    if today < until:
        return [
            f"version: standard support of Kubernetes {version} ends on {until}, and EKS then "
            f"upgrades the cluster automatically; set {following}"
        ]
    return [
        f"version: standard support of Kubernetes {version} ended on {until}: with the upgrade "
        "policy STANDARD of this stack, EKS may refuse a new cluster, and upgrades an existing one "
        f"automatically; set {max(DEFAULT_VERSION, following, key=minor_of)} for a new cluster, or "
        f"{following} for an existing one, since it is upgraded by one minor at a time"
    ]


def _is_new(version: str) -> bool:
    """Whether it is a minor after the catalog's last."""
    newest = max(map(minor_of, catalog.KUBERNETES_VERSIONS))
    return bool(re.fullmatch(r"1\.[0-9]{2}", version)) and minor_of(version) > newest


def check_support(version: str, today: date, autoscaler: EksAutoscalerArgs | None) -> None:
    """Raises `Refusal` if EKS no longer supports the version, in which it creates no cluster, or
    if the stack runs Cluster Autoscaler with these options and no image for the version is known.

    https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html
    """
    if not _has_image(version, autoscaler):
        raise refuse("version")(
            f"no image of Cluster Autoscaler for Kubernetes {version} is known; name one in "
            "autoscaler.image, or choose another version"
        )
    if catalog.support(version, today) == "ended":
        ended = catalog.KUBERNETES_VERSIONS[version].extended_until
        raise refuse("version", version)(
            f"is a Kubernetes minor that EKS ended on {ended}", allowed=supported(today, autoscaler)
        )


def supported(today: date, autoscaler: EksAutoscalerArgs | None) -> list[str]:
    """The minors that EKS and the stack's own Cluster Autoscaler, if it runs one, both have."""
    return [
        minor
        for minor in catalog.KUBERNETES_VERSIONS
        if catalog.support(minor, today) != "ended" and _has_image(minor, autoscaler)
    ]


def _has_image(minor: str, autoscaler: EksAutoscalerArgs | None) -> bool:
    own = autoscaler is None or autoscaler.image is not None
    return own or images.cluster_autoscaler(minor) is not None


@collected
def check_partition(arns: Iterable[tuple[Keys, MaybeOutput]], region: str) -> Iterator[Refusal]:
    """Raises `Refusal` for an ARN, given with its key, of another partition than the region's."""
    partition = regions.partition(region)
    for path, arn in arns:
        if isinstance(arn, str) and not arn.startswith(f"arn:{partition}:"):
            yield refuse(path, arn)(
                f"is not in the partition of {region}; it must begin with arn:{partition}:"
            )


@collected
def check_keys(keys: Mapping[str, MaybeOutput | None], region: str) -> Iterator[Refusal]:
    """Raises `Refusal` if a KMS key is in another region; `keys`: setting -> its ARN."""
    for name, arn in keys.items():
        key = KMS_KEY.fullmatch(arn) if isinstance(arn, str) else None
        if key and key["region"] != region:
            yield refuse(name, arn)(f"is not in {region}; EKS needs a key in the cluster's region")
