"""`gcp.container.get_cluster`, as the provider's data source returns it: a cluster with its pools,
each block as a list."""

from collections.abc import Mapping, Sequence
from typing import Any, ForwardRef, get_args, get_origin

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, Config, Handler, NotFoundError
from gpu_cluster.rehearsal.plugins.gcp.cluster import Cluster
from gpu_cluster.rehearsal.plugins.gcp.node_pool import NodePool
from gpu_cluster.rehearsal.plugins.gcp.resource import project_of

TOKEN = "gcp:container/getCluster:getCluster"
_ZEROS = {bool: False, int: 0, float: 0.0}


def answer(
    handlers: Mapping[str, Handler], config: Config, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The function's result; raises CloudError if the cluster does not exist."""
    from pulumi_gcp.container import GetClusterResult  # takes a fraction of a second

    cluster, pools = handlers[Cluster.token], handlers[NodePool.token]
    assert isinstance(cluster, Cluster)
    assert isinstance(pools, NodePool)
    places = {
        "project": project_of(config, arguments),
        "location": arguments.get("location") or config.get("region"),
        "name": arguments["name"],
    }
    identity = cluster.row.id.format_map(places)
    try:
        body = cluster.get(identity)
    except NotFoundError:
        # datasource_google_container_cluster.go: the read has cleared the ID.
        raise CloudError(f"{identity} not found") from None
    found = {
        **cluster.fetch(identity, {"resourceLabels": body.get("resourceLabels") or {}}),
        "nodePools": [pools.flatten(pool, {}) for pool in body.get("nodePools") or ()],
    }
    return {**_as(GetClusterResult, found), **places, "id": identity}


def _as(kind: type, found: Mapping[str, Any]) -> dict[str, Any]:
    """Converts `found`, a resource's state or a block of it, to the data source's type."""
    shown: dict[str, Any] = {}
    for member in vars(kind).values():
        name = getattr(getattr(member, "fget", None), "_pulumi_name", None)
        if name is None:
            continue
        hint = member.fget.__annotations__["return"]
        value = found.get(name)
        if get_origin(hint) is Sequence:
            shown[name] = _listed(get_args(hint)[0], _one_of(found, name))
        elif get_origin(hint) is Mapping:
            shown[name] = dict(value) if isinstance(value, Mapping) else {}
        else:
            shown[name] = _ZEROS.get(hint, "") if value is None else value
    return shown


def _one_of(found: Mapping[str, Any], plural: str) -> Any:
    """The value of a property that the state names in the singular, or like the data source."""
    endings = ((plural, ""), (plural[:-1], "s"), (plural[:-2], "es"), (f"{plural[:-3]}y", "ies"))
    names = [name for name, ending in endings if plural.endswith(ending)]
    return next((found[name] for name in names if found.get(name) is not None), None)


def _listed(kind: Any, value: Any) -> list[Any]:
    if value is None:
        return []
    rows = value if isinstance(value, list) else [value]
    if not isinstance(kind, ForwardRef):
        return list(rows)
    from pulumi_gcp.container import outputs

    block = getattr(outputs, kind.__forward_arg__.rpartition(".")[2])
    return [_as(block, row) for row in rows]
