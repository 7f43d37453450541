"""EKS clusters, backed by the rehearsal's real control plane."""

import base64
import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_cluster.rehearsal.simulators.aws import auto_mode
from gpu_cluster.rehearsal.simulators.aws.account import CALLER, Account
from gpu_cluster.rehearsal.simulators.aws.ami_types import PATCHES
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, page
from gpu_cluster.rehearsal.simulators.aws.cluster_rules import (
    check_groups,
    check_key,
    check_mode,
    check_name,
    check_network,
    check_public_networks,
    check_tags,
    check_update,
    check_version,
    check_zones,
    minor,
    rolls_back,
)
from gpu_cluster.rehearsal.simulators.aws.eks import (
    begun,
    check_no_update,
    cluster_of,
    entry_row,
    issue,
    now,
    policy_row,
)
from gpu_cluster.rehearsal.simulators.aws.node_join_checks import why_cluster_fails
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid
from gpu_cluster.rehearsal.simulators.aws.roles import require_trust
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Row

VERSION_SECONDS = 3.0
"""How long a version update takes: 10 minutes in AWS; here, long enough to kill a run."""
_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
_PLACES = ("subnetIds", "securityGroupIds")
_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
_DEFAULTS: Mapping[str, Any] = {
    "deletionProtection": False,
    "upgradePolicy": {"supportType": "EXTENDED"},
    "zonalShiftConfig": {"enabled": False},
}


@operation("eks", "CreateCluster")
def create_cluster(account: Account, params: Params) -> Row:
    """Refuses a role that does not trust EKS, subnets in fewer than two zones, a version that EKS
    does not have, and a key that it may not use. A role that lacks its policy results in FAILED."""
    name: str = params["name"]
    if account.clusters:
        taken = next(iter(account.clusters))
        if taken == name:
            words = f"Cluster already exists with name: {name}"
            raise Refusal("ResourceInUseException", words)
        raise Refusal(
            "ResourceLimitExceededException",
            f"a rehearsal simulates one cluster at a time, and there is '{taken}' already",
        )
    check_name(name)
    check_tags(params.get("tags") or {})
    check_version(params)
    require_trust(account, params["roleArn"], "eks.amazonaws.com", "sts:AssumeRole")
    vpc = check_network(account, name, params["resourcesVpcConfig"])
    check_public_networks(params["resourcesVpcConfig"])
    auto_mode.check_create(account, params)
    for config in params.get("encryptionConfig") or []:
        check_key(account, config)
    cluster = Cluster(
        row=_row(account, params, vpc), self_managed=params.get("bootstrapSelfManagedAddons", True)
    )
    account.backend("eks").clusters[name] = cluster
    _place(account, cluster)
    if cluster.row["accessConfig"]["bootstrapClusterCreatorAdminPermissions"]:
        cluster.entries[CALLER] = entry_row(account, name, CALLER, {"type": "STANDARD"})
        cluster.policies[CALLER] = {_ADMIN: policy_row(_ADMIN, {"type": "cluster"})}
    auto_mode.admit_nodes(account, cluster)
    _log(account, cluster)
    threading.Thread(target=_start, args=(account, cluster), name="eks", daemon=True).start()
    return {"cluster": cluster.row}


def _row(account: Account, params: Params, vpc: str) -> Row:
    name, access = params["name"], params.get("accessConfig") or {}
    network = params.get("kubernetesNetworkConfig") or {}
    issuer = hashlib.sha256(name.encode()).hexdigest()[:32].upper()
    return {
        **_DEFAULTS,
        **{key: params[key] for key in ("name", "roleArn", "clientRequestToken", "encryptionConfig",
                                        *_DEFAULTS) if key in params},
        "arn": account.arn("eks", f"cluster/{name}"),
        "createdAt": now(),
        "version": params.get("version") or max(PATCHES, key=minor),
        "resourcesVpcConfig": {
            "securityGroupIds": [],
            "endpointPublicAccess": True,
            "endpointPrivateAccess": False,
            "publicAccessCidrs": ["0.0.0.0/0"],
            **params["resourcesVpcConfig"],
            "clusterSecurityGroupId": _security_group(account, name, vpc),
            "vpcId": vpc,
        },
        "kubernetesNetworkConfig": {
            "ipFamily": "ipv4", "serviceIpv4Cidr": "172.20.0.0/16",
        } | {key: network[key] for key in ("ipFamily", "serviceIpv4Cidr") if key in network}
        | auto_mode.load_balancing(params),
        **auto_mode.rows(params),
        "logging": _logging(params.get("logging") or {}, {}),
        "identity": {
            "oidc": {"issuer": f"https://oidc.eks.{account.region}.amazonaws.com/id/{issuer}"}
        },
        "status": "CREATING",
        "platformVersion": "eks.4",
        "health": {"issues": []},
        "tags": params.get("tags") or {},
        "accessConfig": {
            "authenticationMode": access.get("authenticationMode", "CONFIG_MAP"),
            "bootstrapClusterCreatorAdminPermissions": access.get(
                "bootstrapClusterCreatorAdminPermissions", True
            ),
        },
    }  # fmt: skip


