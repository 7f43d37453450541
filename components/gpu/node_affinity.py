"""On which nodes a DaemonSet runs that is there for several pools."""

from collections.abc import Iterable, Mapping, Sequence

from pulumi_kubernetes.core.v1 import AffinityArgsDict, NodeSelectorRequirementArgsDict


def affinity_to(
    pools: Iterable[Mapping[str, str]], also: Sequence[NodeSelectorRequirementArgsDict] = ()
) -> AffinityArgsDict:
    """Nodes of any of the pools, each given by labels of its nodes; `also`: what else must be."""
    terms: list[list[NodeSelectorRequirementArgsDict]] = [
        [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
        for labels in pools
    ]
    return {
        "node_affinity": {
            "required_during_scheduling_ignored_during_execution": {
                # Terms are alternatives.
                "node_selector_terms": [{"match_expressions": [*term, *also]} for term in terms]
            }
        }
    }
