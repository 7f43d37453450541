"""The state of a cluster with a real node, as its API server and its kubelet report it."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from gpu_cluster.rehearsal.control_plane.pods import condition, phase
from gpu_cluster.rehearsal.gpu_node.machine import NAME
from gpu_cluster.rehearsal.gpu_node.overrides import LAST_LINE
from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.scenario import Failure
from gpu_cluster.rehearsal.verify.diagnosis import diagnose

LATE_SECONDS = 20.0
"""A pod that takes longer from its node to its first container starts late: images are there."""


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

    def output(self, name: str) -> str:
        """All that a pod prints before it waits for its end; empty as long as lines are missing."""
        text, pod = self.log(name), self.pod(name)
        if phase(pod) not in ("succeeded", "failed") and not is_whole(text, pod):
            return ""
        return text.replace(f"{LAST_LINE}\n", "")

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


def is_whole(text: str, pod: Mapping[str, Any]) -> bool:
    """Whether a sample's output has its last line: `LAST_LINE`, if its command prints that, or the
    end of the table of `nvidia-smi`, which is written in several parts."""
    if LAST_LINE in json.dumps(pod["spec"]["containers"]):
        return text.endswith(f"{LAST_LINE}\n")
    _, table, rest = text.rpartition("| NVIDIA-SMI ")
    return not table or rest.partition("| Processes:")[2].rstrip().endswith("-+")


def late_start(pod: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> list[str]:
    """The events of a pod that started late, with their seconds after it was bound to its node;
    empty for others."""
    bound = condition(pod, "PodScheduled").get("lastTransitionTime")
    states = [status.get("state") or {} for status in pod["status"].get("containerStatuses") or ()]
    started = [state["running"]["startedAt"] for state in states if "running" in state]

    def at(time: Any) -> float:
        return (datetime.fromisoformat(time) - datetime.fromisoformat(str(bound))).total_seconds()

    def line(event: Mapping[str, Any]) -> str:
        count, last = event.get("count") or 1, event.get("lastTimestamp")
        again = f" ({count} times, last at {at(last):.0f} s)" if last and count > 1 else ""
        by = (event.get("source") or {}).get("component") or event.get("reportingComponent")
        message = " ".join(str(event.get("message")).split())
        return f"at {first(event):.0f} s{again}: {by} {event['reason']}: {message}"

    def first(event: Mapping[str, Any]) -> float:
        return at(event.get("firstTimestamp") or event["eventTime"])

    if not bound or not started or at(min(started)) <= LATE_SECONDS:
        return []
    own = [item for item in events if item["involvedObject"].get("uid") == pod["metadata"]["uid"]]
    return [
        f"started {at(min(started)):.0f} s after it was bound to {pod['spec']['nodeName']}",
        *map(line, sorted(own, key=first)),
    ]
