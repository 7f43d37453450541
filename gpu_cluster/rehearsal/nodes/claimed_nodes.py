"""Which nodes an autoscaler starts for pods that claim GPUs.

Karpenter, which stands in for every cloud's autoscaler here, looks only at the pods' other
requests. What the cloud's own would have expected of a node is compared with the claims afterwards,
and a node that is missing because others have the GPUs is requested here, as is each node for pods
that request GPUs of a DRA driver as `nvidia.com/gpu`. Clouds start those one after the other: their
simulation runs such a pod on any number of them that a node has room for (kubernetes/autoscaler
1.36.1, predicate_snapshot.go, SchedulePod, which reserves only the claims that a pod names).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpu_cluster.components.kube import quantity
from gpu_cluster.components.kube.requests import requests
from gpu_cluster.rehearsal.control_plane.api import Object
from gpu_cluster.rehearsal.control_plane.cluster_cache import has_its_gpus
from gpu_cluster.rehearsal.control_plane.pods import (
    CLAIMED,
    DRA_DRIVER,
    GPU,
    allocatable_gpus,
    alternatives,
    condition,
    conditions,
    full_name,
    gpus_asked,
    phase,
    pods_on,
)
from gpu_cluster.rehearsal.nodes.matching import mismatches
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, NodeTemplate

_OF = r"device\.(?:attributes|capacity)\['gpu\.nvidia\.com'\]\.(\w+)"
_NAMED = re.compile(_OF)
_TEXT = re.compile(_OF + r"(?:\.contains\('([^']*)'\)| ?== ?'([^']*)')")
_LEAST, _MORE = (
    rf"\(quantity\('(?P<{name}>{quantity.QUANTITY.pattern})'\)\)" for name in ("least", "more")
)
_MEMORY = re.compile(_OF + rf"\.(?:compareTo{_LEAST} ?(?P<sign>>=?) ?0|isGreaterThan{_MORE})")


def waiting(group: NodeGroup, pods: Iterable[Object], *, mapped: bool = False) -> list[Object]:
    """The pods that claim GPUs and wait for a node of the group; if a DeviceClass has them `mapped`
    to `nvidia.com/gpu`, also those that request it."""
    return [
        pod
        for pod in pods
        if (gpus_asked(pod["spec"]) if mapped else pod["spec"].get(CLAIMED))
        and phase(pod) == "pending"
        and condition(pod, "PodScheduled").get("reason") == "Unschedulable"
        and not mismatches(pod["spec"], _claimable(group))
    ]


def _claimable(group: NodeGroup) -> NodeTemplate:
    """The group's nodes, whatever their devices."""
    return NodeTemplate(
        labels=group.node.labels, taints=group.node.taints, capacity=group.node.capacity
    )


def lacks_node(
    group: NodeGroup, nodes: Sequence[Object], pods: Sequence[Object], *, mapped: bool = False
) -> bool:
    """Whether pods wait for GPUs that no node of the group has free or will offer soon. `nodes`:
    the group's. Karpenter starts its first one for pods that name their claims."""
    expected, devices = group.template.expected, group.template.devices or {}
    if expected is None or not all(map(has_its_gpus, nodes)):
        return False
    if not nodes:
        first = mapped and DRA_DRIVER in devices
        return first and any(
            GPU in requests(pod["spec"]) for pod in waiting(group, pods, mapped=True)
        )
    free = [
        allocatable_gpus(node) - sum(gpus_asked(pod["spec"]) for pod in pods_on(node, pods))
        for node in nodes
    ]
    for pod in waiting(group, pods, mapped=mapped):
        asked = gpus_asked(pod["spec"])
        place = next((n for n, rest in enumerate(free) if rest >= asked), None)
        if place is None:
            return True
        free[place] -= asked
    return False


def unexpected(
    group: NodeGroup,
    pods: Iterable[Object],
    templates: Mapping[str, Object],
    claims: Mapping[str, Object],
    classes: Mapping[str, Object],
) -> Iterator[str]:
    """Why the group's autoscaler would not have started its first node for pods with claims, one
    line each. `templates` and `claims`: ResourceClaimTemplates and ResourceClaims by
    `namespace/name`; `classes`: DeviceClasses by name."""
    if not group.template.devices:
        yield "a node there offers no devices that pods could claim"
        return
    expected = group.template.expected or {}
    reasons = {
        full_name(pod): [
            line
            for options in _options(pod, templates, claims)
            for line in _unmet_options(options, expected, classes)
        ]
        for pod in waiting(group, pods)
    }
    # For one whose claim they meet, the node starts, and the others find a real one.
    if all(reasons.values()):
        for name, lines in reasons.items():
            yield f"no GPU there meets the claim of {name}: {'; '.join(lines)}"


def unmet(expression: str, expected: Mapping[str, str | int]) -> str:
    """Why a device with these attributes does not meet a condition in CEL; empty if it does. What
    is not an AND of the usual comparisons is not understood here, and counts as not met."""
    terms = (" ".join(term.split()) for term in expression.replace('"', "'").split("&&"))
    return next(filter(None, (_unmet(term, expected) for term in terms)), "")


def _unmet(term: str, expected: Mapping[str, str | int]) -> str:
    if term in ("true", "device.driver == 'gpu.nvidia.com'"):
        return ""
    for name in _NAMED.findall(term):
        if name not in expected:
            return f"its {name} is not known without a node"
    if text := _TEXT.fullmatch(term):
        name, part, whole = text.groups()
        value = expected[name]
        if isinstance(value, str) and (whole == value if part is None else part in value):
            return ""
        return f"its {name} is {value} without a node, without {whole if part is None else part}"
    if (memory := _MEMORY.fullmatch(term)) and isinstance(value := expected[memory[1]], int):
        least, sign, more = memory.group("least", "sign", "more")
        wanted = quantity.parse(least or more)
        if value > wanted or (sign == ">=" and value == wanted):
            return ""
        short = "less than" if sign == ">=" else "not more than"
        return f"its {memory[1]} is {value} bytes without a node, {short} {least or more}"
    return f"a rehearsal does not understand {term!r}, and takes it as not met without a node"


def _unmet_options(
    options: Iterable[Object], expected: Mapping[str, str | int], classes: Mapping[str, Object]
) -> list[str]:
    """Why no alternative of a request is met; empty if one is."""
    found = [
        [line for text in conditions(option, classes) if (line := unmet(text, expected))]
        for option in options
    ]
    return [line for lines in found for line in lines] if all(found) else []


def _options(
    pod: Object, templates: Mapping[str, Object], claims: Mapping[str, Object]
) -> Iterator[Sequence[Object]]:
    """The alternatives of each request of the pod's claims."""
    for claim in pod["spec"].get("resourceClaims") or ():
        space = pod["metadata"]["namespace"]
        template = templates.get(f"{space}/{claim.get('resourceClaimTemplateName')}")
        shared = claims.get(f"{space}/{claim.get('resourceClaimName')}")
        spec = template["spec"]["spec"] if template else (shared or {}).get("spec", {})
        yield from map(alternatives, spec.get("devices", {}).get("requests") or ())
