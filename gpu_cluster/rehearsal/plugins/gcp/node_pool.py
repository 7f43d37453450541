"""How the provider creates and changes node pools."""

import re
from collections.abc import Mapping
from typing import Any

from gpu_cluster.clouds.rows.google import Row
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, Config, NotFoundError
from gpu_cluster.rehearsal.plugins.gcp.client import Client
from gpu_cluster.rehearsal.plugins.gcp.container import (
    ContainerResource,
    flat_node_config,
    node_config,
    sparse,
)
from gpu_cluster.rehearsal.plugins.gcp.locations import location_of
from gpu_cluster.rehearsal.plugins.gcp.resource import relative

_SCALING = ("minNodeCount", "maxNodeCount", "totalMinNodeCount", "totalMaxNodeCount")
_SIZES = ("machineType", "diskSizeGb", "diskType", "storagePools", "bootDisk")
"""Inputs that the provider changes in one request."""
_BY_ID = (
    "workloadMetadataConfig", "gcfsConfig", "gvnic", "kubeletConfig", "linuxNodeConfig",
    "windowsNodeConfig", "fastSocket",
)  # fmt: skip
"""Inputs whose request names the pool as `nodePoolId`."""
_ORDER = (
    "loggingConfig", "taintConfig", "containerdConfig", "confidentialNodes", "machineType",
    "taints", "tags", "resourceManagerTags", "resourceLabels", "labels", "imageType", *_BY_ID,
)  # fmt: skip
"""Fields of a `NodeConfig` in the provider's order (node_config.go); sizes share a request."""
_LISTED = ("locations", "upgradeSettings")
"""Fields of a `NodePool` whose position in that order is known."""
_ZEROS: Mapping[str, Any] = {
    "array": [], "boolean": False, "integer": 0, "number": 0, "object": {}, "string": "",
}  # fmt: skip
"""Type in Google's documents -> the value that an update sends for a removed field."""
_WORDS = {
    "loggingConfig": "logging_variant",
    "machineType": "disk_size_gb/disk_type/machine_type/storage_pools/boot_disk",
    "resourceLabels": "resource labels",
    "resourceManagerTags": "resource manager tags",
}
"""Fields with a special name in errors; the others are in snake case."""


