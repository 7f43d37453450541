"""EKS clusters and addons, as far as their rows do not describe them."""

import time
from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.aws.api_request import request
from gpu_cluster.rehearsal.plugins.aws.rowed import POLL_SECONDS, Rowed

_CREATOR = "bootstrapClusterCreatorAdminPermissions"


def last_error(row: Mapping[str, Any], *, code: bool = True) -> str:
    """The first error in the health of a cluster, node group or addon, as a line."""
    for issue in row["health"]["issues"]:
        return f"{issue['code']}: {issue['message']}" if code else str(issue["message"])
    return "unknown"


class Cluster(Rowed):
    """An EKS cluster."""

    token = "aws:eks/cluster:Cluster"

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        """Encryption of secrets is permanent: EKS cannot remove a cluster's key. The provider does
        not change the role of Auto Mode's nodes either (validateAutoModeComputeConfigCustomizeDiff
        in its internal/service/eks/cluster.go)."""
        if path == "computeConfig.nodeRoleArn":
            return bool(old and new)
        if path == "vpcConfig.controlPlaneEgressMode":  # pulumi_aws 7.51.1's text of the input
            return bool(old == "CUSTOMER_ROUTED" and new)
        return path == "encryptionConfig" and new is None

    def sent(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        key = inputs.get("encryptionConfig")
        logs = {"enabledClusterLogTypes": _logging([], inputs)}
        found = {**inputs, **logs, "encryptionConfig": [key] if key else None}
        if access := inputs.get("accessConfig"):
            found["accessConfig"] = {_CREATOR: False, **access}
        return found

    def unready(self, identity: str, verb: str, row: Mapping[str, Any], wanted: Any) -> str:
        return (
            f"waiting for EKS Cluster ({identity}) {verb}: unexpected state '{row['status']}', "
            f"wanted target '{wanted}': {last_error(row, code=False)}"
        )

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        now.pop("zonalShiftConfig", None)
        # The provider takes this from its own state, and false for none (resourceClusterRead).
        now["accessConfig"][_CREATOR] = bool((state.get("accessConfig") or {}).get(_CREATOR))
        given = state.get("enabledClusterLogTypes") or []
        if sorted(given) == sorted(now["enabledClusterLogTypes"]):  # a set
            now["enabledClusterLogTypes"] = given
        return now

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        version = new.get("version")
        if version not in (None, old.get("version")):
            self._over(identity, self.client.update_cluster_version(name=identity, version=version))
        # The provider sets a key on a cluster that has none, and never sends a different key.
        if new.get("encryptionConfig") and not self.read(identity, old)["encryptionConfig"]:
            answer = self.client.associate_encryption_config(
                clusterName=identity, encryptionConfig=[new["encryptionConfig"]]
            )
            self._over(identity, answer)
        mode = (new.get("accessConfig") or {}).get("authenticationMode")
        if mode and mode != old["accessConfig"]["authenticationMode"]:
            self._configure(identity, accessConfig={"authenticationMode": mode})
        for name in ("deletionProtection", "upgradePolicy", "zonalShiftConfig"):
            if new.get(name) is not None and old.get(name) != new[name]:
                self._configure(identity, **{name: new[name]})
        automatic = [_auto_mode(config) for config in (old, new)]
        if automatic[1] and automatic[0] != automatic[1]:
            self._configure(identity, **automatic[1])
        logs = [(item.get("enabledClusterLogTypes") or []) for item in (old, new)]
        if sorted(logs[0]) != sorted(logs[1]):
            self._configure(identity, logging=_logging(logs[0], new))
        config = _placed(new["vpcConfig"])
        current = _placed(old["vpcConfig"])
        if any(current.get(key) != value for key, value in config.items()):
            self._configure(identity, resourcesVpcConfig=config)

    def _configure(self, name: str, **given: Any) -> None:
        shape = self.shape("UpdateClusterConfig")
        self._over(name, self.client.update_cluster_config(name=name, **request(shape, given)))

    def _over(self, name: str, answer: Mapping[str, Any]) -> None:
        """Waits, because EKS accepts the next change only after the previous one has finished."""
        of = {"name": name, "updateId": answer["update"]["id"]}
        while self.client.describe_update(**of)["update"]["status"] == "InProgress":
            time.sleep(POLL_SECONDS)


def _placed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The `vpcConfig` as the provider sends it, with the provider's defaults."""
    found = {
        "subnetIds": config["subnetIds"],
        "securityGroupIds": config.get("securityGroupIds") or [],
        "endpointPublicAccess": config.get("endpointPublicAccess", True),
        "endpointPrivateAccess": config.get("endpointPrivateAccess", False),
    }
    for name in ("publicAccessCidrs", "controlPlaneEgressMode"):
        if config.get(name):
            found[name] = config[name]
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
