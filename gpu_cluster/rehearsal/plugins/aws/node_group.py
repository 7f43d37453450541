"""Managed node groups, as far as their row does not describe them."""

import secrets
import time
from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.aws.api import SECONDS, Api
from gpu_cluster.rehearsal.plugins.aws.api_request import request
from gpu_cluster.rehearsal.plugins.aws.eks import last_error
from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError

_LONGEST_PREFIX = 37
_VERSIONS = ("launchTemplate", "releaseVersion", "version")
_CONFIG = ("scalingConfig", "updateConfig", "nodeRepairConfig")


class NodeGroup(Rowed):
    """A managed node group."""

    token = "aws:eks/nodeGroup:NodeGroup"

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._lasts: dict[str, float] = {}
        """Node group -> the real duration of its last update, in seconds."""

    def sent(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**inputs, **_warm_pool({}, inputs)}

    def create(self, inputs: dict[str, Any]) -> str:
        name = inputs.get("nodeGroupName") or _generated(inputs.get("nodeGroupNamePrefix"))
        return super().create(inputs | {"nodeGroupName": name})

    def unready(self, identity: str, verb: str, row: Mapping[str, Any], wanted: Any) -> str:
        return (
            f"waiting for EKS Node Group ({identity}) {verb}: unexpected state "
            f"'{row['status']}', wanted target '{wanted}'. last error: {last_error(row)}"
        )

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        prefix = state.get("nodeGroupNamePrefix", "")
        return super().read(identity, state) | {"nodeGroupNamePrefix": prefix}

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._lasts[identity] = 0.0
        named = self.address("UpdateNodegroupConfig", identity, old)
        # Like the official provider: versions first.
        versions = {
            name: new[name] for name in _VERSIONS if new.get(name) not in (None, old.get(name))
        }
        if versions:
            shape = self.shape("UpdateNodegroupVersion")
            answer = self.client.update_nodegroup_version(
                **named, **request(shape, versions), force=bool(new.get("forceUpdateVersion"))
            )
            headers = answer["ResponseMetadata"]["HTTPHeaders"]
            self._lasts[identity] = float(headers.get(SECONDS, 0))
            self._wait(identity, new, "update")
            self._successful(identity, named, answer["update"]["id"])
        config = {name: new[name] for name in _CONFIG if new.get(name) not in (None, old.get(name))}
        config |= _warm_pool(old, new)
        config |= _labels(old.get("labels") or {}, new.get("labels") or {})
        config |= _taints(old.get("taints") or [], new.get("taints") or [])
        if config:
            shape = self.shape("UpdateNodegroupConfig")
            self.client.update_nodegroup_config(**named, **request(shape, config))

    def _successful(self, identity: str, named: Mapping[str, Any], update: str) -> None:
        """Raises CloudError if the update of the version has failed."""
        found = self.client.describe_update(
            name=named["clusterName"], nodegroupName=named["nodegroupName"], updateId=update
        )["update"]
        if found["status"] != "Successful":
            (error,) = found["errors"]
            raise CloudError(
                f"waiting for EKS Node Group ({identity}) version update ({update}): unexpected "
                f"state '{found['status']}', wanted target 'Successful'. last error: "
                f"{', '.join(error['resourceIds'])}: {error['errorCode']}: {error['errorMessage']}"
            )

    def lasts(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
        return self._lasts.get(identity, 0.0)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        super().delete(identity, state)  # raises an error if EKS does not have it any more
        raise CloudError(
            "unexpected state 'DELETE_FAILED', wanted target 'DELETED'. last error: "
            f"{last_error(self.described(identity, state))}"
        )


def _warm_pool(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The provider has no `enabled`: the block is there or not."""
    before, after = old.get("warmPoolConfig"), new.get("warmPoolConfig")
    if before == after:
        return {}
    return {"warmPoolConfig": {**(after or {}), "enabled": after is not None}}


def _labels(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, Any]:
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    gone = [key for key in old if key not in new]
    given = {"addOrUpdateLabels": changed, "removeLabels": gone}
    return (
        {"labels": {name: part for name, part in given.items() if part}} if changed or gone else {}
    )


def _taints(old: list[Any], new: list[Any]) -> dict[str, Any]:
    kept = [(taint["key"], taint["effect"]) for taint in new]
    changed = [item for item in new if item not in old]
    gone = [old_ for old_ in old if (old_["key"], old_["effect"]) not in kept]
    given = {"addOrUpdateTaints": changed, "removeTaints": gone}
    return (
        {"taints": {name: part for name, part in given.items() if part}} if changed or gone else {}
    )


def _generated(prefix: str | None) -> str:
    """A name in the official provider's format: its default or the given prefix, time, digits."""
    if prefix and len(prefix) > _LONGEST_PREFIX:
        raise CloudError(
            f"nodeGroupNamePrefix: expected at most {_LONGEST_PREFIX} characters, got {len(prefix)}"
        )
    return f"{prefix or 'terraform-'}{time.strftime('%Y%m%d%H%M%S')}{secrets.token_hex(6)}"