def _start(account: Account, cluster: Cluster) -> None:
    """Starts the control plane without the account's lock, as it takes seconds."""
    plane = account.control_plane
    assert plane is not None
    with account.lock:
        failed = why_cluster_fails(account, cluster.row["roleArn"])
    try:
        if not failed:
            plane.ensure_started(cluster.row["version"])
            if cluster.automatic:
                plane.define(auto_mode.definitions())
    except Exception as error:
        failed = str(error)
    with account.lock:
        if failed:
            cluster.row["health"] = {"issues": [issue("AccessDenied", failed)]}
        else:
            cluster.row["endpoint"] = f"https://{plane.endpoint}"
            data = base64.b64encode(plane.ca_certificate).decode()
            cluster.row["certificateAuthority"] = {"data": data}
        cluster.row["status"] = "FAILED" if failed else "ACTIVE"
    account.changed()


def _security_group(account: Account, name: str, vpc: str) -> str:
    """EKS's group for control plane and nodes, which admits itself (user guide, sec-group-reqs)."""
    ec2 = account.client("ec2")
    answer = ec2.create_security_group(
        GroupName=f"eks-cluster-sg-{name}",
        Description="EKS created security group applied to ENI that is attached to EKS "
        "Control Plane master nodes, as well as any managed workloads.",
        VpcId=vpc,
        TagSpecifications=[{
            "ResourceType": "security-group",
            "Tags": [{"Key": f"kubernetes.io/cluster/{name}", "Value": "owned"}],
        }],
    )  # fmt: skip
    identity = str(answer["GroupId"])
    itself = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": identity}]}
    ec2.authorize_security_group_ingress(GroupId=identity, IpPermissions=[itself])
    return identity


def _place(account: Account, cluster: Cluster) -> None:
    """Creates the control plane's interfaces, one in each of its subnets and in no other."""
    ec2, config = account.client("ec2"), cluster.row["resourcesVpcConfig"]
    _withdraw(account, cluster)
    groups = [cluster.security_group, *config["securityGroupIds"]]
    for subnet in config["subnetIds"]:
        made = ec2.create_network_interface(
            SubnetId=subnet, Groups=groups, Description=f"Amazon EKS {cluster.row['name']}"
        )
        cluster.interfaces.append(made["NetworkInterface"]["NetworkInterfaceId"])


def _withdraw(account: Account, cluster: Cluster) -> None:
    while cluster.interfaces:
        account.backend("ec2").delete_network_interface(cluster.interfaces.pop())


def _logging(given: Mapping[str, Any], before: Mapping[str, Any]) -> Row:
    on = {kind for kind in _LOG_TYPES if kind in logged(before)}
    for setup in given.get("clusterLogging") or []:
        types = set(setup.get("types") or [])
        on = on | types if setup.get("enabled") else on - types
    groups = (([kind for kind in _LOG_TYPES if kind in on], True),
              ([kind for kind in _LOG_TYPES if kind not in on], False))  # fmt: skip
    return {"clusterLogging": [{"types": t, "enabled": enabled} for t, enabled in groups if t]}


def logged(logging: Mapping[str, Any]) -> list[str]:
    """The log types that a cluster's `logging` enables."""
    setups: Sequence[Mapping[str, Any]] = logging.get("clusterLogging") or []
    return [kind for setup in setups if setup.get("enabled") for kind in setup["types"]]


def log_group_of(cluster: str) -> str:
    """The name of the log group of a cluster's control plane."""
    return f"/aws/eks/{cluster}/cluster"


def _log(account: Account, cluster: Cluster) -> None:
    """Creates a missing log group of a cluster with logging, and leaves it, like EKS."""
    group = log_group_of(cluster.row["name"])
    if logged(cluster.row["logging"]) and group not in account.backend("logs").groups:
        account.client("logs").create_log_group(logGroupName=group)


@operation("eks", "DescribeCluster")
def describe_cluster(account: Account, params: Params) -> Row:
    """Describes the cluster."""
    return {"cluster": cluster_of(account, params["name"]).row}


@operation("eks", "ListClusters")
def list_clusters(account: Account, params: Params) -> Row:
    """Lists the clusters' names."""
    return page(params, "clusters", list(account.clusters))


