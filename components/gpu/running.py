"""What keeps a running job running: its autoscaler leaves it alone, and a disruption is no failure.

Not for deployments, whose pods may move, nor for pods of their own, which no autoscaler evicts.
"""

from collections.abc import Mapping

from pulumi_kubernetes.batch.v1 import PodFailurePolicyArgsDict

from components.catalog import kubernetes as names
from components.cluster import GpuPool


def staying(pool: GpuPool) -> Mapping[str, str]:
    """The annotations of a pod that keeps its node until it ends.

    Of a GPU node, Cluster Autoscaler looks at the GPUs alone: it drains one of which less than half
    are asked for, wherever the pods would fit on another node.
    """
    return {names.SAFE_TO_EVICT: "false"} if pool.keeps_pods else {}


DISRUPTIONS_IGNORED: PodFailurePolicyArgsDict = {
    "rules": [
        {
            "action": "Ignore",
            "on_pod_conditions": [{"type": names.DISRUPTION_TARGET, "status": "True"}],
        }
    ]
}
"""For a Job: a pod that was evicted, preempted or drained is replaced, and not counted as one of
`backoffLimit`. Needs restart policy `Never`."""

LATER = [
    "spec.podFailurePolicy",
    f'spec.template.metadata.annotations["{names.SAFE_TO_EVICT}"]',
]
"""Paths of a Job that are this stack's when it is created, and nobody's afterwards: neither can
change in a Job that is there, and a Job is not to run again because an older version of this
program lacked them. A Job that is replaced gets both: the engine then ignores nothing."""
