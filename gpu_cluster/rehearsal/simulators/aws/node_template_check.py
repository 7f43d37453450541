"""Compares the node template in the tags with the node that joins; pure functions.

Not compared: the number of pods, which no tag contains, and the labels that Kubernetes and EKS set
themselves.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from gpu_cluster.components.kube import quantity
from gpu_cluster.rehearsal.simulators.aws.nodes import (
    EKS_LABELS,
    LABEL_TAG,
    RESOURCE_TAG,
    TAINT_TAG,
)
from gpu_cluster.rehearsal.simulators.cloud import NodeTaint, NodeTemplate

_KUBERNETES = ("kubernetes.io/", "node.kubernetes.io/", "topology.kubernetes.io/")
_TEMPLATE_TAGS = (LABEL_TAG, TAINT_TAG, RESOURCE_TAG)
_SLACK = Decimal("0.9")
"""A template with slightly less disk does no harm: a pod never needs the last tenth."""


def compare_template(template: NodeTemplate, node: NodeTemplate) -> list[str]:
    """The differences, one line each: the tag, and its consequence."""
    return [*_labels(template, node), *_taints(template, node), *_resources(template, node)]


def real(tags: Mapping[str, str], node: NodeTemplate) -> dict[str, str | None]:
    """The tags of the node template -> this node's value in the form of a tag."""
    taints = {f"{TAINT_TAG}{taint.key}": _shown(taint) for taint in node.taints}
    labels = {f"{LABEL_TAG}{key}": value for key, value in node.labels.items()}
    resources = {f"{RESOURCE_TAG}{key}": value for key, value in node.capacity.items()}
    has = labels | taints | resources
    return {key: has.get(key) for key in tags if key.startswith(_TEMPLATE_TAGS)}


def _labels(template: NodeTemplate, node: NodeTemplate) -> Iterator[str]:
    for key in sorted({*template.labels, *node.labels}):
        expected, real = template.labels.get(key), node.labels.get(key)
        if expected == real or (expected is None and key.startswith((EKS_LABELS, *_KUBERNETES))):
            continue
        tag = f"{LABEL_TAG}{key}"
        if expected is None:
            yield (
                f"tag {tag} is missing, the nodes have {key}={real}: a pod that selects {key} "
                "never triggers a scale-up"
            )
        elif real is None:
            yield (
                f"tag {tag} says {expected}, the nodes have no label {key}: a pod that selects it "
                "triggers unnecessary scale-ups, again and again"
            )
        else:
            yield (
                f"tag {tag} says {expected}, the nodes have {key}={real}: a pod that selects "
                f"{real} never triggers a scale-up, one that selects {expected} triggers an "
                "unnecessary one"
            )


def _taints(template: NodeTemplate, node: NodeTemplate) -> Iterator[str]:
    for taint in sorted(set(node.taints) - set(template.taints), key=_shown):
        yield (
            f"tag {TAINT_TAG}{taint.key} does not say {_shown(taint)}, the nodes have "
            f"{taint.key}={_shown(taint)}: a pod that does not tolerate it triggers an "
            "unnecessary scale-up"
        )
    for taint in sorted(set(template.taints) - set(node.taints), key=_shown):
        yield (
            f"tag {TAINT_TAG}{taint.key} says {_shown(taint)}, the nodes have no such "
            "taint: a pod that does not tolerate it never triggers a scale-up, though it could run "
            "there"
        )


def _shown(taint: NodeTaint) -> str:
    return f"{taint.value}:{taint.effect}"


def _resources(template: NodeTemplate, node: NodeTemplate) -> Iterator[str]:
    for name in sorted({*template.capacity, *node.capacity} - {"pods"}):
        tag = f"{RESOURCE_TAG}{name}"
        given, real = template.capacity.get(name), node.capacity.get(name)
        has, shown = quantity.parse(real or "0"), real or "none"
        try:
            expected = quantity.parse(given or "0")
        except ValueError:
            yield (
                f"tag {tag} says {given}, which is not a quantity: the autoscaler ignores it, and "
                f"no pod that asks for {name} triggers a scale-up"
            )
            continue
        if expected > has:
            yield (
                f"tag {tag} says {given}, the nodes have {shown} of {name}: a pod that asks "
                "for more than there is triggers unnecessary scale-ups, and too few nodes are "
                "started for many pods"
            )
        elif given is None and has:
            yield (
                f"tag {tag} is missing, the nodes have {shown}: a pod that asks for {name} never "
                "triggers a scale-up"
            )
        elif expected < has * (1 if name.startswith("nvidia.com/") else _SLACK):
            yield (
                f"tag {tag} says {given}, the nodes have {shown} of {name}: the pool scales up "
                "too often, or never for a pod that asks for more than the tag says"
            )
