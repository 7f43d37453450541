"""Whether a pod fits a node according to the scheduler, and the reason if it does not.

Covers taints, node selectors, required node affinity and resources: everything that decides whether
a pod can ever run on a node of some shape. Pod affinity, ports and volumes are ignored.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpu_cluster.components.kube import quantity, selectors
from gpu_cluster.components.kube.partial import get, items
from gpu_cluster.components.kube.requests import requests
from gpu_cluster.components.kube.taints import keeps_away, tolerated
from gpu_cluster.rehearsal.control_plane.pods import DRA_DRIVER, GPU, PUBLISHED
from gpu_cluster.rehearsal.simulators.cloud import NodeTaint, NodeTemplate

PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")
"""Taints that depend on a node's state, not on its shape."""


def shape_of(node: Mapping[str, Any]) -> NodeTemplate:
    """The shape of an existing node."""
    return NodeTemplate(
        labels=node["metadata"].get("labels") or {},
        taints=tuple(
            NodeTaint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])
            for taint in node["spec"].get("taints") or []
            if not taint["key"].startswith(PASSING_TAINTS)
        ),
        capacity=dict(node["status"].get("allocatable", {})),
    )


def offered(node: Mapping[str, Any]) -> NodeTemplate:
    """The shape of an existing node, in which GPUs that pods claim count like others."""
    shape = shape_of(node)
    count = int((node["metadata"].get("annotations") or {}).get(PUBLISHED, 0))
    return with_gpus(shape, count) if count else shape


def with_gpus(shape: NodeTemplate, count: int) -> NodeTemplate:
    """The shape with this many GPUs that pods may claim or request."""
    capacity = {**shape.capacity, GPU: str(count)}
    return replace(shape, capacity=capacity, devices={DRA_DRIVER: count})


def mismatches(spec: Mapping[str, Any], shape: NodeTemplate) -> list[str]:
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
    if spec.get("resourceClaims") and shape.devices is not None and not shape.devices:
        found.append("it claims devices, and a node there offers none")
    for name, asked in requests(spec).items():
        allocatable = quantity.parse(shape.capacity.get(name, 0))
        if asked > allocatable:
            word = f"{float(asked):g} {name}"
            if name == "memory":
                word = f"{float(asked) / 2**30:.3g} Gi of memory"
            given = shape.capacity.get(name, "none")
            found.append(f"it requests {word}, and a node there has {given}")
    return found


def untolerated(taint: NodeTaint, tolerations: Iterable[Mapping[str, Any]]) -> str | None:
    """A sentence if the taint repels a pod with these tolerations; None if they tolerate it."""
    given = list(tolerations)
    if not keeps_away(taint.effect) or tolerated(
        given, key=taint.key, value=taint.value, effect=taint.effect
    ):
        return None
    near = next((row for row in reversed(given) if row.get("key") in (None, "", taint.key)), None)
    words = f"{taint.key}={taint.value}:{taint.effect}"
    if near is None:
        return f"it does not tolerate the taint {words}"
    theirs = f"{near.get('key')}={near.get('value') or ''}:{near.get('effect') or 'any effect'}"
    return f"it does not tolerate the taint {words}, only {theirs}"


def _has(shape: NodeTemplate, key: str) -> str:
    if key in shape.labels:
        return f"a node there has {key}={shape.labels[key]}"
    return f"a node there has no label {key}"


def _affinity(spec: Mapping[str, Any], shape: NodeTemplate) -> str | None:
    if selectors.affine(spec, shape.labels) is not False:
        return None
    terms = items(get(spec, *selectors.REQUIRED), "nodeSelectorTerms")
    failed = [
        [
            expression
            for expression in items(term, "matchExpressions")
            if selectors.requirement(expression, shape.labels) is False
        ]
        for term in terms
    ]
    nearest = min((term for term in failed if term), key=len, default=[])
    words = "; ".join(
        f"{_words(expression)}, {_has(shape, expression['key'])}" for expression in nearest
    )
    return (
        "its node affinity requires "
        f"{words or 'something that no node has: it has no readable terms'}"
    )


def _words(expression: Mapping[str, Any]) -> str:
    values = ", ".join(expression.get("values") or [])
    match expression["operator"]:
        case "Exists":
            return f"a label {expression['key']}"
        case "DoesNotExist":
            return f"no label {expression['key']}"
        case operator:
            return f"label {expression['key']} {operator} ({values})"
