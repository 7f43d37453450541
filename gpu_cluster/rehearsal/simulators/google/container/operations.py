"""GKE's operations, and its server configuration by location."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gpu_cluster.components.catalog.gke import CHANNEL_DEFAULTS
from gpu_cluster.rehearsal.simulators.google.api.call import Call, get_operation
from gpu_cluster.rehearsal.simulators.google.container.locations import (
    IMAGES,
    MINORS,
    check_location,
)
from gpu_cluster.rehearsal.simulators.google.errors import ApiError
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.tools.google_discovery import WIDER, document

Method = Callable[[Call], dict[str, Any]]


def one_at_a_time(methods: Mapping[str, Method]) -> dict[str, Method]:
    """The methods, refused while an operation runs on their cluster or pool, on the pool's cluster
    or on a pool of the cluster (cloud.google.com, "Troubleshoot concurrent operations"; the error's
    form: issue 1363 of kubernetes-sigs/cluster-api-provider-gcp)."""
    return {name: partial(_if_free, method) for name, method in methods.items()}


def _if_free(method: Method, call: Call) -> dict[str, Any]:
    target, update = call.name, call.body.get("update") or {}
    if pool := update.get("desiredNodePoolId") or (call.body.get("nodePool") or {}).get("name"):
        target = f"{target.removesuffix('/nodePools')}/nodePools/{pool}"
    if running := call.cloud.operations.running(target):
        raise ApiError(
            400,
            f"Cluster is running incompatible operation {running.name}.",
            reason="failedPrecondition",
            status="FAILED_PRECONDITION",
        )
    return method(call)


def operation(
    call: Call,
    kind: str,
    target: str,
    *,
    work: Callable[[], object] | None = None,
    simulated_seconds: float = 0.0,
    error: ApiError | None = None,
) -> dict[str, Any]:
    """Starts an operation in the location of its target. `simulated_seconds`: the real duration,
    which the operation's progress reports; `error`: its result."""
    scope = "/".join(target.split("/")[:4])
    begun = call.cloud.operations.begin(
        "container", scope, kind, target, work=work, simulated_seconds=simulated_seconds
    )
    if error is not None:
        begun.error = error
    return begun.body(call.base)


def updating(
    call: Call,
    kind: str,
    target: str,
    *,
    work: Callable[[], object] | None = None,
    simulated_seconds: float = 0.0,
    error: ApiError | None = None,
) -> dict[str, Any]:
    """Starts an operation that changes something and may end with an injected fault."""
    if failure := call.cloud.ends_half_way(kind):
        error = ApiError(500, failure)
    return operation(
        call, kind, target, work=work, simulated_seconds=simulated_seconds, error=error
    )


def broken(resource: CloudResource, message: str) -> ApiError:
    """The error of an operation that failed partway. GKE keeps the resource and the reason."""
    resource.state |= {"status": "ERROR", "statusMessage": message}
    resource.nodes = resource.kept_nodes = 0
    return ApiError(500, message)


def fields(schema: str) -> Mapping[str, Mapping[str, Any]]:
    """The fields of a message of GKE's API, in the version with the most fields."""
    found = document("container", WIDER["container", "v1"])
    assert found is not None
    properties: Mapping[str, Mapping[str, Any]] = found.schemas[schema]["properties"]
    return properties


def without_defaults(value: Any) -> Any:
    """The message in the form of Google's newer APIs: without false, 0 and empties but blocks."""
    if isinstance(value, Mapping):
        return {
            name: without_defaults(inner)
            for name, inner in value.items()
            if inner or isinstance(inner, Mapping)
        }
    return [without_defaults(item) for item in value] if isinstance(value, list) else value


def _list(call: Call) -> dict[str, Any]:
    scope = call.name.removesuffix("/operations")
    found = [
        item.body(call.base)
        for item in call.cloud.operations.all()
        if item.form == "container" and (item.scope == scope or scope.endswith("/locations/-"))
    ]
    return {"operations": found} if found else {}


def _server_config(call: Call) -> dict[str, Any]:
    check_location(call.path["locationsId"])
    channels = [
        {
            "channel": channel,
            "defaultVersion": CHANNEL_DEFAULTS[channel],
            "validVersions": [CHANNEL_DEFAULTS[channel]],
        }
        for channel in MINORS
        if channel in CHANNEL_DEFAULTS
    ]
    versions = sorted({CHANNEL_DEFAULTS[row] for row in MINORS if row in CHANNEL_DEFAULTS})[::-1]
    return {
        "defaultClusterVersion": CHANNEL_DEFAULTS["REGULAR"],
        "defaultImageType": IMAGES[0],
        "validImageTypes": list(IMAGES),
        "validMasterVersions": versions,
        "validNodeVersions": versions,
        "channels": channels,
    }


_PREFIX = "container.projects.locations."
METHODS = {
    f"{_PREFIX}operations.get": get_operation,
    f"{_PREFIX}operations.list": _list,
    f"{_PREFIX}getServerConfig": _server_config,
}
