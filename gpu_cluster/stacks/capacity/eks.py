"""The usage of EC2's vCPU quotas by the node groups of an EKS cluster, and the answers.

Limits come from Service Quotas. Usage is counted from the running instances, like EC2 does: the
default vCPUs of each instance type, by family and market, and from the VPCs and Elastic IPs if the
stack creates a VPC. Other problems of the first update are
checked by `aws_account` and `aws_network`.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import botocore.exceptions

from gpu_cluster.components.access.service_accounts import ServiceAccountArgs
from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.cluster import ResolvedPool
from gpu_cluster.components.eks.cluster_args import EksClusterArgs, EksSystemPoolArgs
from gpu_cluster.components.eks.cpu_pool_args import EksCpuPoolArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.provider_args import AwsProviderArgs
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.lifecycle.ownership import AWS_TAG
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.schema.outputs import texts
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.aws_session import session
from gpu_cluster.stacks.capacity import (
    advice,
    aws_account,
    aws_advice,
    aws_existing,
    aws_network,
    aws_reservations,
    choices,
    eks_addons,
)
from gpu_cluster.stacks.capacity.aws_account import CLUSTER_TAGS, unknown
from gpu_cluster.stacks.capacity.offers import Offer, Wanted
from gpu_cluster.stacks.capacity.questions import Questions
from gpu_cluster.stacks.capacity.reserved import Reserved
from gpu_cluster.stacks.capacity.reserved import Wanted as Reservation
from gpu_cluster.stacks.capacity.verdict import Finding, Known, Need, Unit, Unknown

KEYS = ("aws:region", "aws:profile", "aws:assumeRoles")
_ECR = re.compile(r"(?P<id>[0-9]{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.")
_SERVICES = ("service-quotas", "ec2", "sts", "resource-groups", "kms", "s3", "eks", "iam")
_COUNTED = ("pending", "running", "shutting-down", "stopping")


def questions(settings: Settings[EksSettings], endpoint: str | None) -> Questions:
    """Implements `stacks.capacity.questions.Capacity`."""
    own = settings.own
    system = own.cluster.system_nodes
    others: dict[str, EksSystemPoolArgs | EksCpuPoolArgs] = {**own.cluster.cpu_pools}
    if system is not None:
        others["system"] = system
    quota_needs, notes = needs(own.pools, others, region=own.region)
    quota_needs += network_needs(own)
    places = "subnetIds" if own.cluster.network.subnet_ids else "zones"
    quotas = AwsQuotas.of(own.provider, endpoint)
    registry = _ECR.match(settings.images.registry or "")
    if registry and not _own(registry["id"], own):
        notes.append(
            f"images.registry: it is in account {registry['id']}, whose repositories must allow "
            "the nodes' account to pull; each needs a policy with ecr:BatchGetImage and "
            f"ecr:GetDownloadUrlForLayer: aws ecr set-repository-policy --region "
            f"{registry['region']} --registry-id {registry['id']} --repository-name NAME "
            "--policy-text file://POLICY.json"
        )
    reserved = aws_reservations.wanted(own.pools, places)
    order = choices.lines(
        own.pools,
        reserved,
        cloud=quotas,
        cluster=own.cluster.name,
        need=partial(one_node, region=own.region),
    )
    if not (scaler := SCALERS[own.cluster.scaler]).node_groups:
        notes += aws_reservations.unused(quotas.ec2, own.pools, scaler)
    addons, newer = eks_addons.addon_findings(quotas.eks, own, simulated=endpoint is not None)
    return Questions(
        cloud=quotas,
        needs=quota_needs,
        wanted=aws_account.wanted(own),
        reservations=reserved,
        machines=[
            advice.Wanted(
                pool=name,
                way="spot",
                types=tuple(choice.args.instance_types),
                zones=tuple(choice.places),
                nodes=pool.pool.bounds[1],
            )
            for name, pool in own.pools.items()
            for choice in pool.choices
            if choice.args.capacity_type == "spot"
        ],
        notes=[
            *notes,
            *order,
            *newer,
            *advice.silent({name: pool.args.purchases for name, pool in own.pools.items()}),
        ],
        findings=[*quotas.findings(own, settings.auxiliary.accounts, settings.mounted), *addons],
        existing=lambda owner: aws_existing.cluster_findings(
            quotas.eks, quotas.ec2, settings, owner, simulated=endpoint is not None
        ),
        kubeconfig=lambda: aws_existing.kubeconfig_of(quotas.eks, own),
        reads_aws_auth=lambda: aws_existing.reads_aws_auth(quotas.eks, own.cluster.name),
    )


def _own(account: str, settings: EksSettings) -> bool:
    """Whether it is the cluster's account: that of an administrator, or of the provider's role."""
    arns = [*texts(settings.cluster.admins), settings.provider.role or ""]
    return any(f":{account}:" in arn for arn in arns)


def needs(
    pools: Mapping[str, ResolvedPool[EksGpuNodeGroupArgs]],
    others: Mapping[str, EksSystemPoolArgs | EksCpuPoolArgs] = MappingProxyType({}),
    *,
    region: str,
) -> tuple[list[Need], list[str]]:
    """One need per quota code, in vCPUs, and notes about what is not counted. `others`: pools
    without GPUs."""
    quotas: dict[str, dict[str, int]] = {}
    notes = []
    for name, other in others.items():
        for kind in other.instance_types:
            _count(quotas, name, kind, nodes=other.max_nodes, spot=other.spot)
    for name, resolved in pools.items():
        pool = resolved.args
        if "capacity-block" in pool.purchases:
            notes.append(
                f"pool {name}: not counted, because Capacity Blocks have a separate quota that "
                "this check does not read"
            )
        elif pool.reservation is not None and not pool.fallback:
            # ec2/latest/devguide/errors-overview.html, InstanceLimitExceeded.
            notes.append(
                f"pool {name}: not counted, because its nodes use {pool.reservation}, which "
                "counted when it was created"
            )
        # The quota counts running instances (EC2 user guide, ri-limits.html), and a warm one runs
        # while it boots, even if it stops afterwards (autoscaling/ec2/userguide/
        # warm-pool-instance-lifecycle.html, both 2026-11-24). More than minSize wait only while
        # the pool has fewer nodes.
        warm = pool.warm_pool.min_size if pool.warm_pool else 0
        # Each choice of an order of fallback may have to provide all nodes.
        for choice in resolved.choices:
            bought = choice.args.capacity_type
            for kind in choice.args.instance_types if bought in ("spot", "on-demand") else ():
                _count(
                    quotas, name, kind, nodes=resolved.pool.bounds[1] + warm, spot=bought == "spot"
                )
    return [_need(quota, "vCPUs", counted, region) for quota, counted in quotas.items()], notes


def network_needs(settings: EksSettings) -> list[Need]:
    """What a VPC of the stack's own counts against: itself, and the address of each NAT gateway."""
    cluster, region = settings.cluster, settings.region
    if not isinstance(cluster, EksClusterArgs) or cluster.network.subnet_ids:
        return []
    addresses = [f"{cluster.name}-{zone}" for zone in cluster.network.exits]
    return [
        _need(catalog.VPC_QUOTA, "VPCs", {cluster.name: 1}, region),
        _need(catalog.ADDRESS_QUOTA, "addresses", dict.fromkeys(addresses, 1), region),
    ]


