"""Whether a stack's GPU pools can be added to an existing EKS cluster; read-only.

Queries EKS and EC2. The contents of the cluster are checked by `stacks.capacity.conflicts`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from gpu_cluster.components.catalog.bad_releases import BAD_RELEASES, harm
from gpu_cluster.components.catalog.eks_addons import ADDONS
from gpu_cluster.components.cluster import POOL_LABEL
from gpu_cluster.components.eks.existing_args import EksExistingClusterArgs, unfit
from gpu_cluster.components.eks.kubeconfig import kubeconfig
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.lifecycle.ownership import AWS_TAG
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.schema.outputs import text, texts
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.capacity.aws_account import filter_of, listed, nodes_of, unknown
from gpu_cluster.stacks.capacity.verdict import Finding
from gpu_cluster.stacks.definition.settings import principals_key

_AGENT = "eks-pod-identity-agent"
_GROUPS = "network.securityGroupIds"
_CNI_POLICY = "cluster.network.cniPolicy"

Row = Mapping[str, Any]


def cluster_findings(
    eks: Any, ec2: Any, settings: Settings[EksSettings], owner: str, *, simulated: bool = False
) -> list[Finding]:
    """A finding for each thing that is missing or in conflict; none for a cluster that the stack
    creates. `owner`: the stack, `<project>/<stack>`. `simulated`: whether a simulator answers,
    whose cluster has another address."""
    args = settings.own.cluster
    if not isinstance(args, EksExistingClusterArgs):
        return []
    try:
        cluster = eks.describe_cluster(name=args.existing)["cluster"]
    except eks.exceptions.ResourceNotFoundException:
        return list(_judged("cluster.existing", "eks", _missing(eks, settings.own, args.existing)))
    except Exception as error:
        return [_unknown("cluster.existing", "eks", error)]
    vpc, name = cluster["resourcesVpcConfig"], args.existing
    checks: list[tuple[str, str, Iterator[str | Finding]]] = [
        ("cluster", "eks", _cluster(cluster, args, simulated)),
        ("cluster.network.subnetIds", "ec2", _subnets(ec2, vpc, args)),
        (f"cluster.{_GROUPS}", "ec2", _security_groups(ec2, vpc, args)),
        ("gpuPools", "eks", _pools(eks, settings, name, owner)),
    ]
    if needs := _needs(settings, args):
        keys = ", ".join(dict.fromkeys(key for key, _ in needs))
        checks.append((keys, "eks", _addons(eks, needs, args)))
    for group in args.users:
        key = principals_key(settings, group)
        checks.append((key, "eks", _taken(eks, args, key, group, owner)))
    # With other modes, aws-auth, which EKS does not show, may list a group.
    if _mode(cluster) == "API" and (teams := _teams(settings)):
        keys = ", ".join(dict.fromkeys(teams.values()))
        checks.append((keys, "eks", _members(eks, teams, name)))
    found = [finding for check in checks for finding in _judged(*check)]
    if settings.protected:
        found += _policies(eks, args)
    return found


def _policies(eks: Any, args: EksExistingClusterArgs) -> Iterator[Finding]:
    """A finding if nothing that EKS shows enforces the NetworkPolicies of training jobs and
    services. Auto Mode's switch is in the cluster.

    https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html
    """
    if SCALERS[args.scaler].serves_system:
        return
    try:
        addon = eks.describe_addon(clusterName=args.existing, addonName="vpc-cni")["addon"]
        values = yaml.safe_load(addon.get("configurationValues") or "{}") or {}
    except eks.exceptions.ResourceNotFoundException:
        values = {}
    except Exception as error:
        yield _unknown("cluster.existing", "eks", error)
        return
    if str(values.get("enableNetworkPolicy")).lower() != "true":
        yield Finding.unknown(
            "cluster.existing",
            f"the addon vpc-cni of {args.existing} does not enforce NetworkPolicies, so "
            "that every pod may reach the workers of training jobs and services, unless something "
            "else such as Calico does; ask its owner to set enableNetworkPolicy of the addon",
        )


def _judged(about: str, service: str, lines: Iterator[str | Finding]) -> Iterator[Finding]:
    """A finding for each line that is not one yet, which starts with the key, and one about `about`
    if AWS refuses a call of `service`."""
    try:
        for line in lines:
            if isinstance(line, Finding):
                yield line
                continue
            key, _, reason = line.partition(": ")
            yield Finding.wrong(key, reason)
    except Exception as error:
        yield _unknown(about, service, error)


def _unknown(about: str, service: str, error: Exception) -> Finding:
    return Finding.unknown(about, unknown(error, service).reason)


def kubeconfig_of(eks: Any, settings: EksSettings) -> str:
    """The kubeconfig that the program would write; raises the client's exceptions."""
    row = eks.describe_cluster(name=settings.cluster.name)["cluster"]
    return kubeconfig(
        settings.cluster.name,
        settings.provider,
        endpoint=row["endpoint"],
        ca_certificate=row["certificateAuthority"]["data"],
    )


