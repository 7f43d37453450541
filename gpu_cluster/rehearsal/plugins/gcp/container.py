"""The provider's behaviour that GKE clusters and node pools share."""

import time
from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.handler import (
    CloudError,
    Config,
    InitFailedError,
    NotFoundError,
)
from gpu_cluster.rehearsal.plugins.cloud.patterns import given as is_given
from gpu_cluster.rehearsal.plugins.gcp.resource import Resource, project_of

_AUTH = "https://www.googleapis.com/auth/"
_SCOPES = {
    "compute-ro": "compute.readonly",
    "compute-rw": "compute",
    "logging-write": "logging.write",
    "monitoring-read": "monitoring.read",
    "monitoring-write": "monitoring.write",
    "storage-full": "devstorage.full_control",
    "storage-ro": "devstorage.read_only",
    "storage-rw": "devstorage.read_write",
    "trace": "trace.append",
}
"""Short names of scopes that differ from the scope's last part."""
DEFAULT_SCOPES = [
    f"{_AUTH}{name}"
    for name in ("devstorage.read_only", "logging.write", "monitoring",
                 "service.management.readonly", "servicecontrol", "trace.append")
]  # fmt: skip
"""The scopes that the provider requests if a `nodeConfig` names none (node_config.go)."""
_PORT = "insecureKubeletReadonlyPortEnabled"
"""A boolean in the API, sent whenever there is a `kubeletConfig`; text in the provider."""
_BROKEN = ("ERROR", "DEGRADED", "RUNNING_WITH_ERROR")
"""resource_container_cluster.go and resource_container_node_pool.go: their `RestingStates`."""