def one_node(pool: ResolvedPool[EksGpuNodeGroupArgs], way: str, *, region: str) -> Need:
    """How much of a quota a node of the pool uses if it is bought in this way."""
    quotas: dict[str, dict[str, int]] = {}
    for kind in pool.args.instance_types:
        _count(quotas, pool.pool.name, kind, nodes=1, spot=way == "spot")
    quota, counted = next(iter(quotas.items()))
    return _need(quota, "vCPUs", counted, region)


def _count(
    quotas: dict[str, dict[str, int]], name: str, kind: str, *, nodes: int, spot: bool
) -> None:
    quota, row = quota_of(kind, spot=spot), catalog.instance_type(kind)
    assert quota is not None and row is not None  # noqa: PT018  the pool has checked it
    counted = quotas.setdefault(quota, {})
    # If there are several instance types, EC2 may always use the largest.
    counted[name] = max(counted.get(name, 0), row.vcpu * nodes)


def _need(quota: str, unit: Unit, pools: Mapping[str, int], region: str) -> Need:
    code = quota.split(maxsplit=1)[0]
    code_path = f"/{code}" if code.startswith("L-") else ""
    home = "https://console.aws.amazon.com/servicequotas/home/services"
    link = f"{home}/{_service_of(quota)}/quotas{code_path}?region={region}"
    return Need(quota=quota, scope=region, unit=unit, pools=pools, link=link)


