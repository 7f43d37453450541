"""The node affinity of a DaemonSet for several pools."""

from collections.abc import Iterable, Mapping, Sequence

from pulumi_kubernetes.core.v1 import AffinityArgsDict, NodeSelectorRequirementArgsDict


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
