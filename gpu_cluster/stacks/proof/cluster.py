"""What a proof asks the cluster of its stack."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import kubernetes.client

from gpu_cluster.components.gpu.acceptance_args import GpuTestArgs
from gpu_cluster.stacks.live import gpu_survey, gpu_test, leftovers
from gpu_cluster.stacks.live.cluster import asked, client_of, listed_items
from gpu_cluster.stacks.outcome import Answer, CheckError

_LINES = 20
_NODE_INFO = ("kubeletVersion", "osImage", "kernelVersion", "containerRuntimeVersion")
_MACHINE = "node.kubernetes.io/instance-type"


class ProvenCluster:
    """A stack's cluster. Every method raises CheckError if it does not answer."""

    def __init__(self, stack: str, kubeconfig: str) -> None:
        self._stack, self._kubeconfig = stack, kubeconfig
        client = client_of(kubeconfig)
        self._core = kubernetes.client.CoreV1Api(client)
        self._version = kubernetes.client.VersionApi(client)

    def version(self) -> str:
        """The version of the API server, and the older minor as which it runs, if it does: as that
        of a rehearsal, `v1.36.5 as 1.35`."""
        found = json.loads(asked(self._version.get_code))
        version: str = found["gitVersion"]
        runs_as = f"{found.get('emulationMajor')}.{found.get('emulationMinor')}"
        older = "emulationMinor" in found and not version.startswith(f"v{runs_as}.")
        return f"{version} as {runs_as}" if older else version

    def pools(self) -> list[dict[str, Any]]:
        """The nodes of the stack's pools, as `gpu-cluster gpus` describes them."""
        nodes = gpu_survey.answer(self._stack, self._kubeconfig)[1]["nodes"]
        return [node for node in nodes if node["pool"]]

    def gpu_nodes(self) -> list[dict[str, Any]]:
        """What distinguishes the GPU nodes: pool, machine, GPU, driver and versions; no name."""
        nodes = {
            node["metadata"]["name"]: node for node in listed_items(asked(self._core.list_node))
        }
        found = []
        for row in self.pools():
            node = nodes.get(row["name"]) or {"metadata": {}, "status": {}}
            info = node["status"].get("nodeInfo") or {}
            found.append({
                **{key: row[key] for key in ("pool", "model", "driver", "plugin", "state")},
                "gpus": {name: count["allocatable"] for name, count in row["resources"].items()},
                "machine": (node["metadata"].get("labels") or {}).get(_MACHINE),
                **{key: info.get(key) for key in _NODE_INFO},
            })  # fmt: skip
        return [row for number, row in enumerate(found) if row not in found[:number]]

    def job(self, name: str) -> str:
        """How long the pod of a finished Job waited, and the last line of its log."""
        label = f"job-name={name}"
        pods = listed_items(asked(self._core.list_namespaced_pod, "default", label_selector=label))
        for pod in gpu_test.newest(pods):
            return "; ".join([*_times(pod), self._last_line(pod["metadata"]["name"])])
        return "its pod is gone"

    def test(self, args: GpuTestArgs) -> Answer:
        """The results of the acceptance test, as `gpu-cluster test-gpus` has them."""
        return gpu_test.judged(self._stack, gpu_test.outcomes(args, self._kubeconfig))

    def leftovers(self) -> Answer:
        """What a destroy would leave in the cloud."""
        return leftovers.answer(self._stack, self._kubeconfig)

    def _last_line(self, pod: str) -> str:
        ask = self._core.read_namespaced_pod_log
        try:
            lines = (
                asked(ask, pod, "default", tail_lines=_LINES).decode(errors="replace").split("\n")
            )
        except CheckError as error:  # Its node is gone, or it is simulated.
            return f"its log cannot be read ({error})"
        return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")


def _times(pod: Mapping[str, Any]) -> list[str]:
    """How long after its creation a pod was scheduled, and its container started."""
    created = _at(pod["metadata"]["creationTimestamp"])
    status = pod.get("status") or {}
    scheduled = [
        row["lastTransitionTime"]
        for row in status.get("conditions") or []
        if row["type"] == "PodScheduled" and row["status"] == "True"
    ]
    states = [row.get("state") or {} for row in status.get("containerStatuses") or []]
    started = [
        state[key]["startedAt"]
        for state in states
        for key in ("terminated", "running")
        if (state.get(key) or {}).get("startedAt")
    ]
    return [
        f"{word} after {(_at(times[0]) - created).total_seconds():.0f} s"
        for word, times in (("on a node", scheduled), ("running", started))
        if times
    ]


def _at(time: str) -> datetime:
    return datetime.fromisoformat(time)
