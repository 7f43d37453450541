"""The state of a cluster with a real node, as its API server and its kubelet report it."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_cluster.rehearsal.control_plane.pods import phase
from gpu_cluster.rehearsal.gpu_node.machine import NAME
from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.scenario import Failure
from gpu_cluster.rehearsal.verify.diagnosis import diagnose


class View:
    """Queries that are repeated while the rehearsal waits."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def node(self) -> Mapping[str, Any]:
        """The real node."""
        return next(n for n in self._sandbox.cluster_cache.nodes if n["metadata"]["name"] == NAME)

    def pod(self, name: str) -> Mapping[str, Any]:
        """A pod by its name. Raises Failure if it is not in the cluster."""
        pods = self._sandbox.cluster_cache.pods
        found = [pod for pod in pods if pod["metadata"]["name"] == name]
        if not found:
            raise Failure(f"pod {name} is not in the cluster")
        return found[0]

    def ended(self, name: str) -> bool:
        """Whether the pod's container has ended at least once; no if the pod is not there yet."""
        return any(
            "terminated" in container.get(state, {})
            for pod in self._sandbox.cluster_cache.pods
            if pod["metadata"]["name"] == name
            for container in pod.get("status", {}).get("containerStatuses") or []
            for state in ("state", "lastState")
        )

    def running(self, names: Iterable[str]) -> list[str]:
        """Those of these pods that are ready."""
        pods = {pod["metadata"]["name"]: pod for pod in self._sandbox.cluster_cache.pods}
        return [name for name in names if name in pods and phase(pods[name]) == "ready"]

    def not_running(self, names: Iterable[str]) -> str:
        """Why the others are not ready, according to the rehearsal and the kubelet."""
        running = self.running(names)
        snapshot = self._sandbox.snapshot()
        waiting = [self.pod(name) for name in names if name not in running]
        return "; ".join(
            f"{diagnose(pod, snapshot).message} {_of_containers(pod)}".strip() for pod in waiting
        )

    def about_plugin(self) -> str:
        """The state of the device plugin on the real node, with the end of its log."""
        for pod in self._sandbox.cluster_cache.pods:
            name = pod["metadata"]["name"]
            if pod["spec"].get("nodeName") == NAME and name.startswith("nvidia-device-plugin"):
                tail = self.log(name, "kube-system").strip().splitlines()[-3:]
                return f"{name} is {phase(pod)} {_of_containers(pod)} {' | '.join(tail)}"
        return "no device plugin runs there"

    def log(self, name: str, namespace: str = "default") -> str:
        """The log of a pod's container."""
        real = self._sandbox.real_node
        return real.log(name, namespace) if real else ""


def _of_containers(pod: Mapping[str, Any]) -> str:
    """The kubelet's reason why the pod was refused, or why its containers wait or ended."""
    status = pod.get("status", {})
    words = [str(status[key]) for key in ("reason", "message") if status.get(key)]
    for container in status.get("containerStatuses") or []:
        for state in (container.get("state") or {}).values():
            words += [str(state[key]) for key in ("reason", "message") if state.get(key)]
    return f"({': '.join(words)})" if words else ""