class ContainerResource(Resource):
    """A cluster or a node pool."""

    @property
    def virtual(self) -> set[str]:
        """Properties that exist only in the provider, or that it reads and sends by hand. Any other
        one without a field is refused."""
        return {*self.row.own, *self.row.by_hand}

    def completed(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {**inputs, "project": project_of(config, inputs)}

    # Like the provider, which passes on the API's messages unchanged.

    def on_create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        complete = self.completed(config, inputs)
        identity = self.insert(complete)
        outputs = self.fetch(identity, complete)
        status = self.status(identity)
        if status in _BROKEN:
            name = identity.rpartition("/")[2]
            reason = f'{self.row.schema} {name} was created in the error state "{status}"'
            raise InitFailedError(identity, outputs, reason)
        return identity, outputs

    def status(self, identity: str) -> str:
        """The status in the API; empty if the resource does not exist."""
        try:
            return str(self.get(identity)["status"])
        except NotFoundError:
            return ""

    def on_update(
        self, config: Config, identity: str, old: dict[str, Any], new: dict[str, Any]
    ) -> dict[str, Any]:
        complete = self.completed(config, new)
        self.change(identity, old, complete)
        return self.fetch(identity, complete)

    def remove(self, identity: str, state: Mapping[str, Any]) -> None:
        try:
            self.send("DELETE", identity, None, f"deleting GKE {self.row.noun}")
        except NotFoundError:
            raise
        except CloudError as error:
            raise CloudError(f"Error deleting {type(self).__name__}: {error}") from None

    def send(
        self, verb: str, path: str, body: Mapping[str, Any] | None, doing: str
    ) -> dict[str, Any]:
        """Sends a request to the API, waits until it is done, and returns the operation."""
        return self.waited(self.begin(verb, path, body), path, doing)

    def begin(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Sends a request to the API once no other operation prevents it, and returns the
        operation: the provider waits for the cluster's and the pool's resting state, and repeats a
        pool's requests (`retryWhileIncompatibleOperation`)."""
        while True:
            try:
                return self.client.call(self.row.service, verb, path, body)
            except CloudError as error:
                if "running incompatible operation" not in str(error):
                    raise
            time.sleep(0.05)

    def waited(self, operation: Mapping[str, Any], path: str, doing: str) -> dict[str, Any]:
        """Waits for the operation in the location of `path` and returns it."""
        return self.client.wait(self.row.service, operation, "/".join(path.split("/")[:4]), doing)

    def translated(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The body with fields translated by name, without empty ones; raises CloudError for an
        input without a field."""
        for path, field in self.renamed.items():
            if field is None and path not in self.virtual and is_given(inputs, path):
                raise CloudError(f"the offline plugin does not send '{path}' of {self.row.noun}")
        given = {name: value for name, value in inputs.items() if name not in self.virtual}
        body = sparse(super().expand(given))
        assert isinstance(body, dict)
        return body

    def with_zeros(self, found: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        """Adds false and 0, which the API omits, for known switches and counts."""
        mapped = {
            name: value
            for name, value in known.items()
            if name not in self.virtual and self.renamed.get(name, name) is not None
        }
        return with_zeros(found, mapped)

    def same(self, path: str, old: Any, new: Any) -> bool:
        # service_scope.go, CaseDiffSuppress
        if ".oauthScopes[" in path:
            return scope(old) == scope(new)
        if path.endswith("nodeConfig.imageType"):
            return str(old).upper() == str(new).upper()
        return super().same(path, old, new)


def node_config(given: Mapping[str, Any] | None, body: dict[str, Any] | None) -> dict[str, Any]:
    """The `NodeConfig` for a `nodeConfig` whose fields have been translated by name."""
    if given is None or body is None:
        return {"oauthScopes": list(DEFAULT_SCOPES)}
    scopes = [scope(word) for word in given.get("oauthScopes") or ()]
    wanted = [gpu for gpu in body.get("accelerators", ()) if gpu.get("acceleratorCount")]
    body = {**body, "oauthScopes": scopes, "accelerators": wanted}
    body["taints"] = given.get("taints") or []
    body.setdefault("loggingConfig", {"variantConfig": {}})
    if kubelet := body.get("kubeletConfig"):  # node_config.go, expandKubeletConfig
        body["kubeletConfig"] = kubelet | {_PORT: kubelet.get(_PORT) == "TRUE"}
    return {name: value for name, value in body.items() if value != []}


def flat_node_config(
    found: dict[str, Any], body: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
    """Reduces `taints` to those that the program declared; GKE's are in `effectiveTaints`."""
    ours = {taint["key"] for taint in known.get("taints") or ()}
    every = body.get("taints", [])
    found["effectiveTaints"] = [dict(taint) for taint in every]
    found["taints"] = [dict(item) for item in every if item["key"] in ours]
    if kubelet := found.get("kubeletConfig"):
        found["kubeletConfig"] = kubelet | {_PORT: str(kubelet.get(_PORT, False)).upper()}


def scope(name: Any) -> str:
    """The full name of a scope."""
    return f"{_AUTH}{_SCOPES.get(str(name), name)}" if "/" not in str(name) else str(name)


def sparse(value: Any) -> Any:
    """The value as Go's client sends it: without false, 0 and empty values, except blocks."""
    if isinstance(value, Mapping):
        return {
            name: sparse(inner)
            for name, inner in value.items()
            if inner or (isinstance(inner, Mapping) and name not in ("labels", "metadata"))
        }
    return [sparse(item) for item in value] if isinstance(value, list) else value


def with_zeros(found: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The state, with false and 0 for known switches and counts."""
    filled = dict(found)
    for name, value in known.items():
        if name not in found:
            if isinstance(value, int | float):
                filled[name] = type(value)(0)
        elif isinstance(value, Mapping) and isinstance(found[name], dict):
            filled[name] = with_zeros(found[name], value)
        elif isinstance(value, list) and isinstance(found[name], list):
            pairs = zip(found[name], value, strict=False)
            filled[name] = [
                with_zeros(own, other) if isinstance(own, dict) and isinstance(other, dict) else own
                for own, other in pairs
            ] + found[name][len(value) :]
    return filled
