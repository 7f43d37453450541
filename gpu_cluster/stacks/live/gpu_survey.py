"""Every node's GPUs, and what GPU nodes lack, according to the cluster's API server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import kubernetes.client

from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.stacks.definition.settings import NOWHERE, config_of, settings_of
from gpu_cluster.stacks.live.cluster import asked, client_of, page
from gpu_cluster.stacks.live.gpu_findings import Finding, node_findings
from gpu_cluster.stacks.live.gpu_nodes import GpuNode, Object, claimable, gpu_node, taints_of
from gpu_cluster.stacks.outcome import Answer, ExitCode
from gpu_cluster.stacks.table import table


@dataclass(frozen=True, slots=True)
class Column:
    """A property of a node, or of each GPU resource on it."""

    title: str
    """The title in the table; empty if only the JSON has it."""
    key: str
    """The key in the JSON; empty if the resource's own name is the key."""
    of: Callable[[GpuNode, str], object]
    """Returns the value for a node and a resource on it."""
    varies: bool = False
    """Whether the value differs between the resources of a node."""


COLUMNS = (
    Column("NODE", "name", lambda node, _: node.name),
    Column("", "gpuSign", lambda node, _: node.gpu_sign),
    Column("POOL", "pool", lambda node, _: node.pool),
    Column("", "launchedBy", lambda node, _: node.launched_by),
    Column("MODEL", "model", lambda node, _: node.model),
    Column("RESOURCE", "", lambda _, resource: resource, varies=True),
    Column("CAPACITY", "capacity", lambda node, name: node.resources[name][0], varies=True),
    Column("ALLOCATABLE", "allocatable", lambda node, name: node.resources[name][1], varies=True),
    Column("REQUESTED", "requested", lambda node, name: node.resources[name][2], varies=True),
    Column("FREE", "free", lambda node, name: _free(*node.resources[name]), varies=True),
    Column("DRIVER", "driver", lambda node, _: node.driver),
    Column("PLUGIN", "plugin", lambda node, _: node.plugin),
    Column("STATE", "state", lambda node, _: node.state),
)
"""The columns in the table's order."""


def answer(stack: str, kubeconfig: str) -> Answer:
    """Exit code, document and text. Raises CheckError if the cluster does not answer."""
    settings = settings_of(stack, config_of(stack), kubeconfig=NOWHERE)
    pools = [resolved.pool for resolved in settings.pools.values()]
    nodes, pods, daemon_sets = _ask(kubeconfig)
    claimed = any(pool.device_class for pool in pools)
    devices = claimable(*_ask_devices(kubeconfig)) if claimed else {}
    rows, found = survey(nodes, pods, daemon_sets, pools, devices)
    document = {
        "stack": stack,
        "nodes": [_document(row) for row in rows],
        "findings": [asdict(finding) for finding in found],
    }
    return (ExitCode.FINDING if found else ExitCode.OK), document, survey_text(rows, found)


def survey(
    nodes: Sequence[Object],
    pods: Sequence[Object],
    daemon_sets: Sequence[Object],
    pools: Sequence[GpuPool],
    devices: Mapping[str, tuple[int, int, int]] = MappingProxyType({}),
) -> tuple[list[GpuNode], list[Finding]]:
    """Every node by name, and what the GPU nodes among them lack. `devices`: what `claimable`
    found."""
    rows, found = [], []
    for node in sorted(nodes, key=lambda item: item["metadata"]["name"]):
        own_pods = [pod for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"]]
        row = gpu_node(node, own_pods, pools, devices)
        rows.append(row)
        found += node_findings(row, node, own_pods, daemon_sets, pools)
    signs = {row.name: row.gpu_sign for row in rows}
    if not any(_takes_any_pod(node) and not signs[node["metadata"]["name"]] for node in nodes):
        # With the taint on the GPU nodes too, no node would take what the cluster itself runs.
        found = [finding for finding in found if finding.lacks != "taint"]
    return rows, found


def _takes_any_pod(node: Object) -> bool:
    return not any(taint["effect"] != "PreferNoSchedule" for taint in taints_of(node))


def survey_text(rows: Sequence[GpuNode], found: Sequence[Finding]) -> str:
    """The table with a row per node and GPU resource, then two lines per finding."""
    if not rows:
        return "the cluster has no nodes now"
    shown = [column for column in COLUMNS if column.title]
    cells = [
        [column.of(row, resource) if resource or not column.varies else None for column in shown]
        for row in rows
        for resource in row.resources or [""]
    ]
    lines = [table([column.title for column in shown], cells)]
    lines += [f"node {finding.node} {finding.message}\n  {finding.command}" for finding in found]
    return "\n".join(lines)


def _document(row: GpuNode) -> dict[str, Any]:
    resources = {
        name: {
            column.key: column.of(row, name) for column in COLUMNS if column.varies and column.key
        }
        for name in row.resources
    }
    node_values = {column.key: column.of(row, "") for column in COLUMNS if not column.varies}
    return {**node_values, "resources": resources}


def _free(_: int, allocatable: int, requested: int) -> int:
    return allocatable - requested


def _ask(kubeconfig: str) -> tuple[list[Object], list[Object], list[Object]]:
    """Nodes, pods on nodes and DaemonSets from the API server."""
    client = client_of(kubeconfig)
    core, apps = kubernetes.client.CoreV1Api(client), kubernetes.client.AppsV1Api(client)
    return (
        _list(core.list_node),
        _list(core.list_pod_for_all_namespaces, field_selector="spec.nodeName!="),
        _list(apps.list_daemon_set_for_all_namespaces),
    )


def _ask_devices(kubeconfig: str) -> tuple[list[Object], list[Object]]:
    """ResourceSlices and ResourceClaims, likewise."""
    resource = kubernetes.client.ResourceV1Api(client_of(kubeconfig))
    return (
        _list(resource.list_resource_slice),
        _list(resource.list_resource_claim_for_all_namespaces),
    )


def _list(ask: Any, **query: str) -> list[Object]:
    result: list[Object] = []
    more = ""
    while True:
        answer = asked(ask, limit=500, **query, **({"_continue": more} if more else {}))
        some, more = page(answer)
        result += some
        if not more:
            return result
