"""Whether a pod fits a node, as the scheduler sees it, and if not, in which words.

Covers taints, node selectors, required node affinity and resources: what decides whether a pod can
ever be on a node of some shape. Pod affinity, ports and volumes are not looked at.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rehearsal.cloud import NodeShape, NodeTaint
from rehearsal.cluster.gpus import GPU

PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")
"""Taints that come and go with a node's state, and say nothing about its shape."""

_UNITS = {
    "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
}  # fmt: skip


def quantity(text: str | int | float) -> float:
    """A Kubernetes quantity as a number: `250m`, `15Gi`, `4`."""
    word = str(text)
    for unit in sorted(_UNITS, key=len, reverse=True):
        if word.endswith(unit):
            return float(word.removesuffix(unit)) * _UNITS[unit]
    return float(word)


def shape_of(node: Mapping[str, Any], gpus: int | None = None) -> NodeShape:
    """A real node's shape; `gpus` stands for those that it would offer when all is well."""
    capacity = dict(node["status"].get("allocatable", {}))
    if gpus is not None:
        capacity[GPU] = str(gpus)
    return NodeShape(
        labels=node["metadata"].get("labels") or {},
        taints=tuple(
            NodeTaint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])
            for taint in node["spec"].get("taints") or []
            if not taint["key"].startswith(PASSING_TAINTS)
        ),
        capacity=capacity,
    )


def mismatches(spec: Mapping[str, Any], shape: NodeShape) -> list[str]:
    """Why a pod with this spec can never be on a node of this shape; empty if it can.

    Each line has the pod as its subject: `it does not tolerate the taint ...`.
    """
    found = [
        line
        for taint in shape.taints
        if (line := untolerated(taint, spec.get("tolerations") or []))
    ]
    for key, value in (spec.get("nodeSelector") or {}).items():
        if shape.labels.get(key) != value:
            found.append(f"it selects label {key}={value}, {_has(shape, key)}")
    if line := _affinity(spec, shape):
        found.append(line)
    for name, asked in requests(spec).items():
        offered = quantity(shape.capacity.get(name, 0))
        if asked > offered:
            word = f"{asked:g} {name}" if name != "memory" else f"{asked / 2**30:.3g} Gi of memory"
            given = shape.capacity.get(name, "none")
            found.append(f"it asks for {word}, a node there has {given}")
    return found


def untolerated(taint: NodeTaint, tolerations: Iterable[Mapping[str, Any]]) -> str | None:
    """Says that a taint keeps a pod with these tolerations away; None if it does not."""
    if taint.effect == "PreferNoSchedule":
        return None
    near = None
    for toleration in tolerations:
        same_key = toleration.get("key") in (None, "", taint.key)
        same_effect = toleration.get("effect") in (None, "", taint.effect)
        same_value = (
            toleration.get("operator", "Equal") == "Exists"
            or (toleration.get("value") or "") == taint.value
        )
        if same_key and same_effect and same_value:
            return None
        if same_key:
            near = toleration
    words = f"{taint.key}={taint.value}:{taint.effect}"
    if near is None:
        return f"it does not tolerate the taint {words}"
    theirs = f"{near.get('key')}={near.get('value') or ''}:{near.get('effect') or 'any effect'}"
    return f"it does not tolerate the taint {words}, only {theirs}"


def requests(spec: Mapping[str, Any]) -> dict[str, float]:
    """What a pod needs of each resource: its containers' sum, or its largest init container."""
    running: dict[str, float] = {}
    for container in spec.get("containers") or []:
        for name, amount in _requested(container).items():
            running[name] = running.get(name, 0) + amount
    for container in spec.get("initContainers") or []:
        for name, amount in _requested(container).items():
            running[name] = max(running.get(name, 0), amount)
    return {name: amount for name, amount in running.items() if amount}


def _requested(container: Mapping[str, Any]) -> dict[str, float]:
    resources = container.get("resources") or {}
    # A limit alone is also the request.
    given = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(amount) for name, amount in given.items()}


def _has(shape: NodeShape, key: str) -> str:
    if key in shape.labels:
        return f"a node there has {key}={shape.labels[key]}"
    return f"a node there has no label {key}"


def _affinity(spec: Mapping[str, Any], shape: NodeShape) -> str | None:
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return None
    failed = [
        [
            expression
            for expression in term.get("matchExpressions") or []
            if not _matches(expression, shape.labels)
        ]
        for term in required["nodeSelectorTerms"]
    ]
    nearest = min(failed, key=len, default=[])
    if not nearest:
        return None
    words = "; ".join(
        f"{_words(expression)}, {_has(shape, expression['key'])}" for expression in nearest
    )
    return f"its node affinity wants {words}"


def _words(expression: Mapping[str, Any]) -> str:
    values = ", ".join(expression.get("values") or [])
    match expression["operator"]:
        case "Exists":
            return f"a label {expression['key']}"
        case "DoesNotExist":
            return f"no label {expression['key']}"
        case operator:
            return f"label {expression['key']} {operator} ({values})"


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case "Lt":
            return value is not None and int(value) < int(values[0])
        case operator:
            raise ValueError(f"node affinity has no operator {operator!r}")
