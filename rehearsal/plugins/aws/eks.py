"""EKS clusters, their addons and their access entries."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from rehearsal.plugins.aws.api_request import request
from rehearsal.plugins.aws.kind import (
    Config,
    InitFailedError,
    Kind,
    Problem,
)
from rehearsal.plugins.aws.rowed import Rowed
from rehearsal.plugins.cloud.schema import UNKNOWN

_POLL_SECONDS = 0.05


class EksKind(Kind):
    """An EKS resource, whose tags are set by its ARN."""

    arn_key = "arn"
    """The property that contains its ARN."""

    @property
    def eks(self) -> Any:
        """A client for EKS."""
        return self.api.client("eks")

    def shape(self, operation: str) -> Any:
        """The request of an operation in botocore's model."""
        return self.eks.meta.service_model.operation_model(operation).input_shape

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        arn = self.read(identity, state)[self.arn_key]
        if gone:
            self.eks.untag_resource(resourceArn=arn, tagKeys=gone)
        if tags:
            self.eks.tag_resource(resourceArn=arn, tags=dict(tags))


def waited(describe: Callable[[], Mapping[str, Any]], *on: str) -> Mapping[str, Any]:
    """Polls until the status is none of `on`; returns the description."""
    while (row := describe())["status"] in on:
        time.sleep(_POLL_SECONDS)
    return row


def last_error(row: Mapping[str, Any], *, code: bool = True) -> str:
    """The first error in the health of a cluster, node group or addon, as a line."""
    for issue in row["health"]["issues"]:
        return f"{issue['code']}: {issue['message']}" if code else str(issue["message"])
    return "unknown"


