"""What jobs have in common: the autoscaler does not evict a running one, disruptions do not count,
and the pods of several nodes meet.

Not for Deployments, whose pods may move, nor for bare pods, which no autoscaler evicts.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..catalog import kubernetes as names
from ..cluster import GpuPool

if TYPE_CHECKING:  # submitted jobs are rendered without an SDK
    from pulumi_kubernetes.batch.v1 import PodFailurePolicyArgsDict


def staying(pool: GpuPool) -> Mapping[str, str]:
    """The annotations of a pod that prevents the removal of its node until it ends.

    On a GPU node, Cluster Autoscaler only considers the GPUs: it drains a node if less than half of
    them are requested and the pods fit on other nodes.
    """
    return pool.stay_annotations


def placed(
    pool: GpuPool, queue: str | None, required: str | None = None, preferred: str | None = None
) -> Mapping[str, str]:
    """The annotations of a queued job's pods that say how close together they have to be, as the
    labels of `GpuPool.topology`. Without one, Kueue may take a job for no such pool."""
    if pool.topology is None or queue is None:
        return {}
    if required is not None:
        return {names.REQUIRED_TOPOLOGY: required}
    if preferred is not None:
        return {names.PREFERRED_TOPOLOGY: preferred}
    return {names.UNCONSTRAINED_TOPOLOGY: "true"}


def one_pod_a_node(labels: Mapping[str, str], nodes: int) -> dict[str, Any]:
    """The topology spread constraint that gives each of `nodes` pods with these labels a node: with
    fewer nodes than `minDomains`, the minimum counts as 0.

    Unlike pod anti-affinity, it does not wait for the pods of an earlier attempt to end.
    """
    return {
        "topologyKey": names.HOSTNAME,
        "maxSkew": 1,
        "minDomains": nodes,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(labels)},
    }


def among_themselves(labels: Mapping[str, str]) -> dict[str, Any]:
    """The spec of a NetworkPolicy that lets only pods with these labels reach each other, on every
    port, because NCCL and Gloo choose ports freely. Outgoing traffic is not restricted."""
    pods = {"matchLabels": dict(labels)}
    return {
        "podSelector": pods,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": pods}]}],
    }


DISRUPTIONS_IGNORED: "PodFailurePolicyArgsDict" = {
    "rules": [
        {
            "action": "Ignore",
            "on_pod_conditions": [{"type": names.DISRUPTION_TARGET, "status": "True"}],
        }
    ]
}
"""For a Job: a pod that was evicted, preempted or drained is replaced, and does not count towards
`backoffLimit`. Requires restart policy `Never`."""


def annotation_paths(template: str, annotations: Iterable[str]) -> list[str]:
    """Paths for `ignore_changes` of annotations of the pod template at the path `template`.

    An older version of this program may have set others, which must not make a job run again. A job
    that is created or replaced gets all of them: the engine then ignores nothing.
    """
    return [f'{template}.metadata.annotations["{annotation}"]' for annotation in annotations]


LATER = [
    "spec.podFailurePolicy",
    *annotation_paths("spec.template", [names.SAFE_TO_EVICT, names.DO_NOT_DISRUPT]),
]
"""Paths of a Job that are set when it is created and ignored afterwards: they cannot change in an
existing Job, which must not run again because an older version of this program did not set them."""
