"""Managed node groups, and tags of Auto Scaling groups."""

import secrets
import time
from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.api import SECONDS, Api
from rehearsal.plugins.aws.api_request import request
from rehearsal.plugins.aws.eks import EksKind, last_error, waited
from rehearsal.plugins.aws.kind import CloudError, InitFailedError

_RENAMED = {"nodeGroupName": "nodegroupName", "subnetIds": "subnets", "nodeRoleArn": "nodeRole"}
_UNSENT = ("tags", "tagsAll", "nodeGroupNamePrefix", "forceUpdateVersion", "region")
_LONGEST_PREFIX = 37
_VERSIONS = ("launchTemplate", "releaseVersion", "version")
_CONFIG = ("scalingConfig", "updateConfig", "nodeRepairConfig")
_SHOWN = (
    "amiType", "capacityType", "diskSize", "instanceTypes", "releaseVersion", "version",
    "updateConfig", "nodeRepairConfig", "taints", "launchTemplate", "scalingConfig", "status",
)  # fmt: skip


class NodeGroup(EksKind):
    """A managed node group."""

    token = "aws:eks/nodeGroup:NodeGroup"
    supported_inputs = (
        "clusterName", "nodeGroupName", "nodeGroupNamePrefix", "nodeRoleArn", "subnetIds",
        "scalingConfig", "amiType", "capacityType", "diskSize", "instanceTypes", "labels",
        "launchTemplate", "nodeRepairConfig", "releaseVersion", "taints", "updateConfig",
        "version", "forceUpdateVersion", "tags", "warmPoolConfig",
    )  # fmt: skip

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._lasts: dict[str, float] = {}
        """Node group -> the real duration of its last update, in seconds."""

    def create(self, inputs: dict[str, Any]) -> str:
        given = {name: value for name, value in inputs.items() if name not in _UNSENT}
        given.setdefault("nodeGroupName", _generated(inputs.get("nodeGroupNamePrefix")))
        given |= _warm_pool({}, given)
        shape = self.shape("CreateNodegroup")
        self.eks.create_nodegroup(**request(shape, given, _RENAMED), tags=inputs["tagsAll"])
        identity = f"{inputs['clusterName']}:{given['nodeGroupName']}"
        row = waited(lambda: self._row(identity), "CREATING")
        if row["status"] != "ACTIVE":
            reason = (
                f"waiting for EKS Node Group ({identity}) create: unexpected state "
                f"'{row['status']}', wanted target 'ACTIVE'. last error: {last_error(row)}"
            )
            raise InitFailedError(identity, inputs, reason)
        return identity

    def _named(self, identity: str) -> dict[str, str]:
        cluster, _, name = identity.partition(":")
        return {"clusterName": cluster, "nodegroupName": name}

    def _row(self, identity: str) -> dict[str, Any]:
        row: dict[str, Any] = self.eks.describe_nodegroup(**self._named(identity))["nodegroup"]
        return row

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        row = self._row(identity)
        groups = [{"name": each["name"]} for each in row["resources"]["autoScalingGroups"]]
        return {name: row.get(name) for name in _SHOWN} | {
            "arn": row["nodegroupArn"],
            "resources": [{"autoscalingGroups": groups, "remoteAccessSecurityGroupId": ""}],
            "nodeGroupName": row["nodegroupName"],
            "nodeGroupNamePrefix": state.get("nodeGroupNamePrefix", ""),
            "subnetIds": row["subnets"],
            "labels": row.get("labels") or {},
            "warmPoolConfig": _shown_warm_pool(row.get("warmPoolConfig")),
            "tagsAll": row.get("tags") or {},
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._lasts[identity] = 0.0
        named = self._named(identity)
        # Like the official provider: versions first.
        versions = {
            name: new[name] for name in _VERSIONS if new.get(name) not in (None, old.get(name))
        }
        if versions:
            shape = self.shape("UpdateNodegroupVersion")
            answer = self.eks.update_nodegroup_version(
                **named, **request(shape, versions), force=bool(new.get("forceUpdateVersion"))
            )
            headers = answer["ResponseMetadata"]["HTTPHeaders"]
            self._lasts[identity] = float(headers.get(SECONDS, 0))
        config = {name: new[name] for name in _CONFIG if new.get(name) not in (None, old.get(name))}
        config |= _warm_pool(old, new)
        config |= _labels(old.get("labels") or {}, new.get("labels") or {})
        config |= _taints(old.get("taints") or [], new.get("taints") or [])
        if config:
            shape = self.shape("UpdateNodegroupConfig")
            self.eks.update_nodegroup_config(**named, **request(shape, config))

    def lasts(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
        return self._lasts.get(identity, 0.0)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        self.eks.delete_nodegroup(**self._named(identity))
        try:
            row = waited(lambda: self._row(identity), "DELETING")
        except self.eks.exceptions.ResourceNotFoundException:
            return
        raise CloudError(
            f"unexpected state '{row['status']}', wanted target 'DELETED'. last error: "
            f"{last_error(row)}"
        )


def _warm_pool(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The provider has no `enabled`: the block is there or not."""
    before, after = old.get("warmPoolConfig"), new.get("warmPoolConfig")
    if before == after:
        return {}
    return {"warmPoolConfig": {**(after or {}), "enabled": after is not None}}


def _shown_warm_pool(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not row or not row.get("enabled"):
        return None
    return {name: value for name, value in row.items() if name != "enabled"}


def _labels(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, Any]:
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    gone = [key for key in old if key not in new]
    given = {"addOrUpdateLabels": changed, "removeLabels": gone}
    return (
        {"labels": {name: each for name, each in given.items() if each}} if changed or gone else {}
    )


def _taints(old: list[Any], new: list[Any]) -> dict[str, Any]:
    kept = [(each["key"], each["effect"]) for each in new]
    changed = [each for each in new if each not in old]
    gone = [each for each in old if (each["key"], each["effect"]) not in kept]
    given = {"addOrUpdateTaints": changed, "removeTaints": gone}
    return (
        {"taints": {name: each for name, each in given.items() if each}} if changed or gone else {}
    )


def _generated(prefix: str | None) -> str:
    """A name in the official provider's format: its default or the given prefix, time, digits."""
    if prefix and len(prefix) > _LONGEST_PREFIX:
        raise CloudError(
            f"nodeGroupNamePrefix: expected at most {_LONGEST_PREFIX} characters, got {len(prefix)}"
        )
    return f"{prefix or 'terraform-'}{time.strftime('%Y%m%d%H%M%S')}{secrets.token_hex(6)}"