class Cluster(EksKind):
    """An EKS cluster."""

    token = "aws:eks/cluster:Cluster"
    supported_inputs = (
        "name", "roleArn", "vpcConfig", "version", "accessConfig", "bootstrapSelfManagedAddons",
        "deletionProtection", "enabledClusterLogTypes", "encryptionConfig", "forceUpdateVersion",
        "kubernetesNetworkConfig", "upgradePolicy", "zonalShiftConfig", "tags",
        "computeConfig", "storageConfig",
    )  # fmt: skip

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        """Encryption of secrets is permanent: EKS cannot remove a cluster's key."""
        return path == "encryptionConfig" and new is None

    def create(self, inputs: dict[str, Any]) -> str:
        name: str = inputs["name"]
        own = ("vpcConfig", "enabledClusterLogTypes", "encryptionConfig", "tags", "tagsAll",
               "forceUpdateVersion", "region")  # fmt: skip
        given = {key: value for key, value in inputs.items() if key not in own}
        given["resourcesVpcConfig"] = inputs["vpcConfig"]
        given["logging"] = _logging([], inputs)
        if "encryptionConfig" in inputs:
            given["encryptionConfig"] = [inputs["encryptionConfig"]]
        self.eks.create_cluster(
            **request(self.shape("CreateCluster"), given), tags=inputs["tagsAll"]
        )
        row = waited(lambda: self._row(name), "CREATING")
        if row["status"] != "ACTIVE":
            reason = (
                f"waiting for EKS Cluster ({name}) create: unexpected state '{row['status']}', "
                f"wanted target 'ACTIVE': {last_error(row, code=False)}"
            )
            raise InitFailedError(name, inputs, reason)
        return name

    def _row(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = self.eks.describe_cluster(name=name)["cluster"]
        return row

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        row = self._row(identity)
        logged = [
            kind
            for setup in row["logging"]["clusterLogging"]
            if setup["enabled"]
            for kind in setup["types"]
        ]
        given = state.get("enabledClusterLogTypes") or []
        names = (
            "arn", "name", "endpoint", "certificateAuthority", "platformVersion", "status",
            "version", "roleArn", "kubernetesNetworkConfig", "accessConfig", "upgradePolicy",
            "deletionProtection", "computeConfig", "storageConfig",
        )  # fmt: skip
        return {name: row.get(name) for name in names} | {
            "identities": [{"oidcs": [{"issuer": row["identity"]["oidc"]["issuer"]}]}],
            "createdAt": row["createdAt"].isoformat(),
            "vpcConfig": row["resourcesVpcConfig"],
            "encryptionConfig": next(iter(row.get("encryptionConfig") or []), None),
            # Sets: their order is irrelevant.
            "enabledClusterLogTypes": given if sorted(given) == sorted(logged) else logged,
            "tagsAll": row.get("tags") or {},
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        version = new.get("version")
        if version not in (None, old.get("version")):
            self._over(identity, self.eks.update_cluster_version(name=identity, version=version))
        # The provider sets a key on a cluster that has none, and never sends a different key.
        if new.get("encryptionConfig") and not self.read(identity, old)["encryptionConfig"]:
            answer = self.eks.associate_encryption_config(
                clusterName=identity, encryptionConfig=[new["encryptionConfig"]]
            )
            self._over(identity, answer)
        mode = (new.get("accessConfig") or {}).get("authenticationMode")
        if mode and mode != old["accessConfig"]["authenticationMode"]:
            self._configure(identity, accessConfig={"authenticationMode": mode})
        for name in ("deletionProtection", "upgradePolicy", "zonalShiftConfig"):
            if new.get(name) is not None and old.get(name) != new[name]:
                self._configure(identity, **{name: new[name]})
        automatic = [_auto_mode(each) for each in (old, new)]
        if automatic[1] and automatic[0] != automatic[1]:
            self._configure(identity, **automatic[1])
        logs = [(each.get("enabledClusterLogTypes") or []) for each in (old, new)]
        if sorted(logs[0]) != sorted(logs[1]):
            self._configure(identity, logging=_logging(logs[0], new))
        config = _placed(new["vpcConfig"])
        stands = _placed(old["vpcConfig"])
        if any(stands.get(key) != value for key, value in config.items()):
            self._configure(identity, resourcesVpcConfig=config)

    def _configure(self, name: str, **given: Any) -> None:
        shape = self.shape("UpdateClusterConfig")
        self._over(name, self.eks.update_cluster_config(name=name, **request(shape, given)))

    def _over(self, name: str, answer: Mapping[str, Any]) -> None:
        """Waits, because EKS accepts the next change only after the previous one has finished."""
        of = {"name": name, "updateId": answer["update"]["id"]}
        waited(lambda: self.eks.describe_update(**of)["update"], "InProgress")

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        self.eks.delete_cluster(name=identity)
        try:
            waited(lambda: self._row(identity), "DELETING")
        except self.eks.exceptions.ResourceNotFoundException:
            return


def _placed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The `vpcConfig` as the provider sends it, with the provider's defaults."""
    found = {
        "subnetIds": config["subnetIds"],
        "securityGroupIds": config.get("securityGroupIds") or [],
        "endpointPublicAccess": config.get("endpointPublicAccess", True),
        "endpointPrivateAccess": config.get("endpointPrivateAccess", False),
    }
    if config.get("publicAccessCidrs"):
        found["publicAccessCidrs"] = config["publicAccessCidrs"]
    return found


def _auto_mode(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of EKS Auto Mode, which the provider changes together (internal/service/eks/
    cluster.go, updateCluster... of hashicorp/terraform-provider-aws)."""
    given = {name: inputs[name] for name in ("computeConfig", "storageConfig") if inputs.get(name)}
    balancing = (inputs.get("kubernetesNetworkConfig") or {}).get("elasticLoadBalancing")
    if not given:
        return {}
    return given | {"kubernetesNetworkConfig": {"elasticLoadBalancing": balancing or {}}}


def _logging(before: list[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
    on = inputs.get("enabledClusterLogTypes") or []
    off = [kind for kind in before if kind not in on]
    setups = [
        {"types": list(types), "enabled": enabled}
        for types, enabled in ((on, True), (off, False))
        if types
    ]
    return {"clusterLogging": setups}


class Addon(Rowed):
    """An EKS addon."""

    token = "aws:eks/addon:Addon"

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        found = super().validate_preview(config, inputs)
        version = inputs.get("addonVersion")
        if version in (None, UNKNOWN) or str(version).startswith("v"):
            return found
        words = (
            f"'addonVersion' ('{version}') must be a version with a leading v: v1.2.3-eksbuild.1"
        )
        return [*found, Problem("addonVersion", words)]

    def unready(self, identity: str, verb: str, row: Mapping[str, Any], wanted: Any) -> str:
        """EKS keeps retrying, and the provider waits until its own timeout."""
        code = row["health"]["issues"][0]["code"] != "AccessDenied"
        return (
            f"waiting for EKS Add-On ({identity}) {verb}: timeout while waiting for state to "
            f"become '{wanted}' (last state: '{row['status']}', timeout: 20m0s): "
            f"{last_error(row, code=code)}"
        )

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        now.pop("podIdentityAssociations", None)  # EKS returns ARNs where the inputs are objects
        return now

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        cluster, _, name = identity.partition(":")
        kept = {"preserve": True} if state.get("preserve") else {}
        self.client.delete_addon(clusterName=cluster, addonName=name, **kept)