@operation("eks", "UpdateClusterConfig")
def update_cluster_config(account: Account, params: Params) -> Row:
    """Refuses other zones, another VPC, networks without clients, and a return to an earlier
    authentication mode."""
    cluster = cluster_of(account, params["name"])
    row, what = cluster.row, {key: params[key] for key in params if key not in _NO_CHANGE}
    kind = _CHANGES.get(next(iter(what), ""), "VpcConfigUpdate")
    check_no_update(cluster, kind)
    if kind == "AutoModeUpdate":
        return auto_mode.update_cluster(account, cluster, params)
    if "resourcesVpcConfig" in params:
        current = row["resourcesVpcConfig"]
        config = current | params["resourcesVpcConfig"]
        check_zones(account, current["subnetIds"], config["subnetIds"])
        if check_network(account, row["name"], config) != current["vpcId"]:
            raise invalid("Subnets must be in the cluster's VPC")
        check_public_networks(config)
        row["resourcesVpcConfig"] = config
        if any(current[name] != config[name] for name in _PLACES):
            _place(account, cluster)
    if "accessConfig" in params:
        mode = params["accessConfig"]["authenticationMode"]
        check_mode(row["accessConfig"]["authenticationMode"], mode)
        row["accessConfig"] = row["accessConfig"] | {"authenticationMode": mode}
    if "logging" in params:
        row["logging"] = _logging(params["logging"], row["logging"])
        _log(account, cluster)
    row.update({key: params[key] for key in _DEFAULTS if key in params})
    return begun(cluster, kind, {})


_NO_CHANGE = ("name", "clientRequestToken")
_CHANGES = {
    "resourcesVpcConfig": "VpcConfigUpdate",
    "accessConfig": "AccessConfigUpdate",
    "logging": "LoggingUpdate",
    "upgradePolicy": "UpgradePolicyUpdate",
    "zonalShiftConfig": "ZonalShiftConfigUpdate",
    "deletionProtection": "DeletionProtectionUpdate",
    **dict.fromkeys(auto_mode.PARTS, "AutoModeUpdate"),
}
"""Parameter that changes -> the type of the update."""


@operation("eks", "UpdateClusterVersion")
def update_cluster_version(account: Account, params: Params) -> Row:
    """Refuses any version but the next and, for seven days, the one before, and node groups that
    do not match."""
    cluster = cluster_of(account, params["name"])
    check_no_update(cluster, "VersionUpdate")
    check_update(cluster, params["version"])
    check_groups(cluster, params["version"])
    kind = "VersionRollback" if rolls_back(cluster, params["version"]) else "VersionUpdate"
    cluster.row["status"] = "UPDATING"
    answer = begun(cluster, kind, {"Version": params["version"]}, over=False)
    update = cluster.updates[answer["update"]["id"]]["row"]

    def end() -> None:
        with account.lock:
            if account.clusters.get(params["name"]) is not cluster:  # deleted, or the account ended
                return
            upgraded = (cluster.row["version"], time.monotonic())
            cluster.upgraded = upgraded if kind == "VersionUpdate" else ("", 0.0)
            cluster.row |= {"version": params["version"], "status": "ACTIVE"}
            update["status"] = "Successful"
        account.changed()

    ending = threading.Timer(VERSION_SECONDS, end)
    ending.daemon = True
    ending.start()
    return answer


@operation("eks", "AssociateEncryptionConfig")
def associate_encryption_config(account: Account, params: Params) -> Row:
    """Refuses a key other than the first one, and one that EKS may not use."""
    cluster = cluster_of(account, params["clusterName"])
    check_no_update(cluster, "AssociateEncryptionConfig")
    if cluster.row.get("encryptionConfig"):
        words = "Encryption is already enabled on the cluster, and its key cannot be changed"
        raise Refusal("InvalidRequestException", words)
    for config in params["encryptionConfig"]:
        check_key(account, config)
    cluster.row["encryptionConfig"] = params["encryptionConfig"]
    return begun(cluster, "AssociateEncryptionConfig", {})


@operation("eks", "DeleteCluster")
def delete_cluster(account: Account, params: Params) -> Row:
    """Refuses to delete a protected cluster, or one with node groups."""
    cluster = cluster_of(account, params["name"])
    if cluster.row["deletionProtection"]:
        raise Refusal(
            "InvalidRequestException",
            f"Cluster '{params['name']}' cannot be deleted because deletion protection is enabled: "
            "set deletionProtection to false, apply that, then delete",
        )
    if cluster.groups:
        words = f"Cluster has nodegroups attached: {', '.join(cluster.groups)}"
        raise Refusal("ResourceInUseException", words)
    cluster.row["status"] = "DELETING"
    _withdraw(account, cluster)
    if cluster.automatic:
        auto_mode.end(account)
    account.backend("ec2").delete_security_group(group_id=cluster.security_group)
    threading.Thread(target=_stop, args=(account, cluster), name="eks", daemon=True).start()
    return {"cluster": cluster.row}


def _stop(account: Account, cluster: Cluster) -> None:
    try:
        if account.control_plane is not None:
            account.control_plane.stop()
    finally:
        with account.lock:
            account.backend("eks").clusters.pop(cluster.row["name"], None)
        account.changed()