class NodePool(ContainerResource):
    """A node pool of GKE Standard."""

    token = "gcp:container/nodePool:NodePool"
    # resource_container_node_pool.go, Timeouts (google-beta@93c65b2d).
    update_seconds = 2 * 3600.0

    def __init__(self, client: Client, row: Row) -> None:
        super().__init__(client, row)
        self._seconds: dict[str, float] = {}
        """Pool -> the real duration of its last update, in seconds."""

    def completed(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        found = super().completed(config, inputs)
        cluster = str(inputs["cluster"])
        collection = ""
        if "/" not in cluster:
            location = location_of(config, inputs)
            collection = f"projects/{found['project']}/locations/{location}/clusters"
        found["parent"] = relative(cluster, collection)
        found.setdefault("name", f"{inputs.get('namePrefix', '')}0000000001")
        return found

    def identity(self, inputs: Mapping[str, Any]) -> str:
        return f"{inputs['parent']}/nodePools/{inputs['name']}"

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        body = self.translated(inputs)
        if count := inputs.get("nodeCount"):
            body["initialNodeCount"] = count
        body["config"] = node_config(inputs.get("nodeConfig"), body.get("config"))
        body.setdefault("networkConfig", {})
        if inputs.get("networkConfig"):  # ForceSendFields of expandNodeNetworkConfig
            body["networkConfig"].setdefault("enablePrivateNodes", False)
        if scaling := _scaling(inputs):
            body["autoscaling"] = scaling
        return body

    def insert(self, inputs: Mapping[str, Any]) -> str:
        place = f"{inputs['parent']}/nodePools"
        body = {"nodePool": self.expand(inputs)}
        if inputs.get("initialNodeCount") and inputs.get("nodeCount"):
            raise CloudError("cannot set both initial_node_count and node_count on node pool")
        try:
            operation = self.begin("POST", place, body)
        except CloudError as error:
            raise CloudError(f"error creating NodePool: {error}") from None
        identity = self.identity(inputs)
        try:
            self.waited(operation, inputs["parent"], "creating GKE NodePool")
        except CloudError:
            if not self.status(identity):
                raise
        return identity

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        found = super().flatten(body, known)
        config = found.setdefault("nodeConfig", {})
        flat_node_config(config, body.get("config", {}), known.get("nodeConfig") or {})
        if not body.get("autoscaling", {}).get("enabled"):
            found.pop("autoscaling", None)
        settings = {"maxSurge": 0, "maxUnavailable": 0, "strategy": "SURGE"}
        found["upgradeSettings"] = settings | found.get("upgradeSettings", {})
        found["initialNodeCount"] = body.get("initialNodeCount", 0)
        found["operation"] = ""
        found.setdefault("networkConfig", {}).setdefault("enablePrivateNodes", False)
        return self.with_zeros(found, known)

    def fetch(self, identity: str, known: Mapping[str, Any]) -> dict[str, Any]:
        found = super().fetch(identity, known)
        urls = found.get("instanceGroupUrls", [])
        groups = []
        if known.get("ignoreNodeCountChanges"):
            found["nodeCount"] = known.get("nodeCount") or found["initialNodeCount"]
        else:
            for url in urls:
                try:
                    groups.append(self.client.call("COMPUTE", "GET", relative(url, "")))
                except NotFoundError:
                    continue  # like the provider: the group is gone
            sizes = [group.get("targetSize", 0) for group in groups]
            found["nodeCount"] = sum(sizes) // len(sizes) if sizes else 0
        found["managedInstanceGroupUrls"] = [group["instanceGroup"] for group in groups]
        return found

    def placed(self, identity: str) -> dict[str, Any]:
        parts = identity.split("/")
        return {"project": parts[1], "location": parts[3]}

    def lasts(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
        return self._seconds.pop(identity, 0.0)

    # Updates: each in its own request, in the provider's order.

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self._seconds.pop(identity, None)  # left by an update that failed partway
        wanted, before, scaling = self.expand(new), self.expand(old), _scaling(new)
        if scaling != _scaling(old):
            forced = ("minNodeCount", "totalMinNodeCount")
            sent = {k: v for k, v in (scaling or {}).items() if v or k in forced}
            update = {"desiredNodePoolId": new["name"], "desiredNodePoolAutoscaling": sent}
            self.send("PUT", new["parent"], {"update": update}, "updating GKE node pool")
        self._change_config(identity, new["name"], before["config"], wanted["config"])
        if new.get("nodeCount") != old.get("nodeCount"):
            size = {"nodeCount": new.get("nodeCount") or 0}
            self.send("POST", f"{identity}:setSize", sparse(size), "updating GKE node pool size")
        if new.get("management") != old.get("management"):
            given = {"autoRepair": False, "autoUpgrade": False} | (new.get("management") or {})
            self.send(
                "POST", f"{identity}:setManagement", {"management": given},
                "updating GKE node pool management",
            )  # fmt: skip
        if new.get("version") != old.get("version"):
            body = {"nodePoolId": new["name"], "nodeVersion": new.get("version") or ""}
            self._update(identity, body, "version")
        if set(new.get("nodeLocations") or ()) != set(old.get("nodeLocations") or ()):
            self._update(identity, {"locations": list(new["nodeLocations"])}, "node locations")
        if new.get("upgradeSettings") != old.get("upgradeSettings"):
            settings = {"upgradeSettings": wanted.get("upgradeSettings", {})}
            self._update(identity, settings, "upgrade settings")
        if new.get("networkConfig") != old.get("networkConfig"):
            body = {"nodePoolId": new["name"], "nodeNetworkConfig": wanted["networkConfig"]}
            self._update(identity, body, "network_config")
        changeable = self.document.schemas["UpdateNodePoolRequest"]["properties"]
        for name in sorted(self.fields.keys() & changeable.keys() - {*_LISTED, "etag", "name"}):
            if wanted.get(name) != before.get(name):
                self._change_unlisted(identity, new["name"], "NodePool", name, wanted.get(name))

    def _change_config(
        self, identity: str, pool: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> None:
        for name in _ORDER:
            self._change_field(identity, pool, name, before, after)
        differ = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        for name in sorted(set(differ) - {*_SIZES, *_ORDER}):
            self._change_unlisted(identity, pool, "NodeConfig", name, after.get(name))

    def _change_unlisted(
        self, identity: str, pool: str, message: str, name: str, value: Any
    ) -> None:
        """Sends a field whose position in the provider's order is unknown, by Google's document."""
        schemas = self.document.schemas
        sent = schemas["UpdateNodePoolRequest"]["properties"].get(name)
        if sent is None:
            raise CloudError(f"Google's API has no field to change '{name}' of a node pool")
        kind = schemas[message]["properties"][name]
        if value is None:
            value = {} if "$ref" in kind else _ZEROS[kind["type"]]
        if "$ref" in sent and "$ref" not in kind:  # a list or map, in its own block
            (inner,) = schemas[sent["$ref"]]["properties"]
            value = {inner: value}
        elif sent.get("type") == "string":
            value = str(value)  # 64-bit integers are strings
        self._update(identity, {"name": pool, name: value}, name)

    def _change_field(
        self,
        identity: str,
        pool: str,
        name: str,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
    ) -> None:
        names = _SIZES if name == "machineType" else (name,)
        differ = [name for name in names if before.get(name) != after.get(name)]
        if not differ:
            return
        value = after.get(name)
        body: dict[str, Any] = {("nodePoolId" if name in _BY_ID else "name"): pool}
        if name == "machineType":
            body |= {size: after[size] for size in _SIZES[:3] if size in after}
            body |= {word: after.get(word) for word in differ}
            if "diskSizeGb" in body:
                body["diskSizeGb"] = str(body["diskSizeGb"])
        elif name == "imageType":
            update = {"desiredNodePoolId": pool, "desiredImageType": value or ""}
            cluster = identity.rpartition("/nodePools/")[0]
            self.send("PUT", cluster, {"update": update}, "updating GKE node pool")
            return
        elif name in ("labels", "resourceLabels"):
            body |= {name: {"labels": value}} if value else {}
        elif name in ("taints", "tags"):
            body[name] = {name: value} if value else {}
        else:
            body[name] = value or {}
        self._update(identity, body, name)

    def _update(self, identity: str, body: Mapping[str, Any], what: str) -> None:
        words = _WORDS.get(what) or re.sub("([A-Z])", lambda letter: f"_{letter[1].lower()}", what)
        done = self.send("PUT", identity, body, f"updating GKE node pool {words}")
        for metric in (done.get("progress") or {}).get("metrics", ()):
            if metric["name"] == "SIMULATED_SECONDS":
                before = self._seconds.get(identity, 0.0)
                self._seconds[identity] = before + metric["doubleValue"]


def _scaling(inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns `NodePoolAutoscaling`, with counts that are sent even if they are 0."""
    given = inputs.get("autoscaling")
    if given is None:
        return None
    counts = {name: given.get(name) or 0 for name in _SCALING}
    policy = {"locationPolicy": given["locationPolicy"]} if given.get("locationPolicy") else {}
    return {"enabled": True, **counts, **policy}