def _service_of(quota: str) -> str:
    return "vpc" if quota == catalog.VPC_QUOTA else catalog.QUOTA_SERVICE


class AwsQuotas:
    """Answers from Service Quotas and EC2; read-only."""

    def __init__(self, clients: Mapping[str, Any]) -> None:
        """`clients`: name of a service -> boto3's client."""
        self._clients, self.ec2, self.eks = clients, clients["ec2"], clients.get("eks")
        self._instances: list[Mapping[str, Any]] | Unknown | None = None
        self._vcpus: dict[str, int] = {}

    @classmethod
    def of(cls, provider: AwsProviderArgs, endpoint: str | None) -> "AwsQuotas":
        """For the account that the provider uses; `endpoint`: the URL of a simulator.

        Raises ValueError with one line.
        """
        try:
            signed_in = session(provider, endpoint)
            return cls({name: signed_in.client(name, endpoint_url=endpoint) for name in _SERVICES})
        except botocore.exceptions.BotoCoreError as error:
            raise ValueError(f"AWS: {error}") from None

    def answer(self, need: Need) -> Known | Unknown:
        """AWS's answer about a need's quota."""
        code = need.quota.split()[0]
        if not code.startswith("L-"):
            return Unknown(reason="it is uncertain which quota these instances count against")
        asked = {"ServiceCode": _service_of(need.quota), "QuotaCode": code}
        quotas = self._clients["service-quotas"]
        try:
            try:
                response = quotas.get_service_quota(**asked)
            except quotas.exceptions.NoSuchResourceException:
                # Service Quotas raises it for a quota that was never changed in this account and
                # region (https://github.com/aws/aws-cli/issues/6629).
                response = quotas.get_aws_default_service_quota(**asked)
        except Exception as error:
            return unknown(error)
        used = self._use(need, None)
        return Known(
            limit=float(response["Quota"]["Value"]), use=None if isinstance(used, Unknown) else used
        )

    def own_use(self, need: Need, cluster: str) -> float | None:
        """What the stack's own nodes, VPC or addresses use of a need's quota; None if unknown."""
        used = self._use(need, cluster)
        return None if isinstance(used, Unknown) else used

    def offer(self, wanted: Wanted) -> Offer:
        """The zones that offer a pool's instance type."""
        return aws_account.offer(self.ec2, wanted)

    def reserved(self, wanted: Reservation, cluster: str) -> Reserved:
        """The state of a pool's reservation in EC2."""
        if self._instances is None:
            self._instances = self._ask_instances()
        instances = () if isinstance(self._instances, Unknown) else self._instances
        own_nodes = [instance for instance in instances if _cluster(instance) == cluster]
        groups = self._clients["resource-groups"]
        return aws_reservations.reserved(self.ec2, groups, wanted, own_nodes)

    def advise(self, wanted: advice.Wanted) -> advice.Advice | None:
        """EC2's Spot placement scores, or the Capacity Blocks on sale."""
        return aws_advice.advise(self.ec2, wanted)

    def findings(
        self,
        settings: EksSettings,
        accounts: Mapping[str, ServiceAccountArgs],
        claims: Mapping[str, tuple[str | None, Sequence[str]]],
    ) -> list[Finding]:
        """Other problems: the current identity is not an admin, a subnet lacks something or is not
        in a disk's zone, a disk's key or snapshot prevents nodes from starting, a bucket does not
        exist or is in another region, the account lacks the role for Spot."""
        clients = self._clients
        return [
            *aws_account.signed_in(clients["sts"], settings),
            *aws_network.network_findings(self.ec2, settings, claims),
            *aws_account.disks_key(self.ec2, clients["kms"], settings, self.eks),
            *aws_account.snapshots(self.ec2, clients["kms"], settings),
            *aws_account.buckets(clients["s3"], accounts, settings.region),
            *aws_account.spot_role(clients["iam"], settings),
        ]

    def _use(self, need: Need, cluster: str | None) -> float | Unknown:
        if need.unit != "vCPUs":
            return self._network_use(need, own=cluster is not None)
        if self._instances is None:
            self._instances = self._ask_instances()
        if isinstance(self._instances, Unknown):
            return self._instances
        return sum(
            self._vcpus[instance["InstanceType"]]
            for instance in self._instances
            if _quota_of(instance) == need.quota
            # Reserved machines count against the reservation, not against a quota.
            and (cluster is None or (_cluster(instance) == cluster and not _reserved(instance)))
        )

    def _network_use(self, need: Need, *, own: bool) -> float | Unknown:
        try:
            if need.quota == catalog.VPC_QUOTA:
                rows = aws_account.listed(self.ec2, "describe_vpcs", "Vpcs")
            else:
                rows = self.ec2.describe_addresses()["Addresses"]
        except Exception as error:
            return unknown(error)
        tags = [{tag["Key"]: tag["Value"] for tag in row.get("Tags", ())} for row in rows]
        return len([tag for tag in tags if not own or (
            AWS_TAG in tag and tag.get("Name") in need.pools
        )])  # fmt: skip

    def _ask_instances(self) -> list[Mapping[str, Any]] | Unknown:
        try:
            counted = aws_account.filter_of("instance-state-name", *_COUNTED)
            reservations = aws_account.listed(
                self.ec2, "describe_instances", "Reservations", Filters=[counted]
            )
            instances = [
                instance
                for reservation in reservations
                for instance in reservation["Instances"]
                if quota_of(instance["InstanceType"], spot=False) is not None
            ]
            kinds = sorted({instance["InstanceType"] for instance in instances})
            for start in range(0, len(kinds), 100):
                described = self.ec2.describe_instance_types(
                    InstanceTypes=kinds[start : start + 100]
                )
                for kind in described["InstanceTypes"]:
                    self._vcpus[kind["InstanceType"]] = kind["VCpuInfo"]["DefaultVCpus"]
        except Exception as error:
            return unknown(error)
        return instances


def quota_of(kind: str, *, spot: bool) -> str | None:
    """The quota of an instance type, starting with its code; None if it has none here.

    If the code is uncertain, only the name: `Spot p6-b200`.
    """
    if catalog.quota_group(kind) is None:
        return None
    group = catalog.quota_group(kind, spot=spot)
    if group is None:
        return f"Spot {kind.partition('.')[0]}"
    code = catalog.QUOTA_CODES[group][spot]
    return f"{code} {group.replace('_', '/')} {'Spot' if spot else 'on demand'}"


def _quota_of(instance: Mapping[str, Any]) -> str | None:
    market = instance.get("InstanceLifecycle")
    if market == "capacity-block":
        return None
    return quota_of(instance["InstanceType"], spot=market == "spot")


def _reserved(instance: Mapping[str, Any]) -> bool:
    specification = instance.get("CapacityReservationSpecification") or {}
    return bool(specification.get("CapacityReservationTarget"))


def _cluster(instance: Mapping[str, Any]) -> str | None:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    return next((tags[key] for key in CLUSTER_TAGS if key in tags), None)