def reads_aws_auth(eks: Any, name: str) -> bool:
    """Whether the cluster uses the ConfigMap aws-auth; raises the client's exceptions."""
    return _mode(eks.describe_cluster(name=name)["cluster"]) != "API"


def _missing(eks: Any, settings: EksSettings, name: str) -> Iterator[str]:
    clusters = listed(eks, "list_clusters", "clusters")
    listing = f"it has {', '.join(clusters)}" if clusters else "it has none"
    yield (
        f"cluster.existing: {settings.region} has no EKS cluster {name} that is visible "
        f"to this account; {listing}"
    )


def _mode(cluster: Row) -> str:
    return str((cluster.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP"))


def _cluster(cluster: Row, args: EksExistingClusterArgs, simulated: bool) -> Iterator[str]:
    name, family = args.existing, cluster["kubernetesNetworkConfig"]["ipFamily"]
    region = cluster["arn"].split(":")[3]
    auto = bool((cluster.get("computeConfig") or {}).get("enabled"))
    if refused := unfit(
        args, region, cluster["status"], cluster["version"], _mode(cluster), family, auto
    ):
        yield f"cluster.{refused}"
    authority = (cluster.get("certificateAuthority") or {}).get("data")
    for key, given, found, query in (
        ("endpoint", args.endpoint, cluster.get("endpoint"), "endpoint"),
        ("certificateAuthority", args.certificate_authority, authority,
         "certificateAuthority.data"),
    ):  # fmt: skip
        if given is not None and text(given).strip() != found and not simulated:
            yield (
                f"cluster.{key}: does not match {name}; set it to the output of aws eks "
                f"describe-cluster --name {name} --region {region} --query cluster.{query}, or "
                "drop both keys"
            )


def _subnets(ec2: Any, config: Row, args: EksExistingClusterArgs) -> Iterator[str]:
    vpc, name = config["vpcId"], args.existing
    by_id = filter_of("subnet-id", *texts(args.network.subnet_ids))
    for item in ec2.describe_subnets(Filters=[by_id])["Subnets"]:
        if item["VpcId"] != vpc:
            yield (
                f"cluster.network.subnetIds: {item['SubnetId']} is in {item['VpcId']}, and {name} "
                f"is in {vpc}; name subnets of that VPC"
            )


def _security_groups(ec2: Any, config: Row, args: EksExistingClusterArgs) -> Iterator[str]:
    vpc, name = config["vpcId"], args.existing
    groups = texts(args.network.security_group_ids)
    by_id = filter_of("group-id", *groups)
    rows = ec2.describe_security_groups(Filters=[by_id])["SecurityGroups"] if groups else []
    vpc_of = {item["GroupId"]: item["VpcId"] for item in rows}
    if missing := [group for group in groups if vpc_of.get(group) != vpc]:
        absent = " or ".join(missing)
        yield f"cluster.{_GROUPS}: {vpc}, the VPC of {name}, has no security group {absent}"
        return
    others = security_groups_of_nodes(ec2, name)
    own = groups or [config["clusterSecurityGroupId"]]
    if others and not others & set(own):
        yield (
            f"cluster.{_GROUPS}: no node of {name} has {' or '.join(own)}, so GPU pods may not "
            f"reach its DNS; its nodes have {', '.join(sorted(others))}: name one of those"
        )


def _needs(settings: Settings[EksSettings], args: EksExistingClusterArgs) -> list[tuple[str, str]]:
    """Pairs of a setting and the addon that it needs, or about which it says something."""
    accounts = settings.auxiliary.accounts
    grouped = SCALERS[args.scaler].node_groups
    return [
        *([("cluster.autoscaler", _AGENT)] if args.autoscaler is not None else []),
        *([("cluster.karpenter", _AGENT)] if args.karpenter is not None else []),
        *((f"serviceAccounts.{account}", _AGENT) for account in accounts),
        *(
            (f"serviceAccounts.{account}.buckets", "aws-mountpoint-s3-csi-driver")
            for account, account_args in accounts.items()
            if account_args.buckets
        ),
        *((f"volumeClaims.{claim}", "aws-ebs-csi-driver") for claim in settings.auxiliary.claims),
        *(
            (f"gpuPools.{pool}.nodeRepair", "eks-node-monitoring-agent")
            for pool, resolved in settings.own.pools.items()
            if resolved.args.node_repair.enabled and grouped
        ),
        *([] if args.network.cni_policy else [(_CNI_POLICY, "vpc-cni")]),
    ]


def _addons(
    eks: Any, needs: Sequence[tuple[str, str]], args: EksExistingClusterArgs
) -> Iterator[str | Finding]:
    """`ListAddons` does not know what the owner installed with Helm. The image of an addon's
    DaemonSet has the addon's name in AWS's charts as well (aws-ebs-csi-driver 2.x,
    aws-mountpoint-s3-csi-driver 2.x, eks-pod-identity-agent, eks-node-monitoring-agent 1.7.0)."""
    name = args.existing
    installed = set(listed(eks, "list_addons", "addons", clusterName=name))
    for addon in sorted(installed & {bad.of for bad in BAD_RELEASES}):
        version = eks.describe_addon(clusterName=name, addonName=addon)["addon"]["addonVersion"]
        if bad := harm(addon, version):
            yield (
                f"cluster.existing: the addon {addon} of {name} is {version}, which {bad.symptom} "
                f"({bad.source}); ask its owner for another version"
            )
    if SCALERS[args.scaler].serves_system:
        installed |= {addon.name for addon in ADDONS if addon.auto_mode}
    for about, addon in needs:
        if about != _CNI_POLICY and addon not in installed:
            yield Finding.wrong(
                about,
                f"needs the addon {addon}, which {name} does not have; ask its owner to "
                f"run aws eks create-addon --region {eks.meta.region_name} --cluster-name {name} "
                f"--addon-name {addon}",
                unless_runs=addon,
            )
    if "vpc-cni" in installed and not args.network.cni_policy:
        cni = eks.describe_addon(clusterName=name, addonName="vpc-cni")["addon"]
        if not (cni.get("serviceAccountRoleArn") or cni.get("podIdentityAssociations")):
            yield (
                f"{_CNI_POLICY}: the addon vpc-cni of {name} has no role of its own, "
                "so no GPU node would get addresses for its pods; remove the key"
            )


def _pools(eks: Any, settings: Settings[EksSettings], name: str, owner: str) -> Iterator[str]:
    """Pools whose nodes cannot be distinguished from those of another stack."""
    cpu = settings.own.cluster.cpu_pools
    keys = {
        **dict.fromkeys(cpu, "cluster.cpuPools"),
        **dict.fromkeys(settings.own.pools, "gpuPools"),
    }
    for group in node_groups(eks, name):
        pool = (group.get("labels") or {}).get(POOL_LABEL)
        theirs = (group.get("tags") or {}).get(AWS_TAG)
        if pool in keys and theirs != owner:
            yield (
                f"{keys[pool]}.{pool}: the node group {group['nodegroupName']} of "
                f"{theirs or 'another owner'} is a pool of this name on {name}, and pods of one "
                "pool would run on the other's nodes; choose another name"
            )


def _taken(
    eks: Any, args: EksExistingClusterArgs, key: str, group: str, owner: str
) -> Iterator[str]:
    """Principals of a group to which somebody else has given access: EKS has one access entry for
    each. `key`: the setting that lists them."""
    name = args.existing
    for arn in texts(args.users[group].principals):
        try:
            entry = eks.describe_access_entry(clusterName=name, principalArn=arn)["accessEntry"]
        except eks.exceptions.ResourceNotFoundException:
            continue
        if (entry.get("tags") or {}).get(AWS_TAG) == owner:
            continue
        groups = [*entry.get("kubernetesGroups", ()), group]
        yield (
            f"{key}: {arn} already has an access entry on {name}, and EKS allows one for each; "
            f"ask its owner to run aws eks update-access-entry --cluster-name {name} "
            f"--region {eks.meta.region_name} --principal-arn {arn} --kubernetes-groups "
            f"{' '.join(groups)}, and "
            + (f"name group:{group} instead" if key.startswith("teams.") else "drop it")
        )


def _teams(settings: Settings[EksSettings]) -> dict[str, str]:
    """Kubernetes group -> the setting that names it, if the stack does not list its members."""
    queues = settings.batch.queues if settings.batch else {}
    return {
        group: queue.key(name, "groups")
        for name, queue in queues.items()
        for group in queue.groups
        if group not in settings.own.cluster.users
    }


def _members(eks: Any, teams: Mapping[str, str], name: str) -> Iterator[str]:
    """Groups of `_teams` without members in the cluster's access entries; none if an OIDC identity
    provider may define members."""
    if eks.list_identity_provider_configs(clusterName=name)["identityProviderConfigs"]:
        return
    used_groups: set[str] = set()
    for arn in listed(eks, "list_access_entries", "accessEntries", clusterName=name):
        entry = eks.describe_access_entry(clusterName=name, principalArn=arn)["accessEntry"]
        used_groups.update(entry.get("kubernetesGroups", ()))
    for group, key in teams.items():
        if group not in used_groups:
            yield (
                f"{key}: no access entry of {name} has the Kubernetes "
                f"group {group}, so that nobody is in it; ask its owner to run aws eks "
                f"create-access-entry --region {eks.meta.region_name} --cluster-name {name} "
                f"--principal-arn ROLE --kubernetes-groups {group}"
            )


def node_groups(eks: Any, cluster: str) -> Iterator[Row]:
    """The managed node groups of a cluster, as EKS describes them."""
    for group in listed(eks, "list_nodegroups", "nodegroups", clusterName=cluster):
        yield eks.describe_nodegroup(clusterName=cluster, nodegroupName=group)["nodegroup"]


def security_groups_of_nodes(ec2: Any, cluster: str) -> set[str]:
    """The security groups' IDs of the instances that are a cluster's nodes."""
    return {
        group["GroupId"]
        for instance in nodes_of(ec2, cluster)
        for group in instance["SecurityGroups"]
    }
