"""Checks of a JobSet's workers: one node each, and not reachable from other pods."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_cluster.components.kube.partial import all_of
from gpu_cluster.components.kube.selectors import requirement
from gpu_cluster.rehearsal.control_plane.pods import full_name, gpus_asked, phase
from gpu_cluster.rehearsal.report.report import PodLife

Object = Mapping[str, Any]

JOB_SET = "jobset.sigs.k8s.io/jobset-name"
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


def crowded(pods: Iterable[Object], lives: Iterable[PodLife] = ()) -> list[str]:
    """Nodes that several workers of one attempt shared at a time: each has fewer GPUs than a
    machine, and the intended traffic between nodes does not occur.

    A simulated worker may succeed before the next one starts, for which a real one would wait.
    """
    times = {life.name: life for life in lives}
    spans: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for pod in workers(pods):
        labels, node = pod["metadata"]["labels"], pod["spec"].get("nodeName")
        if node and phase(pod) not in ("failed", "deleting"):
            life = times.get(full_name(pod))
            began = life.bound if life and life.bound is not None else 0.0
            ended = life.done if life and life.done is not None else float("inf")
            key = _name(pod), str(labels.get(ATTEMPT)), node
            spans.setdefault(key, []).append((began, ended))
    most = [
        (name, node, max(sum(began <= at < ended for began, ended in spans) for at, _ in spans))
        for (name, _, node), spans in spans.items()
    ]
    return [
        f"training job {name}: {number} of its workers were on node {node}, but each needs its "
        "own node"
        for name, node, number in most
        if number > 1
    ]


def reachable(pods: Iterable[Object], policies: Iterable[Object]) -> list[str]:
    """Workers with ports that other pods in the cluster can reach."""
    found: dict[str, str] = {}
    policies = [policy for policy in policies if "Ingress" in policy["spec"].get("policyTypes", ())]
    for pod in workers(pods):
        ports = [p["containerPort"] for c in pod["spec"]["containers"] for p in c.get("ports", ())]
        own = [
            policy
            for policy in policies
            if policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and _selects(policy["spec"].get("podSelector") or {}, pod)
        ]
        if not ports:
            continue
        start = f"training job {_name(pod)}: every pod of the cluster reaches port {ports[0]}"
        if not own:
            found[_name(pod)] = f"{start} of its workers: no NetworkPolicy selects them"
        elif not all(_only(peers, pod) for policy in own for peers in _peers(policy)):
            found[_name(pod)] = (
                f"training job {_name(pod)}: its NetworkPolicy admits others than its own workers "
                f"to port {ports[0]}"
            )
    return list(found.values())


def workers(pods: Iterable[Object]) -> list[Object]:
    """The pods of JobSets that request GPUs."""
    return [
        pod
        for pod in pods
        if JOB_SET in (pod["metadata"].get("labels") or {}) and gpus_asked(pod["spec"])
    ]


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['labels'][JOB_SET]}"


def _peers(policy: Object) -> Iterable[list[Object]]:
    for rule in policy["spec"].get("ingress") or []:
        yield rule.get("from") or []


def _only(peers: list[Object], worker: Object) -> bool:
    """Whether these peers are only pods of the worker's own JobSet, and at least one."""
    job_set = worker["metadata"]["labels"][JOB_SET]
    return bool(peers) and all(
        peer.keys() == {"podSelector"}
        and (peer["podSelector"].get("matchLabels") or {}).get(JOB_SET) == job_set
        for peer in peers
    )


def _selects(selector: Object, pod: Object) -> bool:
    labels = pod["metadata"]["labels"]
    equal = (labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    rest = (requirement(term, labels) for term in selector.get("matchExpressions") or [])
    return all_of([*equal, *rest]) is True
