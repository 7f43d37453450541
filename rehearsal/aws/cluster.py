"""EKS clusters, with the real control plane of the rehearsal behind them."""

import base64
import datetime
import re
from collections.abc import Mapping
from typing import Any

from components.catalog import eks as catalog
from rehearsal.aws.account import Account, ClusterParts, answering
from rehearsal.aws.joining import why_cluster_fails
from rehearsal.aws.keys_and_logs import log_group_of
from rehearsal.aws.kind import CloudError, Config, Kind, Problem
from rehearsal.aws.roles import require_trust
from rehearsal.aws.shapes import request
from rehearsal.cloud import ControlPlane
from rehearsal.provider.schema import UNKNOWN

_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
"""A cluster's authentication mode moves to the right only."""
_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


class Cluster(Kind):
    token = "aws:eks/cluster:Cluster"
    plays = (
        "name", "roleArn", "vpcConfig", "version", "accessConfig", "bootstrapSelfManagedAddons",
        "deletionProtection", "enabledClusterLogTypes", "encryptionConfig", "forceUpdateVersion",
        "kubernetesNetworkConfig", "upgradePolicy", "zonalShiftConfig", "tags",
    )  # fmt: skip
    computed = ("version", "accessConfig", "kubernetesNetworkConfig", "upgradePolicy")

    def __init__(self, account: Account, control_plane: ControlPlane) -> None:
        super().__init__(account)
        self._control_plane = control_plane

    def problems(self, inputs: Mapping[str, Any]) -> list[Problem]:
        name = inputs.get("name")
        if not isinstance(name, str) or name == UNKNOWN:
            return []
        if catalog.CLUSTER_NAME.fullmatch(name) and len(name) <= catalog.CLUSTER_NAME_MAX:
            return []
        words = f"'name' ('{name}') must be 1 to 100 letters, digits, '-' and '_', no sign first"
        return [Problem("name", words)]

    # The control plane takes seconds to start and to stop: not under the account's lock.

    def create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        identity, outputs = super().create(config, inputs)
        try:
            self._control_plane.ensure_started()
        except BaseException:
            with self.account.lock, answering():
                self._forget(identity)
            raise
        return identity, outputs

    def delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        super().delete(config, identity, state)
        self._control_plane.stop()

    def make(self, inputs: dict[str, Any]) -> str:
        name: str = inputs["name"]
        if self.account.clusters:
            taken = next(iter(self.account.clusters))
            if taken == name:
                raise CloudError(
                    f"ResourceInUseException: Cluster already exists with name: {name}"
                )
            raise CloudError(
                f"a rehearsal plays one cluster at a time, and there is '{taken}' already"
            )
        self._check_version(inputs)
        require_trust(self.account, inputs["roleArn"], "eks.amazonaws.com", "sts:AssumeRole")
        if reason := why_cluster_fails(self.account, inputs["roleArn"]):
            raise CloudError(f"unexpected state 'FAILED', wanted target 'ACTIVE': {reason}")
        vpc = self._vpc(name, inputs)
        self._check_key(inputs)
        inputs.setdefault("version", max(catalog.KUBERNETES_VERSIONS, key=_minor))
        eks = self.account.client("eks")
        eks.create_cluster(**self._request(inputs))
        group, interfaces = self._interfaces(name, vpc, inputs)
        parts = ClusterParts(inputs=dict(inputs), security_group=group, interfaces=interfaces)
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

    def _check_version(self, inputs: Mapping[str, Any]) -> None:
        version = inputs.get("version")
        if version is None:
            return
        known = ", ".join(catalog.KUBERNETES_VERSIONS)
        if version not in catalog.KUBERNETES_VERSIONS:
            raise CloudError(
                f"InvalidParameterException: unsupported Kubernetes version {version}: EKS has "
                f"{known}"
            )
        support = catalog.support(version, datetime.date.today())
        policy = (inputs.get("upgradePolicy") or {}).get("supportType", "EXTENDED")
        if support == "ended" or (support == "extended" and policy == "STANDARD"):
            words = "has ended" if support == "ended" else "is extended, supportType is STANDARD"
            raise CloudError(
                f"InvalidParameterException: unsupported Kubernetes version {version}: its support "
                f"{words}"
            )

    def _vpc(self, name: str, inputs: Mapping[str, Any]) -> str:
        """The VPC of the subnets, in which EKS must be able to put a control plane."""
        ec2, config = self.account.client("ec2"), inputs["vpcConfig"]
        subnets = ec2.describe_subnets(SubnetIds=config["subnetIds"])["Subnets"]
        vpcs = {subnet["VpcId"] for subnet in subnets}
        if len(vpcs) > 1:
            raise CloudError(
                "InvalidParameterException: Subnets specified must be in the same VPC, got "
                f"{', '.join(sorted(vpcs))}"
            )
        zones = {subnet["AvailabilityZone"] for subnet in subnets}
        if len(zones) < catalog.MIN_SUBNETS:
            raise CloudError(
                "InvalidParameterException: Subnets specified must be in at least two different AZs"
            )
        excluded = catalog.CONTROL_PLANE_EXCLUDED_ZONES.get(self.account.region)
        for subnet in subnets:
            if subnet["AvailabilityZoneId"] == excluded:
                good = [
                    zone["ZoneName"]
                    for zone in ec2.describe_availability_zones()["AvailabilityZones"]
                    if zone["ZoneId"] != excluded
                ]
                raise CloudError(
                    f"UnsupportedAvailabilityZoneException: Cannot create cluster '{name}' because "
                    f"{subnet['AvailabilityZone']}, the targeted availability zone, does not "
                    "currently have sufficient capacity to support the cluster. Retry and choose "
                    f"from these availability zones: {', '.join(good)}"
                )
        if not (config.get("endpointPublicAccess", True) or config.get("endpointPrivateAccess")):
            raise CloudError(
                "InvalidParameterException: Private and public endpoint access cannot be false"
            )
        if groups := config.get("securityGroupIds"):
            ec2.describe_security_groups(GroupIds=groups)
        return str(vpcs.pop())

    def _check_key(self, inputs: Mapping[str, Any]) -> None:
        if config := inputs.get("encryptionConfig"):
            key = config["provider"]["keyArn"]
            state = self.account.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"]
            if state != "Enabled":
                raise CloudError(f"InvalidParameterException: the KMS key {key} is {state}")

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

    def _interfaces(self, name: str, vpc: str, inputs: Mapping[str, Any]) -> tuple[str, list[str]]:
        """EKS's own security group and the control plane's interfaces, one in each subnet."""
        ec2 = self.account.client("ec2")
        group = ec2.create_security_group(
            GroupName=f"eks-cluster-sg-{name}",
            Description="EKS created security group applied to ENI that is attached to EKS "
            "Control Plane master nodes, as well as any managed workloads.",
            VpcId=vpc,
            TagSpecifications=[{
                "ResourceType": "security-group",
                "Tags": [{"Key": f"kubernetes.io/cluster/{name}", "Value": "owned"}],
            }],
        )["GroupId"]  # fmt: skip
        groups = [group, *(inputs["vpcConfig"].get("securityGroupIds") or [])]
        interfaces = [
            ec2.create_network_interface(
                SubnetId=subnet, Groups=groups, Description=f"Amazon EKS {name}"
            )["NetworkInterface"]["NetworkInterfaceId"]
            for subnet in inputs["vpcConfig"]["subnetIds"]
        ]
        return group, interfaces

    def _vpc_config(self, parts: ClusterParts, vpc: str) -> dict[str, Any]:
        given = parts.inputs["vpcConfig"]
        return {
            "subnetIds": given["subnetIds"],
            "securityGroupIds": given.get("securityGroupIds") or [],
            "endpointPublicAccess": given.get("endpointPublicAccess", True),
            "endpointPrivateAccess": given.get("endpointPrivateAccess", False),
            "publicAccessCidrs": given.get("publicAccessCidrs") or ["0.0.0.0/0"],
            "clusterSecurityGroupId": parts.security_group,
            "vpcId": vpc,
        }

    def _log(self, name: str, inputs: Mapping[str, Any]) -> None:
        """Whoever logs has a log group: where nobody made it, EKS does, and leaves it behind."""
        logs, group = self.account.client("logs"), log_group_of(name)
        found = logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
        if inputs.get("enabledClusterLogTypes") and not found:
            logs.create_log_group(logGroupName=group)

    def look(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
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

    def change(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        parts = self.account.clusters[identity]
        held = self.account.backend("eks").clusters[identity]
        if (before := old["version"]) != (after := new.get("version", old["version"])):
            self._check_version(new)
            if _minor(after) != (_minor(before)[0], _minor(before)[1] + 1):
                raise CloudError(
                    "InvalidParameterException: Unsupported Kubernetes minor version update from "
                    f"{before} to {after}"
                )
        modes = [
            (inputs.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
            for inputs in (old, new)
        ]
        if _MODES.index(modes[1]) < _MODES.index(modes[0]):
            raise CloudError(
                "InvalidParameterException: Unsupported authentication mode update from "
                f"{modes[0]} to {modes[1]}"
            )
        vpc = self._vpc(identity, new)
        if vpc != held.resources_vpc_config["vpcId"]:
            raise CloudError("InvalidParameterException: Subnets must be in the cluster's VPC")
        self._check_key(new)
        parts.inputs = dict(new)
        held.version = after
        held.resources_vpc_config = self._vpc_config(parts, vpc)
        held.logging = {"clusterLogging": _logging(new)}
        self._log(identity, new)

    def retag(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        self.account.backend("eks").clusters[identity].tags = dict(tags)

    def remove(self, identity: str, state: dict[str, Any]) -> None:
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
        ec2 = self.account.client("ec2")
        for interface in parts.interfaces:
            ec2.delete_network_interface(NetworkInterfaceId=interface)
        ec2.delete_security_group(GroupId=parts.security_group)


def _logging(inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    on = inputs.get("enabledClusterLogTypes") or []
    off = [kind for kind in _LOG_TYPES if kind not in on]
    return [
        {"types": list(types), "enabled": enabled}
        for types, enabled in ((on, True), (off, False))
        if types
    ]


def _minor(version: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]+)\.([0-9]+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def access_granted(parts: ClusterParts) -> bool:
    """Whether anybody may use the cluster as its administrator: before that, `aws eks get-token`
    gives a token that the API server refuses. The person who rehearses is taken for that one."""
    return any(
        scope["type"] == "cluster" and policy.endswith("/AmazonEKSClusterAdminPolicy")
        for entry in parts.entries.values()
        if entry["type"] == "STANDARD"
        for policy, scope in entry["policies"].items()
    )
