"""`python -m cli.gpus STACK`: every node's GPUs, and what GPU nodes lack.

Exit code 0: nothing is amiss. 1: a GPU node lacks its label, driver, plugin or taint. 2: the
cluster could not be asked.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import kubernetes.client

from components.cluster import GpuPool
from stacks import command as commands
from stacks.live.cluster import asked, client_of, command, page
from stacks.live.gpu_findings import Finding, findings
from stacks.live.gpu_nodes import GpuNode, Object, gpu_node
from stacks.report import FINDING, FINE, table
from stacks.settings import config_of, settings_of

_HEAD = [
    "NODE", "POOL", "MODEL", "RESOURCE", "CAPACITY", "ALLOCATABLE", "REQUESTED", "FREE",
    "DRIVER", "PLUGIN", "STATE",
]  # fmt: skip


def main() -> int:
    """Parses the command line; returns the exit code."""
    return command("gpus", __doc__, check)


def check(stack: str, kubeconfig: str) -> tuple[int, Mapping[str, Any], str]:
    """Exit code, document and text. Raises CheckError where the cluster cannot be asked."""
    settings = settings_of(stack, config_of(stack), kubeconfig=kubeconfig)
    pools = [pool.gpu_pool(name) for name, pool in settings.pools.items()]
    nodes, pods, daemon_sets = _ask(kubeconfig)
    rows, found = survey(nodes, pods, daemon_sets, pools)
    document = {
        "stack": stack,
        "nodes": [_document(row) for row in rows],
        "findings": [asdict(finding) for finding in found],
    }
    return (FINDING if found else FINE), document, text(rows, found)


def survey(
    nodes: Sequence[Object],
    pods: Sequence[Object],
    daemon_sets: Sequence[Object],
    pools: Sequence[GpuPool],
) -> tuple[list[GpuNode], list[Finding]]:
    """Every node by name, and what the GPU nodes among them lack."""
    rows, found = [], []
    for node in sorted(nodes, key=lambda one: one["metadata"]["name"]):
        own = [pod for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"]]
        row = gpu_node(node, own, pools)
        rows.append(row)
        found += findings(row, node, own, daemon_sets, pools)
    return rows, found


def text(rows: Sequence[GpuNode], found: Sequence[Finding]) -> str:
    """The table with a row per node and GPU resource, then two lines per finding."""
    if not rows:
        return "the cluster has no nodes now"
    cells: list[list[object]] = []
    for row in rows:
        for resource, (capacity, allocatable, requested) in row.resources.items() or [
            (None, (None, None, None))
        ]:
            free = None if allocatable is None or requested is None else allocatable - requested
            cells.append(
                [row.name, row.pool, row.model, resource, capacity, allocatable, requested, free,
                 row.driver, row.plugin, row.state]
            )  # fmt: skip
    lines = [table(_HEAD, cells)]
    lines += [f"node {one.node} {one.message}\n  {one.command}" for one in found]
    return "\n".join(lines)


def _document(row: GpuNode) -> dict[str, Any]:
    return {
        "name": row.name,
        "gpuSign": row.gpu_sign,
        "pool": row.pool,
        "model": row.model,
        "resources": {
            resource: {
                "capacity": capacity,
                "allocatable": allocatable,
                "requested": requested,
                "free": allocatable - requested,
            }
            for resource, (capacity, allocatable, requested) in row.resources.items()
        },
        "driver": row.driver,
        "plugin": row.plugin,
        "state": row.state,
    }


def _ask(kubeconfig: str) -> tuple[list[Object], list[Object], list[Object]]:
    """Nodes, pods on nodes and DaemonSets, as the API server has them."""
    client = client_of(kubeconfig)
    core, apps = kubernetes.client.CoreV1Api(client), kubernetes.client.AppsV1Api(client)
    return (
        _list(core.list_node),
        _list(core.list_pod_for_all_namespaces, field_selector="spec.nodeName!="),
        _list(apps.list_daemon_set_for_all_namespaces),
    )


def _list(ask: Any, **query: str) -> list[Object]:
    found: list[Object] = []
    more = ""
    while True:
        answer = asked(ask, limit=500, **query, **({"_continue": more} if more else {}))
        some, more = page(answer)
        found += some
        if not more:
            return found


if __name__ == "__main__":
    sys.exit(commands.run(main))
