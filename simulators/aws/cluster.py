"""EKS clusters, with the real control plane of the rehearsal behind them."""

import base64
import time
from collections.abc import Mapping, Sequence
from typing import Any

from components.catalog import eks as catalog
from simulators.aws.account import Account, ClusterParts, answering
from simulators.aws.api_request import request
from simulators.aws.cluster_rules import (
    check_groups,
    check_key,
    check_public_networks,
    check_update,
    check_version,
    check_zones,
    minor,
    name_problems,
    vpc_of,
)
from simulators.aws.keys_and_logs import log_group_of
from simulators.aws.kind import CloudError, Config, Kind, Problem
from simulators.aws.node_join_checks import why_cluster_fails
from simulators.aws.roles import require_trust
from simulators.cloud import ControlPlane

_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
_PLACES = ("subnetIds", "securityGroupIds")
LATE_SECONDS = 10.0
"""How long an access policy takes to work, unless a node group was made after it."""
_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


class Cluster(Kind):
    """An EKS cluster, with the rehearsal's control plane behind it. Refused: a role that does not
    trust EKS or lacks its policy, subnets in fewer than two zones, a version that EKS does not
    have, a key that it may not use; a delete under protection or with node groups."""

    token = "aws:eks/cluster:Cluster"
    supported_inputs = (
        "name", "roleArn", "vpcConfig", "version", "accessConfig", "bootstrapSelfManagedAddons",
        "deletionProtection", "enabledClusterLogTypes", "encryptionConfig", "forceUpdateVersion",
        "kubernetesNetworkConfig", "upgradePolicy", "zonalShiftConfig", "tags",
    )  # fmt: skip
    computed = (
        "version", "accessConfig", "kubernetesNetworkConfig", "upgradePolicy",
        "vpcConfig.clusterSecurityGroupId", "vpcConfig.vpcId", "vpcConfig.publicAccessCidrs",
    )  # fmt: skip

    def __init__(self, account: Account, control_plane: ControlPlane) -> None:
        super().__init__(account)
        self._control_plane = control_plane

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        found = super().validate_preview(config, inputs)
        return found + name_problems(inputs.get("name"))

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        """Secrets that are encrypted stay so: EKS takes a key back from no cluster."""
        return path == "encryptionConfig" and new is None

    # The control plane takes seconds to start and to stop: not under the account's lock.

    def on_create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        identity, outputs = super().on_create(config, inputs)
        try:
            self._control_plane.ensure_started()
        except BaseException:
            with self.account.lock, answering():
                self._forget(identity)
            raise
        return identity, outputs

    def on_delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        super().on_delete(config, identity, state)
        self._control_plane.stop()

    def validate_create(self, inputs: dict[str, Any]) -> None:
        name: str = inputs["name"]
        if self.account.clusters:
            taken = next(iter(self.account.clusters))
            if taken == name:
                raise CloudError(
                    f"ResourceInUseException: Cluster already exists with name: {name}"
                )
            raise CloudError(
                f"a rehearsal simulates one cluster at a time, and there is '{taken}' already"
            )
        check_version(inputs)
        require_trust(self.account, inputs["roleArn"], "eks.amazonaws.com", "sts:AssumeRole")
        if reason := why_cluster_fails(self.account, inputs["roleArn"]):
            raise CloudError(f"unexpected state 'FAILED', wanted target 'ACTIVE': {reason}")
        vpc_of(self.account, name, inputs["vpcConfig"])
        check_public_networks(inputs["vpcConfig"])
        check_key(self.account, inputs)

    def create(self, inputs: dict[str, Any]) -> str:
        name: str = inputs["name"]
        vpc = vpc_of(self.account, name, inputs["vpcConfig"])
        inputs.setdefault("version", max(catalog.KUBERNETES_VERSIONS, key=minor))
        eks = self.account.client("eks")
        eks.create_cluster(**self._request(inputs))
        group = self._security_group(name, vpc)
        parts = ClusterParts(inputs=dict(inputs), security_group=group)
        self._place(name, parts)
        self.account.clusters[name] = parts
        access = inputs.get("accessConfig") or {}
        if access.get("bootstrapClusterCreatorAdminPermissions", True):
            creator = f"arn:aws:iam::{self.account.arn('', '').split(':')[4]}:root"
            parts.entries[creator] = {"type": "STANDARD", "policies": {_ADMIN: {"type": "cluster"}}}
        held = self.account.backend("eks").clusters[name]
        held.endpoint = f"https://{self._control_plane.endpoint}"
        held.certificate_authority = {
            "data": base64.b64encode(self._control_plane.ca_certificate).decode()
        }
        held.resources_vpc_config = self._vpc_config(parts, vpc)
        self._log(name, inputs)
        return name

    def _request(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        own = ("vpcConfig", "enabledClusterLogTypes", "encryptionConfig", "tags", "tagsAll",
               "forceUpdateVersion", "zonalShiftConfig")  # fmt: skip
        given = {name: value for name, value in inputs.items() if name not in own}
        given["resourcesVpcConfig"] = inputs["vpcConfig"]
        given["logging"] = {"clusterLogging": _logging(inputs)}
        if "encryptionConfig" in inputs:
            given["encryptionConfig"] = [inputs["encryptionConfig"]]
        model = self.account.client("eks").meta.service_model.operation_model("CreateCluster")
        return request(model.input_shape, given) | {"tags": inputs["tagsAll"]}

    def _security_group(self, name: str, vpc: str) -> str:
        """EKS's own, of control plane and nodes."""
        answer = self.account.client("ec2").create_security_group(
            GroupName=f"eks-cluster-sg-{name}",
            Description="EKS created security group applied to ENI that is attached to EKS "
            "Control Plane master nodes, as well as any managed workloads.",
            VpcId=vpc,
            TagSpecifications=[{
                "ResourceType": "security-group",
                "Tags": [{"Key": f"kubernetes.io/cluster/{name}", "Value": "owned"}],
            }],
        )  # fmt: skip
        return str(answer["GroupId"])

    def _place(self, name: str, parts: ClusterParts) -> None:
        """The control plane's interfaces, one in each of its subnets and in no other."""
        ec2, config = self.account.client("ec2"), parts.inputs["vpcConfig"]
        self._withdraw(parts)
        groups = [parts.security_group, *(config.get("securityGroupIds") or [])]
        for subnet in config["subnetIds"]:
            made = ec2.create_network_interface(
                SubnetId=subnet, Groups=groups, Description=f"Amazon EKS {name}"
            )
            parts.interfaces.append(made["NetworkInterface"]["NetworkInterfaceId"])

    def _withdraw(self, parts: ClusterParts) -> None:
        while parts.interfaces:
            self.account.client("ec2").delete_network_interface(
                NetworkInterfaceId=parts.interfaces.pop()
            )

    def _vpc_config(
        self, parts: ClusterParts, vpc: str, *, admitted: Sequence[str] = ("0.0.0.0/0",)
    ) -> dict[str, Any]:
        """`admitted`: to the public endpoint, where nobody says who is."""
        given = parts.inputs["vpcConfig"]
        return {
            "subnetIds": given["subnetIds"],
            "securityGroupIds": given.get("securityGroupIds") or [],
            "endpointPublicAccess": given.get("endpointPublicAccess", True),
            "endpointPrivateAccess": given.get("endpointPrivateAccess", False),
            "publicAccessCidrs": given.get("publicAccessCidrs") or list(admitted),
            "clusterSecurityGroupId": parts.security_group,
            "vpcId": vpc,
        }

    def _log(self, name: str, inputs: Mapping[str, Any]) -> None:
        """Whoever logs has a log group: where nobody made it, EKS does, and leaves it behind."""
        logs, group = self.account.client("logs"), log_group_of(name)
        found = logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
        if inputs.get("enabledClusterLogTypes") and not found:
            logs.create_log_group(logGroupName=group)

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        row = self.account.client("eks").describe_cluster(name=identity)["cluster"]
        inputs = self.account.clusters[identity].inputs
        access, network = inputs.get("accessConfig") or {}, row["kubernetesNetworkConfig"]
        logged = [
            kind
            for setup in row["logging"]["clusterLogging"]
            if setup["enabled"]
            for kind in setup["types"]
        ]
        given = state.get("enabledClusterLogTypes") or []
        return {
            "arn": row["arn"],
            "name": row["name"],
            "endpoint": row["endpoint"],
            "certificateAuthority": row["certificateAuthority"],
            "identities": [{"oidcs": [{"issuer": row["identity"]["oidc"]["issuer"]}]}],
            "createdAt": row["createdAt"].isoformat(),
            "platformVersion": row["platformVersion"],
            "status": row["status"],
            "version": row["version"],
            "roleArn": row["roleArn"],
            "vpcConfig": row["resourcesVpcConfig"],
            "encryptionConfig": next(iter(row.get("encryptionConfig") or []), None),
            "kubernetesNetworkConfig": {
                "ipFamily": network.get("ipFamily", "ipv4"),
                "serviceIpv4Cidr": network.get("serviceIpv4Cidr", "172.20.0.0/16"),
            },
            # Sets: their order does not count.
            "enabledClusterLogTypes": given if sorted(given) == sorted(logged) else logged,
            "accessConfig": {
                "authenticationMode": access.get("authenticationMode", "CONFIG_MAP"),
                "bootstrapClusterCreatorAdminPermissions": access.get(
                    "bootstrapClusterCreatorAdminPermissions", True
                ),
            },
            "upgradePolicy": inputs.get("upgradePolicy") or {"supportType": "EXTENDED"},
            "deletionProtection": inputs.get("deletionProtection", False),
            "tagsAll": row.get("tags") or {},
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        parts = self.account.clusters[identity]
        held = self.account.backend("eks").clusters[identity]
        check_update(old, new)
        check_groups(self.account, identity, old, new)
        config, stands = new["vpcConfig"], held.resources_vpc_config
        check_zones(self.account, stands["subnetIds"], config["subnetIds"])
        vpc = vpc_of(self.account, identity, config)
        if vpc != stands["vpcId"]:
            raise CloudError("InvalidParameterException: Subnets must be in the cluster's VPC")
        check_public_networks(config)
        # The provider gives a key to a cluster that has none. Of another one it tells EKS nothing.
        if kept := parts.inputs.get("encryptionConfig"):
            new = new | {"encryptionConfig": kept}
        else:
            check_key(self.account, new)
        parts.inputs = dict(new)
        held.version = new.get("version", old["version"])
        held.encryption_config = [each for each in (new.get("encryptionConfig"),) if each]
        held.resources_vpc_config = self._vpc_config(
            parts, vpc, admitted=stands["publicAccessCidrs"]
        )
        held.logging = {"clusterLogging": _logging(new)}
        if any(stands[name] != held.resources_vpc_config[name] for name in _PLACES):
            self._place(identity, parts)
        self._log(identity, new)

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        self.account.backend("eks").clusters[identity].tags = dict(tags)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        if self.account.clusters[identity].inputs.get("deletionProtection"):
            raise CloudError(
                f"InvalidRequestException: Cluster '{identity}' cannot be deleted because deletion "
                "protection is enabled: set deletionProtection to false, apply that, then delete"
            )
        if used := [name for name, g in self.account.groups.items() if g.cluster == identity]:
            raise CloudError(
                f"ResourceInUseException: Cluster has nodegroups attached: {', '.join(used)}"
            )
        self._forget(identity)

    def _forget(self, identity: str) -> None:
        parts = self.account.clusters.pop(identity)
        self.account.client("eks").delete_cluster(name=identity)
        self._withdraw(parts)
        self.account.client("ec2").delete_security_group(GroupId=parts.security_group)


def _logging(inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    on = inputs.get("enabledClusterLogTypes") or []
    off = [kind for kind in _LOG_TYPES if kind not in on]
    return [
        {"types": list(types), "enabled": enabled}
        for types, enabled in ((on, True), (off, False))
        if types
    ]


def access_granted(parts: ClusterParts) -> bool:
    """Whether anybody may use the cluster as its administrator: before that, `aws eks get-token`
    gives a token that the API server refuses. The person who rehearses is taken for that one."""
    return any(_effective(parts, principal) for principal in _admins(parts))


def access_due(parts: ClusterParts) -> float | None:
    """Seconds until access is granted that nobody has yet; None where nobody waits for any."""
    waiting = [name for name in _admins(parts) if not _effective(parts, name)]
    return LATE_SECONDS if waiting else None


def _effective(parts: ClusterParts, principal: str) -> bool:
    """Whether an access policy works already. EKS says that it takes several seconds after the
    answer: less than a node group does, which takes minutes in AWS and no time here."""
    granted = parts.granted.get(principal, 0.0)
    return granted < parts.grew or time.monotonic() - granted >= LATE_SECONDS


def _admins(parts: ClusterParts) -> list[str]:
    return [
        principal
        for principal, entry in parts.entries.items()
        if entry["type"] == "STANDARD"
        and any(
            scope["type"] == "cluster" and policy.endswith("/AmazonEKSClusterAdminPolicy")
            for policy, scope in entry["policies"].items()
        )
    ]
