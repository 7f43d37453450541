"""Which nodes an autoscaler starts for pods that claim GPUs.

Karpenter, which plays every cloud's autoscaler here, looks only at the pods' other requests. What
the cloud's own would have expected of a node is compared with the claims afterwards, and a node
that is missing because others have the GPUs is requested here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpu_cluster.components.kube import quantity
from gpu_cluster.rehearsal.control_plane.api import Object
from gpu_cluster.rehearsal.control_plane.cluster_cache import has_its_gpus
from gpu_cluster.rehearsal.control_plane.pods import (
    CLAIMED,
    allocatable_gpus,
    condition,
    full_name,
    gpus_asked,
    phase,
)
from gpu_cluster.rehearsal.nodes.matching import mismatches
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, NodeTemplate

_NAMED = re.compile(r"device\.(?:attributes|capacity)\['gpu\.nvidia\.com'\]\.(\w+)")
_PART = re.compile(r"\.productName\.contains\('([^']*)'\)")
_LEAST = re.compile(r"\.memory\.(?:compareTo|isGreaterThan)\(quantity\('([^']*)'\)\)")


def waiting(group: NodeGroup, pods: Iterable[Object]) -> list[Object]:
    """The pods that claim GPUs and wait for a node of the group."""
    return [
        pod
        for pod in pods
        if pod["spec"].get(CLAIMED)
        and phase(pod) == "pending"
        and condition(pod, "PodScheduled").get("reason") == "Unschedulable"
        and not mismatches(pod["spec"], _claimable(group))
    ]


def _claimable(group: NodeGroup) -> NodeTemplate:
    """The group's nodes, whatever their devices."""
    return NodeTemplate(
        labels=group.node.labels, taints=group.node.taints, capacity=group.node.capacity
    )


def lacks_node(group: NodeGroup, nodes: Sequence[Object], pods: Sequence[Object]) -> bool:
    """Whether pods wait for GPUs that no node of the group has free or will offer soon. `nodes`:
    the group's."""
    expected = group.template.expected
    if expected is None or not nodes or not all(map(has_its_gpus, nodes)):
        return False
    free = [
        allocatable_gpus(node)
        - sum(
            gpus_asked(pod["spec"])
            for pod in pods
            if pod["spec"].get("nodeName") == node["metadata"]["name"]
            and phase(pod) not in ("succeeded", "failed")
        )
        for node in nodes
    ]
    for pod in waiting(group, pods):
        asked = pod["spec"][CLAIMED]
        place = next((n for n, rest in enumerate(free) if rest >= asked), None)
        if place is None:
            return True
        free[place] -= asked
    return False


def unexpected(
    group: NodeGroup, pods: Iterable[Object], templates: Mapping[str, Object]
) -> Iterator[str]:
    """Why the group's autoscaler would not have started its first node for pods with claims, one
    line each. `templates`: ResourceClaimTemplates by `namespace/name`."""
    if not group.template.devices:
        yield "a node there offers no devices that pods could claim"
        return
    expected = group.template.expected or {}
    reasons = {
        full_name(pod): [*filter(None, (unmet(e, expected) for e in _expressions(pod, templates)))]
        for pod in waiting(group, pods)
    }
    # For one whose claim they meet, the node starts, and the others find a real one.
    if all(reasons.values()):
        for name, lines in reasons.items():
            yield f"no GPU there meets the claim of {name}: {'; '.join(lines)}"


def unmet(expression: str, expected: Mapping[str, str | int]) -> str:
    """Why a device with these attributes does not meet a condition in CEL; empty if it does."""
    for name in _NAMED.findall(expression):
        if name not in expected:
            return f"its {name} is not known without a node"
    product, memory = str(expected.get("productName", "")), int(expected.get("memory", 0))
    if (part := _PART.search(expression)) and part[1] not in product:
        return f"its productName is {product} without a node, without {part[1]}"
    if (least := _LEAST.search(expression)) and memory < quantity.parse(least[1]):
        return f"its memory is {memory} bytes without a node, less than {least[1]}"
    return ""


def _expressions(pod: Object, templates: Mapping[str, Object]) -> Iterator[str]:
    for claim in pod["spec"].get("resourceClaims") or ():
        path = f"{pod['metadata']['namespace']}/{claim.get('resourceClaimTemplateName')}"
        devices = templates[path]["spec"]["spec"]["devices"] if path in templates else {}
        for request in devices.get("requests") or ():
            for selector in request.get("exactly", {}).get("selectors") or ():
                yield selector["cel"]["expression"]
