"""DaemonSets that prepare the nodes of pools, and the node affinity of one for several pools."""

from collections.abc import Iterable, Mapping, Sequence

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core.v1 import (
    AffinityArgsDict,
    NodeSelectorRequirementArgsDict,
    PodSpecArgsDict,
)

NAMESPACE = "kube-system"


def daemon_set(
    name: str,
    pod: PodSpecArgsDict,
    opts: pulumi.ResourceOptions,
    *,
    label: str = "k8s-app",
    annotations: Mapping[str, str] | None = None,
    waits: bool = True,
) -> kubernetes.apps.v1.DaemonSet:
    """Declares a DaemonSet that nodes need before they can run other pods, with what such pods have
    in common. `label`: the key that selects them. `annotations`: the pods'. `waits`: whether new
    nodes take long to have it."""
    labels = {label: name}
    return kubernetes.apps.v1.DaemonSet(
        name,
        metadata={
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels,
            # It is ready at once on a pool without nodes; on new nodes, pulling a large image or
            # installing a driver takes longer than the provider's 10 minutes.
            "annotations": {"pulumi.com/timeoutSeconds": "1800"} if waits else None,
        },
        spec={
            "selector": {"match_labels": labels},
            "update_strategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": {"name": name, **labels}, "annotations": annotations},
                "spec": {
                    "priority_class_name": "system-node-critical",
                    # A tool that removes a startup taint may wait for the node's GPUs, or its
                    # DaemonSets.
                    "tolerations": [{"operator": "Exists"}],
                    "automount_service_account_token": False,
                    **pod,
                },
            },
        },
        opts=opts,
    )


def affinity_to(
    pools: Iterable[Mapping[str, str]], also: Sequence[NodeSelectorRequirementArgsDict] = ()
) -> AffinityArgsDict:
    """Selects the nodes of all pools, given by their labels; `also`: more requirements."""
    terms: list[list[NodeSelectorRequirementArgsDict]] = [
        [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
        for labels in pools
    ]
    return {
        "node_affinity": {
            "required_during_scheduling_ignored_during_execution": {
                # Terms are alternatives: a node has to match one of them.
                "node_selector_terms": [{"match_expressions": [*term, *also]} for term in terms]
            }
        }
    }
